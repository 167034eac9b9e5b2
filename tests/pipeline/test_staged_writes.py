"""Which keys a pipeline's staged events wrote since a moment, and runs of its table that are chosen by them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.config import Audit
from auditor.model import Verdict
from auditor.pipeline import staged_writes
from auditor.pipeline.staged_writes import StagedWrites, find_events
from auditor.planning import prescan, writes
from auditor.service import planning
from auditor.store import parts, pipelines
from tests.live import Engines, engine_params
from tests.pipeline.aligned_road import AUDIT, AlignedRoad
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import T0, announce, batch, delete, insert, refresh, table, update

ORDERS, ITEMS = table(id="bigint", item="varchar(40) null"), table("items", id="bigint")
BOTH = table("pairs", ("id", "item"), id="bigint", item="varchar(40)")
ON_DUCKDB = pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)


def after(seconds: int) -> dt.datetime:
    """Return the moment at which an event at a position was committed, and what is more than a second older left out."""
    return T0 + dt.timedelta(seconds=seconds + 1)


@ON_DUCKDB
def test_keys_are_those_of_all_events_since_the_moment(road: Road) -> None:
    road.stage(batch(announce(ITEMS, 1), insert(ITEMS, 2, ["7"])))
    road.stage(batch(announce(ORDERS, 3), insert(ORDERS, 10, ["1", "a"], ["2", "b"]), insert(ORDERS, 20, ["3", "c"])))
    road.stage(batch(update(ORDERS, 30, (["1", "a"], ["1", "A"]), (["2", "b"], ["-5", "b"])), delete(ORDERS, 31, ["3", "c"])))
    road.stage(batch(refresh(ORDERS, 40, ["9", "i"], bounds=([None, None], ["9", None]))))
    found = StagedWrites(road.settings, road.store, PIPELINE, "shop.orders")
    assert sorted(_keys(found("id", after(20)))) == [-5, 1, 2, 3, 3, 9]
    assert sorted(_keys(found("ID", after(30)))) == [-5, 1, 2, 3, 9], "the name's case is none of the key"
    assert found("id", after(40)) == [9] and found("id", after(41)) == []
    assert sorted(_keys(found("id", after(3)))) == [-5, 1, 1, 2, 2, 3, 3, 9], "since before the first event of the table"


@ON_DUCKDB
def test_what_is_not_known_is_said(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    road.stage(batch(announce(ORDERS, 3), insert(ORDERS, 10, ["1", "a"])), batch(announce(BOTH, 4), insert(BOTH, 10, ["1", "a"])))
    parts_of = road.stage(batch(insert(ORDERS, 20, *([str(key), "c"] for key in range(50)))), batch(insert(BOTH, 20, ["2", "b"])))
    found = StagedWrites(road.settings, road.store, PIPELINE, "shop.orders")
    begin = f"{T0 + dt.timedelta(seconds=1):%Y-%m-%d %H:%M:%S}"
    assert found("id", after(1)) == f"the pipeline shop holds no events of shop.orders from before {begin} UTC"
    assert found("item", after(15)) == "the key of the events of shop.orders is not the column item alone"
    pairs = StagedWrites(road.settings, road.store, PIPELINE, "shop.pairs")
    assert pairs("id", after(15)) == "the key of the events of shop.pairs is not the column id alone"
    monkeypatch.setattr(staged_writes, "MOST_EVENTS", 49)
    assert found("id", after(15)) == "the pipeline shop staged 50 events of shop.orders since, more than are read to count them"
    monkeypatch.undo()
    monkeypatch.setattr(staged_writes, "MOST_PARTS", 0)
    assert "staged more than 0 parts of shop.orders since" in str(found("id", after(15)))
    monkeypatch.undo()
    pipelines.set_paused(road.store, PIPELINE, True)
    assert found("id", after(15)) == "the pipeline shop is paused"
    pipelines.set_paused(road.store, PIPELINE, False)
    (road.root / parts_of[0].path).unlink()
    said = str(found("id", after(15)))
    assert said.startswith("the events of the pipeline shop cannot be read: the part of shop.orders in ") and "is missing" in said


@ON_DUCKDB
def test_deleted_parts_are_missed(road: Road) -> None:
    road.stage(batch(announce(ITEMS, 1), insert(ITEMS, 2, ["7"])))
    road.stage(batch(announce(ORDERS, 3), insert(ORDERS, 10, ["1", "a"])))
    found = StagedWrites(road.settings, road.store, PIPELINE, "shop.orders")
    assert found("id", after(5)) == [1], "the part of another table shows that the pipeline ran before"
    pipelines.report_merges(road.store, PIPELINE, "wh", {"shop.orders": pipelines.MergeNews(10, "merged")})
    assert len(parts.delete_passed(road.store, PIPELINE, -1, targets=["wh"])) == 1
    assert "holds no events of shop.orders from before" in str(found("id", after(5)))


def _keys(found: object) -> list[int]:
    assert isinstance(found, list), found
    return found


@pytest.fixture
def carried(engines: Engines, tmp_path: Path) -> Iterator[AlignedRoad]:
    made = AlignedRoad(tmp_path, engines.live("mysql"), "written_orders", engines.live("postgres").url, "written", "partition: {size: 16}")
    made.settings.audits[AUDIT] = made.settings.audits[AUDIT].model_copy(update={"align": None})
    made.fill(3000)
    yield made
    made.close()


@pytest.mark.alone
@pytest.mark.mysql
@pytest.mark.postgres
def test_a_run_reads_at_once_what_its_pipeline_wrote(carried: AlignedRoad, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "LEAST_ROWS", 0)
    monkeypatch.setattr(prescan, "AIM_ROWS", 64)
    monkeypatch.setattr(prescan, "LEAST_DIGEST_ROWS", 1)
    monkeypatch.setattr(staged_writes, "SLACK", dt.timedelta(0))  # MySQL logs when a transaction was committed, in microseconds
    audit: Audit = carried.settings.audits[AUDIT]
    elsewhere = audit.target.model_copy(update={"table": "elsewhere"})
    assert find_events(carried.settings, carried.store, audit.model_copy(update={"target": elsewhere})) is None
    assert carried.audit().verdict is Verdict.MATCH
    carried.log.run("UPDATE written_orders SET price = price + 1 WHERE id >= 2700")
    carried.merge()
    carried.execute("UPDATE written.written_orders SET price = 0 WHERE id >= 2700 AND id % 9 = 0")
    first = carried.audit()
    assert first.verdict is Verdict.MISMATCH and first.plan and first.plan.writes
    assert (first.plan.writes.origin, first.plan.writes.total) == ("events", 300), first.plan.writes
    plan = planning.make_plan(carried.settings, AUDIT, audit, carried.store)
    second = carried.audit()
    assert second.plan and second.plan.prescan and second.plan.prescan.at_once and plan.prescan == second.plan.prescan
    assert all(low >= 2700 - 64 for low, _ in second.plan.prescan.at_once)
    assert first.differences is not None and second.differences is not None
    assert [one.key for one in first.differences.named] == [one.key for one in second.differences.named]
