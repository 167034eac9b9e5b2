"""Statements on a live server, decoded from its log, staged and merged, without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from auditor.pipeline.binlog.place import Place
from auditor.pipeline.merge.loader import Loader
from auditor.store import pipelines, target_migrations
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.pipeline.road import PIPELINE, Road

on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
_numbers = itertools.count()


@dataclass
class Line:
    """From the log of a server to a DuckDB file."""

    log: LiveLog
    road: Road
    at: Place
    loader: Loader

    def run(self, *statements: str) -> None:
        """Run statements on the source, and bring what the log then has to the target; as one batch of several tasks."""
        self.log.run(*statements)
        ranges = self.log.cut_to(400).scan(self.at)
        self.at = self.log.end()
        reading = replace(self.log.reading(["moving*"]), notes=True)
        for one in ranges:
            self.road.stage_task(*reading.batches(one))
        for _ in range(3):  # renamed tables wait for each other
            self.loader.merge_all()

    def both(self, table: str = "moving") -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
        """The rows of a table in the source and in the target, columns in the source's order."""
        names = [row[0] for row in self.log.run(
            f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{self.log.database}' AND table_name = '{table}'"
            " ORDER BY ordinal_position")]  # fmt: skip
        source = self.log.run(f"SELECT {', '.join(f'`{name}`' for name in names)} FROM {table} ORDER BY 1")
        columns = ", ".join(f'"{name}"' for name in names)
        target = self.road.query(f'SELECT {columns} FROM "{self.road.schema}"."{table}" ORDER BY 1')
        return [tuple(row) for row in source], target

    def reason(self, table: str = "moving") -> str:
        return pipelines.list_merges(self.road.store, PIPELINE)["wh"][f"{self.log.database}.{table}"].reason


@pytest.fixture
def line(engine: LiveEngine, tmp_path: Path, empty_store: Path) -> Iterator[Line]:
    """A line whose source has no table yet."""
    log = LiveLog(engine.url)
    log.run(
        *(f"DROP TABLE IF EXISTS {name}" for name in ("moving", "moving_on", "_moving_gho", "_moving_del", "_moving_old", "_moving_new"))
    )
    road = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty_store, f"live_{next(_numbers)}")
    now = itertools.count(0, 1000)
    yield Line(log, road, log.end(), road.loader(clock=lambda: next(now)))
    road.close()


@on_both
def test_a_table_through_its_life(line: Line) -> None:
    line.run("CREATE TABLE moving (id int PRIMARY KEY, a int, b varchar(10))", "INSERT INTO moving VALUES (1, 1, 'one'), (2, 2, NULL)")
    line.run("ALTER TABLE moving ADD COLUMN c decimal(8,2) NOT NULL DEFAULT 2.5 AFTER a, CHANGE b d varchar(30), MODIFY a bigint",
             "INSERT INTO moving VALUES (3, 9000000000, 1, 'three')")  # fmt: skip
    assert line.both()[0] == line.both()[1] and len(line.both()[0]) == 3
    line.run("ALTER TABLE moving DROP COLUMN a, RENAME COLUMN d TO e", "UPDATE moving SET e = 'x' WHERE id = 2",
             "ALTER TABLE moving ADD COLUMN (f date DEFAULT '2020-02-29', g enum('p', 'q') NOT NULL)",
             "DELETE FROM moving WHERE id = 1")  # fmt: skip
    assert line.both()[0] == line.both()[1] and len(line.both()[0]) == 2
    line.run("TRUNCATE TABLE moving", "INSERT INTO moving (id) VALUES (4)")
    assert line.both()[0] == line.both()[1] and len(line.both()[0]) == 1
    line.run("RENAME TABLE moving TO moving_on", "CREATE TABLE moving (id int PRIMARY KEY, z int)", "INSERT INTO moving VALUES (5, 5)",
             "INSERT INTO moving_on (id) VALUES (6)")  # fmt: skip
    assert line.both()[0] == line.both()[1] == [(5, 5)]
    assert line.both("moving_on")[0] == line.both("moving_on")[1] and len(line.both("moving_on")[0]) == 2
    line.run("DROP TABLE moving", "CREATE TABLE moving (id int PRIMARY KEY, y date)", "INSERT INTO moving VALUES (7, '2026-01-02')")
    assert line.both()[0] == line.both()[1] and len(line.both()[0]) == 1
    line.run(
        "DROP TABLE moving", "CREATE TABLE moving (k varchar(9), l int, PRIMARY KEY (k, l))", "INSERT INTO moving VALUES ('a', 1), ('a', 2)"
    )
    line.run("UPDATE moving SET l = 3 WHERE l = 1")
    assert line.both()[0] == line.both()[1] == [("a", 2), ("a", 3)]
    assert {one.state for one in target_migrations.list_migrations(line.road.store, PIPELINE)} == {"applied"}


@on_both
@pytest.mark.parametrize("copy", ["_moving_gho", "_moving_new"])
def test_an_online_schema_change(line: Line, copy: str) -> None:
    old = "_moving_del" if copy == "_moving_gho" else "_moving_old"
    line.run("CREATE TABLE moving (id int PRIMARY KEY, a int)", "INSERT INTO moving VALUES (1, 1), (2, 2)")
    line.run(f"CREATE TABLE {copy} LIKE moving", f"ALTER TABLE {copy} ADD COLUMN n int NOT NULL DEFAULT 7, RENAME COLUMN a TO b",
             f"INSERT INTO {copy} (id, b) SELECT id, a FROM moving", "UPDATE moving SET a = 20 WHERE id = 2",
             f"REPLACE INTO {copy} (id, b) SELECT id, a FROM moving WHERE id = 2",
             f"RENAME TABLE moving TO {old}, {copy} TO moving", "INSERT INTO moving VALUES (3, 3, 3)", f"DROP TABLE {old}")  # fmt: skip
    assert line.both()[0] == line.both()[1] == [(1, 1, 7), (2, 20, 7), (3, 3, 3)]
    assert list(pipelines.list_merges(line.road.store, PIPELINE)["wh"]) == [f"{line.log.database}.moving"]


@on_both
def test_what_is_refused_goes_on_after_the_statement_was_run(line: Line) -> None:
    line.run("CREATE TABLE moving (id int PRIMARY KEY, a decimal(8,2))", "INSERT INTO moving VALUES (1, 1.25)")
    line.run("ALTER TABLE moving MODIFY a decimal(8,1)", "INSERT INTO moving VALUES (2, 2.5)")
    assert "which may have changed values of older rows; run there: ALTER TABLE" in line.reason() and len(line.both()[1]) == 1
    line.road.execute(line.reason().partition("run there: ")[2])
    line.run("INSERT INTO moving VALUES (3, 3.5)")
    assert line.both()[0] == line.both()[1] and len(line.both()[0]) == 3
    line.run("ALTER TABLE moving ADD COLUMN t timestamp NULL DEFAULT CURRENT_TIMESTAMP", "INSERT INTO moving (id) VALUES (4)")
    assert "its default depends on the time" in line.reason() and len(line.road.rows("moving")) == 3
