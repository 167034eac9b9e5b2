"""Differences as rows of plain values: as JSON, as CSV and as an Arrow table. Masked values must be redacted before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from auditor.escaping import csv_line
from auditor.model import Difference, Plan, RangeDifference, Side

if TYPE_CHECKING:
    import pyarrow as pa

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of a cell that a spreadsheet would evaluate as a formula."""

COLUMNS = ("kind", "state", "range", "rows_in_source", "rows_in_target", "range_first", "range_last", "shards", "columns")
"""Columns of the Arrow table besides those of the key."""


class RangeJson(TypedDict):
    """A range of rows that one side lacks."""

    label: str
    first: str | None
    last: str | None
    rows: int
    partitions: int


class ColumnJson(TypedDict):
    """A column of a changed row."""

    name: str
    source: str | None
    target: str | None
    reason: str


class RecheckJson(TypedDict):
    """A recheck of a difference."""

    at: str
    seen: str


class DifferenceRow(TypedDict):
    """A difference: by its key, or a range of keys."""

    kind: Literal["missing", "extra", "changed"]
    state: Literal["confirmed", "unsettled"]
    key: dict[str, str | None] | None
    range: RangeJson | None
    rows: dict[Side, int]
    columns: list[ColumnJson]
    rechecks: list[RecheckJson]
    shards: list[str]
    doubled: bool


def to_row(one: Difference | RangeDifference) -> DifferenceRow:
    """Return a difference as plain values, as the HTTP API describes them."""
    if isinstance(one, RangeDifference):
        first, last = (None if key is None else str(key) for key in (one.first, one.last))
        span: RangeJson = {"label": one.label, "first": first, "last": last, "rows": one.rows, "partitions": one.partitions}
        sides: dict[Side, int] = {"source": one.rows, "target": 0} if one.kind == "missing" else {"source": 0, "target": one.rows}
        return {
            "kind": one.kind,
            "state": one.state,
            "key": None,
            "range": span,
            "rows": sides,
            "columns": [],
            "rechecks": [],
            "shards": list(one.shards),
            "doubled": False,
        }
    columns: list[ColumnJson] = [
        {"name": cell.name, "source": cell.source, "target": cell.target, "reason": cell.reason} for cell in one.columns
    ]
    rechecks: list[RecheckJson] = [{"at": look.at.isoformat(), "seen": look.seen} for look in one.looks]
    key, rows = dict(one.key), dict(one.rows)
    return {
        "kind": one.kind,
        "state": one.state,
        "key": key,
        "range": None,
        "rows": rows,
        "columns": columns,
        "rechecks": rechecks,
        "shards": list(one.shards),
        "doubled": one.is_doubled,
    }


def key_kinds(plan: Plan | None) -> dict[str, str]:
    """Return the kind of each key column by its name, as text; empty without a plan."""
    return {column.name: str(column.kind) for column in plan.key_columns} if plan else {}


def report_key_kinds(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the same from a report as JSON."""
    plan = report["plan"]
    return {column["name"]: column["kind"] for column in plan["columns"] if column["name"] in plan["key"]} if plan else {}


def to_arrow(rows: Iterable[DifferenceRow], kinds: Mapping[str, str]) -> pa.Table:
    """Return a table with one row for each difference; ``kinds`` are those of the key columns, by name.

    Its columns: ``kind``, ``state``, the key's, ``range`` (its label, where a difference is a range of rows that one side lacks),
    ``range_first``, ``range_last``, ``rows_in_source``, ``rows_in_target``, ``shards``, a list of those that hold the rows, and
    ``columns``, a list of structs with ``name``, ``source``, ``target`` and ``reason``. Keys of the kind integer are int64 as long as all
    of them fit, everything else is text. A key column whose name is taken begins with ``key_``.
    """
    import pyarrow as pa

    found = list(rows)
    cells = pa.list_(pa.struct([(name, pa.string()) for name in ("name", "source", "target", "reason")]))
    integers = all(kind == "integer" for kind in kinds.values())
    keys = {_free_name(name): _numbers([(row["key"] or {}).get(name) for row in found], kind == "integer") for name, kind in kinds.items()}
    columns: dict[str, Any] = {
        "kind": pa.array([row["kind"] for row in found], pa.string()),
        "state": pa.array([row["state"] for row in found], pa.string()),
        **keys,
        "range": pa.array([row["range"] and row["range"]["label"] for row in found], pa.string()),
        "range_first": _numbers([row["range"] and row["range"]["first"] for row in found], integers),
        "range_last": _numbers([row["range"] and row["range"]["last"] for row in found], integers),
        "rows_in_source": pa.array([row["rows"]["source"] for row in found], pa.int64()),
        "rows_in_target": pa.array([row["rows"]["target"] for row in found], pa.int64()),
        "shards": pa.array([row["shards"] for row in found], pa.list_(pa.string())),
        "columns": pa.array([row["columns"] for row in found], cells),
    }
    return pa.table(columns)


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


def csv_lines(rows: Iterable[DifferenceRow], keys: Sequence[str], *, has_shards: bool = False) -> Iterator[str]:
    """Yield the differences as CSV: a header, then a line for each column of each difference; ``keys`` are the names of the key columns.

    NULL is an empty cell without quotes. An apostrophe precedes text that a spreadsheet would evaluate as a formula. Where the source
    ``has_shards``, a column names those that hold the row.
    """
    more = ["shards"] if has_shards else []
    yield _csv_line(["kind", "state", *more, *keys, "range", "rows_in_source", "rows_in_target", "column", "source", "target", "reason"])
    for one in rows:
        key = one["key"] or {}
        span = one["range"]["label"] if one["range"] else None
        shards = [" and ".join(one["shards"]) or None] if has_shards else []
        known = (one["rows"]["source"], one["rows"]["target"])
        start = [one["kind"], one["state"], *shards, *(key.get(name) for name in keys), span, *known]
        columns: list[tuple[str | None, ...]] = [
            (column["name"], column["source"], column["target"], column["reason"] or None) for column in one["columns"]
        ]
        for column in columns or [(None, None, None, None)]:
            yield _csv_line([*start, *column])


def _csv_line(cells: Sequence[str | int | None]) -> str:
    return csv_line([_escape_formula(cell) if isinstance(cell, str) else cell for cell in cells], end="\r\n")


def _escape_formula(text: str) -> str:
    # Spreadsheets also evaluate formulas after leading spaces, and with full-width signs.
    start = text.lstrip()[:1].translate({0xFF1D: "=", 0xFF0B: "+", 0xFF0D: "-", 0xFF20: "@"})
    if not text.startswith(FORMULA_STARTS) and start not in FORMULA_STARTS[:4]:
        return text
    number = text.removeprefix("-").replace(".", "", 1)
    return text if number.isascii() and number.isdigit() else f"'{text}"
