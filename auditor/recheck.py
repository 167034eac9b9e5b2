"""Looking again at what differs before it is believed.

A difference is confirmed when it is still there at the last look, and neither side's rows have changed since the look before.
One whose rows changed in between, or are younger than the watermark, is still moving: unsettled. One that is gone is cleared.
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

    ``still`` says that neither side's rows had changed at the last look, ``young`` that one of them was younger than the watermark,
    ``split`` that it is of a range of which a part has arrived.
    """

    first: Difference
    now: Difference | None
    still: bool = False
    young: bool = False
    split: bool = False


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


def look_again(
    again: Again, found: Differences, recheck: Recheck | None, stopped: threading.Event, waiting: Callable[[str], None]
) -> Looked:
    """What of the differences is still there.

    Without ``recheck`` they are looked at once and at once, only to leave out rows younger than the watermark. ``waiting`` is told
    what is waited for. Raises StatementCancelled when ``stopped`` is set, and errors of the tree.
    """
    suspects = [_Suspect(one, one) for one in found.named]
    spans = {index: "confirmed" for index, _ in enumerate(found.ranges)}
    delays = [recheck.wait * recheck.backoff**i for i in range(recheck.times)] if recheck else [0.0]
    looks = 0
    for delay in delays:
        left = [one for one in suspects if one.now]
        open_spans = [index for index, state in spans.items() if state in ("confirmed", "unsettled")]
        if not left and not open_spans:
            break
        looks += 1
        if delay:
            waiting(f"waits {delay:g} s to look again at {len(left) + len(open_spans):,} differences ({looks} of {len(delays)})")
            if stopped.wait(delay):
                raise StatementCancelled
        _look_at(again, left)
        for index in open_spans:
            spans[index], rest = _range_now(again, found.ranges[index])
            suspects += rest
    return _concluded(found, suspects, spans, looks, moving=recheck is not None)


def _look_at(again: Again, suspects: Sequence[_Suspect]) -> None:
    """One look at these differences."""
    if not suspects:
        return
    keys: list[Key] = [tuple(one.first.key.values()) for one in suspects]
    seen: dict[Side, list[tuple[Row, Young]]] = again.ask(lambda side: list(again.fetch(side).again(keys, again.settled(side))))
    young = {row.key for side in SIDES for row, is_young in seen[side] if is_young}
    differences, _ = tolerance.named(again.plan, {side: [row for row, _ in seen[side]] for side in SIDES})
    by_key = {tuple(one.key.values()): one for one in differences}
    at = dt.datetime.now(dt.UTC)
    for one, key in zip(suspects, keys, strict=True):
        now = by_key.get(key)
        one.young = key in young
        one.still = now is not None and one.now is not None and now.hashes == one.now.hashes
        seen_as = "equal" if now is None else "in flight" if one.young else "same" if one.still else "moved"
        looks = (*(one.now or one.first).looks, Look(at, seen_as))
        one.now = dataclasses.replace(now, looks=looks) if now else None


def _range_now(again: Again, span: RangeDifference) -> tuple[str, list[_Suspect]]:
    """Whether a range that one side lacked is confirmed (it still has none of its rows), cleared, in flight, or unsettled.

    One of which a part has arrived is split, into what still differs of it.
    """
    here: Side = "source" if span.kind == "missing" else "target"
    lacking: Side = "target" if here == "source" else "source"
    counts: dict[Side, tuple[int, int]] = again.ask(lambda side: again.fetch(side).counted(span, again.settled(side)))
    rows, young = counts[here]
    if not counts[lacking][0]:
        return ("cleared" if not rows else "in_flight" if young == rows else "confirmed"), []
    if max(rows, counts[lacking][0]) > LISTED:
        return "unsettled", []
    listed: dict[Side, list[Row]] = again.ask(lambda side: list(again.fetch(side).within(span)))
    differences, _ = tolerance.named(again.plan, listed)
    rest = [_Suspect(one, one, split=True) for one in differences]
    _look_at(again, rest)  # at once, for what is young; that nothing moved in so short a time says nothing
    for one in rest:
        one.still = False
    return "split" if rest else "cleared", rest


def _concluded(found: Differences, suspects: Sequence[_Suspect], spans: Mapping[int, str], looks: int, *, moving: bool) -> Looked:
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
        if one.now and not one.young and (one.still or not moving):
            counts[one.now.kind] += 1
            named.append(one.now)
            continue
        state = "cleared" if one.now is None else "in_flight" if one.young else "unsettled"
        keys[state] += 1
        rows[state] += sum(one.first.rows.values())
        if one.now and state == "unsettled":
            named.append(dataclasses.replace(one.now, state="unsettled"))
    for index, span in enumerate(found.ranges):
        if spans[index] == "confirmed":
            ranges.append(span)
            continue
        counts[span.kind] -= span.rows
        state = "cleared" if spans[index] == "split" else spans[index]
        keys[state] += span.rows
        rows[state] += span.rows
        if spans[index] == "unsettled":
            ranges.append(dataclasses.replace(span, state="unsettled"))
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
