"""The command run: audits one after the other or side by side, each printed whole as it ends, and one line about all of them."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from auditor.background import Interruption, side_by_side
from auditor.cli._ending import STOPPING, stopped_by_signals
from auditor.cli._output import (
    console,
    current_user,
    find_audits,
    load_settings,
    notifying,
    one_off_settings,
    open_optional_store,
    print_head,
    print_reports,
    print_where_stored,
    settings_and_store,
    shared_statement_slots,
    with_known_groups,
    worst_exit_code,
)
from auditor.cli._progress import Watch, watching
from auditor.connections import prefetch
from auditor.errors import AuditorError, ConfigError, QueueFull
from auditor.model import PERMISSIONS, State, Verdict
from auditor.quantities import plural

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.model import Report
    from auditor.store import Store


def run(options: argparse.Namespace) -> int:
    """Run audits, print each as it ends, and of several one line at the end."""
    if options.due:
        if options.audits or options.all or options.no_store or one_off_settings(options):
            raise ConfigError("--due cannot be combined with audit names, --all, --no-store, --keys, --times, --method or --t")
        return _due(options)
    if options.all and options.audits:
        raise ConfigError("--all cannot be combined with audit names; write one of them")
    if not options.audits and not options.all:
        raise ConfigError("no audit given; name audits or patterns of their names, or use --all or --due (auditor ls lists the audits)")
    configured = load_settings(options)
    first = next((name for name in options.audits or configured.audits if name in configured.audits), None)
    with prefetch.connecting(configured, first) if first else nullcontext(), open_optional_store(configured, options.no_store) as store:
        configured, wanted = find_audits(configured, options.audits, store, asks_databases=True)
        if not wanted:
            raise ConfigError("the configuration has no audits; write them under audits: in auditor.yaml")
        return _run_named(options, configured, store, wanted)


def _run_named(options: argparse.Namespace, configured: Settings, store: Store | None, wanted: list[str]) -> int:
    from auditor import service

    of_tables = [name for name in wanted if name not in configured.segments]
    names = [*(service.expand_legs(configured, of_tables) if of_tables else []), *(name for name in wanted if name in configured.segments)]
    overrides = one_off_settings(options) | {name: True for name in PERMISSIONS if getattr(options, name)}
    interruption = Interruption()
    with shared_statement_slots(store), watching(options.quiet, options.jobs) as watch, stopped_by_signals(STOPPING) as stopped:
        printer = _Printer(options, store, watch, names)
        works = (partial(_run_one, options, configured, store, name, watch, overrides, interruption) for name in names)
        with (
            prefetch.keeping() if len(names) > 1 else nullcontext(),
            notifying(configured, store) as notify,
            closing(side_by_side(works, options.jobs, stopped, interruption)) as ended,  # also where standard output is closed
        ):
            for name, outcome in ended:
                if isinstance(outcome, AuditorError):  # the other audits still run and are reported
                    printer.not_run(name, outcome)
                    continue
                notify(outcome)
                printer.ended(outcome)
                if outcome.state is State.CANCELLED:
                    stopped.set()
    if store and not one_off_settings(options) and options.format == "text":
        _print_whole_tables(configured, store, printer.reports, of_tables)
    return printer.conclude()


def _run_one(
    options: argparse.Namespace,
    configured: Settings,
    store: Store | None,
    name: str,
    watch: Watch,
    overrides: dict[str, Any],
    interruption: Interruption,
) -> tuple[str, Report | AuditorError]:
    """Run an audit of tables or of segments; return its name and its report, or why it did not begin."""
    from auditor import service

    about: dict[str, Any] = {"reason": options.reason, "requested_by": current_user(), "interruption": interruption}
    try:
        if name not in configured.segments:
            return name, service.run_audit(configured, name, watch, store, **about, overrides=overrides)
        if store is None or overrides:
            raise ConfigError(
                f"{name} compares segments, by a register in the store; run it without --no-store, --keys, --times, --method, --t, --force"
                " and --rescan"
            )
        from auditor.service import segment_audits  # which loads the store's library

        return name, segment_audits.run(configured, store, name, **about)
    except AuditorError as error:
        return name, error


def _due(options: argparse.Namespace) -> int:
    """Request the audits that are due, and run everything pending."""
    from auditor.service import scheduler, workers
    from auditor.store import leases

    with settings_and_store(options) as (loaded, store):
        configured = with_known_groups(loaded, store)
        try:
            scheduler.request_due(configured, store, dt.datetime.now(dt.UTC), str(leases.this_process()))
        except QueueFull as error:  # the pending runs are still carried out
            print(f"auditor: {error}", file=sys.stderr)
        with shared_statement_slots(store), watching(quiet=True) as watch, stopped_by_signals(STOPPING) as stopped:
            printer = _Printer(options, store, watch, None)
            with closing(workers.run_pending(configured, store, options.jobs, stopped)) as ended:
                for report in ended:
                    printer.ended(report)
    return printer.conclude()


def _print_whole_tables(configured: Settings, store: Store, reports: Iterable[Report], of_tables: Iterable[str]) -> None:
    """Print what these runs say of whole tables: of those of which they read a part, and of those compared by way of a dump."""
    from auditor import service

    parts = [report for report in reports if report.covered < 1]
    by_dump = [name for name in of_tables if service.audit(configured, name).via]
    if not (parts or by_dump):
        return
    from auditor.report import listing  # which loads what lists of audits need
    from auditor.service.stored_runs import rolling_table

    for report in parts:
        if table := rolling_table(store, report.audit):
            console().print(listing.whole_table(report.audit, table))
    for name in by_dump:
        console().print(listing.combined(name, service.combined(configured, store, name)))


class _Printer:
    """Prints each run as it ends, and a summary at the end. As text, a match among several runs is one line; any other is in full."""

    def __init__(self, options: argparse.Namespace, store: Store | None, watch: Watch, names: list[str] | None) -> None:
        """``names`` are the audits to run; None if nobody knows them beforehand."""
        self.reports: list[Report] = []
        self._options, self._store, self._watch, self._names = options, store, watch, names
        self._failures: dict[str, AuditorError] = {}
        """Why audits did not begin, by audit."""
        self._began = time.monotonic()

    def ended(self, report: Report) -> None:
        """Print a run, as text; other formats are of all runs together."""
        self.reports.append(report)
        if self._options.format != "text":
            return
        is_short = (self._names is None or len(self._names) > 1) and report.verdict is Verdict.MATCH and not self._options.verbose
        with self._watch.paused():
            if is_short:
                print_head(report)
            else:
                print_reports([report], self._options)
                print_where_stored([report], self._store, self._options)
            sys.stdout.flush()

    def not_run(self, name: str, error: AuditorError) -> None:
        """Print why an audit did not begin."""
        self._failures[name] = error
        with self._watch.paused():
            print(f"auditor: {name}: {error}", file=sys.stderr)

    def conclude(self) -> int:
        """Print what was not printed yet, and return the most severe exit code."""
        codes = [report.exit_code for report in self.reports] + [error.exit_code for error in self._failures.values()]
        left = len(self._names) - len(codes) if self._names else 0
        if self._options.format != "text":
            self.reports.sort(key=lambda report: self._names.index(report.audit) if self._names else 0)
            if self.reports or self._options.format == "junit":
                print_reports(self.reports, self._options, self._failures)
        elif len(codes) + left > 1:
            print(self._last_line(left))
        return worst_exit_code([*codes, *([Verdict.UNKNOWN.exit_code] if left else [])])

    def _last_line(self, left: int) -> str:
        """Return how many audits ended in which verdict, and how many did not run, in how many seconds."""
        words = Counter("cancelled" if report.state is State.CANCELLED else report.verdict.value for report in self.reports)
        words["not run"] = left + len(self._failures)
        counts = [f"{words[word]:,} {word}" for word in ("match", "mismatch", "unknown", "cancelled", "not run") if words[word]]
        total = plural(sum(words.values()), "audit")
        return f"{total}: {', '.join(counts)} in {time.monotonic() - self._began:.1f} s"
