"""Stored differences of a run with masked values hidden: as pages, CSV or NDJSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict

from pydantic import TypeAdapter

from auditor.errors import UnknownRun
from auditor.history import records
from auditor.model import Difference, RangeDifference, Report, Side
from auditor.report.redact import redact
from auditor.store import Store, runs
from auditor.store.runs import StoredDifference

BATCH = 1000
"""Differences that are loaded at a time for a file."""

MAX_NUMBER = 2**53
"""Upper limit of a difference's number; larger positions in requests are cut to it."""

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of a cell that a spreadsheet would evaluate as a formula."""

Kind = Literal["missing", "extra", "changed"]
DifferenceState = Literal["confirmed", "unsettled"]

_ROW_ADAPTER = TypeAdapter(Difference)
_RANGE_ADAPTER = TypeAdapter(RangeDifference)


class RangeJson(TypedDict):
    """A range of rows that one side lacks, as `schemas.RowRange` describes it."""

    label: str
    first: str | None
    last: str | None
    rows: int
    partitions: int


class ColumnJson(TypedDict):
    """A column of a changed row, as `schemas.ColumnValues` describes it."""

    name: str
    source: str | None
    target: str | None
    reason: str


class RecheckJson(TypedDict):
    """A recheck of a difference, as `schemas.Recheck` describes it."""

    at: str
    seen: str


class UnnumberedJson(TypedDict):
    """A difference without its number."""

    kind: Kind
    state: DifferenceState
    key: dict[str, str | None] | None
    range: RangeJson | None
    rows: dict[Side, int]
    columns: list[ColumnJson]
    rechecks: list[RecheckJson]


class DifferenceJson(UnnumberedJson):
    """A difference, as `schemas.Difference` describes it."""

    number: int


@dataclass(frozen=True, slots=True)
class Selection:
    """A run's differences, optionally of one kind and state. The report's plan says which columns are masked."""

    report: Report
    kind: Kind | None = None
    state: DifferenceState | None = None


def select(store: Store, run: str, kind: Kind | None = None, state: DifferenceState | None = None) -> Selection:
    """Select differences of a run. Raises UnknownRun if it has no report yet, or a report without differences by key."""
    found = records.load_report(store, run, max_differences=0)
    if found is None or found.differences is None:
        raise UnknownRun(f"run {run} has no differences by key{'' if found else ' yet'}")
    return Selection(found, kind, state)


def list_page(store: Store, selection: Selection, after: int, limit: int) -> list[DifferenceJson]:
    """Return up to ``limit`` differences whose number is greater than ``after``, ascending."""
    after = max(0, min(after, MAX_NUMBER))
    stored = runs.list_differences(store, selection.report.run, kind=selection.kind, state=selection.state, after=after, limit=limit)
    masked = _mask(selection.report, [one for _, one in stored])
    return [{"number": number, **_as_json(one)} for (number, _), one in zip(stored, masked, strict=True)]


def _mask(report: Report, stored: Sequence[StoredDifference]) -> list[Difference | RangeDifference]:
    """Return these differences in their order, without the values of masked columns."""
    found: list[Difference | RangeDifference] = [
        _range_difference(one) if one.range is not None else _row_difference(one) for one in stored
    ]
    named = tuple(one for one in found if isinstance(one, Difference))
    ranges = tuple(one for one in found if isinstance(one, RangeDifference))
    assert report.differences is not None
    masked = redact(replace(report, differences=replace(report.differences, named=named, ranges=ranges))).differences
    assert masked is not None
    remaining: dict[type, Iterator[Difference | RangeDifference]] = {Difference: iter(masked.named), RangeDifference: iter(masked.ranges)}
    return [next(remaining[type(one)]) for one in found]


def _row_difference(one: StoredDifference) -> Difference:
    values = {"kind": one.kind, "key": one.key, "rows": one.rows, "columns": one.columns, "state": one.state, "looks": one.looks}
    return _ROW_ADAPTER.validate_python(values)


def _range_difference(one: StoredDifference) -> RangeDifference:
    return _RANGE_ADAPTER.validate_python(one.range)


def _as_json(one: Difference | RangeDifference) -> UnnumberedJson:
    if isinstance(one, RangeDifference):
        first, last = (None if key is None else str(key) for key in (one.first, one.last))
        span: RangeJson = {"label": one.label, "first": first, "last": last, "rows": one.rows, "partitions": one.partitions}
        sides: dict[Side, int] = {"source": one.rows, "target": 0} if one.kind == "missing" else {"source": 0, "target": one.rows}
        return {"kind": one.kind, "state": one.state, "key": None, "range": span, "rows": sides, "columns": [], "rechecks": []}
    columns: list[ColumnJson] = [
        {"name": cell.name, "source": cell.source, "target": cell.target, "reason": cell.reason} for cell in one.columns
    ]
    rechecks: list[RecheckJson] = [{"at": look.at.isoformat(), "seen": look.seen} for look in one.looks]
    key, rows = dict(one.key), dict(one.rows)
    return {"kind": one.kind, "state": one.state, "key": key, "range": None, "rows": rows, "columns": columns, "rechecks": rechecks}


def _iterate(store: Store, selection: Selection) -> Iterator[DifferenceJson]:
    after = 0
    while found := list_page(store, selection, after, BATCH):
        yield from found
        after = found[-1]["number"]


def as_ndjson(store: Store, selection: Selection) -> Iterator[str]:
    """Yield the differences as NDJSON: one JSON object per line."""
    for one in _iterate(store, selection):
        yield json.dumps(one, ensure_ascii=False) + "\n"


def as_csv(store: Store, selection: Selection) -> Iterator[str]:
    """Yield the differences as CSV: a header, then a line for each column of each difference.

    NULL is an empty cell without quotes. An apostrophe precedes text that a spreadsheet would evaluate as a formula; NDJSON has the
    text unchanged.
    """
    keys = [column.name for column in selection.report.plan.key_columns] if selection.report.plan else []
    yield _csv_line(["kind", "state", *keys, "range", "rows_in_source", "rows_in_target", "column", "source", "target", "reason"])
    for one in _iterate(store, selection):
        key = one["key"] or {}
        start = [
            one["kind"],
            one["state"],
            *(key.get(name) for name in keys),
            one["range"]["label"] if one["range"] else None,
            *one["rows"].values(),
        ]
        columns: list[tuple[str | None, ...]] = [
            (column["name"], column["source"], column["target"], column["reason"] or None) for column in one["columns"]
        ]
        for column in columns or [(None, None, None, None)]:
            yield _csv_line([*start, *column])


def _csv_line(cells: Sequence[str | int | None]) -> str:
    return ",".join("" if cell is None else _csv_cell(cell) for cell in cells) + "\r\n"


def _csv_cell(cell: str | int) -> str:
    if isinstance(cell, int):
        return str(cell)
    return '"' + _escape_formula(str(cell)).replace('"', '""') + '"'


def _escape_formula(text: str) -> str:
    # Spreadsheets also evaluate formulas after leading spaces, and with full-width signs.
    start = text.lstrip()[:1].translate({0xFF1D: "=", 0xFF0B: "+", 0xFF0D: "-", 0xFF20: "@"})
    if not text.startswith(FORMULA_STARTS) and start not in FORMULA_STARTS[:4]:
        return text
    number = text.removeprefix("-").replace(".", "", 1)
    return text if number.isascii() and number.isdigit() else f"'{text}"
