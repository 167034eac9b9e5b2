"""The loader of DuckDB runs in a process of its own, which is started again when it was killed and ends with the driver."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor.pipeline.target_process import TargetProcess
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline.running import PATIENCE
from tests.pipeline_events import announce, batch, insert, table

ORDERS = table(id="bigint", item="varchar(40) null")


@pytest.fixture
def road(tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store)
    yield made
    made.close()


def is_loader(command: Any) -> bool:
    """Return whether a process is a loader: servers of other tests may be started at the same time."""
    return TargetProcess.__module__ in command


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> list[OSError]:
    """Why the first processes cannot be started."""
    errors, start = [OSError(14, "Bad address"), OSError(11, "Resource temporarily unavailable")], subprocess.Popen

    def begin(command: Any, **options: Any) -> Any:
        if errors and is_loader(command):
            raise errors.pop(0)
        return start(command, **options)

    monkeypatch.setattr(subprocess, "Popen", begin)
    return errors


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[str]]:
    """The processes that are started."""
    found: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def noted(command: Any, **options: Any) -> Any:
        process = start(command, **options)
        if is_loader(command):
            found.append(process)
        return process

    monkeypatch.setattr(subprocess, "Popen", noted)
    return found


@pytest.mark.slow
def test_a_loader_that_cannot_be_started_is_tried_again(road: Road, refused: list[OSError]) -> None:
    stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
    loader = TargetProcess("loader", str(road.config_file), PIPELINE, "wh")
    service = loader.service(0.0, stopped, staged, paused)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    service.start()
    try:
        _until(lambda: _positions(road) == [10])
    finally:
        assert service.stop(PATIENCE)
    assert not refused and road.rows() == [(1, "a")]


def test_a_killed_loader_is_started_again_and_ends_with_the_driver(road: Road, children: list[subprocess.Popen[str]]) -> None:
    stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
    loader = TargetProcess("loader", str(road.config_file), PIPELINE, "wh")
    service = loader.service(0.0, stopped, staged, paused)
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    service.start()
    try:
        _until(lambda: _positions(road) == [10])
        os.kill(children[0].pid, signal.SIGKILL)
        road.stage(batch(announce(ORDERS, 11), insert(ORDERS, 20, ["2", "b"])))
        staged.set()
        _until(lambda: _positions(road) == [20])
    finally:
        assert service.stop(PATIENCE)
    assert road.rows() == [(1, "a"), (2, "b")]
    assert [child.returncode for child in children] == [-signal.SIGKILL, 0], "it ends when its input does, as when the driver is killed"


def _positions(road: Road) -> list[int]:
    from auditor.store import pipelines

    return [report.position for tables in pipelines.list_merges(road.store, PIPELINE).values() for report in tables.values()]


def _until(reached: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, "the loader did not get there"
        time.sleep(0.05)
