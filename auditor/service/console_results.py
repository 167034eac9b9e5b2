"""Results saved from a console: read from files, checked for completeness, and compared.

A file is CSV or TSV with a header as the engines' clients write it, JSON lines, a JSON array, or Parquet (read by pyarrow). CSV and JSON
are read by the standard library: DuckDB rejects the row count that psql appends, and DuckDB and pyarrow round large integers in JSON to
floats.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from auditor import canonical
from auditor.compare import jaccard
from auditor.compare.comparator import Aligned, align, compare
from auditor.compare.verdict import conclude
from auditor.config import Threshold
from auditor.errors import ResultError
from auditor.model import SIDES, Comparison, Jaccard, Score, Side
from auditor.summary import arrays
from auditor.summary.arrays import Summaries

NULL_TEXTS = frozenset({"", "NULL", "null", "\\N", "None"})
"""How clients write NULL; no column of a summary can hold these as text."""

COMMAND_TAG = re.compile(r"SET|BEGIN|START TRANSACTION|COMMIT|ROLLBACK|RESET|Time: .*")
"""Lines that psql prints for the statements of a script that return no rows."""

WORD_BITS = 30
"""Bits of a signature word; only the estimated similarity depends on them, which is not used here."""

Measures = tuple[str, ...]
"""Names of the columns of a counts result: ``sum_3`` is the sum of the fourth column."""

TOTALS = ("partition_count", "total_rows")
"""Columns that hold the same number in every row: how many partitions the statement found, and how many rows in them."""

REQUIRED_COLUMNS = ("partition_id", "row_count", "key_min", "key_max", "partition_count", "total_rows", "audit_plan")


@dataclass(frozen=True, slots=True)
class SavedResult:
    """The saved result of one side: summaries, column names, and the audit and plan of its statement (None if it has no rows)."""

    summaries: Summaries
    names: tuple[str, ...]
    audit: str | None
    plan: str | None


def compare_files(
    files: dict[Side, Path], *, threshold: Threshold | None = None, allow_empty: bool = False
) -> tuple[str, Comparison, Measures]:
    """Compare two saved results; returns the audit's name, the comparison, and the names of the measures (only for ``counts``).

    The threshold is compared with the bounds of the similarity and of the rows that can differ in the unequal partitions; for ``counts``
    with the published score.

    Raises ResultError for files that cannot be read, are incomplete, or come from different plans.
    """
    saved = {side: load_result(files[side], side) for side in SIDES}
    plans = {result.plan for result in saved.values() if result.plan}
    if len(plans) > 1:
        raise ResultError("the two files come from different plans: print both statements again with one call of auditor sql, and run both")
    source, target = saved["source"], saved["target"]
    if len(source.summaries) and len(target.summaries) and source.names != target.names:
        raise ResultError("the two files have different columns: print both statements again with auditor sql, and run both")
    # A file without rows may lack columns; it is read as empty with the columns of the other file.
    columns = source.names if len(source.summaries) else target.names
    source_summaries, target_summaries = (
        result.summaries if len(result.summaries) else arrays.read([], columns) for result in (source, target)
    )
    measures = [name for name in columns if re.fullmatch(r"(nulls|sum|min|max|characters|true)_\d+", name)]
    threshold = threshold or Threshold()
    aligned = align(source_summaries, target_summaries)
    comparison = compare(
        aligned,
        threshold=1.0 if "hashed" in columns else threshold.score,
        allow_empty=allow_empty,
        measures=measures,
        label=lambda partition: "no key (NULL)" if partition is None else f"partition {partition:,}",
    )
    if "hashed" in columns:
        verdict, reasons = conclude(comparison, None, _similarity(aligned), threshold)
        comparison = replace(comparison, verdict=verdict, reasons=reasons)
    return source.audit or target.audit or "saved results", comparison, tuple(measures)


def _similarity(aligned: Aligned) -> Jaccard | None:
    """Return the certain bounds of the similarity of both sides, also in place of the 95 % ones, which need a plan."""
    shared = aligned.on_both
    one_sided = [int(index) for index in np.flatnonzero(aligned.unequal & ~shared)]
    found = jaccard.similarity(
        rows=sum(int(aligned.sides[side].rows.sum()) for side in SIDES),
        differing=sum(int(aligned.rows[side][index]) for index in one_sided for side in SIDES),
        rest=jaccard.select_unresolved(aligned, np.flatnonzero(aligned.unequal & shared), {}, bits=WORD_BITS),
        unknown=aligned.skipped_rows,
    )
    return replace(found, score=Score(found.score.value, found.least, found.most)) if found else None


def load_result(path: Path, side: Side) -> SavedResult:
    """Read and check the file of one side. Raises ResultError."""
    names, rows = _read_rows(path)
    names = [name.strip().lower() for name in names]
    missing = [name for name in _required_columns(names) if name not in names]
    if missing:
        raise ResultError(f"{path} lacks the column {missing[0]!r}: save the complete result of the auditor sql statement with its header")
    positions = {name: index for index, name in enumerate(names)}
    plan_labels = {str(row[positions["audit_plan"]]) for row in rows}
    totals = [{str(row[positions[name]]) for row in rows} for name in TOTALS]
    if len(plan_labels) > 1 or any(len(found) > 1 for found in totals):
        raise ResultError(f"{path} contains the results of more than one statement: save each result to its own file")
    partitions, total_rows = (_parse_total(path, name, next(iter(found), "0")) for name, found in zip(TOTALS, totals, strict=True))
    _check_complete(path, len(rows), partitions)
    audit, plan = _parse_plan_label(plan_labels, path, side)
    summary_names = [name for name in names if name not in (*TOTALS, "audit_plan")]
    columns: list[Sequence[Any]] = [[row[positions[name]] for row in rows] for name in summary_names]
    try:
        summaries = arrays.read([columns] if rows else [], summary_names)
    except (ValueError, TypeError, OverflowError) as error:
        raise ResultError(f"{path} contains an invalid or too large number: {error}") from None
    _check_unedited(path, summaries, len(rows), total_rows)
    return SavedResult(summaries, tuple(summary_names), audit, plan)


def _required_columns(names: Sequence[str]) -> list[str]:
    """Return the columns that a complete result has; which method it is of is inferred from the names."""
    if "hashed" not in names:
        return [*REQUIRED_COLUMNS, "nulls_0"] if "nulls_0" in names else [*REQUIRED_COLUMNS, "hashed"]
    exact = "syndrome_1" in names
    words = 4 if any(name.startswith("minhash_") for name in names) and not exact else 2
    return [*REQUIRED_COLUMNS, *(f"word_{j}" for j in range(words))]


def _parse_total(path: Path, name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}(\.0)?", text):
        raise ResultError(f"{path}: {name} must be a number, not {text!r}")
    return int(text.removesuffix(".0"))


def _check_complete(path: Path, lines: int, partitions: int) -> None:
    """Raise ResultError unless the file has as many lines as the statement found partitions."""
    if lines < partitions:
        raise ResultError(f"{path} contains {lines:,} of {partitions:,} partitions: save it again without the client's row limit")
    if lines > partitions:
        raise ResultError(f"{path} contains {lines:,} rows for {partitions:,} partitions: save the result of one statement only")


def _check_unedited(path: Path, summaries: Summaries, lines: int, total_rows: int) -> None:
    """Raise ResultError unless each line is of another partition, and the rows of all add up to those that the statement counted."""
    if len(summaries) < lines:
        raise ResultError(f"{path} contains a partition twice: it was edited; save the result of the statement as it is")
    rows = int(summaries.rows.sum())
    if rows != total_rows:
        raise ResultError(
            f"{path} contains partitions of {rows:,} rows, and the statement counted {total_rows:,}: it was edited, or cut and"
            " put together; save the result of the statement as it is"
        )


def _parse_plan_label(labels: set[str], path: Path, side: Side) -> tuple[str | None, str | None]:
    """Return audit and plan of the one label ``audit/plan/side``; (None, None) without rows. Raises ResultError."""
    if not labels:
        return None, None
    found = re.fullmatch(r"(.*)/(\w+)/(source|target)", next(iter(labels)), re.DOTALL)
    if not found:
        raise ResultError(f"{path} is not the result of a statement from auditor sql: its audit_plan is {next(iter(labels))!r}")
    audit, plan, labelled_side = found.groups()
    if not plan.startswith(f"v{canonical.VERSION}_"):
        raise ResultError(
            f"{path} is the result of a statement of another version of the auditor, which hashes rows in another way: print both"
            " statements again with auditor sql, and run both"
        )
    if labelled_side != side:
        raise ResultError(f"{path} is the result of the {labelled_side}, not of the {side}: check --source and --target")
    return audit, plan


def _read_rows(path: Path) -> tuple[list[str], list[Sequence[Any]]]:
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            return list(table.column_names), list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ResultError(f"{path} cannot be read: {error}") from None
    return _parse_json(text, path) if text.lstrip()[:1] in ("{", "[") else _parse_delimited(text, path)


def _parse_json(text: str, path: Path) -> tuple[list[str], list[Sequence[Any]]]:
    try:
        records = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:  # includes integers of thousands of digits and deep nesting
        raise ResultError(f"{path} is not valid JSON: {error}") from None
    if not records:
        return [*REQUIRED_COLUMNS, "hashed", "word_0", "word_1"], []
    if not all(isinstance(record, dict) for record in records):
        raise ResultError(f"{path} must contain one JSON object per partition")
    names = list(records[0])
    return names, [[record.get(name) for name in names] for record in records]


def _without_tags(text: str) -> str:
    """Return a client's output without the tags of statements before and after the result, as ``psql --csv -f`` prints them."""
    lines = text.splitlines(keepends=True)
    while lines and COMMAND_TAG.fullmatch(lines[0].strip()):
        del lines[0]
    while lines and COMMAND_TAG.fullmatch(lines[-1].strip()):
        del lines[-1]
    return "".join(lines)


def _parse_delimited(text: str, path: Path) -> tuple[list[str], list[Sequence[Any]]]:
    text = _without_tags(text)
    header = text.split("\n", 1)[0]
    delimiter = max("\t,;|", key=header.count)
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise ResultError(f"{path} is not valid CSV: {error}") from None
    if not lines:
        raise ResultError(f"{path} is empty: save the result of the statement with its header")
    names = [name.strip() for name in lines[0]]
    rows: list[Sequence[Any]] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line or re.fullmatch(r"\(\d+ rows?\)", line[0].strip()):
            continue
        if len(line) != len(names):
            raise ResultError(f"{path}:{number}: {len(line)} values for {len(names)} columns")
        rows.append([None if value.strip() in NULL_TEXTS else value.strip() for value in line])
    return names, rows
