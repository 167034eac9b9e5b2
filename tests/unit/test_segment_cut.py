"""Segments end where the stream says, however its events arrive: compared with a reference that looks at one event after the other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auditor.pipeline.segments.cut import Open, OpenPartition, PartitionRule, Rule, find_ends, find_partition_ends, find_ticks


@dataclass(frozen=True)
class One:
    """An event of a table."""

    table: int
    position: int
    time: int
    size: int
    schema: str


events = st.lists(
    st.tuples(st.integers(0, 1), st.integers(-3, 9), st.integers(1, 9), st.sampled_from("aaab"), st.integers(0, 2)), max_size=60
)
rules = st.builds(Rule, st.integers(1, 6), st.integers(1, 25), st.sampled_from([1.0, 4.0]))


def stream_of(drawn: list[tuple[int, int, int, str, int]]) -> list[One]:
    """Events whose positions never fall and whose times mostly grow."""
    found: list[One] = []
    position, time = 1, 50
    for table, later, size, schema, step in drawn:
        if step:  # else another row of the same event in the log, and so of the same transaction and table
            position, time = position + step, max(0, time + later)
        found.append(One(found[-1].table if found and not step else table, position, time * 1_000_000, size, schema))
    return found


def reference(stream: list[One], rule: Rule) -> dict[int, list[list[int]]]:
    """The segments of each table that ended, as the numbers of their events in the stream."""
    ended: dict[int, list[list[int]]] = {0: [], 1: []}
    held: dict[int, list[int]] = {0: [], 1: []}
    age, clock = round(rule.age * 1e6), 0
    for number, one in enumerate(stream):
        if max(clock, one.time) // age > clock // age:
            for table, numbers in held.items():
                if numbers:
                    ended[table].append(numbers)
            held = {0: [], 1: []}
        clock = max(clock, one.time)
        mine = held[one.table]
        if mine and stream[mine[-1]].schema != one.schema:
            ended[one.table].append(mine)
            mine = held[one.table] = []
        mine.append(number)
        if len(mine) >= rule.rows or sum(stream[each].size for each in mine) >= rule.bytes:
            ended[one.table].append(mine)
            held[one.table] = []
    return ended


@given(events, rules, st.lists(st.integers(0, 60), max_size=5))
def test_segments_are_those_of_the_reference_in_any_batches(drawn: list[tuple[int, int, int, str, int]], rule: Rule, at: list[int]) -> None:
    stream = stream_of(drawn)
    borders = sorted({place for place in at if 0 < place < len(stream) and stream[place].position != stream[place - 1].position})
    found: dict[int, list[list[int]]] = {0: [], 1: []}
    held: dict[int, tuple[Open, list[int]]] = {0: (Open(), []), 1: (Open(), [])}
    clock = 0
    for begin, end in zip([0, *borders], [*borders, len(stream)], strict=True):
        batch = stream[begin:end]
        ticks, clock = find_ticks(_numbers(one.position for one in batch), _numbers(one.time for one in batch), rule.age, clock)
        for table, (begun, before) in list(held.items()):
            mine = [number for number in range(begin, end) if stream[number].table == table]
            positions, sizes = (_numbers(getattr(stream[number], name) for number in mine) for name in ("position", "size"))
            schemas = np.array([stream[number].schema for number in mine], dtype=object)
            ends, left = find_ends(positions, sizes, schemas, ticks, begun, rule)
            pieces = [mine[start:stop] for start, stop in zip([0, *ends], [*ends, len(mine)], strict=True)]
            pieces[0] = before + pieces[0]
            found[table] += pieces[:-1]
            held[table] = (left, pieces[-1])
            assert (left.rows, left.bytes) == (len(held[table][1]), sum(stream[each].size for each in held[table][1]))
    assert found == reference(stream, rule)


def _numbers(values: object) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(list(values), dtype=np.int64)  # type: ignore[call-overload]


def test_writers_that_begin_at_different_events_agree_from_the_next_multiple_of_age() -> None:
    stream = [One(0, 10 * n, n * 300_000, 5, "a") for n in range(1, 200)]
    rule = Rule(7, 1000, 10.0)
    whole = [[stream[n].position for n in one] for one in reference(stream, rule)[0]]
    later = [[stream[20:][n].position for n in one] for one in reference(stream[20:], rule)[0]]
    tick = next(one.position for one in stream[20:] if one.time // 10_000_000 > stream[20].time // 10_000_000)
    after = [one for one in whole if one[0] >= tick]
    assert after and after == [one for one in later if one[0] >= tick]
    assert [one for one in whole if one[0] < tick] != [one for one in later if one[0] < tick]


messages = st.lists(st.tuples(st.integers(1, 12), st.integers(-3, 9), st.integers(1, 9)), min_size=1, max_size=60)
partition_rules = st.builds(PartitionRule, st.integers(1, 30), st.integers(1, 25), st.sampled_from([1.0, 4.0]), st.integers(1, 9))


def cut_one_by_one(offsets: list[int], sizes: list[int], times: list[int], rule: PartitionRule) -> list[int]:
    """Before which messages segments end, by looking at one after the other."""
    ends: list[int] = []
    start, each = 0, round(rule.age * 1e6)
    for place in range(1, len(offsets)):
        if offsets[place] // rule.offsets == offsets[place - 1] // rule.offsets:
            continue
        passed = offsets[place] // rule.offsets - offsets[start] // rule.offsets
        is_late = max(times[start : place + 1]) // each > times[start] // each
        if passed * rule.offsets >= rule.rows or sum(sizes[start:place]) >= rule.bytes or is_late:
            ends.append(place)
            start = place
    return ends


@given(messages, partition_rules, st.lists(st.integers(0, 60), max_size=5))
def test_partitions_are_cut_by_their_messages_alone(drawn: list[tuple[int, int, int]], rule: PartitionRule, batches: list[int]) -> None:
    """In whichever batches they come, and by whom the cutting is taken up behind a segment."""
    steps, later, sizes = (list(some) for some in zip(*drawn, strict=True))
    offsets = np.cumsum(steps).tolist()
    times = [max(0, one) * 1_000_000 for one in np.cumsum(later).tolist()]
    expected = cut_one_by_one(offsets, sizes, times, rule)
    found, begun = list[int](), None
    bounds = sorted({0, len(offsets), *(place for place in batches if place < len(offsets))})
    for start, end in pairwise(bounds):
        numbers, lengths, moments = (np.array(some[start:end], np.int64) for some in (offsets, sizes, times))
        ends, begun = find_partition_ends(numbers, lengths, moments, begun, rule)
        found += [start + place for place in ends]
    assert found == expected
    again = expected[len(expected) // 2] if expected else 0
    numbers, lengths, moments = (np.array(some[again:], np.int64) for some in (offsets, sizes, times))
    taken_up, left = find_partition_ends(numbers, lengths, moments, None, rule)
    assert [again + place for place in taken_up] == [place for place in expected if place > again]
    assert isinstance(left, OpenPartition) and left == begun
