"""The commands that list: audits with what they stand at, what they cost, and the partitions and differences of a run."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.cli._output import console, data_output, find_audits, print_json, print_unaudited, settings_and_store, write_private
from auditor.errors import ConfigError, UnknownAudit
from auditor.escaping import json_text
from auditor.report import difference_rows

if TYPE_CHECKING:
    from auditor.api_models.audit import ListedAudit
    from auditor.api_models.cost import Costs
    from auditor.api_models.run import Difference, Partition
    from auditor.config import Settings
    from auditor.store import Store


def ls(options: argparse.Namespace) -> int:
    """List audits, from the configuration and the store alone: no database is asked."""
    from auditor.config import describe_unknown
    from auditor.report import listing
    from auditor.service import audits
    from auditor.store import run_lifecycle

    with settings_and_store(options) as (configured, store):
        run_lifecycle.recover_runs(store)
        overviews = audits.overview(configured, store, trends=False)
        of_segments = _list_segment_audits(configured, store) if configured.segments else []
        known, wanted = find_audits(configured, options.audits, store, by_leg=True)
    names = [*(overview.name for overview in overviews), *(segment_audit.audit for segment_audit in of_segments)]
    is_told = print_unaudited(known)
    if unknown := [name for name in wanted if name not in names]:
        raise UnknownAudit(describe_unknown("audit", unknown[0], names))
    rows = [
        listing.listed(
            overview.name,
            overview.source,
            overview.target,
            overview.standing,
            overview.next_due,
            overview.paused,
            audits.as_table_status(overview.table),
        )
        for overview in overviews
        if overview.name in wanted
    ]
    rows += [segment_audit for segment_audit in of_segments if segment_audit.audit in wanted]
    return 0 if is_told and not rows and options.format == "text" else print_audits(rows, options)


def _list_segment_audits(configured: Settings, store: Store) -> list[ListedAudit]:
    from auditor.service import segment_audits  # which loads how they are run

    return segment_audits.list_listed(configured, store)


def print_audits(rows: list[ListedAudit], options: argparse.Namespace) -> int:
    """Print a list of audits in the format that the options name."""
    from auditor.report import listing

    if options.format == "json":
        print_json(rows)
    else:
        console().print(listing.audits(rows))
    return 0


def costs(options: argparse.Namespace) -> int:
    """Print what audits cost, from the store alone: no database is asked."""
    from auditor.service.costs import list_costs

    with settings_and_store(options) as (configured, store):
        return print_costs(list_costs(configured, store, first=options.since, days=options.days, by=options.by), options)


def print_costs(found: Costs, options: argparse.Namespace) -> int:
    """Print costs in the format that the options name."""
    from auditor.report import costs as as_text

    if options.format == "json":
        print_json(found)
    else:
        console().print(as_text.table(found))
    return 0


def differences(options: argparse.Namespace) -> int:
    """Print or write the stored differences of a run."""
    from auditor.cli._runs import find_run
    from auditor.service.stored_differences import iterate, select

    with settings_and_store(options) as (configured, store):
        run, _ = find_run(configured, store, options.run)
        selection = select(store, run.run)
        report, rows = selection.report, list(iterate(store, selection))
    return print_differences(rows, difference_rows.key_kinds(report.plan), options, has_shards=bool(report.shards))


def partitions(options: argparse.Namespace) -> int:
    """Print the partitions of a run."""
    from auditor.cli._runs import find_run
    from auditor.history import records

    with settings_and_store(options) as (configured, store):
        run, _ = find_run(configured, store, options.run)
        return print_partitions((one for _, one in records.iterate_partitions(store, run.run, options.state)), options)


def print_partitions(listed: Iterable[Partition], options: argparse.Namespace) -> int:
    """Print partitions in the format that the options name: of the equal ones only if they are asked for."""
    from auditor.report import listing

    chosen = (one for one in listed if options.all or options.state or one.state != "equal")
    if options.format == "json":
        print_json(list(chosen))
    elif options.format == "csv":
        data_output().writelines(listing.partition_lines(chosen))
    else:
        shown = list(chosen)
        nothing = f"no partition is in the state {options.state}" if options.state else "no partition differs"
        console().print(listing.partitions(shown) if shown else nothing)
    return 0


def print_differences(rows: Iterable[Difference], kinds: Mapping[str, str], options: argparse.Namespace, *, has_shards: bool) -> int:
    """Print differences, or write them to --output, in the format that the options name. Raises ConfigError."""
    if options.format == "parquet":
        if options.output is None and sys.stdout.isatty():
            raise ConfigError("Parquet is not text for a terminal; write it to a file with --output FILE")
        data = _parquet(rows, kinds)
        if options.output is None:
            sys.stdout.buffer.write(data)
    elif options.format == "json":
        data = (json_text(list(rows), indent=2) + "\n").encode()
    else:
        data = "".join(difference_rows.csv_lines(rows, list(kinds), has_shards=has_shards)).encode()
    if options.output is not None:
        write_private(Path(options.output), data)
        if not options.quiet:
            print(f"wrote {options.output}", file=sys.stderr)
    elif options.format != "parquet":
        data_output().write(data.decode())
    return 0


def _parquet(rows: Iterable[Difference], kinds: Mapping[str, str]) -> bytes:
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(difference_rows.to_arrow(rows, kinds), file)
    return file.getvalue()
