"""A merge begins before its time once so many rows, or bytes, are staged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from auditor.config import MergeAt
from auditor.pipeline.merge.loader import Loader
from auditor.store import pipelines
from tests.durations import SetDurations
from tests.live import engine_params
from tests.pipeline.road import PIPELINE, Road, pass_time
from tests.pipeline_events import announce, batch, insert, table

ORDERS = table(id="bigint", item="varchar(40) null")
pytestmark = pytest.mark.parametrize("engine", engine_params("duckdb"), indirect=True)


@contextmanager
def serving(road: Road, **merge_at: Any) -> Iterator[Loader]:
    """A loader that merges every hour, in a thread, and has merged once."""
    loader = road.loader(merge_at=MergeAt(**merge_at))
    stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
    thread = threading.Thread(target=loader.service(3600, stopped, staged, paused).run)
    thread.start()
    try:
        yield loader
    finally:
        stopped.set()
        thread.join()


def until(holds: Callable[[], bool], patience: float = 20.0) -> None:
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def position(road: Road) -> int:
    reports = pipelines.list_merges(road.store, PIPELINE).get("wh", {})
    return reports["shop.orders"].position if "shop.orders" in reports else 0


@pytest.fixture
def begun(road: Road, set_durations: SetDurations) -> Road:
    set_durations(size_poll=0.05, staged_poll=0.05)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    return road


def stage(road: Road, place: int, count: int) -> None:
    road.stage(batch(insert(ORDERS, place, *([str(place + number), "x" * 30] for number in range(count)))))


def test_so_many_rows_do_not_wait(begun: Road) -> None:
    with serving(begun, rows=5):
        until(lambda: position(begun) == 10)
        stage(begun, 20, 4)
        time.sleep(0.5)
        assert position(begun) == 10, "four wait"
        stage(begun, 30, 1)
        until(lambda: position(begun) == 30)


def test_so_many_bytes_do_not_wait(begun: Road) -> None:
    with serving(begun, bytes="64kB"):
        until(lambda: position(begun) == 10)
        stage(begun, 20, 4)
        time.sleep(0.5)
        assert position(begun) == 10
        stage(begun, 30, 20_000)
        until(lambda: position(begun) == 30)


def test_rows_of_a_table_that_waits_after_a_failure_do_not_count(begun: Road) -> None:
    loader, keyless = begun.loader(merge_at=MergeAt(rows=2)), table("keyless", (), id="bigint")
    begun.stage(batch(announce(keyless, 20), insert(keyless, 21, ["1"], ["2"], ["3"])))
    assert loader._is_enough_staged()
    loader.merge_all()
    pass_time(loader)
    assert "shop.keyless" in loader._reports.failures and not loader._is_enough_staged()
    stage(begun, 30, 2)
    pass_time(loader)
    assert loader._is_enough_staged()


def test_without_a_measure_nothing_is_looked_at(begun: Road) -> None:
    with serving(begun) as loader:
        until(lambda: position(begun) == 10)
        stage(begun, 20, 50)
        time.sleep(0.3)
        assert position(begun) == 10 and loader._sized == float("-inf")
