"""Chunks, rolling parts, claims and standings, on every database."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace

import pytest

from auditor.errors import RunLost, UnknownRun
from auditor.history.checkpoint import StoreCheckpoint
from auditor.model import Chunk
from auditor.store import Store, audit_state, queue, rolling_parts, run_lifecycle
from auditor.store.rolling_parts import RollingPart
from auditor.summary import arrays, codec
from tests.store.samples import FAILED, T0, add_finished_run, make_chunk, new_audit_name, start_run


def test_chunks_are_listed_in_key_order_with_keys_beyond_64_bits(store: Store) -> None:
    run = start_run(store, new_audit_name())
    wanted = [
        make_chunk(None, -(2**70)),
        make_chunk(-(2**70), 5),
        make_chunk(5, 2**64),
        make_chunk(2**64, None, rows=2**40, seconds=1e-7, attempts=3),
        make_chunk(None, None, null_key=True),
        make_chunk(0, 1, side="target", payload=b""),
    ]
    for one in random.sample(wanted, len(wanted)):
        run_lifecycle.save_chunk(store, run, one)
    assert run_lifecycle.list_chunks(store, run) == wanted


def test_saving_a_chunk_again_replaces_it(store: Store) -> None:
    run = start_run(store, new_audit_name())
    run_lifecycle.save_chunk(store, run, make_chunk())
    run_lifecycle.save_chunk(store, run, make_chunk(payload=b"x" * 200_000, attempts=2))
    assert run_lifecycle.list_chunks(store, run) == [make_chunk(payload=b"x" * 200_000, attempts=2)]
    with pytest.raises(UnknownRun):
        run_lifecycle.save_chunk(store, "no such run", make_chunk())


def test_chunks_of_a_finished_run_are_rejected(store: Store) -> None:
    run = start_run(store, new_audit_name())
    run_lifecycle.save_plan(store, run, plan=b"plan", schema={})
    run_lifecycle.save_chunk(store, run, make_chunk())
    run_lifecycle.finish_run(store, run, FAILED)
    with pytest.raises(RunLost, match="no longer belongs"):
        run_lifecycle.save_chunk(store, run, make_chunk(5, 15))
    assert run_lifecycle.list_chunks(store, run) == [make_chunk()]


def test_overlapping_chunks_are_resumed_once(store: Store) -> None:
    """Of overlapping chunks one is used; keys that only the others covered are read again."""
    run = start_run(store, new_audit_name())
    names = ["partition_id", "row_count", "hashed", "key_min", "key_max"]
    payload = codec.pack_summaries(arrays.read([], names))
    ranges: list[tuple[int | None, int | None]] = [(None, 10), (5, 20), (20, 30), (25, None)]
    for first, end in ranges:
        run_lifecycle.save_chunk(store, run, make_chunk(first, end, payload=payload))
    run_lifecycle.save_chunk(store, run, make_chunk(None, None, null_key=True, payload=payload))
    run_lifecycle.save_chunk(store, run, make_chunk(5, 20, side="target", payload=payload))
    checkpoint = StoreCheckpoint(store, run)
    checkpoint.load()
    assert [one for one, _ in checkpoint.saved_chunks("source")] == [Chunk(None, 10), Chunk(20, 30), Chunk(null_key=True)]
    assert [one for one, _ in checkpoint.saved_chunks("target")] == [Chunk(5, 20)]


def test_standing_is_updated_by_field(store: Store) -> None:
    audit = new_audit_name()
    assert audit_state.get_state(store, audit) == audit_state.AuditState()
    audit_state.update_state(store, audit, notified_verdict="mismatch", notified_at=T0)
    audit_state.update_state(store, audit, verified_through=T0, verified_settings="these", paused=True)
    found = audit_state.get_state(store, audit)
    assert found == audit_state.AuditState(T0, "mismatch", T0, 0, True, "these")
    assert (found.verified_under("these"), found.verified_under("those")) == ((T0, None), (None, None))
    audit_state.update_state(store, audit, within_threshold_through=T0, notified_failure=True)
    found = audit_state.get_state(store, audit)
    assert found.verified_under("these") == (T0, T0) and found.notified_failure
    audit_state.update_state(store, audit, within_threshold_through=None, notified_failure=False)
    add_finished_run(store, audit)
    audit_state.update_state(store, audit, notified_verdict=None)
    assert audit_state.get_state(store, audit) == audit_state.AuditState(T0, None, T0, 1, True, "these")


def test_times_are_converted_to_utc(store: Store) -> None:
    audit = new_audit_name()
    tokyo = T0.astimezone(dt.timezone(dt.timedelta(hours=9)))
    audit_state.update_state(store, audit, notified_at=tokyo)
    stored = audit_state.get_state(store, audit).notified_at
    assert stored == T0 and stored.tzinfo == dt.UTC
    with pytest.raises(Exception, match="time zone"):
        audit_state.update_state(store, audit, notified_at=T0.replace(tzinfo=None))


def test_tick_is_claimed_once(store: Store) -> None:
    audit = new_audit_name()
    assert queue.claim_tick(store, audit, T0, "me")
    assert not queue.claim_tick(store, audit, T0, "you")
    assert not queue.claim_tick(store, audit, T0.astimezone(dt.timezone(dt.timedelta(hours=-7))), "you")
    assert queue.claim_tick(store, audit, T0 + dt.timedelta(microseconds=1), "you")
    assert queue.claim_tick(store, new_audit_name(), T0, "you")


def test_later_part_replaces_what_it_covers(store: Store) -> None:
    audit = new_audit_name()
    one, two = add_finished_run(store, audit), add_finished_run(store, audit)
    whole = RollingPart(None, None, one, T0, T0)
    rolling_parts.record_part(store, audit, "by 1000", whole)
    middle = RollingPart(-5, 2**66, two, T0 + dt.timedelta(days=1))
    rolling_parts.record_part(store, audit, "by 1000", middle)
    assert rolling_parts.list_parts(store, audit, "by 1000") == [replace(whole, end=-5), middle, replace(whole, first=2**66)]
    assert rolling_parts.list_parts(store, audit, "by 500") == []
    rolling_parts.record_part(store, audit, "by 500", middle)
    assert rolling_parts.list_parts(store, audit, "by 1000") == []
    with pytest.raises(UnknownRun):
        rolling_parts.record_part(store, audit, "by 500", replace(whole, run="no such run"))
    assert rolling_parts.list_parts(store, audit, "by 500") == [middle]


@pytest.mark.few
@pytest.mark.parametrize("seed", range(3))
def test_parts_name_the_last_run_of_each_partition(store: Store, seed: int) -> None:
    """Compares the parts with a list that holds the last run of each partition."""
    chance, audit, cells = random.Random(seed), new_audit_name(), [""] * 20
    made = [add_finished_run(store, audit) for _ in range(3)]
    for _ in range(12):
        run, bounds = chance.choice(made), sorted(chance.sample(range(21), 2))
        rolling_parts.record_part(store, audit, "layout", RollingPart(bounds[0], bounds[1], run, T0))
        cells[bounds[0] : bounds[1]] = [run] * (bounds[1] - bounds[0])
        listed, last = [""] * 20, 0
        for part in rolling_parts.list_parts(store, audit, "layout"):
            assert part.first is not None and part.end is not None and last <= part.first < part.end
            listed[part.first : part.end], last = [part.run] * (part.end - part.first), part.end
        assert listed == cells
