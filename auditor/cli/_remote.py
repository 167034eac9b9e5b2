"""Commands that use a service: ``--server URL``, with the token in $AUDITOR_TOKEN."""

from __future__ import annotations

import argparse
import os
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

from auditor.cli._output import console, one_off_settings, print_json, worst_exit_code

if TYPE_CHECKING:
    from auditor.client import Client
    from auditor.client.types import Audit, Run


def client(options: argparse.Namespace) -> Client:
    """Return a client of the service that --server names."""
    from auditor.client import Client

    return Client(options.server, os.environ.get("AUDITOR_TOKEN"))


def run(options: argparse.Namespace) -> int:
    """Request runs, wait for them, and print their reports."""
    from auditor.errors import ConfigError

    if options.due or options.force or options.rescan or options.no_store:
        raise ConfigError("--force, --rescan, --no-store and --due cannot be used with --server")
    if bool(options.audits) == options.all:
        raise ConfigError("name the audits to run, or write --all")
    service = client(options)
    names = _select(service, options.audits)
    requested = [service.request(name, reason=options.reason, overrides=one_off_settings(options))["run"] for name in names]
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
    if options.follow:
        active = service.audit(found["audit"])["active_run"] if standing else None
        found, standing = service.wait((active or found)["run"], _watch(options.quiet)), ""
    if standing and options.format == "text":
        print(standing, end="\n\n")
    if found["ended"] is None:
        console().print(_status(found))
    else:
        _print_reports(service, [found], options.format)
    recorded = list(islice(service.repairs(found["run"]), repairs.MAX_SHOWN + 1)) if options.format == "text" else []
    if recorded:
        console().print(repairs.text(recorded))
    return (3 if found["exit_code"] is None else found["exit_code"]) if options.follow else 0


def ls(options: argparse.Namespace) -> int:
    """List audits with what they stand at."""
    from auditor.cli._listing import print_audits

    service = client(options)
    names = _select(service, options.audits)
    return print_audits([_listed(one) for one in service.audits() if one["name"] in names], options)


def differences(options: argparse.Namespace) -> int:
    """Print or write the stored differences of a run."""
    from auditor.cli._listing import print_differences
    from auditor.report.difference_rows import report_key_kinds

    service = client(options)
    found, _ = _find_run(service, options.run)
    rows: Any = service.differences(found["run"])
    report = service.report(found["run"])
    return print_differences(rows, report_key_kinds(report), options, has_shards=bool(report["shards"]))


def _select(service: Client, wanted: list[str]) -> list[str]:
    """Return the names of these audits, or of all; the service is asked for its audits only where that is needed."""
    from auditor.config import is_pattern, select_audits

    if wanted and not any(map(is_pattern, wanted)):
        return wanted
    known = [one["name"] for one in service.audits()]
    return select_audits(known, wanted) if wanted else known


def _listed(one: Audit) -> Any:
    """Convert an audit as the API returns it to what `report.listing` prints."""
    import datetime as dt

    standing, active = one["standing"], one["active_run"]
    ended = standing["ended"] and (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(standing["ended"])).total_seconds()
    values = dict(one)
    same = {name: values[name] for name in ("source", "target", "next_due", "paused")}
    return same | {
        "audit": one["name"],
        "status": standing["status"],
        "verdict": standing["verdict"],
        "reasons": standing["reasons"],
        "run": standing["run"],
        "age": ended,
        "active_run": active and active["run"],
        "last_run": standing["last_run"]["note"] if standing["last_run"] else "",
    }


def _find_run(service: Client, run: str) -> tuple[Run, str]:
    """Return the run with this id, or the run of an audit's last verdict with lines on the audit's status."""
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
    head = f"{formatting.visible(run)}: {status_label(standing['status']).upper()}"
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
    if options.format == "json":
        print_json(found)
    else:
        console().print(_status(found))
    if found["ended"] is None:
        print(f"auditor: run {found['run']} has not ended yet; see: auditor show {found['run'][:12]} --server URL", file=sys.stderr)
        return 3
    return 0


def _print_reports(service: Client, runs: list[Run], format: str) -> int:
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
    from auditor.cli._progress import print_steps

    watch = print_steps(quiet)
    return lambda run: watch(run["audit"], run["progress"])


def _status(run: Run) -> Any:
    from auditor.report import history

    return history.status(_stored_run(run))


def _stored_run(run: Run) -> Any:
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
    values: dict[str, Any] = {**run}
    return StoredRun(
        **{name: values[name] for name in same},
        state=State(run["state"]),
        verdict=Verdict(run["verdict"]),
        started=began,
        cancel_requested=run["cancel_requested"],
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
