"""Stored differences of a run with masked values hidden: as pages, CSV or NDJSON.

How many a run stores is ``limits: {max_differences}`` of its audit, in ``auditor/config/_limits.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from auditor import model
from auditor.api_models.run import Difference
from auditor.errors import NoReport
from auditor.history import records
from auditor.masking import redact
from auditor.model import DifferenceKind, RangeDifference, Report, Settling
from auditor.report.difference_rows import as_difference, csv_lines, key_kinds
from auditor.store import Store, runs
from auditor.store.runs import StoredDifference

BATCH = 1000
"""Differences that are loaded at a time for a file."""

MAX_NUMBER = 2**53
"""Upper limit of a difference's number; larger positions in requests are cut to it."""


@dataclass(frozen=True, slots=True)
class Selection:
    """A run's differences, optionally of one kind and state. The report's plan says which columns are masked."""

    report: Report
    kind: DifferenceKind | None = None
    state: Settling | None = None


def select(store: Store, run: str, kind: DifferenceKind | None = None, state: Settling | None = None) -> Selection:
    """Select differences of a run. Raises UnknownRun, and NoReport for one without a report, or with one without differences by key."""
    report = records.load_report(store, run, max_differences=0)
    if report is None or report.differences is None:
        raise NoReport(f"run {run} has no differences by key{'' if report else ' yet'}; see: auditor show {run[:12]}")
    return Selection(report, kind, state)


def list_page(store: Store, selection: Selection, after: int, limit: int) -> list[Difference]:
    """Return up to ``limit`` differences whose number is greater than ``after``, ascending."""
    after = max(0, min(after, MAX_NUMBER))
    stored = runs.list_differences(store, selection.report.run, kind=selection.kind, state=selection.state, after=after, limit=limit)
    masked = mask(selection.report, [difference for _, difference in stored])
    return [as_difference(number, difference) for (number, _), difference in zip(stored, masked, strict=True)]


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
    """Yield the differences, ascending by number."""
    after = 0
    while page := list_page(store, selection, after, BATCH):
        yield from page
        after = page[-1].number


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
