"""Segments end where the stream says, however its events arrive: compared with a reference that looks at one event after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auditor.pipeline.segments.cut import Open, Rule, find_ends, find_ticks


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
