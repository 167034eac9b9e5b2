"""The manifest of a pipeline, and what its targets report, on every database."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from dataclasses import replace

import pytest

from auditor.api_models.pipeline import PipelineProgress
from auditor.errors import IncarnationsDiffer
from auditor.model import Part
from auditor.store import Store, parts, pipelines, schema_changes, segments
from auditor.store.parts import Pile, StagedTable
from auditor.store.pipelines import MergeNews
from tests import many_tables

T0 = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
_numbers = itertools.count()


@pytest.fixture
def pipeline() -> str:
    """The name of a new pipeline: tests share the store."""
    return f"pipeline-{next(_numbers)}"


def part(first: int, last: int, table: str = "shop.orders", rows: int = 10) -> Part:
    return Part(table, first, last, rows, 100 * rows, "abc", f"{table}/{first}.parquet", T0 + dt.timedelta(seconds=last))


def test_a_replayed_batch_is_listed_once(store: Store, pipeline: str) -> None:
    batch = [part(1, 5), replace(part(6, 9), previous=5), part(3, 4, "shop.items")]
    for _ in range(2):
        parts.record_batch(store, pipeline, batch, {"abc": {"table": "orders"}}, {"file": "binlog.000001", "offset": 9})
    parts.record_batch(store, pipeline, [], {})
    assert parts.list_parts(store, pipeline, "shop.orders", 0) == batch[:2]
    assert parts.list_parts(store, pipeline, "shop.orders", 5) == [batch[1]] and parts.list_parts(store, pipeline, "shop.orders", 9) == []
    assert parts.list_tables(store, pipeline) == {"shop.orders": StagedTable(9, 0), "shop.items": StagedTable(4, 0)}
    assert parts.get_schema(store, pipeline, "abc") == {"table": "orders"} and parts.get_schema(store, pipeline, "xyz") is None
    assert parts.sum_parts(store, pipeline) == {"shop.orders": Pile(2, 20, 2000), "shop.items": Pile(1, 10, 1000)}
    assert parts.sum_parts(store, pipeline, ["shop.items", "shop.none"]) == {"shop.items": Pile(1, 10, 1000)}
    assert parts.count_bytes(store, pipeline) == 3000
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


def test_what_is_missing_in_targets_is_behind_what_they_reported(store: Store, pipeline: str) -> None:
    parts.record_batch(store, pipeline, [part(1, 5), part(6, 9), part(3, 4, "shop.items")], {})
    pipelines.report_merges(store, pipeline, "wh", {"shop.orders": MergeNews(5, "merged"), "shop.items": MergeNews(4, "merged")})
    orders, items = Pile(1, 10, 1000, T0 + dt.timedelta(seconds=9)), Pile(1, 10, 1000, T0 + dt.timedelta(seconds=4))
    assert parts.sum_missing(store, pipeline, ["wh", "lake"]) == {
        "wh": {"shop.orders": orders},
        "lake": {"shop.orders": Pile(2, 20, 2000, T0 + dt.timedelta(seconds=5)), "shop.items": items},
    }
    assert parts.sum_missing(store, pipeline, ["lake"], ["shop.items", "shop.none"]) == {"lake": {"shop.items": items}}
    pipelines.report_merges(store, pipeline, "wh", {"shop.orders": MergeNews(7, "merged")})
    assert parts.sum_missing(store, pipeline, ["wh"]) == {"wh": {"shop.orders": orders}}, "a part counts as a whole"
    pipelines.report_merges(store, pipeline, "wh", {"shop.orders": MergeNews(9, "merged")})
    assert parts.sum_missing(store, pipeline, ["wh"]) == {"wh": {}} and parts.sum_missing(store, pipeline, []) == {}


def test_parts_are_deleted_once_they_are_passed_and_old(store: Store, pipeline: str) -> None:
    parts.record_batch(store, pipeline, [part(1, 5), part(6, 9), part(3, 4, "shop.items")], {})
    pipelines.report_merges(store, pipeline, "wh", {"shop.orders": MergeNews(9, "merged")})
    both = ("wh", "lake")
    assert parts.delete_passed(store, pipeline, -1, targets=both) == [], "one has not reported yet"
    pipelines.report_merges(store, pipeline, "lake", {"shop.orders": MergeNews(8, "merged")})
    assert parts.delete_passed(store, pipeline, 3600, targets=both) == []
    assert parts.delete_passed(store, pipeline, -1, targets=both, segmented=True) == [], "nothing was cut yet"
    segments.record_cut(store, pipeline, [], segments.Cut(5, 0, {"shop.orders": 4, "shop.items": 5}), 0)
    assert parts.delete_passed(store, pipeline, -1, targets=both, segmented=True) == []
    assert parts.delete_passed(store, pipeline, -1, segmented=True) == [part(3, 4, "shop.items")], "of what is read for segments alone"
    assert parts.delete_passed(store, pipeline, -1, targets=both) == [part(1, 5)]
    assert parts.list_paths(store, pipeline) == {"shop.orders/6.parquet"}
    assert parts.list_tables(store, pipeline) == {"shop.orders": StagedTable(9, 5), "shop.items": StagedTable(4, 4)}
    parts.forget(store, pipeline)
    assert parts.list_tables(store, pipeline) == {} and parts.list_paths(store, pipeline) == set()


def test_the_oldest_passed_parts_go_until_there_is_room(store: Store, pipeline: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "AT_ONCE", 2)
    batches = [[part(10 * number + 1, 10 * number + 5), part(10 * number + 2, 10 * number + 4, "shop.items")] for number in range(4)]
    for number, batch in enumerate(batches):
        parts.record_batch(store, pipeline, batch, {})
        batch[:] = [replace(one, previous=one.last - 10 if number else 0) for one in batch]
    pipelines.report_merges(store, pipeline, "wh", {"shop.orders": MergeNews(99, "merged"), "shop.items": MergeNews(15, "merged")})
    assert parts.delete_oldest(store, pipeline, 2500, targets=["wh"]) == [*batches[0], batches[1][0]]
    assert parts.delete_oldest(store, pipeline, 10_000, targets=["wh"]) == [batches[1][1], batches[2][0], batches[3][0]]
    assert parts.count_bytes(store, pipeline) == 2000 and parts.delete_oldest(store, pipeline, 10_000, targets=["wh"]) == []


def test_what_tables_hold_is_counted_as_parts_come_and_go(store: Store, pipeline: str) -> None:
    chance = random.Random(7)
    names = ("shop.orders", "shop.items", "shop.quiet")
    parts.record_batch(store, pipeline, [part(1, 2, "shop.quiet")], {})

    def added_up() -> dict[str, Pile]:
        listed = [part for table in names for part in parts.list_parts(store, pipeline, table, 0)]
        found = {table: parts.totals(part for part in listed if part.table == table) for table in names}
        return {table: Pile(sum(part.table == table for part in listed), *counts) for table, counts in found.items()}

    for step in range(1, 40):
        first = 10 * chance.randint(max(1, step - 2), step)  # some batches are staged again, cut otherwise
        batch = [part(first, first + 5, table, chance.randint(1, 99)) for table in names[:2] if chance.random() < 0.8]
        parts.record_batch(store, pipeline, batch, {})
        pipelines.report_merges(
            store, pipeline, "wh", {"shop.orders": MergeNews(first - 10, "merged"), "shop.items": MergeNews(9, "merged")}
        )
        if chance.random() < 0.3:
            parts.delete_passed(store, pipeline, -1, targets=["wh"])
        if chance.random() < 0.3:
            parts.delete_oldest(store, pipeline, 3000, targets=["wh"])
        if batch and chance.random() < 0.3:
            gone, elsewhere = part(5, 6, "shop.items"), replace(batch[0], path="another")
            moved = [(one, replace(one, bytes=one.bytes + chance.randint(-9, 9))) for one in batch]
            parts.replace_files(store, pipeline, [*moved, (gone, gone), (elsewhere, replace(elsewhere, bytes=0))])
        assert parts.sum_parts(store, pipeline) == {table: added_up()[table] for table in parts.list_tables(store, pipeline)}
        assert parts.count_bytes(store, pipeline) == sum(pile.bytes for pile in added_up().values())
    with store.engine.begin() as connection:
        connection.execute(parts.staged_tables.update().where(parts.staged_tables.c.pipeline == pipeline).values(part_count=7, row_count=0))
    parts.recount(store, pipeline)
    assert parts.sum_parts(store, pipeline) == added_up()


def test_the_store_is_asked_as_often_for_many_tables_as_for_few(store: Store, pipeline: str) -> None:
    counts = []
    for number, tables in enumerate((5, 60)):
        name = f"{pipeline}-{number}"
        many_tables.create(store, tables, batches=2, pipeline=name)
        with many_tables.counted(store) as statements:
            parts.sum_parts(store, name)
            parts.sum_missing(store, name, many_tables.TARGETS)
            pipelines.list_merges(store, name)
            pipelines.count_merged(store, name)
            schema_changes.list_migrations(store, name)
            assert len(parts.delete_passed(store, name, -1, targets=many_tables.TARGETS, segmented=True)) >= tables - 4
            parts.delete_oldest(store, name, 1, targets=["lake"])
        counts.append(len(statements))
    assert counts[0] == counts[1] < 30


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


def test_a_batch_that_does_not_follow_the_one_before_is_refused(store: Store) -> None:
    """As from a process that goes on after the store was restored to an earlier time; nothing of it is listed."""
    places = [{"file": "binlog.000007", "position": position, "topics": {"a": {"id": "x", "offsets": [1]}}} for position in (4, 100, 200)]
    parts.record_batch(store, "p", [], {}, places[0])
    parts.record_batch(store, "p", [], {}, places[1], begin=places[0])
    with pytest.raises(IncarnationsDiffer, match=r"staged up to binlog.000007:100, and this process up to binlog.000007:4"):
        parts.record_batch(store, "p", [], {}, places[2], begin=places[0])
    assert pipelines.get_pipeline(store, "p").source_offset == places[1]
    parts.record_batch(store, "p", [], {}, places[2], begin={**places[1], "topics": {"a": {"id": "x", "offsets": (1,)}}})


def test_a_cut_that_does_not_follow_the_one_before_is_not_recorded(store: Store) -> None:
    assert segments.record_cut(store, "p", [], segments.Cut(10, 0, {"shop.orders": 10}), 0)
    assert segments.record_cut(store, "p", [], segments.Cut(20, 0, {"shop.orders": 20}), 10)
    assert not segments.record_cut(store, "p", [], segments.Cut(30, 0, {"shop.orders": 30}), 10)
    assert segments.get_cut(store, "p").through == 20
