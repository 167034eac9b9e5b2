"""The register of segments: two writers at once, replays, and every fault told as exactly that, in whatever order both sides come."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.compare.segment_findings import find_differences
from auditor.errors import ConfigError
from auditor.model import RegisteredSegment
from auditor.store import Store, segment_register
from auditor.store.segment_register import Register
from tests.store.samples import new_audit_name

T0 = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
SIDES = ("shop", "shop_eu")
WRONG = ("start mismatch", "end mismatch", "content mismatch", "behind", "doubled")


def segment(start: int, end: int, content: str = "a", table: str = "shop.orders") -> RegisteredSegment:
    """A segment from one position to another, with a row at each."""
    times: dict[str, Any] = {"began": T0 + dt.timedelta(seconds=start), "ended": T0 + dt.timedelta(seconds=end)}
    digest: dict[str, Any] = {"rows": end - start + 1, "schema_id": "5c", "sha256": content * 64, "encoding": 1}
    return RegisteredSegment(table=table, start=(start, 0), end=(end, 3), first=start, last=end, gtid=None, **digest, **times)


def open_register(store: Store) -> str:
    """Create a register and return the name of its audit."""
    audit = new_audit_name()
    segment_register.open_register(store, Register(audit, SIDES, "position"))
    return audit


def enter(store: Store, audit: str, side: str, *entries: RegisteredSegment) -> int:
    return store.write(lambda connection: segment_register.enter(connection, audit, side, entries))


def verdicts(store: Store, audit: str, side: str) -> list[tuple[int, str, int | None]]:
    """Each segment's start, its verdict, and the position that it was compared with."""
    listed = segment_register.list_entries(store, audit, "shop.orders", side)
    return [(one.start[0], one.verdict, one.matched[0] if one.matched else None) for one in listed]


def findings(store: Store, audit: str) -> list[tuple[str, int, tuple[int, int]]]:
    """What is wrong: the kind, the side, and from where to where."""
    [state] = segment_register.list_tables(store, audit)
    assert state.compared_from
    first, second = (segment_register.list_entries(store, audit, state.table, side, verdicts=WRONG) for side in SIDES)  # type: ignore[arg-type]
    found = find_differences(state.table, first, second, state.compared_from)
    return [(one.kind, one.side, (one.start[0], one.end[0])) for one in found]


def test_each_verdict_has_its_positions(store: Store) -> None:
    audit = open_register(store)
    enter(store, audit, "shop", segment(1, 9), segment(10, 19), segment(20, 29), segment(30, 39), segment(40, 49), segment(50, 59))
    assert {verdict for _, verdict, _ in verdicts(store, audit, "shop")} == {"behind"}, "the other side is awaited"
    enter(store, audit, "shop_eu", segment(1, 9), segment(10, 19, "b"), segment(20, 25), segment(40, 49))
    expected = [(1, "match", 1), (10, "content mismatch", 10), (20, "end mismatch", 25), (30, "start mismatch", 40), (40, "match", 40)]
    assert verdicts(store, audit, "shop") == [*expected, (50, "behind", None)]
    assert findings(store, audit) == [("altered", 0, (10, 19)), ("cut otherwise", 0, (20, 29)), ("missing", 1, (30, 39))]
    [state] = segment_register.list_tables(store, audit)
    assert (state.matches, state.sides[0].waiting, state.sides[1].waiting) == (2, 1, 0)
    assert state.matched_through == T0 + dt.timedelta(seconds=9), "up to the first that differs"


@pytest.mark.parametrize("first", [0, 1])
def test_the_newest_text_that_both_hashed_decides(store: Store, first: int) -> None:
    """Whichever side comes first; without a common one there is no verdict on the events, unless rows or schema differ."""
    audit = open_register(store)
    plain = [segment(10 * number + 1, 10 * number + 9) for number in range(6)]
    digests = [("a", 1, {}), ("b", 2, {1: "a" * 64}), ("b", 2, {1: "c" * 64}), ("b", 2, {}), ("b", 2, {}), ("c", 3, {2: "a" * 64})]
    newer = [
        dataclasses.replace(one, sha256=content * 64, encoding=version, older=older)
        for one, (content, version, older) in zip(plain, digests, strict=True)
    ]
    newer[4] = dataclasses.replace(newer[4], rows=3)
    plain[5] = dataclasses.replace(plain[5], encoding=2)
    sides = [(SIDES[0], plain), (SIDES[1], newer)]
    for side, entries in sides if first == 0 else reversed(sides):
        enter(store, audit, side, *entries)
    expected = ["match", "match", "content mismatch", "not comparable", "content mismatch", "match"]
    for side in SIDES:
        assert [verdict for _, verdict, _ in verdicts(store, audit, side)] == expected
        assert enter(store, audit, side, *dict(sides)[side]) == 0, "a replay changes nothing"
    [state] = segment_register.list_tables(store, audit)
    assert (state.matches, [side.not_comparable for side in state.sides]) == (3, [1, 1])
    assert state.matched_through == T0 + dt.timedelta(seconds=19), "what was not compared is not verified"


def test_digests_by_bucket_are_kept_and_read_where_they_are_asked_for(store: Store) -> None:
    audit = open_register(store)
    stored = bytes(range(256)) * 25
    enter(store, audit, "shop", dataclasses.replace(segment(1, 9), buckets=stored, older={1: "e" * 64}))
    [plain] = segment_register.list_entries(store, audit, "shop.orders", "shop")
    [read] = segment_register.list_entries(store, audit, "shop.orders", "shop", with_buckets=True)
    assert (plain.buckets, read.buckets, read.older) == (b"", stored, {1: "e" * 64})
    segment_register.replace_values(store, audit, {"d" * 64: {"by": "t"}})
    segment_register.replace_values(store, audit, {"e" * 64: {"by": "é", "values": [[None, [0, 1], 0]]}})
    assert segment_register.get_values(store, audit) == {"e" * 64: {"by": "é", "values": [[None, [0, 1], 0]]}}
    assert segment_register.needed_versions(store, audit, "shop_eu") == [None, [1]]
    segment_register.announce(store, audit, "shop", {2: None, 1: None})
    segment_register.announce(store, audit, "shop_eu", [1])
    assert segment_register.needed_versions(store, audit, "shop_eu") == [[1, 2], [1]]
    assert segment_register.needed_versions(store, audit, "shop") == [[1]] and segment_register.needed_versions(store, "none", "shop") == []
    segment_register.forget(store, audit)
    assert segment_register.get_values(store, audit) == {}


def test_replays_change_nothing(store: Store) -> None:
    audit = open_register(store)
    both = [segment(1, 9), segment(10, 19)]
    for _ in range(2):
        for side in SIDES:
            enter(store, audit, side, *both)
    assert enter(store, audit, "shop", *both) == 0
    enter(store, audit, "shop_eu", segment(10, 19, "c"))
    assert enter(store, audit, "shop_eu", segment(10, 19, "c")) == 0
    assert [verdict for _, verdict, _ in verdicts(store, audit, "shop_eu")] == ["match", "match", "doubled"]
    assert findings(store, audit) == [("doubled", 1, (10, 19))]


def test_what_was_before_both_had_begun_is_not_judged(store: Store) -> None:
    audit = open_register(store)
    enter(store, audit, "shop", *(segment(start, start + 9) for start in (10, 20, 30, 40)))
    enter(store, audit, "shop_eu", segment(25, 29), segment(30, 39), segment(40, 49))
    assert findings(store, audit) == []
    [state] = segment_register.list_tables(store, audit)
    assert state.compared_from == (30, 0) and state.matches == 2


def test_segments_that_replace_others_are_judged_anew(store: Store) -> None:
    audit = open_register(store)
    good = [segment(1, 9), segment(10, 19), segment(20, 29), segment(30, 39)]
    enter(store, audit, "shop", *good)
    enter(store, audit, "shop_eu", good[0], segment(10, 29, "b"), good[3])
    assert findings(store, audit) == [("cut otherwise", 0, (10, 29))]

    def mend(connection: Any) -> None:
        segment_register.replace_segments(connection, audit, "shop_eu", "shop.orders", (10, 0), (29, 3), good[1:3])

    store.write(mend)
    assert findings(store, audit) == [] and {verdict for _, verdict, _ in verdicts(store, audit, "shop")} == {"match"}


def test_writers_at_once_miss_nothing(store: Store) -> None:
    """Both sides register the same segments in sessions of their own; a segment that neither saw of the other would stay `behind`."""
    audit = open_register(store)
    barrier = threading.Barrier(2)
    failures: list[BaseException] = []

    def write(side: str) -> None:
        try:
            for number in range(25):
                barrier.wait(60)
                enter(
                    store, audit, side, *(segment(10 * number + 1, 10 * number + 9, table=table) for table in ("shop.orders", "shop.items"))
                )
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=write, args=(side,)) for side in SIDES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for side in SIDES:
        assert [verdict for _, verdict, _ in verdicts(store, audit, side)] == ["match"] * 25
    assert [(one.matches, one.sides[0].waiting) for one in segment_register.list_tables(store, audit)] == [(25, 0)] * 2


def test_a_register_of_other_sides_is_refused(store: Store) -> None:
    audit = open_register(store)
    with pytest.raises(ConfigError, match=rf"compares shop with shop_eu by position, and its settings .*auditor segments reset {audit}"):
        segment_register.open_register(store, Register(audit, SIDES, "gtid"))
    segment_register.forget(store, audit)
    segment_register.open_register(store, Register(audit, SIDES, "gtid"))
    assert enter(store, new_audit_name(), "shop", segment(1, 9)) == 0, "nobody audits it"


def test_pruned_segments_change_no_verdict(store: Store) -> None:
    audit = open_register(store)
    both = [segment(start, start + 9) for start in (10, 20, 30)]
    enter(store, audit, "shop", *both, segment(40, 49))
    enter(store, audit, "shop_eu", *both)
    assert segment_register.prune(store, audit, dt.datetime.now(dt.UTC) + dt.timedelta(days=1)) == 4, "the last pair stays"
    enter(store, audit, "shop_eu", segment(40, 49))
    assert findings(store, audit) == [] and [verdict for _, verdict, _ in verdicts(store, audit, "shop")] == ["match", "match"]


Fault = tuple[str, int]
FAULTS = ("none", "lost", "doubled", "altered", "merged", "split")


@st.composite
def two_writers(draw: st.DrawFn) -> tuple[list[list[RegisteredSegment]], list[tuple[str, int, tuple[int, int]]], list[int]]:
    """What two writers registered, what is wrong with it, and in which order they came."""
    count = draw(st.integers(2, 5))
    base = [segment(10 * number + 1, 10 * number + 9) for number in range(3 * count + 1)]
    sides = [list(base[:1]), list(base[:1])]
    wrong: list[tuple[str, int, tuple[int, int]]] = []
    for number in range(count):  # of three segments, one or two go wrong on one side, so that faults do not touch
        one, two, three = base[3 * number + 1 : 3 * number + 4]
        fault, side = draw(st.sampled_from(FAULTS)), draw(st.integers(0, 1))
        bounds = (one.start[0], one.end[0])
        found, told = _damage(fault, one, two)
        sides[side] += [*found, three]
        sides[1 - side] += [one, two, three]
        if fault == "lost":
            wrong.append(("missing", side, bounds))
        elif fault == "doubled":
            wrong.append(("doubled", side, bounds))
        elif fault != "none":
            wrong.append(("altered" if fault == "altered" else "cut otherwise", 0, told))
    turns = draw(st.lists(st.integers(0, 1), max_size=12 * count))
    return sides, wrong, turns


def _damage(fault: str, one: RegisteredSegment, two: RegisteredSegment) -> tuple[Sequence[RegisteredSegment], tuple[int, int]]:
    """What a writer has instead of two segments, and from where to where it differs."""
    bounds = (one.start[0], one.end[0])
    middle = (one.start[0] + one.end[0]) // 2
    return {
        "none": ([one, two], bounds),
        "lost": ([two], bounds),
        "doubled": ([one, dataclasses.replace(one, sha256="d" * 64), two], bounds),
        "altered": ([dataclasses.replace(one, sha256="e" * 64), two], bounds),
        "merged": ([segment(one.start[0], two.end[0], "f")], (one.start[0], two.end[0])),
        "split": ([segment(one.start[0], middle), segment(middle + 1, one.end[0]), two], bounds),
    }[fault]


def interleave(sides: Sequence[Sequence[RegisteredSegment]], turns: Sequence[int]) -> Iterator[tuple[str, list[RegisteredSegment]]]:
    """Yield who registers what next, each side in its order and each now and then again, until both have come to their end."""
    done = [0, 0]
    for turn in itertools.chain(turns, [0] * len(sides[0]), [1] * len(sides[1])):
        step = sides[turn][max(0, done[turn] - 1) : done[turn] + 1]  # the last one is replayed
        done[turn] = min(len(sides[turn]), done[turn] + 1)
        yield SIDES[turn], list(step)


def check(store: Store, case: tuple[list[list[RegisteredSegment]], list[tuple[str, int, tuple[int, int]]], list[int]]) -> None:
    sides, wrong, turns = case
    audit = open_register(store)

    def register(connection: Any) -> None:
        for side, entries in interleave(sides, turns):
            segment_register.enter(connection, audit, side, entries)

    store.write(register)
    assert findings(store, audit) == wrong
    assert all(state.sides[0].waiting == state.sides[1].waiting == 0 for state in segment_register.list_tables(store, audit))


SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=8, deadline=None, suppress_health_check=SUPPRESSED)
@given(case=two_writers())
def test_every_fault_is_told_as_what_it_is(file_store: Store, case: Any) -> None:
    check(file_store, case)


@pytest.mark.slow  # the same with many more cases
@settings(max_examples=400, deadline=None, suppress_health_check=SUPPRESSED)
@given(case=two_writers())
def test_every_fault_is_told_as_what_it_is_in_many_cases(file_store: Store, case: Any) -> None:
    check(file_store, case)
