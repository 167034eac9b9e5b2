"""``auditor diff``: compare two tables that the command line names, without a configuration or a store."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from auditor.cli._output import data_output, print_reports
from auditor.cli._progress import watching
from auditor.errors import ConfigError
from auditor.service.running import audit_tables, is_query

if TYPE_CHECKING:
    from auditor.model import Report

OWN_OPTIONS = {
    "write key: [column, ...] in the audit": "name the columns that identify a row: -k COLUMN,..",
    "map it under target: columns: {source name: target name}, or exclude it": "name its column there (--rename), or --exclude it",
    "exclude it, or write columns: override": "leave it out (--exclude COLUMN,..), or write an audit with columns: override",
    "write columns: {exclude": "leave these out with --exclude: {exclude",
    "write columns: override": "write an audit with columns: override",
    "a slice of the table (--keys or --times)": "a part of the table (-w CONDITION)",
    "a slice of the table (--times)": "a part of the table (-w CONDITION)",
    " or partitions by time (partition: {strategy: time, column: ...})": "",
    "larger limits": "a larger --limit",
    "write allow_empty: true if that is right": "an audit can allow that (allow_empty: true)",
    "write force: true under the limits of connection": "write an audit with force: true under the limits of connection",
    "remove the convention, or state its parts": "leave out --convention, or write an audit that states its parts",
    "write convention: ": "write --convention ",
    'write where: {source: "...", target: "..."}, each in its own dialect': "or write an audit with a condition for each side",
}
"""What a reason says to write in an audit, and what it says to write for this command; the longer ones first."""


def diff(options: argparse.Namespace) -> int:
    """Compare two tables and print the report, or only the differences as CSV."""
    source, target = _pairs(options.tables)
    names = [table for _, table in (source, target) if not is_query(table)]
    if len(names) < 2 and not options.key:
        raise ConfigError("a query has no primary key; name the columns that identify a row: -k COLUMN,..")
    columns: dict[str, Any] = {"include": options.columns, "exclude": options.exclude}
    columns["override"] = {name: {"tolerance": tolerance} for name, tolerance in options.tolerance}
    settings: dict[str, Any] = {"columns": columns, "where": options.where, "convention": options.convention}
    settings["renamed"] = dict(options.rename)
    if options.threshold:
        settings["threshold"] = options.threshold
    if options.limit:
        settings["limits"] = {"max_differences": options.limit}
    with watching(options.quiet) as watch:
        name = names[0] if names else "queries"
        report = audit_tables(source, target, key=options.key, name=name, options=settings, on_progress=watch, patient=False)
    report = replace(report, reasons=tuple(map(with_own_options, report.reasons)))
    if options.format == "csv":
        return _print_csv(report)
    return print_reports([report], options)


def with_own_options(reason: str) -> str:
    """Return a reason with the options of this command in place of settings, which it has none of."""
    for setting, option in OWN_OPTIONS.items():
        reason = reason.replace(setting, option)
    return reason


def _pairs(given: list[str]) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return URL and table of both sides; with three arguments both tables are behind one URL. Raises ConfigError."""
    urls = ["://" in text for text in given]
    if urls == [True, False, False]:
        return (given[0], given[1]), (given[0], given[2])
    if urls == [True, False, True, False]:
        return (given[0], given[1]), (given[2], given[3])
    raise ConfigError("write URL1 TABLE1 URL2 TABLE2, or URL TABLE1 TABLE2 where both tables are in one database")


def _print_csv(report: Report) -> int:
    """Print the differences as CSV, and the verdict to standard error, because CSV has no place for it."""
    from auditor.masking import redact
    from auditor.report import difference_rows, formatting

    differences = redact(report).differences
    rows = difference_rows.as_differences(() if differences is None else differences)
    for line in difference_rows.csv_lines(rows, list(difference_rows.key_kinds(report.plan))):
        data_output().write(line)
    reasons = "; ".join(map(formatting.sentence, report.reasons))
    print(f"auditor: {report.verdict.value.upper()}  {formatting.visible(report.audit)}: {reasons}", file=sys.stderr)
    for line in formatting.hidden(report):
        print(f"auditor: not compared: {line}", file=sys.stderr)
    return report.exit_code
