"""Commands that use a service: ``--server URL``, with the token in $AUDITOR_TOKEN."""

from __future__ import annotations

import argparse
import os
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from auditor.cli._output import console, print_json, slice_overrides, worst_exit_code

if TYPE_CHECKING:
    from auditor.client import Client


def client(options: argparse.Namespace) -> Client:
    """Return a client of the service that --server names."""
    from auditor.client import Client

    return Client(options.server, os.environ.get("AUDITOR_TOKEN"))


def run(options: argparse.Namespace) -> int:
    """Request runs, wait for them, and print their reports."""
    from auditor.errors import ConfigError

    if options.due or options.force or options.no_store:
        raise ConfigError("--force, --no-store and --due cannot be used with --server")
    if not options.audits:
        raise ConfigError("no audit given; name the audits to run")
    service = client(options)
    requested = [service.request(name, reason=options.reason, overrides=slice_overrides(options))["run"] for name in options.audits]
    try:
        found = [service.wait(run, _watch(options.quiet)) for run in requested]
    except KeyboardInterrupt:
        print(
            f"auditor: the service continues {', '.join(requested)}; stop a run with: auditor cancel RUN --server URL",
            file=sys.stderr,
        )
        return 3
    return _print_reports(service, found, options.format)


def show(options: argparse.Namespace) -> int:
    """Show a run or the latest run of an audit, with its recorded repairs."""
    from auditor.report import repairs

    service = client(options)
    found, standing = _find_run(service, options.run)
    if standing and options.format == "text":
        print(standing, end="\n\n")
    if found["ended"] is None:
        console().print(_status(found))
    else:
        _print_reports(service, [found], options.format)
    recorded = list(islice(service.repairs(found["run"]), repairs.MAX_SHOWN + 1)) if options.format == "text" else []
    if recorded:
        console().print(repairs.text(recorded))
    return 0


def _find_run(service: Client, run: str) -> tuple[dict[str, Any], str]:
    """Return the run with this id, or the run of an audit's last verdict with lines on what the audit stands at."""
    from auditor.errors import UnknownAudit
    from auditor.history.standing import status_label
    from auditor.report import formatting

    latest = service.runs(run, limit=1)
    if not latest:
        return service.run(run), ""
    try:
        standing = service.audit(run)["standing"]
    except UnknownAudit:  # it is no longer configured
        return latest[0], ""
    head = f"{status_label(standing['status']).upper()}  {formatting.visible(run)}  (what the audit stands at)"
    note = standing["last_run"] and standing["last_run"]["note"]
    lines = [*standing["reasons"], *([note] if note else [])]
    return service.run(standing["run"]) if standing["run"] else latest[0], "\n  ".join([head, *map(formatting.sentence, lines)])


def runs(options: argparse.Namespace) -> int:
    """List runs, newest first."""
    from auditor.report import history

    service = client(options)
    found = service.runs(options.audit, options.state, options.limit)
    if options.audit and not (found or service.runs(options.audit, limit=1)):
        service.audit(options.audit)  # raises UnknownAudit
    if options.format == "json":
        print_json(found)
    else:
        console().print(history.table([_stored_run(run) for run in found]))
    return 0


def cancel(options: argparse.Namespace) -> int:
    """Cancel a run, and wait until it has ended."""
    service = client(options)
    found = service.wait(service.cancel(options.run)["run"], seconds=options.wait)
    console().print(_status(found))
    if found["ended"] is None:
        print(f"auditor: run {found['run']} has not ended yet; see: auditor show {found['run'][:12]} --server URL", file=sys.stderr)
        return 3
    return 0


def _print_reports(service: Client, runs: list[dict[str, Any]], format: str) -> int:
    """Print the reports of finished runs, and return the most severe of their exit codes."""
    from auditor.errors import UnknownRun

    values: list[Any] = []
    for run in runs:
        try:
            values.append(service.report(run["run"], format))
        except UnknownRun:  # it was cancelled before it started, so it has no report
            values.append(run if format == "json" else f"{run['audit']}: run {run['run']}: {run['state']}\n")
        if run["verdict"] == "unknown":
            print(f"auditor: {run['audit']}: {' '.join(run['reasons']) or run['state']}", file=sys.stderr)
    if format == "json":
        print_json(values[0] if len(values) == 1 else values)
    else:
        print("\n".join(values), end="")
    return worst_exit_code([3 if run["exit_code"] is None else run["exit_code"] for run in runs])


def _watch(quiet: bool) -> Any:
    printed: set[str] = set()

    def watch(run: dict[str, Any]) -> None:
        for side, step in run["progress"].items():
            line = f"{run['audit']}: {side}: {step['doing']}"
            if not quiet and line not in printed:
                printed.add(line)
                print(line, file=sys.stderr, flush=True)

    return watch


def _status(run: dict[str, Any]) -> Any:
    from auditor.report import history

    return history.status(_stored_run(run))


def _stored_run(run: dict[str, Any]) -> Any:
    """Convert a run as the API returns it to a StoredRun, which `report.history` prints."""
    from datetime import datetime

    from auditor.model import State, Verdict
    from auditor.store.runs import StoredRun

    def moment(value: str | None) -> datetime | None:
        return datetime.fromisoformat(value) if value else None

    began = moment(run["began"])
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
    same += ("within_threshold", "unequal", "missing", "extra", "changed", "unsettled", "progress", "resumable")
    score = run["score"]
    return StoredRun(
        **{name: run[name] for name in same},
        state=State(run["state"]),
        verdict=Verdict(run["verdict"]),
        started=began,
        cancel_asked=run["cancel_requested"],
        ended=moment(run["ended"]),
        score=score["value"],
        lower=score["lower"],
        upper=score["upper"],
        published=score["published"],
        reasons=tuple(run["reasons"]),
        owner=None,
        verified_through=moment(run["verified_through"]),
        within_threshold_through=moment(run["within_threshold_through"]),
        schema=None,
        definition={},
    )
