"""Commands about audits: check, plan, sql, compare, demo, schema and dump. To run them: `_run`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from auditor import config
from auditor.cli._output import (
    console,
    current_user,
    data_output,
    find_audits,
    load_settings,
    open_optional_store,
    print_json,
    print_reports,
    settings_and_store,
    worst_exit_code,
)
from auditor.config import find_unverified, find_unverified_brokers
from auditor.errors import AuditorError, StoreError
from auditor.escaping import shell_word
from auditor.quantities import plural

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.errors import AuditorError
    from auditor.store import Store
    from dialects.table_form import TableKey


def check(options: argparse.Namespace) -> int:
    """Connect to the databases, and print plans and problems."""
    from auditor import service
    from auditor.report import json as as_json
    from auditor.report import text

    configured = load_settings(options)
    problems: dict[str, AuditorError] = {}
    with ExitStack() as stack:
        store = None
        try:
            store = stack.enter_context(open_optional_store(configured))
        except StoreError as failure:  # plans can be made without earlier runs, but nothing can be run
            problems["store"] = failure
        configured, names = find_audits(configured, options.audits, store, asks_databases=True)
        wanted = [name for name in names if options.audits or name not in configured.segments]
        results = list(service.check(configured, service.expand_legs(configured, wanted), store))
        broken = _check_evidence(configured, store, wanted if options.audits else []) if store and configured.evidence else []
    if options.format == "json":
        print_json([as_json.checked(result.audit, result.error, result.plan) for result in results])
    else:
        for result in results:
            if result.plan:
                console().print(text.plan(result.plan) if options.verbose else text.plan_line(result.plan))
        if len(results) > 1:
            ready = sum(result.plan is not None for result in results)
            print(f"{ready:,} of {plural(len(results), 'audit')} can run" if ready < len(results) else f"all {ready:,} audits can run")
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
    configured = load_settings(options)
    with open_optional_store(configured) as store:
        configured, _ = find_audits(configured, [options.audit], store, asks_databases=True)
    data_output().write("\n".join(service.sql(configured, options.audit, sides, options.method).values()))
    return 0


def compare(options: argparse.Namespace) -> int:
    """Compare saved results."""
    from auditor import service

    audit = None
    if options.audit:
        configured = load_settings(options)
        with open_optional_store(configured, skip=options.audit in configured.audits) as store:
            audit = find_audits(configured, [options.audit], store)[0].audit(options.audit)
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
    from auditor.service.target_schema import print_schema

    configured = load_settings(options)
    with open_optional_store(configured) as store:
        known, _ = find_audits(configured, [options.audit], store, asks_databases=True)
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
