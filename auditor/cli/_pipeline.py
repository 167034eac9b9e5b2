"""The command ``auditor pipeline``: init, check, run, status, pause, unpause, bootstrap, skip, segments, failover, reset and demo."""

from __future__ import annotations

import argparse
import signal
import sys
from threading import Event
from typing import Any

from auditor.cli._output import console, current_user, print_json, settings_and_store
from auditor.escaping import command, shell_word, yaml_text


def pipeline(options: argparse.Namespace) -> int:
    """Run the action that the options name."""
    code: int = _ACTIONS[options.action](options)
    return code


def _init(options: argparse.Namespace) -> int:
    from auditor import config
    from auditor.errors import ConfigError
    from auditor.service import pipelines

    path = config.find_file(options.config)
    audits = pipelines.propose_audits(config.load(path), options.pipeline)
    try:
        added = config.add_audits(path, audits)
    except ConfigError:
        print(yaml_text({"audits": audits}), end="")
        raise
    for name in audits:
        print(f"{name}: {'added' if name in added else 'is there already, and stays as it is'}")
    if not options.quiet:
        print(f"{len(added)} audits were written into {path}; run them with: auditor run NAME, and see: auditor check", file=sys.stderr)
    return 0


def _check(options: argparse.Namespace) -> int:
    import dataclasses

    from auditor import config
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        found = pipelines.check(configured, config.find_file(options.config), store, options.pipeline, options.prove)
    if options.format == "json":
        print_json([dataclasses.asdict(one) for one in found])
    else:
        for one in found:
            print(f"{one.severity}: {one.about}: {one.sentence}")
        if all(one.severity == "note" for one in found):
            print(f"pipeline {options.pipeline}: nothing is missing")
    return 2 if any(one.severity == "error" for one in found) else 0


def _run(options: argparse.Namespace) -> int:
    from auditor import config, telemetry
    from auditor.service import pipelines

    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with settings_and_store(options) as (configured, store):
        telemetry.configure_logging("console" if sys.stderr.isatty() else "json", "info", config.find_secrets(configured))
        pipelines.run(configured, config.find_file(options.config), store, options.pipeline, options.target, stop)
    return 0


def _status(options: argparse.Namespace) -> int:
    from auditor.service.pipeline_status import status

    with settings_and_store(options) as (configured, store):
        found = status(configured, store, options.pipeline)
    if options.format == "json":
        print_json(found)
    else:
        print_status(found)
    return 0


def print_status(found: dict[str, Any]) -> None:
    """Print how a pipeline stands, for people."""
    from auditor.pipeline.poison import skipped_line

    how = "paused" if found["paused"] else "running" if found["running"] else "not running"
    staged = f"{found['events']:,} events staged, up to {found['staged_time']}" if found["staged_time"] else "nothing was staged yet"
    print(f"pipeline {found['pipeline']}: {how}; {staged}; {_lag(found)} behind the source")
    if beat := found["heartbeat"]:
        print(f"last heartbeat: {beat['serial']:,} of {beat['database']}, written {beat['age_seconds']:,.0f} s ago ({beat['at'][:19]} UTC)")
    console().print(_status_table(found))
    for warning in found["warnings"]:
        print(f"warning: {warning}")
    for note in found["notes"]:
        print(f"note: {note}")
    if found["reason"]:
        print(f"staging: {found['reason']}")
    for one in found["stopped"]:
        where = f" for {one['target']}" if one["target"] else ""
        print(f"{one['table']} stops at {one['place']}{where}: {one['reason']}")
        without = command("auditor", "pipeline", "skip", found["pipeline"], "--table", one["table"], "--position", one["place"])
        way_on = f"{without} --reason WHY"
        print(f"  to go on without it: {way_on}")
    for one in found["skipped"]:
        when = one["skipped_at"][:19]
        print(f"{one['table']}: {skipped_line(one['events'], one['place'])} by {one['skipped_by']} on {when}: {one['skip_reason']}")
    for one in found["live_summaries"]:
        print(_live_summaries(one))
    for one in found["migrations"]:
        for sentence in one["said"]:
            print(f"{one['target']}: {sentence}")
    stopped = {(one["table"], one["reason"]) for one in found["stopped"]}
    for target, state in found["targets"].items():
        for table, report in state["tables"].items():
            if report["reason"] and (table, report["reason"]) not in stopped:
                print(f"{target}: {table}: {report['state']}: {report['reason']}")


def _live_summaries(found: dict[str, Any]) -> str:
    """Return the line on the live summaries of an audit."""
    told = f"live summaries of {found['audit']} ({found['table']} in {found['target']}): {found['state']}"
    if found["since"]:
        told += f" since {found['since'][:19]}"
    if found["proved"]:
        told += f", proved by a scan of the source as of {found['proved'][:19]}"
    if found["ended"]:
        told += f", ended {found['ended'][:19]}: {found['reason']}"
    return told


def _lag(found: dict[str, Any]) -> str:
    size = "" if found.get("lag_bytes") is None else f" and {found['lag_bytes']:,} bytes"
    return "not known how far" if found["lag_seconds"] is None else f"{found['lag_seconds']:,.0f} s{size}"


def _status_table(found: dict[str, Any]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="dim")
    for column in ("target", "table", "holds up to", "events", "pending", "bytes", "behind", "state"):
        table.add_column(column, justify="right" if column in ("events", "pending", "bytes", "behind") else "left")
    for target, state in found["targets"].items():
        for name, one in state["tables"].items():
            counts = (f"{one['events']:,}", f"{one['pending_events']:,}", f"{one['pending_bytes']:,}", f"{one['lag_seconds']:,.0f} s")
            table.add_row(target, name, one["through"] or "", *counts, one["state"])
    return table


def _pause(options: argparse.Namespace) -> int:
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        pipelines.set_paused(configured, store, options.pipeline, options.action == "pause", by=current_user())
    print(f"pipeline {options.pipeline} is {'paused' if options.action == 'pause' else 'going on'}")
    return 0


def _skip(options: argparse.Namespace) -> int:
    from auditor.pipeline.poison import skipped_line
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        about = (options.pipeline, options.table, options.position, options.reason)
        found = pipelines.skip(configured, store, *about, by=current_user())
    if options.format == "json":
        print_json(
            [{"table": note.table, "target": note.target or None, "events": note.events, "place": options.position} for note in found]
        )
        return 0
    for note in found:
        whose = f" for {note.target}" if note.target else ""
        print(f"{note.table}: {skipped_line(note.events, options.position)}{whose}; it goes on behind them within a minute")
    return 0


def _bootstrap(options: argparse.Namespace) -> int:
    from auditor.cli import _pipeline_bootstrap

    return _pipeline_bootstrap.bootstrap(options)


def _segments(options: argparse.Namespace) -> int:
    import dataclasses

    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        found = pipelines.list_segments(configured, store, options.pipeline, options.table, options.verify)
    if options.format == "json":
        times = ({"began": one.began.isoformat(), "ended": one.ended.isoformat()} for one, _ in found)
        print_json([{**dataclasses.asdict(one), **when, "wrong": wrong or None} for (one, wrong), when in zip(found, times, strict=True)])
    else:
        for one, wrong in found:
            print(f"{one.table} {one.ended:%Y-%m-%dT%H:%M:%SZ} {one.rows:>9,} events  {one.sha256}  {wrong or one.path}")
        bad = sum(1 for _, wrong in found if wrong)
        told = f"; {len(found) - bad} of them hold what was hashed" if options.verify else ""
        if not options.quiet:
            print(f"{len(found)} segments of {len({one.table for one, _ in found})} tables{told}", file=sys.stderr)
    return 1 if any(wrong for _, wrong in found) else 0


def _failover(options: argparse.Namespace) -> int:
    import dataclasses

    from auditor import config
    from auditor.service import failovers

    with settings_and_store(options) as (configured, store):
        path = config.find_file(options.config)
        accept, dry = options.accept_gap, options.dry_run
        found = failovers.fail_over(configured, path, store, options.pipeline, options.to, accept, dry, by=current_user())
    if options.format == "json":
        print_json({**dataclasses.asdict(found), "to": options.to, "changed": not dry})
        return 1 if found.gaps else 0
    behind = f"behind {found.behind}" if found.behind else "where its log ends now"
    print(f"pipeline {options.pipeline}: it goes on from {options.to} at {found.place}, {behind}")
    for gap in found.gaps:
        print(f"gap: {gap}")
    if found.gaps:
        print(f"gap: once the pipeline runs, send the rows again with: {found.mend}; then audit the tables")
    if dry:
        print("nothing was changed")
    else:
        print(f"{path} names {options.to} as its source now; start it with: auditor pipeline run {shell_word(options.pipeline)}")
    return 1 if found.gaps else 0


def _reset(options: argparse.Namespace) -> int:
    from auditor.errors import ConfigError
    from auditor.service import pipelines

    with settings_and_store(options) as (configured, store):
        print(f"pipeline {options.pipeline} will forget:")
        for line in pipelines.describe_reset(configured, store, options.pipeline, from_targets=options.from_targets):
            print(f"  {line}")
        again = options.name_again or input("write the pipeline's name again to go on: ")
        if again.strip() != options.pipeline:
            raise ConfigError("that is another name, so nothing was reset")
        place = pipelines.reset(configured, store, options.pipeline, from_targets=options.from_targets)
    print(f"pipeline {options.pipeline} was reset" + (f"; it reads the source's log again from {place}" if place else ""))
    return 0


def _demo(_: argparse.Namespace) -> int:
    from auditor.demo import pipeline

    return pipeline.run(console())


_ACTIONS = {
    "demo": _demo,
    "init": _init,
    "check": _check,
    "run": _run,
    "status": _status,
    "pause": _pause,
    "unpause": _pause,
    "skip": _skip,
    "bootstrap": _bootstrap,
    "segments": _segments,
    "failover": _failover,
    "reset": _reset,
}
