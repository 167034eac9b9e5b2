"""Commands about runs: going on with them, ending them, looking at them, reporting on them."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor.cli._output import announce, print_json, printer, stored, told, who

if TYPE_CHECKING:
    from auditor.store import Store
    from auditor.store.runs import StoredRun


def resume(options: argparse.Namespace) -> int:
    """Go on with a run that ended early."""
    from auditor import service
    from auditor.progress import watching

    with stored(options) as (configured, store), watching(options.quiet) as watch:
        report = service.resume(configured, store, options.run, watch, requested_by=who())
        announce(configured, store, report)
    return told([report], options)


def cancel(options: argparse.Namespace) -> int:
    """Ask a run to end, and wait until it has."""
    from auditor import service
    from auditor.report import history

    with stored(options) as (_, store):
        found = service.cancel(store, options.run, wait=options.wait, by=who())
    printer().print(history.line(found))
    if found.ended is None:
        print(f"auditor: run {found.run} was asked to end and has not yet; look again: auditor show {found.run[:8]}", file=sys.stderr)
        return 3
    return 0


def runs(options: argparse.Namespace) -> int:
    """List runs, the newest first."""
    from auditor.report import history
    from auditor.store import runs as kept

    with stored(options) as (_, store):
        kept.recover(store)
        found = kept.listed(store, audit=options.audit, state=options.state, limit=options.limit)
    if options.format == "json":
        print_json([history.as_json(one) for one in found])
    else:
        printer().print(history.table(found))
    return 0


def show(options: argparse.Namespace) -> int:
    """Show a run as it was told when it ended, or how far it is, and what was done to mend its target."""
    from auditor import keep
    from auditor.report import history
    from auditor.report import repairs as as_text
    from auditor.service import repairs

    with stored(options) as (_, store):
        found = _of(store, options.run)
        report = keep.report(store, found.run)
        mended = [dataclasses.asdict(one) for one in repairs.of_run(store, found.run, limit=as_text.SHOWN + 1)]
    if report is None:
        printer().print(history.line(found))
    else:
        told([report], options)
    if mended and options.format == "text":
        printer().print(as_text.text(mended))
    return 0


def prune(options: argparse.Namespace) -> int:
    """Drop what is not to be kept any longer."""
    from auditor.store import retention

    with stored(options) as (configured, store):
        keep = configured.keep
        pruned = retention.prune(store, runs=keep.runs, days=keep.days, now=dt.datetime.now(dt.UTC))
    print(f"{pruned.runs:,} runs, {pruned.events:,} events and {pruned.tokens:,} ended tokens were dropped")
    return 0


def report(options: argparse.Namespace) -> int:
    """Report on one run, or on all audits of a day."""
    with stored(options) as (configured, store):
        text = _run_report(store, options) if options.run else _day_report(configured, store, options)
    if options.output:
        Path(options.output).write_text(text, encoding="utf-8")
        print(f"wrote {options.output}", file=sys.stderr)
    else:
        print(text, end="" if text.endswith("\n") else "\n")
    return 0


def notify(options: argparse.Namespace) -> int:
    """Try channels, or send them the digest of a day."""
    from auditor import notify as channels

    with stored(options) as (configured, store):
        if options.what == "test":
            failures = [failure for name in options.channels or configured.notify.channels if (failure := channels.test(configured, name))]
        else:
            failures = channels.digest(configured, store, dt.datetime.now(dt.UTC).date())
    for failure in failures:
        print(f"auditor: {failure}", file=sys.stderr)
    return 3 if failures else 0


def _of(store: Store, run: str) -> StoredRun:
    """The run of that id, its beginning, or the latest of the audit of that name. Raises UnknownRun."""
    from auditor.store import runs as kept

    kept.recover(store)
    latest = kept.listed(store, audit=run, limit=1)
    return latest[0] if latest else kept.find(store, run)


def _run_report(store: Store, options: argparse.Namespace) -> str:
    from auditor import keep
    from auditor.errors import UnknownRun
    from auditor.report.rendered import run as rendered

    found = _of(store, options.run)
    one = keep.report(store, found.run)
    if one is None:
        raise UnknownRun(f"run {found.run} has not ended, so there is no report of it yet")
    return rendered(one, keep.picture(store, found.run), options.format)


def _day_report(configured: Any, store: Store, options: argparse.Namespace) -> str:
    from auditor.report.day import day as day_of
    from auditor.report.rendered import day as rendered

    wanted = options.day or dt.datetime.now(dt.UTC).date()
    return rendered(day_of(store, configured, wanted), options.format)
