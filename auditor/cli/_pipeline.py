"""The command ``auditor pipeline``: init, check, run, status, pause, unpause and reset."""

from __future__ import annotations

import argparse
import signal
import sys
from threading import Event
from typing import Any

from auditor.cli._output import console, print_json, settings_and_store


def pipeline(options: argparse.Namespace) -> int:
    """Run the action that the options name."""
    code: int = _ACTIONS[options.action](options)
    return code


def _init(options: argparse.Namespace) -> int:
    import yaml

    from auditor.service import pipelines

    with settings_and_store(options) as (configured, _):
        audits = pipelines.propose_audits(configured, options.pipeline)
    print("# Add these to audits: in the configuration.")
    print(yaml.safe_dump({"audits": audits}, sort_keys=False, allow_unicode=True), end="")
    return 0


def _check(options: argparse.Namespace) -> int:
    import dataclasses

    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        found = pipelines.check(configured, store, options.pipeline)
    if options.format == "json":
        print_json([dataclasses.asdict(one) for one in found])
    else:
        for one in found:
            print(f"{one.severity}: {one.about}: {one.sentence}")
        if not found:
            print(f"pipeline {options.pipeline}: nothing is missing")
    return 2 if any(one.severity == "error" for one in found) else 0


def _run(options: argparse.Namespace) -> int:
    from auditor import config, telemetry
    from auditor.service import pipelines

    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with settings_and_store(options) as (configured, store):
        urls = [one.write.url for one in configured.connections.values() if one.write]
        telemetry.configure_logging("console" if sys.stderr.isatty() else "json", "info", urls)
        pipelines.run(configured, config.find_file(options.config), store, options.pipeline, options.target, stop)
    return 0


def _status(options: argparse.Namespace) -> int:
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        found = pipelines.status(configured, store, options.pipeline)
    if options.format == "json":
        print_json(found)
    else:
        console().print(_status_table(found))
        if found["reason"]:
            print(f"staging: {found['reason']}")
        for target, state in found["targets"].items():
            for table, report in state["tables"].items():
                if report["reason"]:
                    print(f"{target}: {table}: {report['state']}: {report['reason']}")
    return 0


def _status_table(found: dict[str, Any]) -> Any:
    from rich.table import Table

    staged = f"staged up to {found['staged_time']}" if found["staged_time"] else "nothing was staged yet"
    table = Table(title=f"pipeline {found['pipeline']}{' (paused)' if found['paused'] else ''}: {staged}", title_justify="left")
    for column in ("target", "table", "holds up to", "events", "state"):
        table.add_column(column)
    for target, state in found["targets"].items():
        for name, report in state["tables"].items():
            table.add_row(target, name, report["through"] or "", f"{report['events']:,}", report["state"])
        lag = "unknown" if state["lag_seconds"] is None else f"{state['lag_seconds']:.0f} s"
        table.add_row(target, "all", f"{lag} behind", f"{state['pending_events']:,} pending", f"{state['pending_bytes']:,} bytes")
    return table


def _pause(options: argparse.Namespace) -> int:
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        pipelines.set_paused(configured, store, options.pipeline, options.action == "pause")
    print(f"pipeline {options.pipeline} is {'paused' if options.action == 'pause' else 'going on'}")
    return 0


def _reset(options: argparse.Namespace) -> int:
    from auditor.errors import ConfigError
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        print(f"pipeline {options.pipeline} will forget:")
        for line in pipelines.describe_reset(configured, store, options.pipeline):
            print(f"  {line}")
        again = options.name_again or input("write the pipeline's name again to go on: ")
        if again.strip() != options.pipeline:
            raise ConfigError("that is another name, so nothing was reset")
        pipelines.reset(configured, store, options.pipeline)
    print(f"pipeline {options.pipeline} was reset")
    return 0


_ACTIONS = {"init": _init, "check": _check, "run": _run, "status": _status, "pause": _pause, "unpause": _pause, "reset": _reset}
