"""Chunks, stretches, claims and what stands beyond runs, on every database."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace

import pytest

from auditor import packed, summary
from auditor.errors import UnknownRun
from auditor.kept import Kept
from auditor.model import Chunk
from auditor.store import Store, chunks, claims, runs, standing, stretches
from auditor.store.stretches import Stretch
from tests.store.samples import FAILED, T0, begun, chunk, ended, new_audit


def test_chunks_come_back_in_order_however_large_their_keys(store: Store) -> None:
    run = begun(store, new_audit())
    wanted = [
        chunk(None, -(2**70)),
        chunk(-(2**70), 5),
        chunk(5, 2**64),
        chunk(2**64, None, rows=2**40, seconds=1e-7, attempts=3),
        chunk(None, None, null_key=True),
        chunk(0, 1, side="target", payload=b""),
    ]
    for one in random.sample(wanted, len(wanted)):
        chunks.save(store, run, one)
    assert chunks.done(store, run) == wanted


def test_a_chunk_saved_again_replaces_itself(store: Store) -> None:
    run = begun(store, new_audit())
    chunks.save(store, run, chunk())
    chunks.save(store, run, chunk(payload=b"x" * 200_000, attempts=2))
    assert chunks.done(store, run) == [chunk(payload=b"x" * 200_000, attempts=2)]
    with pytest.raises(UnknownRun):
        chunks.save(store, "no such run", chunk())


def test_no_chunk_of_a_run_that_has_ended_is_kept(store: Store) -> None:
    run = begun(store, new_audit())
    runs.pin(store, run, plan=b"plan", schema={})
    chunks.save(store, run, chunk())
    runs.finish(store, run, FAILED)
    with pytest.raises(UnknownRun, match="taken away"):
        chunks.save(store, run, chunk(5, 15))
    assert chunks.done(store, run) == [chunk()]


def test_no_row_is_taken_up_twice(store: Store) -> None:
    """Of chunks that overlap, whoever saved them, one counts; what only the others held is read again."""
    run = begun(store, new_audit())
    names = ["partition_id", "row_count", "hashed", "key_min", "key_max"]
    payload = packed.pack_summaries(summary.read([], names))
    held: list[tuple[int | None, int | None]] = [(None, 10), (5, 20), (20, 30), (25, None)]
    for first, end in held:
        chunks.save(store, run, chunk(first, end, payload=payload))
    chunks.save(store, run, chunk(None, None, null_key=True, payload=payload))
    chunks.save(store, run, chunk(5, 20, side="target", payload=payload))
    kept = Kept(store, run)
    kept.take_up()
    assert [one for one, _ in kept.read("source")] == [Chunk(None, 10), Chunk(20, 30), Chunk(null_key=True)]
    assert [one for one, _ in kept.read("target")] == [Chunk(5, 20)]


def test_what_stands(store: Store) -> None:
    audit = new_audit()
    assert standing.get(store, audit) == standing.Standing()
    standing.update(store, audit, told_verdict="mismatch", told_at=T0)
    standing.update(store, audit, verified_through=T0, verified_by="these", paused=True)
    found = standing.get(store, audit)
    assert found == standing.Standing(T0, "mismatch", T0, 0, True, "these")
    assert (found.verified("these"), found.verified("those")) == (T0, None)
    ended(store, audit)
    standing.update(store, audit, told_verdict=None)
    assert standing.get(store, audit) == standing.Standing(T0, None, T0, 1, True, "these")


def test_moments_are_utc_wherever_they_were_written(store: Store) -> None:
    audit = new_audit()
    tokyo = T0.astimezone(dt.timezone(dt.timedelta(hours=9)))
    standing.update(store, audit, told_at=tokyo)
    told = standing.get(store, audit).told_at
    assert told == T0 and told.tzinfo == dt.UTC
    with pytest.raises(Exception, match="time zone"):
        standing.update(store, audit, told_at=T0.replace(tzinfo=None))


def test_a_tick_is_claimed_once(store: Store) -> None:
    audit = new_audit()
    assert claims.claim(store, audit, T0, "me")
    assert not claims.claim(store, audit, T0, "you")
    assert not claims.claim(store, audit, T0.astimezone(dt.timezone(dt.timedelta(hours=-7))), "you")
    assert claims.claim(store, audit, T0 + dt.timedelta(microseconds=1), "you")
    assert claims.claim(store, new_audit(), T0, "you")


def test_a_later_stretch_cuts_the_earlier_ones(store: Store) -> None:
    audit = new_audit()
    one, two = ended(store, audit), ended(store, audit)
    whole = Stretch(None, None, one, T0, T0)
    stretches.record(store, audit, "by 1000", whole)
    middle = Stretch(-5, 2**66, two, T0 + dt.timedelta(days=1))
    stretches.record(store, audit, "by 1000", middle)
    assert stretches.of(store, audit, "by 1000") == [replace(whole, end=-5), middle, replace(whole, first=2**66)]
    assert stretches.of(store, audit, "by 500") == []
    stretches.record(store, audit, "by 500", middle)
    assert stretches.of(store, audit, "by 1000") == []
    with pytest.raises(UnknownRun):
        stretches.record(store, audit, "by 500", replace(whole, run="no such run"))
    assert stretches.of(store, audit, "by 500") == [middle]


@pytest.mark.parametrize("seed", range(3))
def test_stretches_always_say_who_looked_last(store: Store, seed: int) -> None:
    """Against a list of cells, each with the run that wrote it last."""
    chance, audit, cells = random.Random(seed), new_audit(), [""] * 20
    made = [ended(store, audit) for _ in range(3)]
    for _ in range(12):
        run, bounds = chance.choice(made), sorted(chance.sample(range(21), 2))
        stretches.record(store, audit, "layout", Stretch(bounds[0], bounds[1], run, T0))
        cells[bounds[0] : bounds[1]] = [run] * (bounds[1] - bounds[0])
        told, last = [""] * 20, 0
        for stretch in stretches.of(store, audit, "layout"):
            assert stretch.first is not None and stretch.end is not None and last <= stretch.first < stretch.end
            told[stretch.first : stretch.end], last = [stretch.run] * (stretch.end - stretch.first), stretch.end
        assert told == cells
