"""The differences that a run kept, as they may be shown: page by page, and all of them as a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import TypeAdapter

from auditor import keep
from auditor.errors import UnknownRun
from auditor.model import Difference, RangeDifference, Report
from auditor.report.shown import shown
from auditor.store import Store, runs
from auditor.store.runs import Kept

BLOCK = 1000
"""Differences that a file's writer reads at a time."""

LAST = 2**53
"""A number that no difference has, however large the one is that somebody asks for."""

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""What a cell begins with that a spreadsheet would take for a formula."""

Kind = Literal["missing", "extra", "changed"]
Settled = Literal["confirmed", "unsettled"]

_NAMED = TypeAdapter(Difference)
_RANGE = TypeAdapter(RangeDifference)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which differences of which run; its report says what of them may be shown."""

    report: Report
    kind: Kind | None = None
    state: Settled | None = None


def of(store: Store, run: str, kind: Kind | None = None, state: Settled | None = None) -> Asked:
    """The differences of a run. Raises UnknownRun where it goes on, or has named none."""
    found = keep.report(store, run, most=0)
    if found is None or found.differences is None:
        raise UnknownRun(f"run {run} has named no differences{'' if found else ' yet'}")
    return Asked(found, kind, state)


def page(store: Store, asked: Asked, after: int, limit: int) -> list[dict[str, Any]]:
    """Some differences, after the one of this number."""
    after = max(0, min(after, LAST))
    kept = runs.differences(store, asked.report.run, kind=asked.kind, state=asked.state, after=after, limit=limit)
    found = _shown(asked.report, [one for _, one in kept])
    return [{"number": number, **_plain(one)} for (number, _), one in zip(kept, found, strict=True)]


def _shown(report: Report, kept: Sequence[Kept]) -> list[Difference | RangeDifference]:
    """These without what masked columns hold, in their order."""
    found: list[Difference | RangeDifference] = [_range(one) if one.range is not None else _named(one) for one in kept]
    named = tuple(one for one in found if isinstance(one, Difference))
    ranges = tuple(one for one in found if isinstance(one, RangeDifference))
    assert report.differences is not None
    there = shown(replace(report, differences=replace(report.differences, named=named, ranges=ranges))).differences
    assert there is not None
    left: dict[type, Iterator[Any]] = {Difference: iter(there.named), RangeDifference: iter(there.ranges)}
    return [next(left[type(one)]) for one in found]


def _named(one: Kept) -> Difference:
    values = {"kind": one.kind, "key": one.key, "rows": one.rows, "columns": one.columns, "state": one.state, "looks": one.looks}
    return _NAMED.validate_python(values)


def _range(one: Kept) -> RangeDifference:
    return _RANGE.validate_python(one.range)


def _plain(one: Difference | RangeDifference) -> dict[str, Any]:
    if isinstance(one, RangeDifference):
        first, last = (None if key is None else str(key) for key in (one.first, one.last))
        span = {"label": one.label, "first": first, "last": last, "rows": one.rows, "partitions": one.partitions}
        sides = {"source": one.rows, "target": 0} if one.kind == "missing" else {"source": 0, "target": one.rows}
        return {"kind": one.kind, "state": one.state, "key": None, "range": span, "rows": sides, "columns": [], "looks": []}
    columns = [{"name": cell.name, "source": cell.source, "target": cell.target} for cell in one.columns]
    looks = [{"at": look.at.isoformat(), "seen": look.seen} for look in one.looks]
    key, rows = dict(one.key), dict(one.rows)
    return {"kind": one.kind, "state": one.state, "key": key, "range": None, "rows": rows, "columns": columns, "looks": looks}


def _every(store: Store, asked: Asked) -> Iterator[dict[str, Any]]:
    after = 0
    while found := page(store, asked, after, BLOCK):
        yield from found
        after = found[-1]["number"]


def ndjson(store: Store, asked: Asked) -> Iterator[str]:
    """A line for each difference."""
    for one in _every(store, asked):
        yield json.dumps(one, ensure_ascii=False) + "\n"


def as_csv(store: Store, asked: Asked) -> Iterator[str]:
    """A line for each column of each difference; NULL is an empty cell without quotes.

    A text that a spreadsheet would take for a formula has an apostrophe before it; JSON has every text as it is.
    """
    keys = [column.name for column in asked.report.plan.key_columns] if asked.report.plan else []
    yield _line(["kind", "state", *keys, "range", "rows_in_source", "rows_in_target", "column", "source", "target"])
    for one in _every(store, asked):
        key = one["key"] or {}
        start = [one["kind"], one["state"], *(key.get(name) for name in keys), (one["range"] or {}).get("label"), *one["rows"].values()]
        for column in one["columns"] or [{"name": None, "source": None, "target": None}]:
            yield _line([*start, column["name"], column["source"], column["target"]])


def _line(cells: list[Any]) -> str:
    return ",".join("" if cell is None else _cell(cell) for cell in cells) + "\r\n"


def _cell(cell: Any) -> str:
    if isinstance(cell, int):
        return str(cell)
    return '"' + _harmless(str(cell)).replace('"', '""') + '"'


def _harmless(text: str) -> str:
    # Spaces before it, and signs as wide as a Chinese character, do not keep a spreadsheet from it.
    start = text.lstrip()[:1].translate({0xFF1D: "=", 0xFF0B: "+", 0xFF0D: "-", 0xFF20: "@"})
    if not text.startswith(FORMULA) and start not in FORMULA[:4]:
        return text
    number = text.removeprefix("-").replace(".", "", 1)
    return text if number.isascii() and number.isdigit() else f"'{text}"
