"""Metrics of pipelines, from what their processes stored."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from auditor.api import metrics
from auditor.api.dependencies import AppState
from auditor.api_models.pipeline import PipelineProgress, StagedBatch
from auditor.service.table_states import STANDINGS
from auditor.store import holds, open_store, pipelines
from auditor.store.holds import HoldKey
from tests import many_tables
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table

ORDERS, LOG = table(id="bigint", item="varchar(40) null"), table("log", (), id="int")
ITEMS = table("items", id="bigint")
NAMES = (("pipeline", PIPELINE),)
TARGET = (*NAMES, ("target", "wh"))
HELD = (*NAMES, ("table", "shop.orders"), ("target", "wh"))


class Pipelines(Collector):
    def __init__(self, app: AppState) -> None:
        self.app = app

    def collect(self) -> Iterator[Metric]:
        return metrics.collect_pipelines(self.app)


@pytest.fixture
def road(tmp_path: Path) -> Iterator[Road]:
    empty = tmp_path / "empty.db"
    open_store(f"sqlite:///{empty}").close()
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty)
    yield made
    made.close()


def read(road: Road) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return read_of(AppState(road.settings, road.store))


def read_of(app: AppState) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    registry = CollectorRegistry()
    registry.register(Pipelines(app))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_a_pipeline_that_never_ran_is_down(road: Road) -> None:
    found = read(road)
    assert found["auditor_pipeline_running", NAMES] == found["auditor_pipeline_staged_timestamp_seconds", NAMES] == 0
    assert ("auditor_pipeline_source_lag_seconds", NAMES) not in found


def test_what_was_staged_and_merged_and_how_far_behind_that_is(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])), batch(announce(LOG, 2), insert(LOG, 3, ["1"])))
    road.loader().merge_all()
    now = dt.datetime.now(dt.UTC)
    progress = PipelineProgress(
        at=now,
        current_at=now - dt.timedelta(minutes=2),
        lag_bytes=777,
        log_expires=3600,
        free_bytes=5,
        warnings=["one"],
        batch=StagedBatch(events=3, bytes=9, seconds=0.5),
    )
    pipelines.set_progress(road.store, PIPELINE, progress)
    found = read(road)
    assert found["auditor_pipeline_running", NAMES] == found["auditor_pipeline_warnings", NAMES] == 1
    assert found["auditor_pipeline_source_lag_bytes", NAMES] == 777 and found["auditor_pipeline_log_expires_seconds", NAMES] == 3600
    assert found["auditor_pipeline_staged_events_total", NAMES] == found["auditor_pipeline_batch_events", NAMES] == 3
    assert found["auditor_pipeline_source_lag_seconds", NAMES] >= 120
    assert found["auditor_pipeline_parts", NAMES] == 2 and found["auditor_pipeline_parts_bytes", NAMES] > 0
    assert found["auditor_pipeline_merged_events_total", TARGET] == found["auditor_pipeline_table_merged_events_total", HELD] == 2
    assert found["auditor_pipeline_table_lag_seconds", HELD] == 0 < found["auditor_pipeline_target_lag_seconds", TARGET]
    assert found["auditor_pipeline_table_state", (*NAMES, ("state", "merged"), *HELD[1:])] == 1
    log = (("table", "shop.log"), ("target", "wh"))
    assert found["auditor_pipeline_table_state", (*NAMES, ("state", "stopped"), *log)] == 1, "it has no key"
    assert found["auditor_pipeline_table_pending_events", (*NAMES, *log)] == found["auditor_pipeline_target_pending_events", TARGET] == 1
    assert found["auditor_pipeline_table_lag_seconds", (*NAMES, *log)] == found["auditor_pipeline_target_lag_seconds", TARGET]
    states = {state: found["auditor_pipeline_target_tables", (*NAMES, ("state", state), *TARGET[1:])] for state in STANDINGS}
    assert states == {"stopped": 1, "lagging": 0, "delayed": 0, "waiting": 0, "merged": 1}
    # A process that reports no longer: what it saw last grows old.
    old = now - dt.timedelta(hours=1)
    pipelines.set_progress(road.store, PIPELINE, progress.model_copy(update={"at": old, "current_at": old, "lag_bytes": 0}))
    found = read(road)
    assert found["auditor_pipeline_running", NAMES] == 0 and found["auditor_pipeline_source_lag_seconds", NAMES] >= 3600


def test_for_how_long_audits_hold_tables_and_put_off_their_merges(road: Road) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])), batch(announce(ITEMS, 2), insert(ITEMS, 10, ["1"])))
    loader = road.loader()
    loader.merge_all()
    found = read(road)
    assert found["auditor_pipeline_target_held_seconds", TARGET] == found["auditor_pipeline_target_held_lag_seconds", TARGET] == 0
    keys = [HoldKey(PIPELINE, "wh", f"shop.{one.table}", "audit") for one in (ORDERS, ITEMS)]
    assert all(holds.take_hold(road.store, key, 60) for key in keys)
    loader.serve_holds()
    while (found := read(road))["auditor_pipeline_target_held_seconds", TARGET] < 0.1:
        time.sleep(0.02)
    assert found["auditor_pipeline_target_held_lag_seconds", TARGET] == 0, "nothing is put off"
    road.stage(batch(insert(ORDERS, 20, ["2", "b"])))
    found = read(road)
    put_off = found["auditor_pipeline_target_held_lag_seconds", TARGET]
    assert 0 < put_off <= found["auditor_pipeline_target_held_seconds", TARGET] < found["auditor_pipeline_table_lag_seconds", HELD]
    for key in keys:
        holds.end_hold(road.store, key)
    found = read(road)
    assert found["auditor_pipeline_target_held_seconds", TARGET] == found["auditor_pipeline_target_held_lag_seconds", TARGET] == 0


def test_of_many_tables_only_those_that_need_attention_are_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, store = many_tables.configure(tmp_path), open_store(f"sqlite:///{tmp_path}/auditor.db")
    listed = many_tables.create(store, 120)
    found = read_of(AppState(settings, store))

    def labels() -> set[tuple[str, str]]:
        samples = [dict(labels) for name, labels in found if name == "auditor_pipeline_table_lag_seconds"]
        return {(sample["target"], sample["table"]) for sample in samples}

    assert labels() == {("warehouse", f"crm.table_00{number}") for number in ("00", "04", "12")}
    many = (("pipeline", many_tables.PIPELINE),)
    assert found["auditor_pipeline_target_tables", (*many, ("state", "merged"), ("target", "lake"))] == 120
    assert found["auditor_pipeline_target_tables", (*many, ("state", "merged"), ("target", "warehouse"))] == 116
    assert found["auditor_pipeline_target_pending_events", (*many, ("target", "warehouse"))] == 10 + 10 + 100 + 110 + 12 * 10
    assert len(found) < 120, "whatever the number of tables"
    monkeypatch.setattr(metrics, "LABELLED_TABLES", 2)
    pipelines.report_merges(store, many_tables.PIPELINE, "lake", {table: pipelines.MergeNews(0, "stopped", "why") for table in listed})
    found = read_of(AppState(settings, store))
    assert len(labels()) == 4, "at most so many of each target"
    store.close()
