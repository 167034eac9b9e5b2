"""Commands that use a service: ``--server URL``, with the token in $AUDITOR_TOKEN."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import re
import sys
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any

from auditor.cli._output import console, one_off_settings, print_json, worst_exit_code
from auditor.client import Client
from auditor.door_words import in_commands
from auditor.errors import AuditorError, ConfigError, NoReport, UnknownAudit, UnknownRun

if TYPE_CHECKING:
    from auditor.api_models.audit import Audit, ListedAudit
    from auditor.api_models.run import Run
    from auditor.client import Client


def client(options: argparse.Namespace) -> Client:
    """Return a client of the service that --server names."""
    return Client(options.server, os.environ.get("AUDITOR_TOKEN"))


def call(name: str, options: argparse.Namespace) -> int:
    """Run the command of that name; its errors are in the words of the command line. Raises what the service answers."""
    try:
        code: int = globals()[name](options)
    except AuditorError as error:
        error.args = (in_commands(str(error), options.server), *error.args[1:])
        raise
    return code


def run(options: argparse.Namespace) -> int:
    """Request runs, wait for them, and print their reports."""
    if options.due or options.force or options.rescan or options.no_store or options.jobs > 1 or options.format == "junit":
        raise ConfigError("--force, --rescan, --no-store, --due, --jobs and --format junit cannot be used with --server")
    if bool(options.audits) == options.all:
        raise ConfigError("name the audits to run, or write --all")
    service = client(options)
    names = _select(service, options.audits)
    requested = [service.request(name, reason=options.reason, overrides=one_off_settings(options)).run for name in names]
    try:
        ended = [service.wait(run, _watch(options.quiet)) for run in requested]
    except KeyboardInterrupt:
        print(
            f"auditor: the service continues {', '.join(requested)}; stop a run with: auditor cancel RUN --server URL",
            file=sys.stderr,
        )
        return 3
    return _print_reports(service, ended, options.format)


def show(options: argparse.Namespace) -> int:
    """Show a run or the latest run of an audit, with its recorded repairs."""
    from auditor.report import listing

    service = client(options)
    found_run, standing = _find_run(service, options.run)
    if options.follow:
        active = service.audit(found_run.audit).active_run if standing else None
        found_run, standing = service.wait((active or found_run).run, _watch(options.quiet)), ""
    if standing and options.format == "text":
        print(standing, end="\n\n")
    if found_run.ended is None:
        console().print(listing.run_status(found_run))
    else:
        _print_reports(service, [found_run], options.format)
    recorded = list(islice(service.repairs(found_run.run), listing.MAX_REPAIRS + 1)) if options.format == "text" else []
    if recorded:
        console().print(listing.repairs(recorded))
    return (3 if found_run.exit_code is None else found_run.exit_code) if options.follow else 0


def ls(options: argparse.Namespace) -> int:
    """List audits with what they stand at."""
    from auditor.cli._listing import print_audits

    service = client(options)
    names = _select(service, options.audits)
    return print_audits([_listed(audit) for audit in service.audits() if audit.name in names], options)


def wait(options: argparse.Namespace) -> int:
    """Wait until audits have verified a moment."""
    from auditor.cli._wait import wait_for

    service = client(options)
    return wait_for(_select(service, options.audits), lambda name: service.verification(name, options.through), options)


def incidents(options: argparse.Namespace) -> int:
    """List incidents, newest first."""
    from auditor.cli._incidents import print_incidents

    service = client(options)
    listed = list(islice(service.incidents(options.audit), options.limit))
    if options.audit and not listed:
        service.audit(options.audit)  # raises UnknownAudit
    return print_incidents(listed, options)


def acknowledge(options: argparse.Namespace) -> int:
    """Acknowledge or mute an audit's open incident, or withdraw that."""
    from auditor.cli._incidents import print_incident, read_options

    asked, service = read_options(options), client(options)
    incident = service.withdraw_acknowledgement(options.audit) if asked is None else service.acknowledge(options.audit, **asked)
    return print_incident(incident, options)


def bisect(options: argparse.Namespace) -> int:
    """Print what the ledger of an audit says."""
    from auditor.cli._bisect import print_bisection

    return print_bisection(client(options).bisect(options.audit), options)


def costs(options: argparse.Namespace) -> int:
    """Print what audits cost."""
    from auditor.cli._listing import print_costs

    return print_costs(client(options).costs(since=options.since, days=options.days, by=options.by), options)


def differences(options: argparse.Namespace) -> int:
    """Print or write the stored differences of a run."""
    from auditor.cli._listing import print_differences
    from auditor.report.difference_rows import report_key_kinds

    service = client(options)
    found_run, _ = _find_run(service, options.run)
    report = service.report(found_run.run)
    return print_differences(service.differences(found_run.run), report_key_kinds(report), options, has_shards=bool(report.shards))


def partitions(options: argparse.Namespace) -> int:
    """Print the partitions of a run."""
    from auditor.cli._listing import print_partitions

    service = client(options)
    found_run, _ = _find_run(service, options.run)
    return print_partitions(service.partitions(found_run.run, options.state), options)


def _select(service: Client, wanted: list[str]) -> list[str]:
    """Return the names of these audits, or of all; the service is asked for its audits only where that is needed."""
    from auditor.config import is_pattern, select_audits

    if wanted and not any(map(is_pattern, wanted)):
        return wanted
    known = [audit.name for audit in service.audits()]
    return select_audits(known, wanted) if wanted else known


def _listed(audit: Audit) -> ListedAudit:
    """Return an audit as `report.listing` prints it."""

    from auditor.api_models.audit import ListedAudit

    status = audit.status
    return ListedAudit(
        **ListedAudit.fields_of(audit, without=("status", "active_run")),
        **ListedAudit.fields_of(status, without=("last_run",)),
        audit=audit.name,
        age=(dt.datetime.now(dt.UTC) - status.ended).total_seconds() if status.ended else None,
        active_run=audit.active_run.run if audit.active_run else None,
        last_run=status.last_run.note if status.last_run else "",
        last_run_state=status.last_run.state if status.last_run else None,
    )


def _latest_run(service: Client, what: str) -> Run:
    """Return the run with this id, or the latest run of the audit with that name. Raises UnknownRun."""
    if latest := service.runs(what, limit=1):
        return latest[0]
    if re.fullmatch("[0-9a-f]{4,32}", what):
        return service.run(what)
    from auditor.config import suggest

    near = suggest(what, [audit.name for audit in service.audits()])
    raise UnknownRun(f"there is no run and no audit that ran called {what!r}{near or '; list the runs with: GET /api/v1/runs'}")


def _find_run(service: Client, run: str) -> tuple[Run, str]:
    """Return the run with this id, or the run of an audit's last verdict with lines on the audit's status."""
    from auditor.history.audit_status import status_label
    from auditor.report import formatting

    latest = _latest_run(service, run)
    if latest.audit != run:
        return latest, ""
    try:
        status = service.audit(run).status
    except UnknownAudit:  # it is no longer configured
        return latest, ""
    head = f"{formatting.visible(run)}: {status_label(status.status).upper()}"
    lines = [*status.reasons, *([status.last_run.note] if status.last_run and status.last_run.note else [])]
    return service.run(status.run) if status.run else latest, "\n  ".join([head, *map(formatting.sentence, lines)])


def runs(options: argparse.Namespace) -> int:
    """List runs, newest first."""
    from auditor.report import listing

    service = client(options)
    listed = service.runs(options.audit, options.state, options.limit)
    if options.audit and not (listed or service.runs(options.audit, limit=1)):
        service.audit(options.audit)  # raises UnknownAudit
    if options.format == "json":
        print_json(listed)
    else:
        console().print(listing.runs(listed))
    return 0


def cancel(options: argparse.Namespace) -> int:
    """Cancel a run, and wait until it has ended."""
    from auditor.report import listing

    service = client(options)
    cancelled = service.wait(service.cancel(_latest_run(service, options.run).run).run, seconds=options.wait)
    if options.format == "json":
        print_json(cancelled)
    else:
        console().print(listing.run_status(cancelled))
    if cancelled.ended is None:
        print(f"auditor: run {cancelled.run} has not ended yet; see: auditor show {cancelled.run[:12]} --server URL", file=sys.stderr)
        return 3
    return 0


def _print_reports(service: Client, runs: list[Run], format: str) -> int:
    """Print the reports of finished runs, and return the most severe of their exit codes."""
    values: list[Any] = []
    for run in runs:
        try:
            values.append(service.report(run.run, format))
        except NoReport:  # it was cancelled before it started, so it has no report
            values.append(run if format == "json" else f"{run.audit}: run {run.run}: {run.state.value}\n")
        if run.verdict.value == "unknown":
            print(f"auditor: {run.audit}: {' '.join(run.reasons) or run.state.value}", file=sys.stderr)
    if format == "json":
        print_json(values[0] if len(values) == 1 else values)
    else:
        print("\n".join(values), end="")
    return worst_exit_code([3 if run.exit_code is None else run.exit_code for run in runs])


def _watch(quiet: bool) -> Callable[[Run], None]:
    from auditor.cli._progress import print_steps

    return print_steps(quiet)
