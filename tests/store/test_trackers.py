"""The state of schema trackers, on every database."""

from __future__ import annotations

import itertools

import pytest

from auditor.store import Store, trackers
from auditor.store.trackers import Step, TrackerState

T, LIKE_T, LONG = ("shop", "t"), ("shop", "T"), ("größe" * 12, "`t`" * 21)
_numbers = itertools.count()


@pytest.fixture
def pipeline() -> str:
    """The name of a new pipeline: tests share the store."""
    return f"tracked-{next(_numbers)}"


def at(position: int) -> dict[str, object]:
    return {"epoch": 0, "file": "binlog.000001", "position": position}


def test_a_statement_is_noted_and_then_recorded_with_what_it_changed(store: Store, pipeline: str) -> None:
    state = trackers.get_tracker(store, pipeline)
    assert state == trackers.get_tracker(store, pipeline) == TrackerState(state.token)
    first = {"reason": "unknown"}
    whole = {("shop", ""): "ALTER DATABASE shop", T: "CREATE TABLE t (a int)", LIKE_T: "x" * 70_000, LONG: "z"}
    trackers.begin(store, pipeline, Step(at(10), 10, whole, {T: first, LIKE_T: first, LONG: first}))
    trackers.note_statement(store, pipeline, "binlog.000001:20", "ALTER TABLE t ...")
    found = trackers.get_tracker(store, pipeline)
    assert found.checkpoint == at(10) and found.pending_statement == {"place": "binlog.000001:20", "text": "ALTER TABLE t ..."}
    body = {"columns": [["a", "int", False, None, []]], "key": []}
    for _ in range(2):
        trackers.record(store, pipeline, Step(at(20), 15, {T: "CREATE TABLE t (b int)", LIKE_T: None}, {T: body}))
    assert trackers.get_tracker(store, pipeline) == TrackerState(state.token, at(20))
    assert trackers.read_dump(store, pipeline) == {("shop", ""): "ALTER DATABASE shop", T: "CREATE TABLE t (b int)", LONG: "z"}
    assert trackers.read_columns(store, pipeline) == {T: [(10, first), (15, body)], LIKE_T: [(10, first)], LONG: [(10, first)]}


def test_a_tracker_that_begins_anew_keeps_what_tables_had(store: Store, pipeline: str) -> None:
    token = trackers.get_tracker(store, pipeline).token
    trackers.begin(store, pipeline, Step(at(10), 10, {T: "one", LIKE_T: "two"}, {T: {"reason": "a"}}))
    trackers.begin(store, pipeline, Step(at(30), 30, {T: "three"}, {T: {"reason": "b"}}))
    assert trackers.read_dump(store, pipeline) == {T: "three"}
    assert trackers.read_columns(store, pipeline) == {T: [(10, {"reason": "a"}), (30, {"reason": "b"})]}
    trackers.begin(store, pipeline, Step(at(50), 50, {}, {}), (40, {"reason": "c"}))
    assert [position for position, _ in trackers.read_columns(store, pipeline)[T]] == [10, 30, 40]
    trackers.forget(store, pipeline)
    assert trackers.get_tracker(store, pipeline) == TrackerState(token), "its server stays the pipeline's own"
    assert not trackers.read_dump(store, pipeline) and not trackers.read_columns(store, pipeline)
