"""``auditor diff``: compare two tables that the command line names, without a configuration or a store."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from auditor.cli._output import print_reports

if TYPE_CHECKING:
    from auditor.model import Report

URL_AND_TABLE = 2


def diff(options: argparse.Namespace) -> int:
    """Compare two tables and print the report, or only the differences as CSV."""
    from auditor.cli._progress import watching
    from auditor.service.two_tables import audit_tables

    source, target = _pairs(options.tables)
    settings = {"columns": {"include": options.columns}, "where": options.where}
    if options.limit:
        settings["limits"] = {"max_differences": options.limit}
    with watching(options.quiet) as watch:
        report = audit_tables(source, target, key=options.key, name=source[1], options=settings, on_progress=watch, patient=False)
    if options.format == "csv":
        return _print_csv(report)
    return print_reports([report], options)


def _pairs(given: list[str]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return URL and table of both sides; with three arguments both tables are behind one URL. Raises ConfigError."""
    from auditor.errors import ConfigError

    urls = ["://" in text for text in given]
    if urls == [True, False, False]:
        return (given[0], given[1]), (given[0], given[2])
    if urls == [True, False, True, False]:
        return (given[0], given[1]), (given[2], given[3])
    raise ConfigError("write URL1 TABLE1 URL2 TABLE2, or URL TABLE1 TABLE2 where both tables are in one database")


def _print_csv(report: Report) -> int:
    """Print the differences as CSV, and the verdict to standard error, because CSV has no place for it."""
    from auditor.report import difference_rows, formatting
    from auditor.report.redact import redact

    differences = redact(report).differences
    rows = [] if differences is None else map(difference_rows.to_row, differences)
    for line in difference_rows.csv_lines(rows, list(difference_rows.key_kinds(report.plan))):
        sys.stdout.write(line)
    reasons = "; ".join(map(formatting.sentence, report.reasons))
    print(f"auditor: {report.verdict.value.upper()}  {formatting.visible(report.audit)}: {reasons}", file=sys.stderr)
    for line in formatting.hidden(report):
        print(f"auditor: not compared: {line}", file=sys.stderr)
    return report.exit_code
