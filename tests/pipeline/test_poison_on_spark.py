"""A poisoned table beside three healthy ones, through Spark, while all are written."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.api_models.pipeline import StoppedTable
from auditor.model import Verdict
from auditor.pipeline.events import Position, place_text
from auditor.service import pipelines as service
from auditor.service.pipeline_status import status
from auditor.store import parts, pipelines
from tests.binlog import LiveLog
from tests.live import Engines
from tests.pipeline.running import Running
from tests.pipeline.whole_road import PIPELINE, WholeRoad

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow]

TABLES = ["poisoned", "healthy_1", "healthy_2", "healthy_3"]


@pytest.fixture(params=[pytest.param("mysql", marks=pytest.mark.mysql), pytest.param("mariadb", marks=pytest.mark.mariadb)])
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[WholeRoad]:
    engines.live("spark")
    made = WholeRoad(tmp_path, engines.live(request.param), engines.live("postgres"), "poisoned_road", TABLES)
    yield made
    made.close()


def test_a_poisoned_table_stops_and_three_healthy_ones_never_do(road: WholeRoad) -> None:
    log, stop, written = LiveLog(road.source.url), threading.Event(), itertools.count(10)
    for table in TABLES:
        log.run(f"DROP TABLE IF EXISTS {table}", f"CREATE TABLE {table} (id int PRIMARY KEY, v int)")

    def write() -> None:
        while not stop.wait(0.01):
            number = next(written)
            log.run(*(f"INSERT INTO {table} (id, v) VALUES ({number}, 1)" for table in TABLES))

    writer = threading.Thread(target=write)
    pace: dict[str, list[int]] = {table: [] for table in TABLES}
    with Running(road.run()) as running:
        running.until(road.has_begun)
        writer.start()
        try:
            running.until(lambda: all(len(road.positions(table)) == 2 for table in TABLES if _is_staged(road, table)) and _all_staged(road))
            log.run("SET SESSION binlog_row_image = MINIMAL", "UPDATE poisoned SET v = 2 WHERE id = 12")
            running.until(lambda: bool(_stopped(road)))
            deadline = time.monotonic() + 15
            while time.monotonic() < deadline:
                for table in TABLES:
                    pace[table].append(max(_held(road, table)))
                time.sleep(1)
            log.run("ALTER TABLE healthy_2 ADD COLUMN n int NOT NULL DEFAULT 9")
            [stop_at] = _stopped(road)
            assert stop_at.table == f"{road.database}.poisoned" and stop_at.stage == "decoding"
            service.skip(road.settings, road.store, PIPELINE, "poisoned", stop_at.place, "a test", by="ann")
            held = max(pace["poisoned"])
            running.until(lambda: min(_held(road, "poisoned")) > held, every=0.5)
            stop.set()
            writer.join()
            end = log.end()
            running.until(lambda: road.is_staged(end) and all(len(road.reports(table)) == 2 for table in TABLES), every=0.5)
        finally:
            stop.set()
            writer.join()
    assert running.error is None
    moved = {table: len(set(seen)) for table, seen in pace.items()}
    print(f"{next(written):,} rows a table; positions seen in 15 s while one was stopped: {moved}")
    stop_place = Position.unpack(held)
    assert place_text(held).rpartition(":")[0] in stop_at.place and stop_place.offset < int(stop_at.place.split(":")[1])
    assert all(moved[table] > 2 for table in TABLES[1:])
    verdicts = {name: report.verdict for name, report in road.audits().items()}
    assert all(verdict == (Verdict.MISMATCH if "poisoned" in name else Verdict.MATCH) for name, verdict in verdicts.items()), verdicts


def _held(road: WholeRoad, table: str) -> list[int]:
    """Up to which position each target holds a table."""
    return [reports[f"{road.database}.{table}"].position for reports in pipelines.list_merges(road.store, PIPELINE).values()]


def _is_staged(road: WholeRoad, table: str) -> bool:
    return f"{road.database}.{table}" in parts.list_tables(road.store, PIPELINE)


def _all_staged(road: WholeRoad) -> bool:
    return all(_is_staged(road, table) for table in TABLES)


def _stopped(road: WholeRoad) -> list[StoppedTable]:
    return status(road.settings, road.store, PIPELINE, look=False).stopped
