"""The driver of batches: what it stages, where it goes on, and what ends it. Without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auditor.errors import StagingFull
from auditor.pipeline.batch_driver import BatchDriver
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.stage_task import TableRules
from auditor.pipeline.staging import Staging
from auditor.store import parts, pipelines
from tests.pipeline.event_source import EventFiles
from tests.pipeline.road import PIPELINE, Road, run_here
from tests.pipeline_events import announce, batch, insert, table

ORDERS = table(id="bigint", item="varchar(40) null")


@pytest.fixture
def road(tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store)
    (tmp_path / "events").mkdir()
    yield made
    made.close()


def put(road: Road, number: int) -> None:
    """Let the stream have one more batch of one row."""
    events = batch(announce(ORDERS, 10 * number), insert(ORDERS, 10 * number + 1, [str(number), "a"]))
    path = road.folder / "events" / f"{number:06d}"
    pq.write_table(pa.Table.from_batches([events]), path)
    path.rename(path.with_suffix(".parquet"))


def started(road: Road, run_tasks: Callable[[Any, Sequence[Any]], list[Any]] = run_here, stopping: bool = False) -> BatchDriver:
    rules = TableRules(road.settings.pipelines[PIPELINE], b"salt")
    staging = Staging(road.store, PIPELINE, LocalFolder(road.root), rules, stopping=lambda: stopping)
    options = {"config": str(road.config_file)}
    if offset := pipelines.get_pipeline(road.store, PIPELINE).source_offset:
        options["start"] = json.dumps(offset)
    LocalFolder(road.root).make()
    return BatchDriver(EventFiles, options, staging, run_tasks, 0.01).start()


def staged(road: Road) -> list[int]:
    return [part.last for part in parts.list_parts(road.store, PIPELINE, "shop.orders", 0)]


def wait_for(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_stages_each_batch_once_and_goes_on_where_the_store_says(road: Road) -> None:
    put(road, 1)
    driver = started(road)
    wait_for(lambda: staged(road) == [11])
    put(road, 2)
    wait_for(lambda: staged(road) == [11, 21] and driver.batches == 2)
    driver.stop()
    assert not driver.is_running() and driver.error is None
    put(road, 3)
    driver = started(road)
    wait_for(lambda: staged(road) == [11, 21, 31])
    driver.stop()
    assert pipelines.get_pipeline(road.store, PIPELINE).source_offset == {"file": "x", "position": 3}
    assert road.loader().merge_all() == 3 and road.rows() == [(1, "a"), (2, "a"), (3, "a")]


def test_a_batch_that_fails_is_listed_by_none_and_ends_at_the_same_place_again(road: Road, monkeypatch: pytest.MonkeyPatch) -> None:
    put(road, 1)

    def fail(function: Any, tasks: Sequence[Any]) -> list[Any]:
        run_here(function, tasks)
        raise StagingFull("of the test")

    driver = started(road, fail)
    wait_for(lambda: not driver.is_running())
    assert isinstance(driver.error, StagingFull) and staged(road) == []
    planned = json.loads((road.root / "planned.json").read_text())
    ends: list[Any] = []

    def note(self: Any, start: Any, end: Any) -> None:
        ends.append((start, end))
        plan(self, start, end)

    plan = BatchDriver.write_plan
    monkeypatch.setattr(BatchDriver, "write_plan", note)
    monkeypatch.setattr("tests.pipeline.event_source._Reader.latestOffset", lambda _, start, limit: {**start, "position": 2})
    put(road, 2)
    driver = started(road)
    wait_for(lambda: staged(road) == [11, 21])
    driver.stop()
    # What is there by then belongs to the next batch: the tasks of the first attempt may still write its parts.
    assert ends == [(planned["start"], planned["end"]), (planned["end"], {"file": "x", "position": 2})]


def test_it_begins_no_batch_while_the_pipeline_stops(road: Road) -> None:
    put(road, 1)
    driver = started(road, stopping=True)
    wait_for(lambda: not driver.is_running())
    assert driver.error is None and staged(road) == []
