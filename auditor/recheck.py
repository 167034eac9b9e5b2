"""Looking again at what differs before it is believed.

A difference is confirmed when it is still there at the last look, and neither side's rows have changed since the look before.
One whose rows changed in between is still moving: unsettled. One that is gone is cleared.

A difference is in flight, and no difference, where rows of the *source* that are younger than the watermark explain it: they may
not have arrived yet. A time on the target excuses nothing. The target is what may be wrong, its times among it, and what is younger
there than the source's settled row was not sent by the source as it is now. Such a row may still have overtaken the look at the
source, so it is believed only if it is the same at two looks, and unsettled where there is but one.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditor import tolerance
from auditor.compare.account import Key, Row
from auditor.config import Recheck
from auditor.errors import StatementCancelled
from auditor.model import SIDES, Difference, Differences, Look, Plan, RangeDifference, Side
from auditor.rows import Fetcher, Young
from dialects import Session

LISTED = 100_000
"""Rows of a range that one side lacked which are compared one by one once both sides have them."""


@dataclass(slots=True)
class _Suspect:
    """A difference as it was last seen, None once it is gone.

    ``still`` says that neither side's rows had changed at the last look, ``in_flight`` that young rows of the source explain it,
    ``ahead`` that they do not and the target has a young row, ``split`` that it is of a range of which a part has arrived.
    """

    first: Difference
    now: Difference | None
    still: bool = False
    in_flight: bool = False
    ahead: bool = False
    split: bool = False


@dataclass(slots=True)
class _Span:
    """A range as it was last seen: what became of it, and the rows, and the young ones among them, of the side that has it."""

    range: RangeDifference
    state: str
    seen: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Looked:
    """The differences after all looks, and the rows that are no longer counted: equal by now or in flight, and still moving."""

    differences: Differences
    cleared: int
    unsettled: int


@dataclass(frozen=True, slots=True)
class Again:
    """How to look again: by which plan, each side's session of now, and how a piece of work is done on both sides at once."""

    plan: Plan
    session: Callable[[Side], Session]
    ask: Callable[[Callable[[Side], Any]], dict[Side, Any]]
    length: int

    def fetch(self, side: Side) -> Fetcher:
        """What fetches rows of a side, those in flight among them: they have to be seen to be left out."""
        everything = {s: dataclasses.replace(self.plan.sides[s], settled="") for s in SIDES}
        return Fetcher(dataclasses.replace(self.plan, sides=everything), side, self.session(side), self.length)

    def settled(self, side: Side) -> str:
        """The condition of rows that are no longer in flight."""
        return self.plan.sides[side].settled


def finds_ranges(again: Again, ranges: Sequence[RangeDifference]) -> bool:
    """Whether the conditions by which ranges are looked at again find as many rows as the scan counted, in the snapshots of now."""

    def found(side: Side) -> int:
        here = [one for one in ranges if (one.kind == "missing") == (side == "source")]
        return Fetcher(again.plan, side, again.session(side), again.length).summarised(here) - sum(one.rows for one in here)

    return not ranges or not any(again.ask(found).values())


def look_again(
    again: Again, found: Differences, recheck: Recheck | None, stopped: threading.Event, waiting: Callable[[str], None], *, sure: bool
) -> Looked:
    """What of the differences is still there.

    Without ``recheck`` they are looked at once and at once, only to leave out rows that are in flight. ``waiting`` is told what is
    waited for. ``sure`` says that the conditions of the ranges found their rows (``finds_ranges``): only then is one of which
    neither side has a row any more believed to be gone. Raises StatementCancelled when ``stopped`` is set, and errors of the tree.
    """
    suspects = [_Suspect(one, one) for one in found.named]
    spans = [_Span(one, "confirmed", (one.rows, 0)) for one in found.ranges]  # a scan sees settled rows alone
    delays = [recheck.wait * recheck.backoff**i for i in range(recheck.times)] if recheck else [0.0]
    looks = 0
    for delay in delays:
        left = [one for one in suspects if one.now]
        open_spans = [one for one in spans if one.state in ("confirmed", "unsettled")]
        if not left and not open_spans:
            break
        looks += 1
        if delay:
            waiting(f"waits {delay:g} s to look again at {len(left) + len(open_spans):,} differences ({looks} of {len(delays)})")
            if stopped.wait(delay):
                raise StatementCancelled
        _look_at(again, left)
        for span in open_spans:
            suspects += _look_at_range(again, span, sure)
    return _concluded(found, suspects, spans, looks, moving=recheck is not None)


def _look_at(again: Again, suspects: Sequence[_Suspect]) -> None:
    """One look at these differences."""
    if not suspects:
        return
    keys: list[Key] = [tuple(one.first.key.values()) for one in suspects]
    seen: dict[Side, list[tuple[Row, Young]]] = again.ask(lambda side: list(again.fetch(side).again(keys, again.settled(side))))
    in_flight = _in_flight(again.plan, seen)
    ahead = {row.key for row, is_young in seen["target"] if is_young} - in_flight
    differences, _ = tolerance.named(again.plan, {side: [row for row, _ in seen[side]] for side in SIDES})
    by_key = {tuple(one.key.values()): one for one in differences}
    at = dt.datetime.now(dt.UTC)
    for one, key in zip(suspects, keys, strict=True):
        now = by_key.get(key)
        one.in_flight, one.ahead = key in in_flight, key in ahead
        one.still = now is not None and one.now is not None and now.hashes == one.now.hashes
        seen_as = "equal" if now is None else "in flight" if one.in_flight else "same" if one.still else "moved"
        looks = (*(one.now or one.first).looks, Look(at, seen_as))
        one.now = dataclasses.replace(now, looks=looks) if now else None


def _in_flight(plan: Plan, seen: Mapping[Side, Sequence[tuple[Row, Young]]]) -> set[Key]:
    """The keys whose differences, if any, are explained by the source's young rows.

    They are where every settled row of the source has its equal in the target, and the target has no more rows beyond those than
    the source has young ones: each of these may have an older version there. Several rows can have one key, so that a young one
    must not hide what became of the others.
    """
    young = Counter(row.key for row, is_young in seen["source"] if is_young)
    settled = [row for row, is_young in seen["source"] if row.key in young and not is_young]
    there = [row for row, _ in seen["target"] if row.key in young]
    over, _ = tolerance.named(plan, {"source": settled, "target": there})
    by_key = {tuple(one.key.values()): one.rows for one in over}
    return {key for key in young if key not in by_key or (not by_key[key]["source"] and by_key[key]["target"] <= young[key])}


def _look_at_range(again: Again, span: _Span, sure: bool) -> list[_Suspect]:
    """One look at a range that one side lacked: confirmed (it still has none of its rows), cleared, in flight, or unsettled.

    One of which a part has arrived is split, into what still differs of it.
    """
    here: Side = "source" if span.range.kind == "missing" else "target"
    lacking: Side = "target" if here == "source" else "source"
    counts: dict[Side, tuple[int, int]] = again.ask(lambda side: again.fetch(side).counted(span.range, again.settled(side)))
    before, span.seen = span.seen, counts[here]
    rows, young = span.seen
    if not counts[lacking][0]:
        span.state = "confirmed" if rows else "cleared" if sure else "unsettled"
        if rows and young == rows:
            # Rows that the source just wrote are on their way. Those of a target alone are not, for the source has no such rows, not
            # even young ones: they are extra. But each changed since it was seen settled, so they are believed once they stand still.
            span.state = "in_flight" if here == "source" else "confirmed" if span.seen == before else "unsettled"
        return []
    if max(rows, counts[lacking][0]) > LISTED:
        span.state = "unsettled"
        return []
    listed: dict[Side, list[Row]] = again.ask(lambda side: list(again.fetch(side).within(span.range)))
    differences, _ = tolerance.named(again.plan, listed)
    rest = [_Suspect(one, one, split=True) for one in differences]
    _look_at(again, rest)  # at once, for what is young; that nothing moved in so short a time says nothing
    for one in rest:
        one.still = False
    span.state = "split" if rest else "cleared"
    return rest


def _concluded(found: Differences, suspects: Sequence[_Suspect], spans: Sequence[_Span], looks: int, *, moving: bool) -> Looked:
    counts = {"missing": found.missing, "extra": found.extra, "changed": found.changed}
    named: list[Difference] = []
    ranges: list[RangeDifference] = []
    keys = {"cleared": 0, "in_flight": 0, "unsettled": 0}
    rows = dict(keys)
    for one in suspects:
        if one.split:
            keys["cleared"] -= 1
            rows["cleared"] -= sum(one.first.rows.values())
        else:
            counts[one.first.kind] -= 1
        if one.now and not one.in_flight and (one.still or not (moving or one.ahead)):
            counts[one.now.kind] += 1
            named.append(one.now)
            continue
        state = "cleared" if one.now is None else "in_flight" if one.in_flight else "unsettled"
        keys[state] += 1
        rows[state] += sum(one.first.rows.values())
        if one.now and state == "unsettled":
            named.append(dataclasses.replace(one.now, state="unsettled"))
    for span in spans:
        if span.state == "confirmed":
            ranges.append(span.range)
            continue
        counts[span.range.kind] -= span.range.rows
        state = "cleared" if span.state == "split" else span.state
        keys[state] += span.range.rows
        rows[state] += span.range.rows
        if span.state == "unsettled":
            ranges.append(dataclasses.replace(span.range, state="unsettled"))
    for kind, count in _unseen(found).items():
        counts[kind] -= count
        keys["unsettled"] += count
        rows["unsettled"] += count * (2 if kind == "changed" else 1)
    differences = dataclasses.replace(
        found,
        missing=counts["missing"],
        extra=counts["extra"],
        changed=counts["changed"],
        named=tuple(named),
        ranges=tuple(ranges),
        unsettled=keys["unsettled"],
        in_flight=keys["in_flight"],
        cleared=keys["cleared"],
        looks=looks,
        exact=found.exact and not keys["unsettled"],
    )
    return Looked(differences, rows["cleared"] + rows["in_flight"], rows["unsettled"])


def _unseen(found: Differences) -> Counter[str]:
    """The differences, by their kind, that were counted and not named, so that nobody could look at them again."""
    counted = Counter({"missing": found.missing, "extra": found.extra, "changed": found.changed})
    counted -= Counter(one.kind for one in found.named)
    for span in found.ranges:
        counted[span.kind] -= span.rows
    return +counted
