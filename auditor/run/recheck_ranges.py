"""Check range differences again: rows that are missing on one side, counted and not named.

A range is summed at each look: its rows and the words of their hashes, on both sides. While the sums are those of the look before, so
is the number of rows that differ. Once they are not, its rows are compared one by one, as far as they are few enough for that; else
those that are left are counted again where the other side has none of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from auditor.compare import tolerance
from auditor.compare.accounting import Row
from auditor.connections.reader import Reader
from auditor.model import Difference, Plan, RangeDifference, Side
from auditor.run.fetch import Fetcher, Sums
from dialects import Session

MAX_LISTED_ROWS = 100_000
"""Rows of a range that are compared one by one once they have changed."""

State = Literal["confirmed", "cleared", "in_flight", "unsettled", "split"]


@dataclass(frozen=True, slots=True)
class RangeSums:
    """What a look saw of a range: the sums of each side's rows, young ones among them or not."""

    everything: Mapping[Side, Sums]
    settled: Mapping[Side, Sums]

    @property
    def decisive(self) -> tuple[Sums, Sums]:
        """Return the sums on which the number of differing rows depends: young rows of the source excuse, those of the target do not."""
        return self.settled["source"], self.everything["target"]

    def young(self, side: Side) -> int:
        """Return how many rows of a side are young."""
        return self.everything[side][0] - self.settled[side][0]


@dataclass(slots=True)
class RangeSuspect:
    """A range difference under recheck."""

    range: RangeDifference
    """As the scan saw it."""
    rows: int
    """Rows that differed at the last look."""
    state: State = "confirmed"
    young: int = 0
    """Young rows of the source that no row of the target answers, at the last look."""
    sums: RangeSums | None = None
    """The sums at the last look, or in the scan's own snapshots; None if ``rows`` is not the number that belongs to them."""
    is_complete: bool = False
    """Whether the condition by which the range is rechecked finds as many rows as the scan counted."""


class Looker(Protocol):
    """Looks at the tables as they are now."""

    @property
    def plan(self) -> Plan:
        """The plan of the run."""

    @property
    def value_length(self) -> int:
        """Characters of a value that are shown."""

    def sums(self, span: RangeDifference) -> RangeSums:
        """Return the sums of a range."""

    def rows_of_range(self, span: RangeDifference) -> Mapping[Side, Sequence[Row]]:
        """Return the rows of a range, young ones among them."""


Ask = Callable[[Callable[[Side, Session], list[Sums]]], Mapping[Side, list[Sums]]]


def sum_range(ask: Ask, plan: Plan, span: RangeDifference) -> RangeSums:
    """Return the sums of a range."""
    settled = _add_up(ask(lambda side, session: [Fetcher(plan, side, session, 0).sum_range(span)]))
    if not plan.watermark and not any(side.settled for side in plan.sides.values()):
        return RangeSums(settled, settled)
    young = with_young_rows(plan)
    return RangeSums(_add_up(ask(lambda side, session: [Fetcher(young, side, session, 0).sum_range(span)])), settled)


def _add_up(by_side: Mapping[Side, Sequence[Sums]]) -> dict[Side, Sums]:
    """Return the sums of each side, which are those of its shards together."""
    return {side: tuple(map(sum, zip(*sums, strict=True))) for side, sums in by_side.items()}


def with_young_rows(plan: Plan) -> Plan:
    """Return the plan that reads rows in flight too."""
    return dataclasses.replace(plan, sides={side: dataclasses.replace(here, settled="") for side, here in plan.sides.items()})


def first_suspects(reader: Reader, plan: Plan, ranges: Sequence[RangeDifference], *, one_snapshot: bool) -> list[RangeSuspect]:
    """Return the ranges with their sums, as far as they are still read in the scan's own snapshots.

    ``one_snapshot`` says that both sides are seen as they were at the scan. Otherwise the sums belong to the number of rows that the scan
    counted only if the rows are as many, all on one side.
    """
    suspects = []
    for span in ranges:
        sums = sum_range(lambda work: reader.ask(work, fresh=True), plan, span)
        here, missing = _sides(span)
        same = one_snapshot or (sums.settled[here][0] == span.rows and not sums.settled[missing][0])
        complete = sums.settled[here][0] >= span.rows
        suspects.append(RangeSuspect(span, span.rows, sums=sums if same and not sums.young("target") else None, is_complete=complete))
    return suspects


def look_at_range(looker: Looker, span: RangeSuspect, *, must_stand_still: bool) -> list[Difference]:
    """Update a range by one look; return the rows that differ if they have to be rechecked one by one from here on."""
    here, missing = _sides(span.range)
    before, now = span.sums, looker.sums(span.range)
    is_one_sided = not now.everything[missing][0]
    if is_one_sided and not now.everything[here][0]:
        span.state = "cleared" if span.is_complete else "unsettled"
    elif is_one_sided and here == "source" and not now.settled[here][0]:
        span.state = "in_flight"  # of rows in the target alone none are: the source has no such rows, not even young ones
    elif before and now.decisive == before.decisive and not _may_be_explained(span, now):
        span.state, span.sums, span.young = "confirmed", now, now.young("source") if is_one_sided else 0
    elif _can_recount(looker.plan, span, now, is_one_sided) and not (must_stand_still and now.everything[here][0] <= MAX_LISTED_ROWS):
        span.rows, span.sums, span.young = now.settled[here][0], now, now.young("source")
        span.state = "unsettled" if must_stand_still else "confirmed"
    elif is_one_sided and not must_stand_still and not now.settled[here][0]:
        span.state = "unsettled"  # rows of the target that changed since they were seen settled, and one look cannot show whether they do
    elif max(now.everything[here][0], now.everything[missing][0]) > MAX_LISTED_ROWS:
        _settle_unlisted(span, now)
    else:
        span.state = "split"
        return tolerance.named_differences(looker.plan, looker.rows_of_range(span.range), looker.value_length)[0]
    return []


def _may_be_explained(span: RangeSuspect, now: RangeSums) -> bool:
    """Whether rows that only the target has can be older versions of rows that the source has written since."""
    return span.range.kind == "extra" and now.young("source") > 0


def _settle_unlisted(span: RangeSuspect, now: RangeSums) -> None:
    """Update a range with too many rows to list.

    Each young row of the source explains one extra row at most, so that the others of a range that stood still are confirmed.
    """
    unexplained = now.everything["target"][0] - now.everything["source"][0]
    if span.sums and now.decisive == span.sums.decisive and not now.settled["source"][0] and unexplained > 0:
        span.state, span.sums, span.rows, span.young = "confirmed", now, unexplained, now.young("source")
    else:
        span.state, span.sums = "unsettled", None


def _sides(span: RangeDifference) -> tuple[Side, Side]:
    """Return the side that has a range's rows, and the one where they are missing."""
    return ("source", "target") if span.kind == "missing" else ("target", "source")


def _can_recount(plan: Plan, span: RangeSuspect, now: RangeSums, is_one_sided: bool) -> bool:
    """Whether all settled rows of a range differ: not if the other side has some, perhaps at another time, or its rows just changed."""
    return is_one_sided and plan.partitioning.strategy != "time" and (span.range.kind == "missing" or not now.young("target"))
