"""Differences as they leave the process: each by itself, as CSV and as an Arrow table. Masked values must be redacted before."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from auditor import model
from auditor.api_models.run import Difference, RowRange
from auditor.escaping import csv_line
from auditor.model import RangeDifference

if TYPE_CHECKING:
    import pyarrow as pa

    from auditor.api_models.report import RunReport

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of a cell that a spreadsheet would evaluate as a formula."""

COLUMNS = ("kind", "state", "range", "rows_in_source", "rows_in_target", "range_first", "range_last", "shards", "columns")
"""Columns of the Arrow table besides those of the key."""


FLAT_COLUMNS = {"column": "name", "source": "source", "target": "target", "reason": "reason"}
"""Columns of the flat table for the column that differs, with the fields of `ColumnValues` that they hold."""


def as_differences(differences: Iterable[model.Difference | RangeDifference]) -> Iterator[Difference]:
    """Yield differences as they leave the process, numbered from 1."""
    return itertools.starmap(as_difference, enumerate(differences, 1))


def as_difference(number: int, difference: model.Difference | RangeDifference) -> Difference:
    """Return a difference as it leaves the process; ``number`` is its position in its run's list."""
    if isinstance(difference, RangeDifference):
        first, last = (None if key is None else str(key) for key in (difference.first, difference.last))
        missing = difference.rows if difference.kind == "missing" else 0
        return Difference(
            **Difference.fields_of(difference, without=("rows", "shards")),
            number=number,
            key=None,
            range=RowRange(label=difference.label, first=first, last=last, rows=difference.rows, partitions=difference.partitions),
            rows={"source": missing, "target": difference.rows - missing},
            columns=(),
            rechecks=(),
            shards=tuple(difference.shards),
            doubled=False,
        )
    return Difference(
        **Difference.fields_of(difference), number=number, range=None, rechecks=difference.looks, doubled=difference.is_doubled
    )


def key_kinds(plan: model.Plan | None) -> dict[str, str]:
    """Return the kind of each key column by its name, as text; empty without a plan."""
    return {column.name: str(column.kind) for column in plan.key_columns} if plan else {}


def report_key_kinds(report: RunReport) -> dict[str, str]:
    """Return the same from a report that has left the process."""
    plan = report.plan
    return {column.name: column.kind for column in plan.columns if column.name in plan.key} if plan else {}


def to_arrow(rows: Iterable[Difference], kinds: Mapping[str, str]) -> pa.Table:
    """Return a table with one row for each difference; ``kinds`` are those of the key columns, by name.

    Its columns: ``kind``, ``state``, the key's, ``range`` (its label, where a difference is a range of rows that one side lacks),
    ``range_first``, ``range_last``, ``rows_in_source``, ``rows_in_target``, ``shards``, a list of those that hold the rows, and
    ``columns``, a list of structs with ``name``, ``source``, ``target`` and ``reason``. Keys of the kind integer are int64 as long as all
    of them fit, everything else is text. A key column whose name is taken begins with ``key_``.
    """
    import pyarrow as pa

    listed = list(rows)
    cells = pa.list_(pa.struct([(name, pa.string()) for name in ("name", "source", "target", "reason")]))
    integers = all(kind == "integer" for kind in kinds.values())
    keys = {_free_name(name): _numbers([(row.key or {}).get(name) for row in listed], kind == "integer") for name, kind in kinds.items()}
    columns: dict[str, Any] = {
        "kind": pa.array([row.kind for row in listed], pa.string()),
        "state": pa.array([row.state for row in listed], pa.string()),
        **keys,
        "range": pa.array([row.range and row.range.label for row in listed], pa.string()),
        "range_first": _numbers([row.range.first if row.range else None for row in listed], integers),
        "range_last": _numbers([row.range.last if row.range else None for row in listed], integers),
        "rows_in_source": pa.array([row.rows["source"] for row in listed], pa.int64()),
        "rows_in_target": pa.array([row.rows["target"] for row in listed], pa.int64()),
        "shards": pa.array([row.shards for row in listed], pa.list_(pa.string())),
        "columns": pa.array([[dict(column) for column in row.columns] for row in listed], cells),
    }
    return pa.table(columns)


def to_flat_arrow(rows: Iterable[Difference], kinds: Mapping[str, str]) -> pa.Table:
    """Return a table with one row for each column that differs of a changed row, and one for each other difference, as CSV has them.

    Its columns are those of `to_arrow`, with ``column``, ``source``, ``target`` and ``reason`` in place of ``columns``, and the names of
    ``shards`` with commas between.
    """
    import pyarrow as pa

    cells = [(row, column) for row in rows for column in (row.columns or (None,))]
    table = to_arrow([row for row, _ in cells], kinds).drop_columns(["columns", "shards"])
    table = table.rename_columns([f"key_{name}" if name in kinds and name in FLAT_COLUMNS else name for name in table.column_names])
    table = table.append_column("shards", pa.array([", ".join(row.shards) or None for row, _ in cells], pa.string()))
    for name, field in FLAT_COLUMNS.items():
        table = table.append_column(name, pa.array([column and getattr(column, field) for _, column in cells], pa.string()))
    return table


def _free_name(name: str) -> str:
    return f"key_{name}" if name in COLUMNS else name


def _numbers(texts: Sequence[str | None], are_integers: bool) -> pa.Array:
    """Return these keys as int64 if all of them are such numbers, else as text; one that is masked is no number."""
    import pyarrow as pa

    if are_integers:
        try:
            return pa.array([None if text is None else int(text) for text in texts], pa.int64())
        except (ValueError, OverflowError):
            pass  # a masked key, or one beyond 64 bits
    return pa.array(texts, pa.string())


def csv_lines(rows: Iterable[Difference], keys: Sequence[str], *, has_shards: bool = False) -> Iterator[str]:
    """Yield the differences as CSV: a header, then a line for each column of each difference; ``keys`` are the names of the key columns.

    NULL is an empty cell without quotes. An apostrophe precedes text that a spreadsheet would evaluate as a formula. Where the source
    ``has_shards``, a column names those that hold the row.
    """
    more = ["shards"] if has_shards else []
    yield spreadsheet_line(
        ["kind", "state", *more, *keys, "range", "rows_in_source", "rows_in_target", "column", "source", "target", "reason"]
    )
    for difference in rows:
        key = difference.key or {}
        span = difference.range.label if difference.range else None
        shards = [" and ".join(difference.shards) or None] if has_shards else []
        known = (difference.rows["source"], difference.rows["target"])
        start = [difference.kind, difference.state, *shards, *(key.get(name) for name in keys), span, *known]
        columns: list[tuple[str | None, ...]] = [
            (column.name, column.source, column.target, column.reason or None) for column in difference.columns
        ]
        for column in columns or [(None, None, None, None)]:
            yield spreadsheet_line([*start, *column])


def spreadsheet_line(cells: Sequence[str | int | None]) -> str:
    """Return a line of CSV in which no text is evaluated as a formula."""
    return csv_line([_escape_formula(cell) if isinstance(cell, str) else cell for cell in cells], end="\r\n")


def _escape_formula(text: str) -> str:
    # Spreadsheets also evaluate formulas after leading spaces, and with full-width signs.
    start = text.lstrip()[:1].translate({0xFF1D: "=", 0xFF0B: "+", 0xFF0D: "-", 0xFF20: "@"})
    if not text.startswith(FORMULA_STARTS) and start not in FORMULA_STARTS[:4]:
        return text
    number = text.removeprefix("-").replace(".", "", 1)
    return text if number.isascii() and number.isdigit() else f"'{text}"
