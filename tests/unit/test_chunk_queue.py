"""The chunks of a scan contain every key exactly once, whatever their sizes and through failures and interruptions."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.config import Audit, ConnectionSettings
from auditor.durations import Durations
from auditor.model import SIDES, Chunk, ColumnPlan, Partitioning, Plan, SidePlan, Verdict
from auditor.planning import chunks
from auditor.planning.chunks import COLUMN_CHUNK_ROWS
from auditor.run import audit_run
from auditor.run.chunk_queue import ChunkQueue
from dialects import Kind
from tests.durations import SetDurations

KEYS = st.integers(-(2**63), 2**64)
INTEGER = Kind("integer")
AIM = Durations().chunk_aim


def plan(least: int, greatest: int, size: int, chunk_keys: int, nullable: bool = False) -> Plan:
    middle = (least + greatest) // 2
    middle -= middle % size
    parts = (Chunk(end=middle), Chunk(first=middle), Chunk(null_key=True)) if nullable else (Chunk(),)
    side = SidePlan(dialect="mysql", connection="c", label="c: t", table="t", where="", chunks=parts, chunk_keys=chunk_keys)
    native, names, types = dict.fromkeys(SIDES, INTEGER), dict.fromkeys(SIDES, "id"), dict.fromkeys(SIDES, "bigint")
    key = ColumnPlan(name="id", kind=INTEGER, native=native, expression=names, types=types, why="")
    return Plan(
        audit="a", method="exact", sides=dict.fromkeys(SIDES, side), columns=(key,), key=1, least=least, greatest=greatest,
        partitioning=Partitioning(strategy="range", size=size), prefix="a_",
    )  # fmt: skip


def covers_every_key_once(chunks: list[Chunk], size: int) -> bool:
    """Whether these chunks contain every key exactly once and split no partition."""
    ranges = sorted((one for one in chunks if not one.null_key), key=lambda one: (one.first is not None, one.first or 0))
    open_ended = (ranges[0].first, ranges[-1].end) == (None, None)
    touching = all(before.end == after.first and after.first is not None for before, after in pairwise(ranges))
    return open_ended and touching and all(one.end is None or one.end % size == 0 for one in ranges)


@given(KEYS, KEYS, st.integers(1, 10**6), st.integers(1, 10**12), st.booleans(), st.data())
def test_every_key_is_in_exactly_one_chunk(one: int, other: int, size: int, chunk_keys: int, nullable: bool, data: st.DataObject) -> None:
    audit_plan = plan(min(one, other), max(one, other), size, chunk_keys, nullable)
    queue = ChunkQueue.of_plan(audit_plan, "source", connections=data.draw(st.integers(1, 3)))
    done: list[Chunk] = []
    for _ in range(30):
        if (chunk := queue.take()) is None:
            break
        match data.draw(st.sampled_from(("read", "read", "failed", "too slow", "interrupted"))):
            case "read":
                queue.record_read(chunk, 1000, data.draw(st.floats(0, 100)))
                done.append(chunk)
            case "failed":
                assert queue.give_back(chunk)
            case "too slow":
                if not queue.give_back(chunk, smaller=True):
                    done.append(chunk)
            case "interrupted":
                queue = ChunkQueue.of_plan(audit_plan, "source", done=done)
    all_chunks = [*done, *queue.pending]
    assert covers_every_key_once(all_chunks, size)
    assert sum(chunk.null_key for chunk in all_chunks) == nullable


@pytest.mark.parametrize(("done", "left"), [([Chunk(first=10, end=20)], 1), ([Chunk(10, 20), Chunk(null_key=True)], 0), ([Chunk()], 0)])
def test_rows_without_a_key_are_left_of_a_table_that_was_planned_as_one_chunk(done: list[Chunk], left: int) -> None:
    pending = ChunkQueue.of_plan(plan(0, 99, 10, 0), "source", done=done).pending
    assert sum(chunk.null_key for chunk in pending) == left
    assert len(pending) == left + (0 if Chunk() in done else 2)


@given(KEYS, KEYS, st.integers(1, 1000))
def test_finished_chunks_are_not_queued_again(one: int, other: int, size: int) -> None:
    audit_plan = plan(min(one, other), max(one, other), size, 10_000)
    assert ChunkQueue.of_plan(audit_plan, "source", done=[Chunk()]).take() is None


def test_chunk_size_adapts_to_the_read_rate() -> None:
    queue = ChunkQueue.of_plan(plan(0, 10**9, 1000, 1_000_000), "source")
    first = queue.take()
    assert first == Chunk(end=250_000)
    queue.record_read(first, 250_000, seconds=AIM)
    assert queue.chunk_keys == 250_000
    queue.record_read(first, 250_000, seconds=AIM / 100)
    assert queue.chunk_keys == 1_000_000, "grows by at most a factor of four, and never beyond the plan's chunk size"
    queue.record_read(first, 250_000, seconds=AIM * 100)
    assert queue.chunk_keys == 62_500, "shrinks by at most a factor of four"


def test_slow_chunk_is_cut_down_to_one_partition() -> None:
    queue = ChunkQueue.of_plan(plan(0, 7999, 1000, 8000), "source")
    taken = queue.take()
    assert taken
    while queue.give_back(taken, smaller=True):
        taken = queue.take()
        assert taken
    assert taken == Chunk(end=1000)


def test_last_chunks_are_shared_between_two_readers() -> None:
    """With two readers, one chunk never takes all that remains."""
    queue = ChunkQueue.of_plan(plan(0, 99_999, 1, 400_000), "source", connections=2)
    queue.chunk_keys = 400_000
    assert queue.take() == Chunk(end=50_000)


def simulate(
    rows: int, fixed: float, per_key: float, *, limit: float = float("inf"), connections: int = 1
) -> tuple[list[float], list[int]]:
    """Read a table of a column store, whose keys are the numbers of its rows, by one statement after another.

    Return the seconds of each, those that took longer than ``limit`` as long as that, and the keys of those that were read.
    """
    most = min(rows, COLUMN_CHUNK_ROWS)
    queue, seconds, keys = ChunkQueue.of_plan(plan(0, rows - 1, 16_384, most), "source", connections), list[float](), list[int]()
    while (chunk := queue.take()) is not None:
        spanned = min(rows, chunk.end or rows) - (chunk.first or 0)
        took = fixed + per_key * spanned
        seconds.append(min(took, limit))
        if took <= limit:
            queue.record_read(chunk, spanned, took)
            keys.append(spanned)
        else:
            assert queue.give_back(chunk, smaller=True), "cut down to a partition"
    assert sum(keys) == rows
    return seconds, keys


@pytest.mark.parametrize("per_key", [2e-8, 2e-7, 0.0])
def test_ranges_that_each_cost_a_scan_are_few(per_key: float) -> None:
    """Chunks that shrank to ``chunk_aim`` would be single partitions: 10^8 rows by 8,264 statements of 6 s."""
    seconds, _ = simulate(10**8, 6.0, per_key)
    assert len(seconds) <= 12 and sum(seconds) < 1.0 * (len(seconds) * 6 + per_key * 10**8) + 1
    seconds, _ = simulate(10**8, 6.0, per_key, connections=4)
    assert len(seconds) <= 16


def test_ranges_of_an_index_take_what_is_aimed_at() -> None:
    seconds, _ = simulate(10**8, 0.01, 1e-6)
    assert all(one < 2 * AIM for one in seconds[2:]) and len(seconds) < 1.5 * 10**8 * 1e-6 / AIM + 6


def test_ranges_that_time_out_are_cut_and_never_grow_again() -> None:
    seconds, keys = simulate(10**8, 6.0, 1e-6, limit=20.0)
    assert sum(one == 20.0 for one in seconds) <= 6 and max(keys) <= 14_000_000
    with pytest.raises(AssertionError, match="cut down to a partition"):  # then the run ends with the timeout
        simulate(10**7, 30.0, 1e-6, limit=20.0)


@given(st.lists(st.floats(0.7, 1.4), min_size=1, max_size=400), st.floats(0, 20), st.floats(1e-8, 1e-5))
def test_times_that_vary_neither_stop_a_scan_nor_shrink_it_to_partitions(noise: list[float], fixed: float, per_key: float) -> None:
    queue, statements, total = ChunkQueue.of_plan(plan(0, 10**8 - 1, 16_384, COLUMN_CHUNK_ROWS), "source"), 0, 0.0
    while (chunk := queue.take()) is not None:
        spanned = min(10**8, chunk.end or 10**8) - (chunk.first or 0)
        took = (fixed + per_key * spanned) * noise[statements % len(noise)]
        queue.record_read(chunk, spanned, took)
        statements, total = statements + 1, total + took
    needed = per_key * 10**8
    assert statements <= 20 + 4 * needed / AIM
    assert total <= 1.4 * (needed + 20 * fixed + 2 * needed)


@pytest.mark.parametrize("order", ["id", "hash(id)"])
def test_a_shuffled_key_is_read_in_few_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations, order: str
) -> None:
    """Of DuckDB each range of such a key costs a scan, which takes longer than is aimed at."""
    monkeypatch.setattr(chunks, "COLUMN_CHUNK_ROWS", 40_000)
    set_durations(chunk_aim=1e-4)
    file = tmp_path / "t.duckdb"
    with duckdb.connect(str(file)) as connection:
        for side in SIDES:
            connection.execute(f"CREATE TABLE {side} AS SELECT range AS id, 'row ' || range AS v FROM range(60000) ORDER BY {order}")
    sides = {side: {"connection": side, "table": side} for side in SIDES}
    audit = Audit.model_validate({**sides, "key": ["id"], "prescan": False, "partition": {"size": 32}})
    report = audit_run.run("t", audit, {side: ConnectionSettings(url=f"duckdb:///{file}") for side in SIDES})
    assert report.verdict is Verdict.MATCH, report.reasons
    assert all(cost.statements < 150 for cost in report.cost.values()), "where there are 1,875 partitions"
