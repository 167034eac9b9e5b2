"""Stored differences of a run with masked values hidden, filtered and sorted: as pages, CSV, NDJSON or Parquet.

How many a run stores is ``limits: {max_differences}`` of its audit, in ``auditor/config/_limits.py``.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, TypedDict

from auditor import model
from auditor.api_models.run import Difference
from auditor.errors import ConfigError, NoReport
from auditor.history import records
from auditor.masking import redact
from auditor.model import DifferenceKind, RangeDifference, Report, Settling
from auditor.report.difference_rows import as_difference, csv_lines, key_kinds, to_arrow
from auditor.store import Store, runs
from auditor.store.runs import StoredDifference

BATCH = 1000
"""Differences that are loaded at a time for a file."""

IN_ORDER = 200
"""Differences that are loaded at a time in an order other than that of their numbers."""

MAX_NUMBER = 2**53
"""Upper limit of a difference's number; larger positions in requests are cut to it."""


Order = Literal["number", "key", "-key"]
"""How differences are sorted: as the run found them, or by key, ascending or descending."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A run's differences, optionally of one kind and state, in one ``column``, or of one ``key``, in an order.

    Rows of which no column was read, as they were too many, are in no column. The report's plan says which columns are masked; a key
    that is masked is found by what is shown of it alone.
    """

    report: Report
    kind: DifferenceKind | None = None
    state: Settling | None = None
    column: str = ""
    key: str = ""
    order: Order = "number"

    def selects(self, difference: Difference) -> bool:
        """Return whether a difference has the column among those that differ, and the key; a range has the keys between its ends."""
        if self.column and all(column.name != self.column for column in difference.columns):
            return False
        return not self.key or _has_key(difference, self.key)


def _has_key(difference: Difference, text: str) -> bool:
    if difference.range is None:
        return difference.key is not None and text in difference.key.values()
    try:
        return int(difference.range.first or "") <= int(text) <= int(difference.range.last or "")
    except ValueError:
        return text in (difference.range.first, difference.range.last)


def select(
    store: Store,
    run: str,
    kind: DifferenceKind | None = None,
    state: Settling | None = None,
    *,
    column: str = "",
    key: str = "",
    order: Order = "number",
) -> Selection:
    """Select differences of a run.

    Raises UnknownRun, NoReport for one without a report, or with one without differences by key, and ConfigError for an order by keys that
    are masked, which it would reveal.
    """
    report = records.load_report(store, run, max_differences=0)
    if report is None or report.differences is None:
        raise NoReport(f"run {run} has no differences by key{'' if report else ' yet'}; see: auditor show {run[:12]}")
    if order != "number" and report.plan and any(name.masked for name in report.plan.key_columns):
        raise ConfigError("the key of this audit is masked, and an order by it would reveal values; leave the order out")
    return Selection(report, kind, state, column, key, order)


def list_page(store: Store, selection: Selection, after: int, limit: int) -> list[Difference]:
    """Return up to ``limit`` differences that come after the one of this number in the order of the selection; 0 for the first ones."""
    return list(islice(_scan(store, selection, max(0, min(after, MAX_NUMBER)), limit), limit))


class Filters(TypedDict):
    """What the store filters by."""

    kind: DifferenceKind | None
    state: Settling | None
    column: str
    key: str


def _scan(store: Store, selection: Selection, after: int, batch: int) -> Iterator[Difference]:
    """Yield the selected differences after the one of this number; ``batch`` is how many are loaded at a time, if nothing is filtered."""
    run = selection.report.run
    found: Filters = {"kind": selection.kind, "state": selection.state, "column": selection.column, "key": selection.key}
    size = BATCH if selection.column or selection.key else min(batch, BATCH)
    if selection.order == "number":
        while listed := runs.list_differences(store, run, after=after, limit=size, **found):
            yield from _present(selection, listed)
            after = listed[-1][0]
        return
    numbers = _order(store, selection)
    first = numbers.index(after) + 1 if after in numbers else 0
    for place in range(first, len(numbers), IN_ORDER):
        some = numbers[place : place + IN_ORDER].tolist()
        listed = runs.list_differences(store, run, numbers=some, limit=None, **found)
        yield from _present(selection, sorted(listed, key=lambda entry: some.index(entry[0])))


def _present(selection: Selection, listed: Sequence[tuple[int, StoredDifference]]) -> Iterator[Difference]:
    """Yield those of the stored differences that are selected, without masked values."""
    masked = mask(selection.report, [difference for _, difference in listed])
    for (number, _), difference in zip(listed, masked, strict=True):
        shown = as_difference(number, difference)
        if selection.selects(shown):
            yield shown


@lru_cache(maxsize=8)
def _order_of(store: Store, run: str, numeric: bool, descending: bool) -> array[int]:
    """Return the numbers of a run's differences in the order of their keys; a range counts as its first key. NULL comes first."""

    def position(entry: tuple[int, tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple((text is not None, int(text) if numeric and text is not None else 0, str(text)) for text in entry[1])

    ordered = sorted(runs.list_keys(store, run), key=position, reverse=descending)
    return array("q", [number for number, _ in ordered])


def _order(store: Store, selection: Selection) -> array[int]:
    kinds = key_kinds(selection.report.plan)
    numeric = bool(kinds) and all(kind == "integer" for kind in kinds.values())
    return _order_of(store, selection.report.run, numeric, selection.order == "-key")


def mask(report: Report, stored: Sequence[StoredDifference]) -> list[model.Difference | RangeDifference]:
    """Return these differences in their order, without the values of masked columns."""
    differences: list[model.Difference | RangeDifference] = [
        records.range_difference(difference) if difference.range is not None else records.row_difference(difference)
        for difference in stored
    ]
    named = tuple(difference for difference in differences if isinstance(difference, model.Difference))
    ranges = tuple(difference for difference in differences if isinstance(difference, RangeDifference))
    assert report.differences is not None
    masked = redact(replace(report, differences=replace(report.differences, named=named, ranges=ranges))).differences
    assert masked is not None
    named_left, ranges_left = iter(masked.named), iter(masked.ranges)
    return [next(named_left) if isinstance(difference, model.Difference) else next(ranges_left) for difference in differences]


def iterate(store: Store, selection: Selection) -> Iterator[Difference]:
    """Return the differences in the order of the selection."""
    return _scan(store, selection, 0, BATCH)


def as_ndjson(store: Store, selection: Selection) -> Iterator[str]:
    """Yield the differences as NDJSON: one JSON object per line."""
    for difference in iterate(store, selection):
        yield difference.to_json() + "\n"


def as_csv(store: Store, selection: Selection) -> Iterator[str]:
    """Return the differences as CSV: a header, then a line for each column of each difference.

    NULL is an empty cell without quotes. An apostrophe precedes text that a spreadsheet would evaluate as a formula; NDJSON has the
    text unchanged.
    """
    report = selection.report
    return csv_lines(iterate(store, selection), list(key_kinds(report.plan)), has_shards=bool(report.shards))


def as_parquet(store: Store, selection: Selection) -> bytes:
    """Return the differences as a Parquet file of the table that `difference_rows.to_arrow` describes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pa.BufferOutputStream()
    pq.write_table(to_arrow(iterate(store, selection), key_kinds(selection.report.plan)), file)
    return bytes(file.getvalue())


def list_columns(report: Report) -> list[str]:
    """Return the names of the columns that differences of a run can be in: those that were compared and are not of the key."""
    plan = report.plan
    return [column.name for column in plan.columns[plan.key :]] if plan else []
