"""The manifest of a pipeline, and what its targets report, on every database."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import replace

import pytest

from auditor.api_models.pipeline import PipelineProgress
from auditor.model import Part
from auditor.store import Store, parts, pipelines
from auditor.store.parts import Pile, StagedTable
from auditor.store.pipelines import MergeNews

T0 = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
_numbers = itertools.count()


@pytest.fixture
def pipeline() -> str:
    """The name of a new pipeline: tests share the store."""
    return f"pipeline-{next(_numbers)}"


def part(first: int, last: int, table: str = "shop.orders", rows: int = 10) -> Part:
    return Part(table, first, last, rows, 100 * rows, "abc", f"{table}/{first}.parquet", T0 + dt.timedelta(seconds=last))


def test_a_replayed_batch_is_listed_once(store: Store, pipeline: str) -> None:
    batch = [part(1, 5), part(6, 9), part(3, 4, "shop.items")]
    for _ in range(2):
        parts.record_batch(store, pipeline, batch, {"abc": {"table": "orders"}}, {"file": "binlog.000001", "offset": 9})
    parts.record_batch(store, pipeline, [], {})
    assert parts.list_parts(store, pipeline, "shop.orders", 0) == batch[:2]
    assert parts.list_parts(store, pipeline, "shop.orders", 5) == [batch[1]] and parts.list_parts(store, pipeline, "shop.orders", 9) == []
    assert parts.list_tables(store, pipeline) == {"shop.orders": StagedTable(9, 0), "shop.items": StagedTable(4, 0)}
    assert parts.get_schema(store, pipeline, "abc") == {"table": "orders"} and parts.get_schema(store, pipeline, "xyz") is None
    assert parts.sum_parts(store, pipeline, {"shop.orders": 5}) == {
        "shop.orders": Pile(1, 10, 1000, T0 + dt.timedelta(seconds=9)), "shop.items": Pile(1, 10, 1000, T0 + dt.timedelta(seconds=4)),
    }  # fmt: skip
    assert parts.sum_parts(store, pipeline, {"shop.orders": 9, "shop.items": 4})["shop.items"] == Pile()
    assert parts.sum_parts(store, pipeline, {})["shop.orders"] == Pile(2, 20, 2000, T0 + dt.timedelta(seconds=5))
    state = pipelines.get_pipeline(store, pipeline)
    assert (state.staged_through, state.staged_time) == (9, T0 + dt.timedelta(seconds=9)) and state.staged_at
    assert state.source_offset == {"file": "binlog.000001", "offset": 9}
    assert state.events == 30, "events that are staged again count once"
    pipelines.set_progress(store, pipeline, PipelineProgress(lag_bytes=7))
    assert pipelines.get_pipeline(store, pipeline).progress == PipelineProgress(lag_bytes=7)


def test_a_part_that_was_cut_otherwise_replaces_the_one_that_begins_alike(store: Store, pipeline: str) -> None:
    parts.record_batch(store, pipeline, [part(1, 9)], {})
    parts.record_batch(store, pipeline, [replace(part(1, 5), rows=4)], {})
    assert [(one.first, one.last, one.rows) for one in parts.list_parts(store, pipeline, "shop.orders", 0)] == [(1, 5, 4)]
    assert pipelines.get_pipeline(store, pipeline).events == 4


def test_parts_are_deleted_once_they_are_passed_and_old(store: Store, pipeline: str) -> None:
    parts.record_batch(store, pipeline, [part(1, 5), part(6, 9), part(3, 4, "shop.items")], {})
    assert parts.delete_passed(store, pipeline, {"shop.orders": 9}, keep=3600) == []
    assert parts.delete_passed(store, pipeline, {"shop.orders": 8}, keep=-1) == [part(1, 5)]
    assert parts.list_paths(store, pipeline) == {"shop.orders/6.parquet", "shop.items/3.parquet"}
    assert parts.list_tables(store, pipeline)["shop.orders"] == StagedTable(9, 5)
    parts.forget(store, pipeline)
    assert parts.list_tables(store, pipeline) == {} and parts.list_paths(store, pipeline) == set()


def test_reports_of_targets_are_added_up(store: Store, pipeline: str) -> None:
    about = (store, pipeline, "warehouse")
    pipelines.report_merges(*about, {"shop.orders": MergeNews(5, "merged", events=10, time=T0)})
    pipelines.report_merges(*about, {"shop.orders": MergeNews(5, "stopped", "no column x"), "shop.items": MergeNews(7, "merged")})
    found = pipelines.list_merges(store, pipeline)["warehouse"]["shop.orders"]
    assert (found.position, found.events, found.state, found.reason, found.through_time) == (5, 10, "stopped", "no column x", T0)
    pipelines.set_paused(store, pipeline, True)
    pipelines.set_reason(store, pipeline, "the disk is full")
    state = pipelines.get_pipeline(store, pipeline)
    assert state == pipelines.PipelineState(paused=True, reason="the disk is full", paused_at=state.paused_at)
    pipelines.forget(store, pipeline)
    assert pipelines.list_merges(store, pipeline) == {} and pipelines.get_pipeline(store, pipeline) == pipelines.PipelineState()
