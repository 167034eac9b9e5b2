"""What a running pipeline leaves in the store of what it lags behind: without Spark, and without a source."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.api_models.pipeline import LagPoint, PipelineProgress
from auditor.pipeline.watch import LagRecorder, Watch
from auditor.service.pipeline_status import condense, list_lags
from auditor.store import lags, open_store
from auditor.store.lags import Lag
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import T0, announce, batch, insert, table

ORDERS, ITEMS = table(id="bigint", item="varchar(40) null"), table("items", id="bigint")


@pytest.fixture
def road(tmp_path: Path) -> Iterator[Road]:
    empty = tmp_path / "empty.db"
    open_store(f"sqlite:///{empty}").close()
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty)
    yield made
    made.close()


def seen(at: dt.datetime, behind: float, size: int) -> PipelineProgress:
    return PipelineProgress(current_at=at - dt.timedelta(seconds=behind), lag_bytes=size)


def test_looks_have_the_lag_bytes_and_rate_of_pipeline_target_and_tables(road: Road) -> None:
    recorder, at = LagRecorder(road.store, PIPELINE, ["wh"]), T0 + dt.timedelta(minutes=1)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    recorder.record(seen(at, 7, 900), at)
    road.loader().merge_all()
    road.stage(batch(announce(ITEMS, 11), insert(ITEMS, 30, ["1"])))
    recorder.record(seen(at, 99, 1), at + dt.timedelta(seconds=29))
    recorder.record(seen(at, 99, 0), at + dt.timedelta(seconds=30))
    whole = lags.list_lags(road.store, PIPELINE, T0)
    assert [(one.at, one.lag) for one in whole] == [(at, Lag(7, 900, 0.0)), (at + dt.timedelta(seconds=30), Lag(0, 0, 0.033))]
    held = lags.list_table_lags(road.store, PIPELINE, [("wh", "shop.orders"), ("wh", "shop.items"), ("wh", "")], T0)
    first, second = (one.lag for one in held["wh", "shop.orders"])
    assert first.seconds == 50 and first.bytes and first.rate == 0 and second == Lag(0.0, 0, 0.067)
    assert [(one.lag.seconds, one.lag.rate) for one in held["wh", "shop.items"]] == [(0, 0), (60, 0)]
    assert [(one.lag.seconds, one.lag.rate) for one in held["wh", ""]] == [(50, 0), (60, 0.067)]


def test_a_running_pipeline_stores_its_looks(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, now = threading.Event(), dt.datetime.now(dt.UTC)

    def check(_: Watch) -> PipelineProgress:
        stopped.set()
        return seen(now, 7, 900)

    monkeypatch.setattr(Watch, "check", check)
    Watch(road.store, road.settings, PIPELINE).service(stopped).run()
    [point] = lags.list_lags(road.store, PIPELINE, now - dt.timedelta(minutes=1))
    assert point.lag.bytes == 900 and point.lag.seconds and 7 <= point.lag.seconds < 60


def test_a_thousand_idle_tables_take_no_room(road: Road) -> None:
    """A row a look, whatever the number of tables: 2,880 a day. What it holds of 1,000 tables that are all behind is some 15 kB."""
    recorder, at = LagRecorder(road.store, PIPELINE, ["wh"]), T0
    many = {("wh", f"shop.table_{n}"): Lag(n / 7, n * 1013, n / 3) for n in range(1000)}
    lags.record_lag(road.store, PIPELINE, at, Lag(1, 1, 1), many)
    recorder.record(seen(at, 0, 0), at + dt.timedelta(minutes=1))
    with road.store.reading() as connection:
        sizes = [len(row[0]) for row in connection.exec_driver_sql("SELECT tables FROM auditor_pipeline_lags ORDER BY at")]
    assert sizes[0] < 25_000 and sizes[1] < 100


def test_old_looks_are_thinned_by_the_pipeline_itself(road: Road) -> None:
    for minute in range(0, 60, 10):
        lags.record_lag(road.store, PIPELINE, T0 + dt.timedelta(minutes=minute), Lag(minute, 0, 0), {})
    now = T0 + dt.timedelta(days=1, hours=2)
    LagRecorder(road.store, PIPELINE, ["wh"]).record(seen(now, 0, 0), now)
    assert [(one.at, one.span, one.lag.seconds) for one in lags.list_lags(road.store, PIPELINE, T0)] == [(T0, 3600, 50), (now, 30, 0)]


def test_the_history_begins_a_day_ago_or_a_month_at_most(road: Road) -> None:
    now = dt.datetime.now(dt.UTC)
    for days in (40, 20, 0.5):
        lags.record_lag(road.store, PIPELINE, now - dt.timedelta(days=days), Lag(days, 0, 0), {})

    def count(since: dt.datetime | None) -> int:
        return len(list_lags(road.settings, road.store, PIPELINE, None, since).points_of(None))

    assert (count(None), count(dt.datetime.min.replace(tzinfo=dt.UTC)), count(dt.datetime.max.replace(tzinfo=dt.UTC))) == (1, 2, 0)


def test_condensed_points_are_maxima() -> None:
    found = [LagPoint(at=T0 + dt.timedelta(seconds=30 * n), span=30, seconds=n % 7 or None, bytes=n, rate=1.0) for n in range(100)]
    until = T0 + dt.timedelta(seconds=3000)
    few = condense(found, T0, until, 10)
    assert len(few) == 10 and few[0] == LagPoint(at=T0, span=300, seconds=6, bytes=9, rate=1.0)
    assert condense(found[:1], T0, until, 10) == [found[0].model_copy(update={"span": 300})] and condense([], T0, until, 10) == []
