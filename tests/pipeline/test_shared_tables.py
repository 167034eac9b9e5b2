"""A table that several pipelines fill: none of them deletes all of its rows, or a range of keys, because of one source alone.

What a target itself refuses stops the table in the same way.
"""

from __future__ import annotations

from typing import Any

import pytest

from auditor.pipeline.events import TableSchema
from auditor.service import pipelines as service
from auditor.service.pipeline_status import status
from auditor.store import pipelines
from tests.pipeline.conftest import COMMITTED, QUICK, TARGETS
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.test_schema_changes import change
from tests.pipeline_events import announce, batch, insert, refresh, table

pytestmark = pytest.mark.engines_in_turn

OTHER = "shard_b"
ORDERS = table(id="bigint", item="varchar(40) null")
FILLED = f"the target's table is also filled by the pipeline {OTHER}, whose rows would go with it; "
WAY_ON = f"; or reset {OTHER}, if that no longer fills the table"
EMPTIED = f"shop.orders: the source emptied it, or made it anew, and {FILLED}delete its rows there by hand, and skip this{WAY_ON}"
REPLACED = f"shop.orders: a refresh replaces all rows in a range of keys, and {FILLED}bring them by other ways, and skip this{WAY_ON}"


class Shards:
    """Two pipelines into one target, whose clock goes on by 100 s at each look."""

    def __init__(self, road: Road) -> None:
        self.road, self._now = road, 0.0
        self.first, self.second = (road.loader(clock=self._clock, pipeline=name) for name in (PIPELINE, OTHER))
        road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "a"])))
        road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 11, ["1001", "b"])), pipeline=OTHER)
        assert (self.first.merge_all(), self.second.merge_all()) == (2, 1)

    def _clock(self) -> float:
        self._now += 100
        return self._now

    def keys(self) -> list[int]:
        return [row[0] for row in self.road.rows()]

    def report(self, name: str = "orders") -> tuple[str, str]:
        found = pipelines.list_merges(self.road.store, PIPELINE)["wh"][f"shop.{name}"]
        return found.state, found.reason

    def stops(self) -> list[tuple[str, str]]:
        found = status(self.road.settings, self.road.store, PIPELINE, look=False).stopped
        return [(stop.place, stop.reason) for stop in found]

    def skip(self, place: str) -> None:
        service.skip(self.road.settings, self.road.store, PIPELINE, "orders", place, "the rows were deleted by hand", by="ann")


def other_table(position: int) -> Any:
    healthy = table("healthy", id="int")
    return batch(announce(healthy, position), insert(healthy, position, [str(position)]))


@pytest.mark.quick_for("duckdb")
@pytest.mark.parametrize("engine", [*TARGETS, *COMMITTED], indirect=True)
def test_a_table_is_not_emptied_that_another_pipeline_fills(road: Road) -> None:
    shards = Shards(road)
    emptied = change("orders", 20, {"op": "clear"})
    road.stage_task(batch(insert_behind(15, "3"), emptied, insert(ORDERS, 30, ["4", "new"])), other_table(25))
    shards.first.merge_all()
    assert shards.keys() == [1, 2, 3, 1001] and road.rows("healthy") == [(25,)]
    assert shards.report() == ("stopped", EMPTIED) and shards.report("healthy")[0] == "merged"
    assert shards.stops() == [("000000:20", EMPTIED)] or shards.stops() == [("binlog.000000:20", EMPTIED)]
    road.stage(batch(announce(ORDERS, 20), insert(ORDERS, 21, ["1002", "b"])), pipeline=OTHER)
    assert shards.second.merge_all() == 1, "the other pipeline goes on"
    shards.skip("binlog.000000:20")
    shards.first.merge_all()
    assert shards.keys() == [1, 2, 3, 4, 1001, 1002] and shards.report() == ("merged", "") and shards.stops() == []


@pytest.mark.parametrize("engine", [one for one in TARGETS if one.id in QUICK], indirect=True)
def test_ranges_of_a_refresh_are_not_replaced_where_another_pipeline_fills_the_table(road: Road) -> None:
    shards = Shards(road)
    chunk = refresh(ORDERS, 20, ["1", "a"], ["2", "a"], bounds=([None, None], [None, None]))
    road.stage(batch(insert_behind(15, "3"), chunk, insert(ORDERS, 30, ["4", "new"])), other_table(25))
    shards.first.merge_all()
    assert shards.keys() == [1, 2, 3, 1001] and road.rows("healthy") == [(25,)]
    assert shards.report() == ("stopped", REPLACED) and [place[-2:] for place, _ in shards.stops()] == ["20"]
    shards.skip("binlog.000000:20")
    shards.first.merge_all()
    assert shards.keys() == [1, 2, 3, 4, 1001] and shards.report() == ("merged", "")


@pytest.mark.parametrize("engine", [one for one in TARGETS if one.id in QUICK], indirect=True)
def test_a_table_that_another_pipeline_fills_is_not_renamed(road: Road) -> None:
    shards = Shards(road)
    later = TableSchema("shop", "later", ORDERS.columns, ORDERS.key)
    road.stage_task(
        batch(change("orders", 20, {"op": "gone", "to": "shop.later"})),
        batch(change("later", 20, {"op": "moved", "from": "shop.orders"}), announce(later, 30) + insert(later, 30, ["4", "x"])),
    )
    for _ in range(2):
        shards.first.merge_all()
    assert shards.keys() == [1, 2, 1001] and shards.stops() == []
    assert "shop.orders: the source renamed it, and the target's table is also filled by the pipeline" in {
        text.partition(f" {OTHER}")[0] for _, text in (shards.report(name) for name in ("orders", "later"))
    }


@pytest.mark.parametrize("engine", [one for one in TARGETS if one.id == "duckdb"], indirect=True)
def test_a_pipeline_that_no_longer_fills_a_table_is_reset(road: Road) -> None:
    shards = Shards(road)
    road.stage_task(batch(change("orders", 20, {"op": "clear"}), announce(ORDERS, 30) + insert(ORDERS, 30, ["4", "new"])))
    shards.first.merge_all()
    assert shards.report() == ("stopped", EMPTIED)
    road.execute(f"DELETE FROM {road.schema}.auditor_positions WHERE pipeline = '{OTHER}'")
    shards.first.merge_all()
    assert shards.keys() == [4] and shards.report() == ("merged", "") and shards.stops() == []


@pytest.mark.parametrize("engine", [one for one in TARGETS if one.id == "postgres"], indirect=True)
def test_a_statement_that_the_target_refuses_stops_its_table_with_the_reason(road: Road) -> None:
    shards = Shards(road)
    road.execute(
        f"DELETE FROM {road.schema}.auditor_positions WHERE pipeline = '{OTHER}'",
        f"CREATE TABLE {road.schema}.notes (id bigint REFERENCES {road.schema}.orders)",
        f"INSERT INTO {road.schema}.notes VALUES (1)",
    )
    road.stage_task(batch(change("orders", 20, {"op": "clear"}), announce(ORDERS, 30) + insert(ORDERS, 30, ["4", "new"])))
    shards.first.merge_all()
    assert shards.report()[0] == "stopped" and "foreign key" in shards.report()[1] and len(shards.stops()) == 1
    road.execute(f"DROP TABLE {road.schema}.notes")
    shards.first.merge_all()
    assert shards.keys() == [4] and shards.report() == ("merged", "") and shards.stops() == []


def insert_behind(position: int, key: str) -> Any:
    return announce(ORDERS, position) + insert(ORDERS, position, [key, "a"])
