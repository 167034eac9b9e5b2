"""Commands against a service: ``--server URL``, with the token in $AUDITOR_TOKEN."""

from __future__ import annotations

import argparse
import os
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from auditor.cli._output import folded, print_json, printer, section

if TYPE_CHECKING:
    from auditor.client import Client


def client(options: argparse.Namespace) -> Client:
    """The service that the command names."""
    from auditor.client import Client

    return Client(options.server, os.environ.get("AUDITOR_TOKEN"))


def run(options: argparse.Namespace) -> int:
    """Request runs, wait for them, and print their reports."""
    from auditor.errors import ConfigError

    if options.due or options.force or options.no_store:
        raise ConfigError("with --server a run cannot be forced, nor be kept nowhere, and what is due is the service's to know")
    if not options.audits:
        raise ConfigError("write which audits to run")
    service = client(options)
    asked = [service.request(name, reason=options.reason, overrides=section(options))["run"] for name in options.audits]
    try:
        found = [service.wait(one, _watch(options.quiet)) for one in asked]
    except KeyboardInterrupt:
        print(f"auditor: the service goes on with {', '.join(asked)}; end it with: auditor cancel", file=sys.stderr)
        return 3
    return _told(service, found, options.format)


def show(options: argparse.Namespace) -> int:
    """Show a run, or the latest of an audit, and what was done to mend its target."""
    from auditor.report import repairs

    service = client(options)
    latest = service.runs(options.run, limit=1)
    found = latest[0] if latest else service.run(options.run)
    if found["ended"] is None:
        printer().print(_line(found))
    else:
        _told(service, [found], options.format)
    mended = list(islice(service.repairs(found["run"]), repairs.SHOWN + 1)) if options.format == "text" else []
    if mended:
        printer().print(repairs.text(mended))
    return 0


def runs(options: argparse.Namespace) -> int:
    """List runs, the newest first."""
    from auditor.report import history

    found = client(options).runs(options.audit, options.state, options.limit)
    if options.format == "json":
        print_json(found)
    else:
        printer().print(history.table([_stored(one) for one in found]))
    return 0


def cancel(options: argparse.Namespace) -> int:
    """Ask a run to end, and wait until it has."""
    service = client(options)
    found = service.wait(service.cancel(options.run)["run"], seconds=options.wait)
    printer().print(_line(found))
    if found["ended"] is None:
        print(f"auditor: run {found['run']} was asked to end and has not yet", file=sys.stderr)
        return 3
    return 0


def _told(service: Client, found: list[dict[str, Any]], format: str) -> int:
    """Print the reports of runs that have ended; the exit code of the worst of them."""
    from auditor.errors import UnknownRun

    values: list[Any] = []
    for one in found:
        try:
            values.append(service.report(one["run"], format))
        except UnknownRun:  # it was cancelled before it began
            values.append(one if format == "json" else f"{one['audit']}: run {one['run']}: {one['state']}\n")
        if one["verdict"] == "unknown":
            print(f"auditor: {one['audit']}: {' '.join(one['reasons']) or one['state']}", file=sys.stderr)
    if format == "json":
        print_json(values[0] if len(values) == 1 else values)
    else:
        print("\n".join(values), end="")
    return folded([3 if one["exit_code"] is None else one["exit_code"] for one in found])


def _watch(quiet: bool) -> Any:
    said: set[str] = set()

    def watch(one: dict[str, Any]) -> None:
        for side, step in one["progress"].items():
            line = f"{one['audit']}: {side}: {step['doing']}"
            if not quiet and line not in said:
                said.add(line)
                print(line, file=sys.stderr, flush=True)

    return watch


def _line(one: dict[str, Any]) -> Any:
    from auditor.report import history

    return history.line(_stored(one))


def _stored(one: dict[str, Any]) -> Any:
    """A run as the service told it, in the form that is printed."""
    from datetime import datetime

    from auditor.model import State, Verdict
    from auditor.store.runs import StoredRun

    def moment(value: str | None) -> datetime | None:
        return datetime.fromisoformat(value) if value else None

    began = moment(one["began"])
    assert began
    same: tuple[str, ...] = (
        "run",
        "audit",
        "exit_code",
        "method",
        "reason",
        "requested_by",
        "overrides",
        "seconds",
        "coverage",
        "rows",
        "partitions",
    )
    same += ("unequal", "missing", "extra", "changed", "unsettled", "progress", "resumable", "cancel_asked")
    score = one["score"]
    return StoredRun(
        **{name: one[name] for name in same},
        state=State(one["state"]),
        verdict=Verdict(one["verdict"]),
        started=began,
        ended=moment(one["ended"]),
        score=score["value"],
        lower=score["lower"],
        upper=score["upper"],
        published=score["published"],
        reasons=tuple(one["reasons"]),
        owner=None,
        verified_through=moment(one["verified_through"]),
        schema=None,
        definition={},
    )
