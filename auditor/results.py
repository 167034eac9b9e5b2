"""Saved results: what a console's statement printed, read from a file, checked to be whole, and compared.

CSV or TSV with a header as the engines' own clients write it, JSON lines or a JSON array, or Parquet.
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

from auditor import summary
from auditor.compare import jaccard
from auditor.compare.comparator import Aligned, align, compare
from auditor.config import Threshold
from auditor.errors import ResultError
from auditor.model import SIDES, Comparison, Jaccard, Side
from auditor.summary import Summaries
from auditor.verdict import conclude

NULLS = frozenset({"", "NULL", "null", "\\N", "None"})
"""How clients write NULL; no column of a summary is text that could be one of these."""

WORD = 30
"""Bits of a signature word, on which nothing depends that is certain."""

Measures = tuple[str, ...]
"""Names of the columns of a counts result: ``sum_3`` is the sum of the fourth column."""

REQUIRED = ("partition_id", "row_count", "key_min", "key_max", "partition_count", "audit_plan")


@dataclass(frozen=True, slots=True)
class Saved:
    """One side's saved result: its summaries, the names of its columns, and the plan it was made by (None if it is empty)."""

    summaries: Summaries
    names: tuple[str, ...]
    audit: str | None
    plan: str | None


def compare_files(
    files: dict[Side, Path], *, threshold: Threshold | None = None, allow_empty: bool = False
) -> tuple[str, Comparison, Measures]:
    """The audit's name, the comparison of two saved results, and what else than rows was measured in them.

    A threshold of rows is held against the most rows that can differ in what differs.

    Raises ResultError for files that cannot be read, are cut short, or were not made by one plan.
    """
    saved = {side: load(files[side], side) for side in SIDES}
    plans = {one.plan for one in saved.values() if one.plan}
    if len(plans) > 1:
        raise ResultError(
            "the two files were made by different plans: print both statements again with auditor sql, both at once, and run both"
        )
    source, target = saved["source"], saved["target"]
    if len(source.summaries) and len(target.summaries) and source.names != target.names:
        raise ResultError("the two files have different columns: print both statements again with auditor sql, and run both")
    # A file without rows need not tell its columns: it has nothing in those of the other.
    kept = source.names if len(source.summaries) else target.names
    one, other = (each.summaries if len(each.summaries) else summary.read([], kept) for each in (source, target))
    names = [name for name in kept if re.fullmatch(r"(nulls|sum|min|max|characters|true)_\d+", name)]
    threshold = threshold or Threshold()
    aligned = align(one, other)
    found = compare(
        aligned,
        threshold=threshold.score,
        allow_empty=allow_empty,
        measures=names,
        label=lambda partition: "no key (NULL)" if partition is None else f"partition {partition:,}",
    )
    if "hashed" in kept:
        verdict, reasons = conclude(found, None, _similarity(aligned), threshold)
        found = replace(found, verdict=verdict, reasons=reasons)
    return source.audit or target.audit or "saved results", found, tuple(names)


def _similarity(aligned: Aligned) -> Jaccard | None:
    """How similar the two sides are for certain; its estimate is of use to nobody."""
    shared = aligned.on("source") & aligned.on("target")
    lone = [int(index) for index in np.flatnonzero(aligned.unequal & ~shared)]
    return jaccard.similarity(
        rows=sum(int(aligned.sides[side].rows.sum()) for side in SIDES),
        differing=sum(aligned.rows(side, index) for index in lone for side in SIDES),
        rest=jaccard.rest_of(aligned, np.flatnonzero(aligned.unequal & shared), {}, bits=WORD),
        unknown=aligned.skipped_rows,
    )


def load(path: Path, side: Side) -> Saved:
    """Read one side's file. Raises ResultError."""
    names, rows = _rows(path)
    names = [name.strip().lower() for name in names]
    missing = [name for name in _needed(names) if name not in names]
    if missing:
        raise ResultError(f"{path} lacks the column {missing[0]!r}: save the whole result of auditor sql's statement, with its header")
    where = {name: index for index, name in enumerate(names)}
    made_by = {str(row[where["audit_plan"]]) for row in rows}
    counts = {str(row[where["partition_count"]]) for row in rows}
    if len(made_by) > 1 or len(counts) > 1:
        raise ResultError(f"{path} holds the results of more than one statement")
    if rows:
        _check_whole(path, len(rows), next(iter(counts)))
    audit, plan = _made_by(made_by, path, side)
    kept = [name for name in names if name not in ("partition_count", "audit_plan")]
    columns: list[Sequence[Any]] = [[row[where[name]] for row in rows] for name in kept]
    try:
        summaries = summary.read([columns] if rows else [], kept)
    except (ValueError, TypeError, OverflowError) as error:
        raise ResultError(f"{path} holds something that is not a number where one belongs, or too large a one: {error}") from None
    return Saved(summaries, tuple(kept), audit, plan)


def _needed(names: Sequence[str]) -> list[str]:
    """The columns without which a result would say less than its statement asked."""
    if "hashed" not in names:
        return [*REQUIRED, "nulls_0"] if "nulls_0" in names else [*REQUIRED, "hashed"]
    exact = "syndrome_1" in names
    words = 4 if any(name.startswith("minhash_") for name in names) and not exact else 2
    return [*REQUIRED, *(f"word_{j}" for j in range(words))]


def _check_whole(path: Path, rows: int, told: str) -> None:
    """Whether the file has as many partitions as the statement counted."""
    if not re.fullmatch(r"[0-9]{1,18}(\.0)?", told):
        raise ResultError(f"{path}: partition_count should be a number and is {told!r}")
    count = int(float(told))
    if rows < count:
        raise ResultError(f"{path} holds {rows:,} of {count:,} partitions: it was cut short (a client's row limit?)")
    if rows > count:
        raise ResultError(f"{path} holds {rows:,} rows for {count:,} partitions: save the result of one statement only")


def _made_by(made_by: set[str], path: Path, side: Side) -> tuple[str | None, str | None]:
    if not made_by:
        return None, None
    found = re.fullmatch(r"(.*)/(\w+)/(source|target)", next(iter(made_by)), re.DOTALL)
    if not found:
        raise ResultError(f"{path} was not made by auditor sql: its audit_plan is {next(iter(made_by))!r}")
    audit, plan, made_for = found.groups()
    if made_for != side:
        raise ResultError(f"{path} is the {made_for}'s result, given as the {side}'s")
    return audit, plan


def _rows(path: Path) -> tuple[list[str], list[Sequence[Any]]]:
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            table = pq.read_table(path)
            return list(table.column_names), list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise ResultError(f"{path} cannot be read: {error}") from None
    return _json(text, path) if text.lstrip()[:1] in ("{", "[") else _delimited(text, path)


def _json(text: str, path: Path) -> tuple[list[str], list[Sequence[Any]]]:
    try:
        found = json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, and brackets within brackets, among them
        raise ResultError(f"{path} is no JSON that a result would be: {error}") from None
    if not found:
        return [*REQUIRED, "hashed", "word_0", "word_1"], []
    if not all(isinstance(record, dict) for record in found):
        raise ResultError(f"{path} should hold one JSON object for each partition")
    names = list(found[0])
    return names, [[record.get(name) for name in names] for record in found]


def _delimited(text: str, path: Path) -> tuple[list[str], list[Sequence[Any]]]:
    header = text.split("\n", 1)[0]
    delimiter = max("\t,;|", key=header.count)
    try:
        lines = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error as error:
        raise ResultError(f"{path} is no CSV: {error}") from None
    if not lines:
        raise ResultError(f"{path} is empty; save the statement's result with its header")
    names = [name.strip() for name in lines[0]]
    rows: list[Sequence[Any]] = []
    for number, line in enumerate(lines[1:], start=2):
        if not line or re.fullmatch(r"\(\d+ rows?\)", line[0].strip()):
            continue
        if len(line) != len(names):
            raise ResultError(f"{path}:{number}: {len(line)} values under {len(names)} column names")
        rows.append([None if value.strip() in NULLS else value.strip() for value in line])
    return names, rows
