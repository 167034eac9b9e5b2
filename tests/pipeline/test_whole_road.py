"""From a live server's binary log to both targets, which an audit then finds equal to the source."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from auditor.connections.writer import open_writer
from auditor.model import Verdict
from auditor.sql.literals import value_literal
from auditor.store import parts, refreshes
from dialects import Kind
from tests import tables
from tests.live import Engines
from tests.pipeline.running import Running
from tests.pipeline.whole_road import PIPELINE, WholeRoad

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

SCHEMA, TABLE, ROWS = "whole_road", "road_orders", 200
COLUMNS = [
    ("id", Kind("integer")), ("name", Kind("text")), ("price", Kind("decimal", 12, 2)), ("at", Kind("timestamp", scale=6)),
    ("data", Kind("binary")), ("weight", Kind("float64")),
]  # fmt: skip
SOURCES = [
    pytest.param("mysql", marks=pytest.mark.mysql),
    pytest.param("mariadb", marks=[pytest.mark.mariadb, pytest.mark.slow]),
]


@pytest.fixture
def road(request: pytest.FixtureRequest, engines: Engines, tmp_path: Path) -> Iterator[WholeRoad]:
    engines.live("spark")
    made = WholeRoad(tmp_path, engines.live(request.param), engines.live("postgres"), SCHEMA, [TABLE])
    yield made
    made.close()


def have_arrived(road: WholeRoad) -> bool:
    """Whether PostgreSQL holds the rows of the source, and its newest name, and DuckDB is as far: opening its file would delay it."""
    newest = "SELECT COUNT(*), MAX(name) FROM {}"
    wanted = tables.query(road.source, newest.format(TABLE))
    with open_writer("pg", road.settings.connections["pg"]) as session:
        if session.query(newest.format(f"{SCHEMA}.{TABLE}")) != wanted:
            return False
    staged = parts.get_table(road.store, PIPELINE, f"{road.database}.{TABLE}").staged_through  # which PostgreSQL holds, or more
    return len(positions := road.positions(TABLE)) == 2 and set(positions.values()) == {staged}


def row(number: int) -> tuple[object, ...]:
    at = dt.datetime(2026, 3, 1, 12, 0, 0, number)
    return (number, f"näme {number}", Decimal(number) / 4, at, bytes([number % 256, 0]), number / 7)


@pytest.mark.parametrize("road", SOURCES, indirect=True)
def test_what_a_source_commits_is_what_an_audit_of_the_targets_finds(road: WholeRoad) -> None:
    tables.make(road.source, "road_orders", COLUMNS, [], key=["id"])
    beats = itertools.count(10**6)
    with Running(road.run()) as running:

        def is_beat_read() -> bool:
            tables.execute(road.source, f"INSERT INTO road_orders (id, name) VALUES ({next(beats)}, 'a beat')")
            return len(road.positions(TABLE)) == 2

        running.until(is_beat_read, every=0.3)  # the stream begins at the end of the log, wherever that is by then
        tables.execute(road.source, "DELETE FROM road_orders")
        running.until(lambda: have_arrived(road))
        fill(road)
        running.until(lambda: have_arrived(road))
        with tables.open_writable(road.source) as session:  # rows that no stream brought
            session.execute("SET SESSION sql_log_bin = 0")
            session.execute("UPDATE road_orders SET name = 'zzy not logged' WHERE id % 20 = 4")
        refreshes.request_refresh(road.store, PIPELINE, f"{road.database}.{TABLE}", refreshes.RefreshScope(), "ops")
        running.until(lambda: have_arrived(road))
    assert running.error is None
    assert {name: report.verdict for name, report in road.audits().items()} == {
        "shop_road_orders_pg": Verdict.MATCH, "shop_road_orders_duck": Verdict.MATCH,
    }  # fmt: skip
    # What is committed while nothing reads arrives with the next run, and damage in a target is found.
    tables.execute(road.source, "UPDATE road_orders SET id = id + 5000, name = 'zzz last' WHERE id % 50 = 1")
    with Running(road.run()) as running:
        running.until(lambda: have_arrived(road))
    assert running.error is None
    assert {report.verdict for report in road.audits().values()} == {Verdict.MATCH}
    with open_writer("pg", road.settings.connections["pg"]) as session:
        session.execute(f"UPDATE {SCHEMA}.road_orders SET price = price + 1 WHERE id = 7")
    found = road.audits()["shop_road_orders_pg"].differences
    assert found and [(one.kind, one.key["id"]) for one in found.named] == [("changed", "7")]


def fill(road: WholeRoad) -> None:
    """Insert, change, delete rows, and give some another key, in transactions of several sizes."""
    with tables.open_writable(road.source) as session:
        rows = [
            [value_literal(session.dialect, kind, value) for (_, kind), value in zip(COLUMNS, row(n), strict=True)] for n in range(ROWS)
        ]
        values = [f"({', '.join(one)})" for one in rows]
        session.execute(f"INSERT INTO road_orders VALUES {', '.join(values[:150])}")
        for one in values[150:]:
            session.execute(f"INSERT INTO road_orders VALUES {one}")
        session.execute("UPDATE road_orders SET price = NULL, weight = -weight WHERE id % 3 = 0")
        session.execute("UPDATE road_orders SET id = id + 1000 WHERE id % 10 = 9")
        session.execute("DELETE FROM road_orders WHERE id % 7 = 0 AND id > 7")
        session.execute("UPDATE road_orders SET name = 'zz at the end' WHERE id = 8")
