"""Check differences again before they are believed.

A difference is confirmed when it is still there at the last look, and no row of its key has changed on either side since the look
before: neither its hash, nor when it was written, where a column says so. One whose rows changed in between has moved and gets further
looks; if it still moves at the last of these it is unsettled. One that is gone is cleared.

A difference is in flight, and no difference, where rows of the *source* that are younger than the watermark explain it: they may
not have arrived yet. A time on the target excuses nothing. The target is what may be wrong, its times among it, and what is younger
there than the source's settled row was not sent by the source as it is now. Such a row may still have overtaken the look at the
source, so it is believed only if it is the same at two looks, and unsettled if there was only one.

A range difference, whose rows are missing on one side, counted and not named, is summed at each look: its rows and the words of their
hashes, on both sides. While the sums are those of the look before, so is the number of rows that differ. Once they are not, its rows are
compared one by one, as far as they are few enough for that; else those that are left are counted again where the other side has none of
them.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from auditor.compare import tolerance
from auditor.compare.accounting import Key, Row
from auditor.config import Recheck
from auditor.connections.reader import Reader
from auditor.errors import StatementCancelled
from auditor.model import SIDES, Difference, Differences, Look, Plan, RangeDifference, Side
from auditor.run.fetch import Age, Fetcher, Sums
from dialects import Session

KeyState = tuple[tuple[tuple[str, str], ...], ...]
"""For each side the hashes of a key's rows, each with when the row was written."""

MAX_LISTED_ROWS = 100_000
"""Rows of a range that are compared one by one once they have changed."""

State = Literal["confirmed", "cleared", "in_flight", "unsettled", "split"]


@dataclass(slots=True)
class Suspect:
    """A difference under recheck."""

    first: Difference
    """As the scan saw it."""
    latest: Difference | None
    """As the last look saw it; None once it is gone."""
    rows: KeyState | None = None
    """The rows of its key at the last look; None before the first."""
    is_still: bool = False
    """Whether no row of its key had changed at the last look."""
    in_flight: bool = False
    """Whether young rows of the source explain it."""
    target_is_young: bool = False
    """Whether they do not, and the target has a young row."""
    of_range: RangeSuspect | None = None
    """The range that it belonged to, whose rows are rechecked one by one."""

    @property
    def is_moving(self) -> bool:
        """Return whether it is there, and its rows had changed at the last look."""
        return self.latest is not None and not self.in_flight and not self.is_still


@dataclass(frozen=True, slots=True)
class Rechecked:
    """The differences after all looks.

    ``cleared`` counts the rows (on both sides) that are no longer counted: equal by now or in flight. ``unsettled`` counts those that
    were still changing.
    """

    differences: Differences
    cleared: int
    unsettled: int
    left_out: tuple[Key, ...] = ()
    """The keys of differences that are unsettled or in flight."""
    unsettled_ranges: tuple[RangeDifference, ...] = ()
    """The ranges that are unsettled, whose rows were too many to be rechecked one by one."""


@dataclass(frozen=True, slots=True)
class Looker:
    """Fetches rows as they are now, those in flight among them: they have to be seen to be left out."""

    reader: Reader
    plan: Plan
    value_length: int

    def rows_by_key(self, keys: Sequence[Key]) -> dict[Side, list[tuple[Row, Age]]]:
        """Return the rows of keys on each side, with their ages."""
        plan, all_rows = self.plan, with_young_rows(self.plan)
        return self.reader.ask(
            lambda side, session: list(
                Fetcher(all_rows, side, session, self.value_length).by_canonical_key(
                    keys, plan.sides[side].settled, plan.sides[side].written
                )
            ),
            fresh=True,
        )

    def sums(self, span: RangeDifference) -> RangeSums:
        """Return the sums of a range on both sides."""
        return sum_range(lambda work: self.reader.ask(work, fresh=True), self.plan, span)

    def rows_of_range(self, span: RangeDifference) -> dict[Side, list[Row]]:
        """Return the rows of a range on each side."""
        all_rows = with_young_rows(self.plan)
        return self.reader.ask(lambda side, session: list(Fetcher(all_rows, side, session, self.value_length).of_range(span)), fresh=True)


def recheck_differences(
    reader: Reader,
    plan: Plan,
    differences: Differences,
    spans: Sequence[RangeSuspect],
    settings: Recheck | None,
    value_length: int,
) -> Rechecked:
    """Return what is left of the differences after up to twice ``settings.times`` further looks, each in a new snapshot.

    Only what moved gets more than ``settings.times`` looks. Without ``settings`` there is one look at once, which only leaves out rows in
    flight. ``spans`` are the ranges of ``differences``. Raises StatementCancelled when the run is cancelled, and errors of the tree.
    """
    looker = Looker(reader, plan, value_length)
    suspects = {key_of(difference): Suspect(difference, difference) for difference in differences.named}
    looks = 0
    for delay, is_further in _delays(settings):
        left = [suspect for suspect in suspects.values() if (suspect.is_moving if is_further else suspect.latest)]
        open_spans = [span for span in spans if span.state == "unsettled" or (span.state == "confirmed" and not is_further)]
        if not left and not open_spans:
            break
        looks += 1
        if delay:
            what = "what still changed" if is_further else f"{len(left) + len(open_spans):,} differences"
            reader.report_both(f"waits {delay:g} s to recheck {what} (look {looks})")
            if reader.stopped.wait(delay):
                raise StatementCancelled
        _look_at(looker, left)
        for span in open_spans:
            rest = look_at_range(looker, span, must_stand_still=settings is not None)
            _add_rows_of_range(looker, suspects, span, rest)
    return conclude(differences, list(suspects.values()), spans, looks, must_stand_still=settings is not None)


def _delays(settings: Recheck | None) -> Iterator[tuple[float, bool]]:
    """Yield the seconds before each look, and whether it is a further one, for what has moved."""
    if settings is None:
        yield 0.0, False
        return
    yield from ((settings.wait * settings.backoff**look, False) for look in range(settings.times))
    yield from ((settings.wait, True) for _ in range(settings.times))


def key_of(difference: Difference) -> Key:
    """Return the key of a difference, as rows have it."""
    return tuple(difference.key.values())


def _add_rows_of_range(looker: Looker, suspects: dict[Key, Suspect], span: RangeSuspect, rows: Sequence[Difference]) -> None:
    """Add rows of a range to the suspects, unless they are among them already."""
    new = [Suspect(difference, difference, of_range=span) for difference in rows if key_of(difference) not in suspects]
    _look_at(looker, new)  # for what is young; that nothing moved in so short a time means nothing
    for suspect in _counted_by_scan(span, new):
        suspect.is_still = False
        suspects[key_of(suspect.first)] = suspect


def _counted_by_scan(span: RangeSuspect, listed: Sequence[Suspect]) -> list[Suspect]:
    """Return the rows of a range without those of the target alone that were too young for the scan, which compared them with nothing.

    A row that the scan counted, and that was written since, is young as well: as many as are missing are kept, those written last.
    """
    young, kept = list[Suspect](), list[Suspect]()
    for one in listed:
        is_beyond = span.range.kind == "extra" and one.target_is_young and one.latest and one.latest.kind == "extra"
        (young if is_beyond else kept).append(one)
    room = span.range.rows - sum(_rows(one.latest) for one in kept)
    for suspect in sorted(young, key=_written_last, reverse=True):
        if room <= 0:
            break
        kept.append(suspect)
        room -= _rows(suspect.latest)
    return kept


def _written_last(suspect: Suspect) -> str:
    return max((written for _, written in suspect.rows[1]), default="") if suspect.rows else ""


def _look_at(looker: Looker, suspects: Sequence[Suspect]) -> None:
    """Update these suspects by one look."""
    if not suspects:
        return
    keys = [key_of(suspect.first) for suspect in suspects]
    rows = looker.rows_by_key(keys)
    in_flight = _keys_in_flight(looker.plan, rows)
    young_targets = {row.key for row, age in rows["target"] if age.is_young} - in_flight
    by_key, states = _differences_by_key(looker, rows, in_flight), _states(rows, keys)
    at = dt.datetime.now(dt.UTC)
    for suspect, key in zip(suspects, keys, strict=True):
        now, state = by_key.get(key), states[key]
        same = now is not None and suspect.latest is not None and now.hashes == suspect.latest.hashes
        suspect.in_flight, suspect.target_is_young = key in in_flight, key in young_targets
        suspect.is_still, suspect.rows = same and suspect.rows in (None, state), state
        outcome = "equal" if now is None else "in flight" if suspect.in_flight else "same" if suspect.is_still else "moved"
        looks = (*(suspect.latest or suspect.first).looks, Look(at, outcome))
        suspect.latest = dataclasses.replace(now, looks=looks) if now else None


def _differences_by_key(looker: Looker, rows: Mapping[Side, Sequence[tuple[Row, Age]]], in_flight: set[Key]) -> dict[Key, Difference]:
    """Return the differences of these rows.

    Of a key whose settled rows differ as well, young rows of the source that the target has not are in flight, and not counted.
    """

    def find(source: Sequence[Row], target: Sequence[Row]) -> dict[Key, Difference]:
        differences, _ = tolerance.named_differences(looker.plan, {"source": source, "target": target}, looker.value_length, known=True)
        return {key_of(difference): difference for difference in differences}

    source, target = ([row for row, _ in rows[side]] for side in SIDES)
    by_key = find(source, target)
    young = [row for row, age in rows["source"] if age.is_young and row.key in by_key and row.key not in in_flight]
    unmatched = {key: Counter(difference.hashes["source"]) for key, difference in by_key.items()}
    unsent: set[int] = set()
    for row in young:
        if unmatched[row.key][row.digits] > 0:
            unmatched[row.key][row.digits] -= 1
            unsent.add(id(row))
    if not unsent:
        return by_key
    keys = {row.key for row in young}
    left = [row for row in source if row.key in keys and id(row) not in unsent]
    again = find(left, [row for row in target if row.key in keys])
    return {key: difference for key, difference in by_key.items() if key not in keys} | again


def _states(rows: Mapping[Side, Sequence[tuple[Row, Age]]], keys: Sequence[Key]) -> dict[Key, KeyState]:
    """Return each key's rows, as they are compared with those of the next look."""
    states: dict[Key, dict[Side, list[tuple[str, str]]]] = {key: {side: [] for side in SIDES} for key in keys}
    for side in SIDES:
        for row, age in rows[side]:
            states[row.key][side].append((row.digits, age.written or ""))
    return {key: tuple(tuple(sorted(of_key[side])) for side in SIDES) for key, of_key in states.items()}


def _keys_in_flight(plan: Plan, rows: Mapping[Side, Sequence[tuple[Row, Age]]]) -> set[Key]:
    """Return the keys whose differences, if any, the source's young rows explain.

    They do where every settled row of the source has its equal in the target, and the target has no more rows beyond those than the
    source has young ones: each of these may have an older version there. Several rows can have one key, so a young one must not hide
    a difference of the others.
    """
    young = Counter(row.key for row, age in rows["source"] if age.is_young)
    settled = [row for row, age in rows["source"] if row.key in young and not age.is_young]
    target = [row for row, _ in rows["target"] if row.key in young]
    over, _ = tolerance.named_differences(plan, {"source": settled, "target": target}, 0, known=True)
    surplus = {key_of(difference): difference.rows for difference in over}
    return {key for key in young if key not in surplus or (not surplus[key]["source"] and surplus[key]["target"] <= young[key])}


@dataclass(slots=True)
class _Count:
    """Rows by what became of them: as a report counts them, and on both sides, where a changed row counts twice."""

    rows: Counter[str] = field(default_factory=Counter)
    both_sides: Counter[str] = field(default_factory=Counter)

    def add(self, state: str, rows: int, both_sides: int) -> None:
        self.rows[state] += rows
        self.both_sides[state] += both_sides

    def add_cleared(self, rows: int, both_sides: int) -> None:
        """Count rows that are gone; fewer than none on both sides if there are more now than before."""
        self.add("cleared", max(0, rows), both_sides)


def conclude(
    before: Differences, suspects: Sequence[Suspect], spans: Sequence[RangeSuspect], looks: int, *, must_stand_still: bool
) -> Rechecked:
    """Count what became of every difference; differences that were counted and not named cannot be rechecked, and are unsettled."""
    counts: Counter[str] = Counter()
    named: list[Difference] = []
    became = _Count()
    for suspect in suspects:
        now = suspect.latest
        if suspect.of_range is None:
            was = suspect.first
            became.add_cleared(was.row_count - _rows(now), sum(was.rows.values()) - _both_sides(now))
        if now is None:
            continue
        if _stands(suspect, must_stand_still):
            counts[now.kind] += now.row_count
            named.append(now)
            continue
        became.add("in_flight" if suspect.in_flight else "unsettled", _rows(now), _both_sides(now))
        if not suspect.in_flight:
            named.append(dataclasses.replace(now, state="unsettled"))
    ranges = [_conclude_range(span, suspects, counts, became) for span in spans]
    for kind, count in _unnamed(before).items():
        became.add("unsettled", count, count * (2 if kind == "changed" else 1))
    differences = dataclasses.replace(
        before,
        missing=counts["missing"],
        extra=counts["extra"],
        changed=counts["changed"],
        named=tuple(named),
        ranges=tuple(span for span in ranges if span),
        unsettled=became.rows["unsettled"],
        in_flight=became.rows["in_flight"],
        cleared=became.rows["cleared"],
        looks=looks,
        exact=before.exact and not became.rows["unsettled"],
    )
    cleared = became.both_sides["cleared"] + became.both_sides["in_flight"]
    left_out = tuple(key_of(suspect.first) for suspect in suspects if suspect.latest and not _stands(suspect, must_stand_still))
    unsettled = tuple(span for span in differences.ranges if span.state == "unsettled")
    return Rechecked(differences, cleared, became.both_sides["unsettled"], left_out, unsettled)


def _stands(suspect: Suspect, must_stand_still: bool) -> bool:
    """Whether a difference that is there at the last look is confirmed."""
    return not suspect.in_flight and (suspect.is_still or not (must_stand_still or suspect.target_is_young))


def _rows(difference: Difference | None) -> int:
    return difference.row_count if difference else 0


def _both_sides(difference: Difference | None) -> int:
    return sum(difference.rows.values()) if difference else 0


def _conclude_range(span: RangeSuspect, suspects: Sequence[Suspect], counts: Counter[str], became: _Count) -> RangeDifference | None:
    """Count what became of a range, and return what is left of it."""
    was = span.range.rows
    if span.state == "split":
        rest = [suspect.latest for suspect in suspects if suspect.of_range is span]
        became.add_cleared(was - sum(map(_rows, rest)), was - sum(map(_both_sides, rest)))
        return None
    if span.state == "cleared":
        became.add_cleared(was, was)
        return None
    if span.state in ("in_flight", "unsettled"):
        became.add(span.state, was, was)
        return dataclasses.replace(span.range, state="unsettled") if span.state == "unsettled" else None
    young = min(span.young, max(0, was - span.rows))
    became.add("in_flight", young, young)
    became.add_cleared(was - span.rows - young, was - span.rows - young)
    counts[span.range.kind] += span.rows
    return dataclasses.replace(span.range, rows=span.rows)


def _unnamed(differences: Differences) -> Counter[str]:
    """Return by kind how many rows were counted and not named."""
    counted = Counter({"missing": differences.missing, "extra": differences.extra, "changed": differences.changed})
    for difference in differences.named:
        counted[difference.kind] -= difference.row_count
    for span in differences.ranges:
        counted[span.kind] -= span.rows
    return +counted


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
