"""The command that lists the differences of a run."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.cli._output import data_output, settings_and_store, write_private
from auditor.errors import ConfigError
from auditor.escaping import json_text
from auditor.report import difference_rows

if TYPE_CHECKING:
    from auditor.shapes.difference import Difference


def differences(options: argparse.Namespace) -> int:
    """Print or write the stored differences of a run."""
    from auditor.cli._runs import find_run
    from auditor.service.differences import iterate, select

    with settings_and_store(options) as (configured, store):
        run, _ = find_run(configured, store, options.run)
        selection = select(store, run.run)
        report, rows = selection.report, list(iterate(store, selection))
    return print_differences(rows, difference_rows.key_kinds(report.plan), options, has_shards=bool(report.shards))


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
