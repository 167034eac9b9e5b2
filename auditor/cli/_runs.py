"""Commands about runs and what is stored of them: resume, cancel, runs, show, report, notify, prune, scrub and forget."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.background import Interruption, side_by_side
from auditor.cli._output import (
    console,
    current_user,
    find_audits,
    notify_channels,
    print_json,
    print_reports,
    print_unaudited,
    print_where_stored,
    printing_failures,
    settings_and_store,
    write_private,
)
from auditor.durations import durations
from auditor.errors import NoReport
from auditor.escaping import visible
from auditor.model import Verdict
from auditor.store import patches as stored_patches
from auditor.store import pruning, run_lifecycle
from auditor.store import runs as store_runs

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.history.audit_status import Standing
    from auditor.store import Store
    from auditor.store.runs import StoredRun


def resume(options: argparse.Namespace) -> int:
    """Resume a failed or cancelled run."""
    from auditor.cli._ending import STOPPING, stopped_by_signals
    from auditor.cli._progress import watching
    from auditor.service import stored_runs

    interruption, me = Interruption(), current_user()
    with settings_and_store(options) as (configured, store), watching(options.quiet) as watch, stopped_by_signals(STOPPING) as stopped:
        run = _latest_run(configured, store, options.run)
        work = partial(stored_runs.resume, configured, store, run, watch, requested_by=me, interruption=interruption)
        reports = list(side_by_side([work], 1, stopped, interruption))
        for report in reports:
            notify_channels(configured, store, report)
    code = print_reports(reports, options) if reports else Verdict.UNKNOWN.exit_code  # stopped before it began
    print_where_stored(reports, store, options)
    return code


def cancel(options: argparse.Namespace) -> int:
    """Cancel a run, and wait until it has ended."""
    from auditor.history.records import as_run
    from auditor.report import listing
    from auditor.service import stored_runs

    with settings_and_store(options) as (configured, store):
        run = _latest_run(configured, store, options.run)
        cancelled = as_run(stored_runs.cancel(store, run, wait=options.wait, by=current_user()))
    if options.format == "json":
        print_json(cancelled)
    else:
        console().print(listing.run_status(cancelled))
    if cancelled.ended is None:
        print(f"auditor: run {cancelled.run} has not ended yet; check it with: auditor show {cancelled.run[:12]}", file=sys.stderr)
        return 3
    return 0


def runs(options: argparse.Namespace) -> int:
    """List runs, newest first."""
    from auditor.history.records import list_runs
    from auditor.report import listing

    with settings_and_store(options) as (configured, store):
        run_lifecycle.recover_runs(store)
        listed = list_runs(store, audit=options.audit, state=options.state, limit=options.limit)
        if options.audit and not list_runs(store, audit=options.audit, limit=1):
            from auditor import service

            service.audit(find_audits(configured, [options.audit], store)[0], options.audit)  # raises UnknownAudit
    if options.format == "json":
        print_json(listed)
    else:
        console().print(listing.runs(listed))
    return 0


def show(options: argparse.Namespace) -> int:
    """Show the report of a run or its progress, with its recorded repairs."""
    from auditor.history import records
    from auditor.history.records import as_run
    from auditor.report import listing
    from auditor.service import patches, repairs

    with settings_and_store(options) as (configured, store):
        found_run, standing = find_run(configured, store, options.run)
        if options.follow:
            found_run = _follow(store, (standing and standing.active) or found_run, options)
        report = records.load_report(store, found_run.run)
        recorded = repairs.list_repairs(store, found_run.run, limit=listing.MAX_REPAIRS + 1)
        applied = [patches.describe(store, patch) for patch in stored_patches.list_patches(store, found_run.run)]
        recorded = [repair for repair in recorded if not any(repair.note.startswith(f"patch {patch.patch[:12]}") for patch in applied)]
    if standing and options.format == "text" and not options.follow:
        console().print(listing.standing(found_run.audit, standing, report))
        console().print()
    if report is None:
        console().print(listing.run_status(as_run(found_run)))
    else:
        print_reports([report], options)
    if recorded and options.format == "text":
        console().print(listing.repairs(recorded))
    if applied and options.format == "text":
        console().print(listing.patches(applied))
    if found_run.reason and report is None and options.format == "text":
        console().print(listing.reason(found_run.reason))
    return exit_code(found_run) if options.follow else 0


def exit_code(run: StoredRun) -> int:
    """Return the exit code of a run that has ended: 3 if it has none, as one that was cancelled before it began."""
    return 3 if run.exit_code is None else run.exit_code


def _follow(store: Store, run: StoredRun, options: argparse.Namespace) -> StoredRun:
    """Return a run once it has ended; until then print each new step of its progress to standard error."""
    from auditor.cli._progress import print_steps
    from auditor.history.records import as_run

    watch = print_steps(options.quiet)
    while run.ended is None:
        watch(as_run(run))
        time.sleep(durations().follow_poll)
        run_lifecycle.recover_runs(store)  # of a process that died, no other would end the run
        run = store_runs.get_run(store, run.run)
    return run


def prune(options: argparse.Namespace) -> int:
    """Delete runs, events and ended tokens beyond the limits in keep:."""
    with settings_and_store(options) as (configured, store):
        keep = configured.keep
        pruned = pruning.prune(store, runs=keep.runs, days=keep.days, now=dt.datetime.now(dt.UTC), journal=keep.journal)
    if options.format == "json":
        print_json(dataclasses.asdict(pruned))
    else:
        print(f"{pruned.runs:,} runs, {pruned.events:,} events and {pruned.tokens:,} ended tokens were deleted")
    return 0


def scrub(options: argparse.Namespace) -> int:
    """Remove the values of masked columns from stored runs."""
    from auditor.service.scrub import scrub as scrub_store

    with settings_and_store(options) as (configured, store):
        scrubbed = scrub_store(configured, store)
    print(f"masked values were removed from {scrubbed:,} {'run' if scrubbed == 1 else 'runs'}")
    return 0


def forget(options: argparse.Namespace) -> int:
    """Print where a key still is; with --apply, remove it from the store."""
    from auditor.service import forgetting

    with settings_and_store(options) as (configured, store):
        found = forgetting.forget(configured, store, options.audit, options.key, apply=options.apply, by=current_user())
    if options.format == "json":
        print_json(found)
        return 0
    for place in found.places:
        removed = f", {place.removed:,} removed" if found.applied else ""
        count = f"{place.found:,} found{removed}" if place.searched or place.found else "not searched"
        print(f"{visible(place.place)}: {count}: {visible(place.what)}")
    if not found.applied:
        print("nothing was removed; write --apply to remove it from the store")
    return 0


def report(options: argparse.Namespace) -> int:
    """Print or write the report on one run, or on all audits of a day."""
    with settings_and_store(options) as (configured, store):
        text = _run_report(configured, store, options) if options.run else _day_report(configured, store, options)
    if options.output:
        write_private(Path(options.output), text.encode())
        if not options.quiet:
            print(f"wrote {options.output}", file=sys.stderr)
    else:
        print(text, end="" if text.endswith("\n") else "\n")
    return 0


def notify(options: argparse.Namespace) -> int:
    """Test notification channels, or send them today's digest."""
    from auditor.service.notify import send_digest, send_test

    with settings_and_store(options) as (configured, store), printing_failures() as print_failures:
        if options.what == "test":
            names = options.channels or configured.notify.channels
            failures = [failure for name in names if (failure := send_test(configured, name))]
        else:
            failures = send_digest(find_audits(configured, [], store)[0], store, dt.datetime.now(dt.UTC).date())
        print_failures(failures)
    return 3 if failures else 0


def find_run(configured: Settings, store: Store, run: str) -> tuple[StoredRun, Standing | None]:
    """Return the run whose id is or starts with ``run``; or of the audit with that name the run of its last verdict, and its standing.

    If an audit has no verdict, its latest run is returned. Raises UnknownRun.
    """
    from auditor.service import audits

    run_lifecycle.recover_runs(store)
    latest = store_runs.list_runs(store, audit=run, limit=1)
    if not latest:
        return audits.find_run(configured, store, run), None
    standing = audits.get_standing(configured, store, run)
    return standing.run or latest[0], standing


def _latest_run(configured: Settings, store: Store, what: str) -> str:
    """Return the id of the run that is or starts with ``what``; or of the latest run of the audit with that name. Raises UnknownRun."""
    from auditor.service import audits

    latest = store_runs.list_runs(store, audit=what, limit=1)
    return latest[0].run if latest else audits.find_run(configured, store, what).run


def _run_report(configured: Settings, store: Store, options: argparse.Namespace) -> str:
    from auditor.history import records
    from auditor.report.render import run as render_run

    found_run, _ = find_run(configured, store, options.run)
    report = records.load_report(store, found_run.run)
    if report is None:
        raise NoReport(f"run {found_run.run} has not ended, so it has no report yet")
    return render_run(report, records.load_partition_map(store, found_run.run), options.format)


def _day_report(configured: Settings, store: Store, options: argparse.Namespace) -> str:
    from auditor.report.day import check_day, load_day
    from auditor.report.render import day as render_day

    wanted = options.day or dt.datetime.now(dt.UTC).date()
    check_day(wanted)
    configured, _ = find_audits(configured, [], store)
    print_unaudited(configured)
    return render_day(load_day(store, configured, wanted), options.format)
