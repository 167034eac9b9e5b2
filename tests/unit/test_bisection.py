"""Ledgers of random histories: what is said of who parted target and source is never wrong, and most of it is said."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from auditor.errors import LiveSummariesWrong
from auditor.pipeline.live import images as module
from auditor.pipeline.live.images import Images, rows_left
from auditor.run.live import running_sums
from auditor.run.live.bisection import Bisection, Checked, bisect
from auditor.run.live.ledger import FOLDED, Deviation, Entry, check_chain, fold, record
from auditor.summary.arrays import Summaries
from auditor.summary.key_number import P

EPOCH, SIZE, T = "e" * 16, 16, 2
WORDS, POWERS = 2, 2 * T - 1
Rows = Mapping[int, int]
"""Values by key; each pair has a hash."""


def hash_of(key: int, value: int) -> tuple[int, int]:
    drawn = random.Random(f"{key}/{value}")
    return drawn.getrandbits(30), drawn.getrandbits(30)


def summed(rows: Iterable[tuple[int, int]]) -> Summaries:
    """The summaries of rows, as an engine computes them."""
    total = running_sums.none(WORDS, POWERS)
    parts = [total]
    for key, value in rows:
        first, second = hash_of(key, value)
        powers = [first * pow(key % SIZE + 1, j, P) % P for j in range(1, POWERS + 1)]
        numbers = (np.array([key // SIZE]), np.array([1]), np.array([[first, second]]), np.array([powers]))
        parts.append(running_sums.of(*numbers))
    return running_sums.add(parts)


def difference(one: Rows, other: Rows) -> Summaries:
    return running_sums.changed(running_sums.add([summed(one.items()), running_sums.minus(summed(other.items()))]))


@dataclass
class World:
    """A source, its log, a target, and everything that is known of them."""

    source: dict[int, int]
    target: dict[int, int] = field(default_factory=dict)
    stated: dict[int, int] = field(default_factory=dict)
    """The rows that the stream's sums are of."""
    sums: Summaries = field(init=False)
    place: int = 100
    entries: list[Entry] = field(default_factory=list)
    checks: list[Checked] = field(default_factory=list)
    truth: set[tuple[str, int, int]] = field(default_factory=set)
    """Causes that happened, with their partitions, and the place at which the target was then; of merges, the place at which they ended."""

    def __post_init__(self) -> None:
        self.target = dict(self.source)
        self.sums = summed(self.source.items())
        self.check(scan=True)

    def merge(self, changes: Mapping[int, int | None], wrong: Mapping[int, int | None] = {}, dropped: Iterable[int] = ()) -> None:
        """Change the source, and merge it; ``wrong`` values are written instead, and keys that are ``dropped`` are not merged."""
        before = [(key, self.source[key]) for key in changes if key in self.source]
        after = [(key, value) for key, value in changes.items() if value is not None]
        for key, value in changes.items():
            put(self.source, key, value)
        self.sums = running_sums.add([self.sums, summed(after), running_sums.minus(summed(before))])
        dropped = set(dropped)
        merged = [key for key in changes if key not in dropped]
        found = [(key, self.target[key]) for key in merged if key in self.target]
        for key in merged:
            put(self.target, key, wrong.get(key, changes[key]))
        left = [(key, self.target[key]) for key in merged if key in self.target]
        wrote = running_sums.add([summed(left), running_sums.minus(summed(after))])
        replaced = running_sums.add([summed(found), running_sums.minus(summed(before))])
        named = frozenset(key // SIZE for key in dropped)
        body = record(Deviation(wrote, replaced, misplaced=named))
        at = f"2026-01-01T00:00:{len(self.entries) % 60:02}+00:00"
        self.entries.append(Entry(EPOCH, self.place, self.place + 10, at, "0.1.0", body=body))
        self.place += 10
        self.truth |= {("merge", key // SIZE, self.place) for key in [*wrong, *dropped]}

    def edit(self, key: int, value: int | None) -> None:
        """Change the target as others do."""
        put(self.target, key, value)
        self.truth.add(("target", key // SIZE, self.place))

    def change_unlogged(self, key: int, value: int | None) -> None:
        """Change the source without its log."""
        put(self.source, key, value)
        self.truth.add(("log", key // SIZE, self.place))

    def check(self, *, scan: bool = False) -> None:
        """Let a run compare the target with the sums; with ``scan``, it reads the source and sets these right."""
        missing = running_sums.none(WORDS, 0)
        if scan:
            scanned = summed(self.source.items())
            missing = bare(running_sums.changed(running_sums.add([scanned, running_sums.minus(self.sums)])))
            self.sums = scanned
        apart = running_sums.changed(running_sums.add([summed(self.target.items()), running_sums.minus(self.sums)]))
        self.checks.append(Checked(self.place, bare(apart), missing, scan))

    def bisect(self) -> Bisection:
        check_chain(self.entries, EPOCH, 100)
        return bisect(self.entries, self.checks, words=WORDS, powers=POWERS, t=T, width=SIZE)


def bare(sums: Summaries) -> Summaries:
    return running_sums.unite(sums, sums.partition)


def put(rows: dict[int, int], key: int, value: int | None) -> None:
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value


def found(world: World) -> list[tuple[str, int, int | None, bool]]:
    return [(one.cause, one.partition, one.batch, one.ended is None) for one in world.bisect().partings]


@pytest.fixture
def world() -> World:
    return World(dict.fromkeys(range(0, 128, 2), 0))


def test_a_merge_that_writes_wrong_drops_and_deletes_nothing(world: World) -> None:
    world.merge({2: 1, 40: 1})
    world.merge({2: 2, 40: 2, 3: 2}, wrong={2: 9})
    world.merge({40: 3}, dropped=[40])
    world.merge({60: None}, dropped=[60])
    world.merge({6: 4})
    assert found(world) == [("merge", 0, 2, True), ("merge", 2, 3, True), ("merge", 3, 4, True)]
    assert [one.places for one in world.bisect().partings] == [(3,), (9,), (13,)]
    world.check()
    assert [cause for cause, *_ in found(world)] == ["merge"] * 3
    world.merge({2: 5, 40: 5, 60: 5})
    assert [lasts for *_, lasts in found(world)] == [False] * 3


def test_who_changed_a_row_that_a_merge_came_upon_is_told_by_the_next_run(world: World) -> None:
    world.edit(2, 7)
    world.change_unlogged(40, 8)
    world.merge({2: 1, 40: 1})
    assert [(cause, lasts) for cause, _, _, lasts in found(world)] == [("unknown", True)] * 2
    world.check()
    assert found(world) == [("target", 0, 1, False), ("log", 2, 1, True)]
    world.check(scan=True)
    world.check()
    assert found(world) == [("target", 0, 1, False), ("log", 2, 1, False)]


def test_edits_lie_between_runs_and_may_be_put_right(world: World) -> None:
    world.merge({2: 1})
    world.check()
    world.merge({2: 2})
    world.edit(40, None)
    world.merge({2: 3})
    world.check()
    [one] = world.bisect().partings
    assert (one.cause, one.after, one.through, one.batch) == ("target", 110, 130, None)
    world.merge({40: 5})
    assert [(one.ended, one.ended_batch) for one in world.bisect().partings] == [(140, 4)]


def test_two_changes_of_a_partition_at_once_are_not_told_apart(world: World) -> None:
    world.edit(2, 7)
    world.merge({2: 1})
    world.edit(4, 8)
    world.check()
    [one] = world.bisect().partings
    assert one.cause == "unknown" and "cannot be told apart" in one.why
    world.check()
    assert [one.cause for one in world.bisect().partings] == ["unknown"]


def test_rows_that_differed_before_are_not_blamed_on_anybody() -> None:
    world = World(dict.fromkeys(range(8), 0))
    world.target[3] = 1
    world.checks.clear()
    world.check(scan=True)
    assert found(world) == [("before", 0, None, True)]
    world.merge({3: 5})
    assert found(world) == [("before", 0, None, False)]


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(15, 60))])
def test_no_cause_is_named_that_was_none(seed: int) -> None:
    drawn = random.Random(seed)
    world = World(dict.fromkeys(range(0, 256, 2), 0))
    for step in range(1, 60):
        keys = drawn.sample(range(256), 4)
        changes = {key: drawn.choice([None, step]) for key in keys}
        match drawn.choice(["right"] * 8 + ["wrong", "dropped", "edit", "log", "check", "scan"]):
            case "wrong":
                world.merge(changes, wrong={keys[0]: -step})
            case "dropped":
                gone = [key for key in keys[:1] if key in world.source or changes[key] is not None]
                world.merge(changes, dropped=gone)
            case "edit":
                world.edit(keys[0], drawn.choice([None, 1000 + step]))
            case "log":
                world.change_unlogged(keys[0], drawn.choice([None, 2000 + step]))
            case "check":
                world.check()
            case "scan":
                world.check(scan=True)
            case _:
                world.merge(changes)
    world.check(scan=True)
    told = world.bisect()
    for one in told.partings:
        places = [place for cause, partition, place in world.truth if (cause, partition) == (one.cause, one.partition)]
        places = [place for place in places if one.after < place <= one.through or (one.cause != "merge" and one.after == place)]
        assert places or one.cause == "unknown", one
    lasting = {one.partition for one in told.partings if one.ended is None}
    assert lasting == {*difference(world.target, world.source).partition.tolist()}


def test_the_log_says_what_is_left_and_where_it_contradicts_itself() -> None:
    def left(*events: tuple[int, int, int, int]) -> tuple[list[tuple[int, int]], set[int]]:
        """Events are transaction, row, sign and value, all of key 5, or of its hundreds."""
        rows = [(position, row, sign, value // 100, 5 + 0 * value, value) for position, row, sign, value in events]
        columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)]
        images = Images(*columns[:5], columns[5].reshape(-1, 1))  # type: ignore[call-arg]
        which, contradicted = rows_left(images)
        return [(int(value), int(position)) for value, position in zip(columns[5][which], columns[0][which], strict=True)], {*contradicted}

    assert left((1, 0, -1, 1), (1, 0, 1, 2), (1, 1, -1, 2), (1, 1, 1, 3)) == ([(3, 1)], set())
    assert left((2, 0, -1, 2), (2, 0, 1, 1), (1, 0, -1, 1), (1, 0, 1, 2)) == ([(1, 2)], set()), "whatever their order in the file"
    assert left((1, 0, -1, 1), (2, 0, 1, 1)) == ([(1, 2)], set())
    assert left((1, 0, 1, 1), (2, 0, -1, 1)) == ([], set())
    assert left((1, 0, -1, 1), (1, 0, 1, 2), (2, 0, -1, 7), (2, 0, 1, 8))[1] == {0}, "a change between both is missing"
    assert left((1, 0, 1, 1), (2, 0, 1, 1))[1] == {0}
    assert left((1, 0, 1, 101), (2, 0, 1, 201))[1] == set(), "other partitions"


@pytest.mark.slow
def test_merges_whose_keys_changed_once_are_told_as_all_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, single, usual = np.random.default_rng(7), 0, module._are_single
    for _ in range(3000):
        count = drawn.integers(1, 7)
        keys = drawn.integers(0, 5, count)
        of_events = [drawn.integers(0, 4, count), drawn.integers(0, 2, count), drawn.choice([-1, 1], count), keys // 2, keys % 2 + 1]
        images = Images(*of_events, (keys * 10 + drawn.integers(0, 2, count)).reshape(-1, 1))  # type: ignore[call-arg]
        single += usual(images)
        left, contradicted = rows_left(images)
        with monkeypatch.context() as patched:
            patched.setattr(module, "_are_single", lambda _: False)
            in_order, named = rows_left(images)
        assert sorted(images.hashes[left].tolist()) == sorted(images.hashes[in_order].tolist()) and contradicted == named, images
    assert 1000 < single < 2900


def test_folding_keeps_what_deviates_and_says_what_it_loses(world: World) -> None:
    for number in range(40):
        world.merge({2: number}, wrong={2: -5} if number == 20 else {})
    folded = fold(world.entries, WORDS, POWERS, 1 << 20)
    assert [entry.batches for entry in folded] == [20, 1, 1, 18]
    check_chain(folded, EPOCH, 100)
    before = found(world)
    world.entries = folded
    assert found(world) == before == [("merge", 0, 21, False)]
    world.entries = fold(folded, WORDS, POWERS, 10)
    assert len(world.entries) == 1 and world.entries[0].batches == 40 and world.entries[0].body != ""
    told = world.bisect()
    assert [(one.cause, one.batch) for one in told.partings] == [("unknown", 40)] or not told.partings
    nothing = Deviation(running_sums.none(WORDS, POWERS), running_sums.none(WORDS, POWERS))
    assert record(nothing) == "" and FOLDED


def test_a_chain_with_a_gap_is_refused(world: World) -> None:
    for number in range(4):
        world.merge({2: number})
    for broken in (world.entries[1:], [*world.entries[:2], world.entries[3]]):
        with pytest.raises(LiveSummariesWrong, match="is missing what was merged after position"):
            check_chain(broken, EPOCH, 100)


def wrong_entries(change: Callable[[int], bool], count: int) -> World:
    world = World(dict.fromkeys(range(0, 64, 2), 0))
    body = ""
    world.merge({2: 1}, wrong={2: 9})
    body = world.entries.pop().body
    world.place = 100
    world.entries = [
        Entry(EPOCH, 100 + 10 * number, 110 + 10 * number, "2026-01-01T00:00:00+00:00", "0.1.0", body=body if change(number) else "")
        for number in range(count)
    ]
    return world


def test_a_hundred_thousand_batches_are_searched_in_one_pass() -> None:
    world = wrong_entries(lambda number: number == 77_776, 100_000)
    [one] = world.bisect().partings
    assert (one.cause, one.batch, one.after, one.through) == ("merge", 77_777, 100 + 777_760, 110 + 777_760)
