"""A loader gets to merge into a file of DuckDB that other processes open again and again, and says so where one keeps it open."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from auditor.errors import FileInUse
from auditor.pipeline.merge.loader import Loader
from auditor.store import holds, pipelines
from tests.durations import SetDurations
from tests.pipeline.road import PIPELINE, Road, leased
from tests.pipeline.test_holding import FILE, hold_of, merged_through, refuse, stage_orders, stands_at, until

PATIENCE = 60.0

READER = """
import sys, time
import duckdb
path, opened, closed = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
while True:
    try:
        with duckdb.connect(path, read_only=True):
            print("open", flush=True)
            time.sleep(opened)
    except duckdb.IOException:
        print("refused", flush=True)
    time.sleep(closed)
"""


@pytest.fixture
def road(tmp_path: Path, empty_store: Path) -> Iterator[Road]:
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store)
    yield made
    made.close()


@contextmanager
def reading(road: Road, opened: float, closed: float = 0.0) -> Iterator[int]:
    """Let a process open the file again and again for the block, each time for ``opened`` seconds; yield its number."""
    command = [sys.executable, "-c", READER, f"{road.folder}/warehouse.duckdb", str(opened), str(closed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout
        while reader.stdout.readline() != "open\n":
            pass
        try:
            yield reader.pid
        finally:
            reader.kill()


@contextmanager
def loading(loader: Loader) -> Iterator[None]:
    stopped, staged, paused = threading.Event(), threading.Event(), threading.Event()
    with leased(loader.where.store), loader.service(0.0, stopped, staged, paused):
        yield


def state(road: Road) -> tuple[str, str]:
    """Return how the table is reported to stand, and why."""
    report = pipelines.get_merge(road.store, PIPELINE, "wh", "shop.orders")
    assert report
    return report.state, report.reason


def has_merged(road: Road, position: int) -> bool:
    return merged_through(road) == position


def within(seconds: float, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "that takes too long"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_reader_that_opens_the_file_again_and_again_does_not_keep_the_loader_off(road: Road, caplog: pytest.LogCaptureFixture) -> None:
    stage_orders(road, 10, first=True)
    assert road.loader().merge_all() == 1
    caplog.set_level(logging.WARNING)
    with reading(road, 1.0, 0.3), loading(road.loader()):
        for position in (20, 30, 40):
            stage_orders(road, position)
            within(PATIENCE, partial(has_merged, road, position))
    assert not caplog.records, "each wait was short"
    assert [row[0] for row in road.rows()] == [10, 20, 30, 40]


@pytest.mark.slow
def test_a_file_that_stays_open_elsewhere_is_reported_with_who_has_it(
    road: Road, caplog: pytest.LogCaptureFixture, set_durations: SetDurations
) -> None:
    set_durations(file_patience=0.5, file_wait=0.2, staged_poll=0.05)
    stage_orders(road, 10, first=True)
    loader = road.loader()
    assert loader.merge_all() == 1
    caplog.set_level(logging.WARNING)
    with loading(loader):
        with reading(road, 600.0) as reader:
            stage_orders(road, 20)
            within(PATIENCE, lambda: state(road)[0] == "delayed")
            reason = state(road)[1]
            time.sleep(1.0)
        within(PATIENCE, lambda: has_merged(road, 20) and state(road) == ("merged", ""))
    assert "warehouse.duckdb: another process has the file open (" in reason and f"PID {reader}); close it there, or retry later" in reason
    assert len(caplog.records) == 1 and reason in caplog.text, "not a line for each attempt"


@pytest.mark.slow
def test_a_hold_waits_for_a_reader_to_close_the_file(road: Road) -> None:
    stage_orders(road, 10, first=True)
    loader, hold = road.loader(), hold_of(road)
    with loading(loader):
        until(lambda: has_merged(road, 10))
        hold.freeze()
        stage_orders(road, 20, 30)
        with reading(road, 1.0, 0.3):
            assert hold.merge_through(f"{FILE}:25") == 25
        assert stands_at(road) == 25
        hold.release()


def test_a_hold_fails_where_a_reader_keeps_the_file_open(road: Road, set_durations: SetDurations) -> None:
    set_durations(hold_file=0.5, file_wait=0.1)
    stage_orders(road, 10, first=True)
    loader, hold = road.loader(), hold_of(road)
    loader.merge_all()
    stage_orders(road, 20)
    assert holds.take_hold(road.store, hold.key, 60) and holds.set_state(road.store, hold.key, "wanted", position=20)
    with reading(road, 600.0) as reader:
        loader.serve_holds()
    said = refuse(lambda: hold.has("held"))
    assert said.startswith("the target cannot stand there: ") and f"PID {reader}); close it there, or retry later" in said
    assert stands_at(road) == 10


def test_an_attempt_to_open_the_file_waits_as_long_as_for_a_lock(road: Road) -> None:
    road.execute("CREATE TABLE orders (id BIGINT)")
    with reading(road, 1.0, 600.0):
        road.execute("INSERT INTO orders VALUES (1)")
    with reading(road, 600.0), pytest.raises(FileInUse, match=r"warehouse\.duckdb: another process has the file open \(.*PID \d+\)"):
        road.execute("INSERT INTO orders VALUES (2)")
    assert road.query("SELECT id FROM orders") == [(1,)]
