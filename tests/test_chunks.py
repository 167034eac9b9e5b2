"""The chunks of a scan hold every key once, whatever their sizes, failures and interruptions were."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from auditor import chunks
from auditor.model import SIDES, Chunk, ColumnPlan, Partitioning, Plan, SidePlan
from dialects import Kind

KEYS = st.integers(-(2**63), 2**64)
INTEGER = Kind("integer")


def plan(least: int, greatest: int, size: int, chunk_keys: int, nullable: bool = False) -> Plan:
    middle = (least + greatest) // 2
    middle -= middle % size
    parts = (Chunk(end=middle), Chunk(first=middle), Chunk(null_key=True)) if nullable else (Chunk(),)
    side = SidePlan(dialect="mysql", connection="c", label="c: t", table="t", where="", chunks=parts, chunk_keys=chunk_keys)
    native, names, types = dict.fromkeys(SIDES, INTEGER), dict.fromkeys(SIDES, "id"), dict.fromkeys(SIDES, "bigint")
    key = ColumnPlan(name="id", kind=INTEGER, native=native, expression=names, types=types, why="")
    return Plan(
        audit="a", method="exact", sides=dict.fromkeys(SIDES, side), columns=(key,), key=1, least=least, greatest=greatest,
        partitioning=Partitioning(strategy="range", size=size),
    )  # fmt: skip


def whole(found: list[Chunk], size: int) -> bool:
    """Whether these chunks hold every key once, and no partition lies in two of them."""
    ranges = sorted((one for one in found if not one.null_key), key=lambda one: (one.first is not None, one.first or 0))
    open_ended = (ranges[0].first, ranges[-1].end) == (None, None)
    touching = all(before.end == after.first and after.first is not None for before, after in pairwise(ranges))
    return open_ended and touching and all(one.end is None or one.end % size == 0 for one in ranges)


@given(KEYS, KEYS, st.integers(1, 10**6), st.integers(1, 10**12), st.booleans(), st.data())
def test_every_key_is_read_once(one: int, other: int, size: int, chunk_keys: int, nullable: bool, data: st.DataObject) -> None:
    made = plan(min(one, other), max(one, other), size, chunk_keys, nullable)
    queue = chunks.queue(made, "source", readers=data.draw(st.integers(1, 3)))
    done: list[Chunk] = []
    for _ in range(30):
        if (chunk := queue.take()) is None:
            break
        match data.draw(st.sampled_from(("read", "read", "failed", "too slow", "interrupted"))):
            case "read":
                queue.finished(chunk, 1000, data.draw(st.floats(0, 100)))
                done.append(chunk)
            case "failed":
                assert queue.give_back(chunk)
            case "too slow":
                if not queue.give_back(chunk, smaller=True):
                    done.append(chunk)
            case "interrupted":
                queue = chunks.queue(made, "source", done=done)
    everything = [*done, *queue.open]
    assert whole(everything, size)
    assert sum(chunk.null_key for chunk in everything) == nullable


@given(KEYS, KEYS, st.integers(1, 1000))
def test_what_was_read_is_not_read_again(one: int, other: int, size: int) -> None:
    made = plan(min(one, other), max(one, other), size, 10_000)
    assert chunks.queue(made, "source", done=[Chunk()]).take() is None


def test_sizes_follow_the_rate() -> None:
    queue = chunks.queue(plan(0, 10**9, 1000, 1_000_000), "source")
    first = queue.take()
    assert first == Chunk(end=250_000)
    queue.finished(first, 250_000, seconds=chunks.AIM)
    assert queue.keys == 250_000
    queue.finished(first, 250_000, seconds=chunks.AIM / 100)
    assert queue.keys == 1_000_000, "four times larger at once, and never larger than the plan allows"
    queue.finished(first, 250_000, seconds=chunks.AIM * 100)
    assert queue.keys == 62_500, "four times smaller at once"


def test_a_statement_that_takes_too_long_is_cut_until_it_cannot_be() -> None:
    queue = chunks.queue(plan(0, 7999, 1000, 8000), "source")
    taken = queue.take()
    assert taken
    while queue.give_back(taken, smaller=True):
        taken = queue.take()
        assert taken
    assert taken == Chunk(end=1000)


def test_readers_end_together() -> None:
    """With two readers nobody takes all that is left."""
    queue = chunks.queue(plan(0, 99_999, 1, 400_000), "source", readers=2)
    queue.keys = 400_000
    assert queue.take() == Chunk(end=50_000)
