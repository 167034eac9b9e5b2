"""Commands about audits: check, plan, sql, run, compare, demo, schema and dump."""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor import config
from auditor.cli._output import (
    console,
    current_user,
    data_output,
    load_settings,
    notifying,
    one_off_settings,
    open_optional_store,
    print_json,
    print_reports,
    print_where_stored,
    settings_and_store,
    shared_statement_slots,
    with_groups,
    with_known_groups,
    worst_exit_code,
)
from auditor.config import find_unverified, find_unverified_brokers, select_audits
from auditor.connections import prefetch
from auditor.errors import AuditorError, ConfigError, QueueFull, StoreError
from auditor.escaping import shell_word
from auditor.model import PERMISSIONS, State

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.connections.reader import OnProgress
    from auditor.errors import AuditorError
    from auditor.history.rolling_table import RollingTable
    from auditor.model import Report
    from auditor.planning.proxy import Combined
    from auditor.store import Store
    from dialects.table_form import TableKey


def check(options: argparse.Namespace) -> int:
    """Connect to the databases, and print plans and problems."""
    from auditor import service
    from auditor.report import json as as_json
    from auditor.report import text

    configured, wanted = with_groups(load_settings(options), options.audits)
    problems: dict[str, AuditorError] = {}
    with ExitStack() as stack:
        store = None
        try:
            store = stack.enter_context(open_optional_store(configured))
        except StoreError as failure:  # plans can be made without earlier runs, but nothing can be run
            problems["store"] = failure
        results = list(service.check(configured, service.expand_legs(configured, wanted), store))
        broken = _check_evidence(configured, store, wanted) if store and configured.evidence else []
    if options.format == "json":
        print_json([as_json.checked(result.audit, result.error, result.plan) for result in results])
    else:
        for result in results:
            if result.plan:
                console().print(text.plan(result.plan, options.verbose))
    for where, sentence in (*find_unverified(configured.urls), *find_unverified_brokers(configured.brokers)):
        print(f"auditor: warning: {'.'.join(where)}: {sentence}", file=sys.stderr)
    problems |= {result.audit: result.error for result in results if result.error}
    failures = [*problems.items(), *(("evidence", error) for error in broken)]
    for what, error in failures:
        print(f"auditor: {what}: {error}", file=sys.stderr)
    return worst_exit_code([error.exit_code for _, error in failures])


def _check_evidence(configured: Settings, store: Store, audits: list[str]) -> list[AuditorError]:
    from auditor import service
    from auditor.service import evidence

    return evidence.check(configured, store, service.expand_legs(configured, audits) if audits else [])


def sql(options: argparse.Namespace) -> int:
    """Print SQL scripts for the engines' consoles."""
    from auditor import service

    sides: Any = (options.side,) if options.side else ("source", "target")
    configured, _ = with_groups(load_settings(options), [options.audit])
    data_output().write("\n".join(service.sql(configured, options.audit, sides, options.method).values()))
    return 0


def run(options: argparse.Namespace) -> int:
    """Run audits one after the other, and print their reports."""
    if options.due:
        if options.audits or options.all or options.no_store or one_off_settings(options):
            raise ConfigError("--due cannot be combined with audit names, --all, --no-store, --keys, --times, --method or --t")
        return _due(options)
    if options.all and options.audits:
        raise ConfigError("--all cannot be combined with audit names; write one of them")
    if not options.audits and not options.all:
        raise ConfigError("no audit given; name audits or patterns of their names, or use --all or --due (auditor ls lists the audits)")
    configured, wanted = with_groups(load_settings(options), options.audits)
    known = [*configured.audits, *configured.segments]
    wanted = select_audits(known, wanted) if wanted else known
    if not wanted:
        raise ConfigError("the configuration has no audits; write them under audits: in auditor.yaml")
    of_tables = [name for name in wanted if name not in configured.segments]
    with prefetch.connecting(configured, of_tables[0]) if of_tables else nullcontext():
        return _run_named(options, configured, wanted)


def _run_named(options: argparse.Namespace, configured: Settings, wanted: list[str]) -> int:
    from auditor import service
    from auditor.cli._progress import watching

    of_tables = [name for name in wanted if name not in configured.segments]
    names = [*(service.expand_legs(configured, of_tables) if of_tables else []), *(name for name in wanted if name in configured.segments)]
    overrides = one_off_settings(options) | {name: True for name in PERMISSIONS if getattr(options, name)}
    reports: list[Report] = []
    error_codes: list[int] = []
    chains: dict[str, Combined] = {}
    rolling: dict[str, RollingTable] = {}
    with (
        open_optional_store(configured, options.no_store) as store,
        shared_statement_slots(store),
        watching(options.quiet) as watch,
        notifying(configured, store) as notify,
    ):
        for name in names:
            try:
                report = _run_one(options, configured, store, name, watch, overrides)
            except AuditorError as error:  # the other audits still run and are reported
                print(f"auditor: {name}: {error}", file=sys.stderr)
                error_codes.append(error.exit_code)
                continue
            reports.append(report)
            notify(report)
            if report.state is State.CANCELLED:
                break
        if store and not one_off_settings(options):
            from auditor.service.stored_runs import rolling_table

            rolling = {r.audit: table for r in reports if r.covered < 1 and (table := rolling_table(store, r.audit))}
            chains = {name: service.combined(configured, store, name) for name in of_tables if service.audit(configured, name).via}
    code = worst_exit_code([print_reports(reports, options) if reports else 0, *error_codes])
    print_where_stored(reports, store, options)
    if options.format == "text" and (rolling or chains):
        from auditor.report import listing

        for name, table in rolling.items():
            console().print(listing.whole_table(name, table))
        for name, combined in chains.items():
            console().print(listing.combined(name, combined))
    return code


def _run_one(
    options: argparse.Namespace, configured: Settings, store: Store | None, name: str, watch: OnProgress, overrides: dict[str, Any]
) -> Report:
    """Run an audit of tables or of segments."""
    from auditor import service

    requested = {"reason": options.reason, "requested_by": current_user()}
    if name not in configured.segments:
        return service.run_audit(configured, name, watch, store, **requested, overrides=overrides)
    if store is None or overrides:
        raise ConfigError(
            f"{name} compares segments, by a register in the store; run it without --no-store, --keys, --times, --method, --t, --force and"
            " --rescan"
        )
    from auditor.service import segment_audits  # which loads the store's library

    return segment_audits.run(configured, store, name, **requested)


def _due(options: argparse.Namespace) -> int:
    """Request the audits that are due, and run everything pending."""
    from auditor.service import scheduler, workers
    from auditor.store import leases

    with settings_and_store(options) as (loaded, store):
        configured = with_known_groups(loaded)
        try:
            scheduler.request_due(configured, store, dt.datetime.now(dt.UTC), str(leases.this_process()))
        except QueueFull as error:  # the pending runs are still carried out
            print(f"auditor: {error}", file=sys.stderr)
        with shared_statement_slots(store):
            reports = list(workers.run_pending(configured, store))
    code = print_reports(reports, options) if reports else 0
    print_where_stored(reports, store, options)
    return code


def compare(options: argparse.Namespace) -> int:
    """Compare saved results."""
    from auditor import service

    audit = load_settings(options).audit(options.audit) if options.audit else None
    return print_reports([service.compare_files(Path(options.source), Path(options.target), audit)], options)


def demo(options: argparse.Namespace) -> int:
    """Audit demonstration data with known faults."""
    from auditor.cli._progress import watching
    from auditor.demo import show

    with watching(options.quiet) as watch:
        result = show.run(options.source, options.target, Path(options.directory), options.rows, watch)
    if options.format == "text":
        console().print(result.preface, highlight=False)
    code = print_reports([result.report], options)
    if options.format == "text":
        console().print(result.epilogue, highlight=False, soft_wrap=True)
    return code


def schema(options: argparse.Namespace) -> int:
    """Print the statements that make an audit's target hold its source's rows."""
    from auditor.service import audits  # which loads the store's library
    from auditor.service.target_schema import print_schema

    configured = load_settings(options)
    with open_optional_store(configured) as store:
        known = audits.with_defined_audits(configured, store) if store else configured
    keys: dict[TableKey, Sequence[str]] = {"dist": options.dist_key, "sort": options.sort_key}
    data_output().writelines(print_schema(known, options.audit, create=options.create, keys=keys))
    return 0


def dump(options: argparse.Namespace) -> int:
    """Write a dump of an audit's source, which stands in for it, and print where it is, of which moment, and how many rows it has."""
    from auditor.service import dumps

    with settings_and_store(options) as (configured, store):
        folder, dumped = dumps.dump(configured, store, config.find_file(options.config), options.audit, options.master, current_user())
    if options.format == "json":
        print_json({"folder": str(folder), **dataclasses.asdict(dumped), "as_of": dumped.as_of.isoformat()})
        return 0
    where = f", at {dumped.position}" if dumped.position else f"; position: not known, because {dumped.why_unknown}"
    print(f"dumped {dumped.rows:,} rows as of {dumped.as_of:%Y-%m-%d %H:%M:%S} UTC{where}")
    print(f"  {folder}: {dumped.files:,} files by {dumped.connections} connections, {dumped.memory / 1e6:,.0f} MB of memory in the task")
    print(f"  audit it: auditor run {shell_word(options.audit)}")
    return 0
