"""Statements on a live server, decoded from its log, staged and merged, without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql
import pytest

from auditor.pipeline.events import Place
from auditor.pipeline.merge.loader import Loader
from auditor.store import pipelines, schema_changes, table_notes
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.road import PIPELINE, Road

pytestmark = pytest.mark.engines_in_turn

on_all = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new"), indirect=True)
on_mariadb = pytest.mark.parametrize("engine", engine_params("mariadb", "mariadb_new"), indirect=True)
on_both = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "mariadb_new", slow=["mariadb_new"]), indirect=True)
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
        quote = self.road.dialect.names.quote
        columns = ", ".join(quote(name) for name in names)
        target = self.road.query(f"SELECT {columns} FROM {self.road.dialect.names.table(self.road.schema, table)} ORDER BY 1")
        return [tuple(row) for row in source], [tuple(bytes(one) if isinstance(one, memoryview) else one for one in row) for row in target]

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


@pytest.mark.slow_on("mariadb")
@on_both
@pytest.mark.few
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
    assert {one.state for one in schema_changes.list_migrations(line.road.store, PIPELINE)} == {"applied"}


@pytest.fixture
def each(line: Line, into: str, tmp_path: Path, empty_store: Path) -> Iterator[Line]:
    """A line into a target of each kind, that may change no table: for what stops a table before a target is asked."""
    (tmp_path / "each").mkdir()
    road = Road(tmp_path / "each", into, empty_store, f"live_{next(_numbers)}")
    now = itertools.count(0, 1000)
    yield Line(line.log, road, line.log.end(), road.loader(clock=lambda: next(now)))
    road.close()


@pytest.fixture(params=["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def either(request: pytest.FixtureRequest, engines: Engines, line: Line, tmp_path: Path, empty_store: Path) -> Iterator[Line]:
    """A line into DuckDB, or PostgreSQL."""
    if request.param == "duckdb":
        yield line
        return
    (tmp_path / "other").mkdir()
    road = Road(tmp_path / "other", engines.live("postgres").url, empty_store, f"live_{next(_numbers)}")
    now = itertools.count(0, 1000)
    yield Line(line.log, road, line.log.end(), road.loader(clock=lambda: next(now)))
    road.close()


@pytest.mark.quick_for("duckdb")
@on_both
def test_columns_before_the_key_are_dropped_and_bytes_added(either: Line) -> None:
    line = either
    line.run("CREATE TABLE moving (a int NOT NULL, b int, id int, c varchar(9), k int, PRIMARY KEY (id, k))",
             "INSERT INTO moving VALUES (1, 1, 1, 'one', 1), (2, NULL, 2, NULL, 2)")  # fmt: skip
    line.run("ALTER TABLE moving DROP COLUMN a, DROP COLUMN c", "UPDATE moving SET b = 7 WHERE id = 2")
    assert line.both()[0] == line.both()[1] == [(1, 1, 1), (7, 2, 2)], line.reason()
    added = (
        "v varbinary(8) DEFAULT 'ab'",
        "x varbinary(8) NOT NULL DEFAULT x'00ff'",
        "h binary(4) DEFAULT 0x61",
        "n binary(2) NOT NULL",
        "e blob",
    )
    line.run("ALTER TABLE moving " + ", ".join(f"ADD COLUMN {one}" for one in added), "INSERT INTO moving (b, id, k) VALUES (3, 3, 3)")
    assert line.both()[0] == line.both()[1], line.reason()
    assert list(line.both()[1][0][3:]) == [b"ab", b"\0\xff", b"a\0\0\0", b"\0\0", None]


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


def stopped(line: Line) -> dict[str, str]:
    """The tables that stop, and why."""
    notes = table_notes.list_notes(line.road.store, PIPELINE)
    return {one.table.partition(".")[2]: one.reason for one in notes if one.stops}


def skip_all(line: Line) -> None:
    """Let all tables go on."""
    notes = [one for one in table_notes.list_notes(line.road.store, PIPELINE) if one.stops]
    table_notes.skip(line.road.store, PIPELINE, notes, by="ann", reason="sent again")


STATEMENTS = "SET SESSION binlog_format = 'STATEMENT'"
TWO_TABLES = ("CREATE TABLE moving (id int PRIMARY KEY, a int)", "CREATE TABLE moving_on (id int PRIMARY KEY, a int)",
              "INSERT INTO moving VALUES (1, 1)", "INSERT INTO moving_on VALUES (1, 1)")  # fmt: skip


@on_all
def test_statements_on_tables_that_are_not_carried_are_passed_by(each: Line) -> None:
    each.run(*TWO_TABLES, "DROP DATABASE IF EXISTS elsewhere", "CREATE DATABASE elsewhere",
             "CREATE TABLE elsewhere.t (id int PRIMARY KEY AUTO_INCREMENT, a double)", "DROP TABLE IF EXISTS stranger",
             "CREATE TABLE stranger (id int PRIMARY KEY AUTO_INCREMENT, a int)")  # fmt: skip
    try:
        each.run(STATEMENTS, "INSERT INTO elsewhere.t (a) VALUES (1), (RAND())", "SET @v = 7",
                 "INSERT INTO stranger (a) SELECT @v FROM moving",
                 "USE elsewhere", "UPDATE t SET a = 2", "DELETE FROM t LIMIT 1")  # fmt: skip
        each.run("INSERT INTO moving VALUES (2, 2)")
        assert stopped(each) == {} and each.both()[0] == each.both()[1] and len(each.both()[0]) == 2
    finally:
        each.run("DROP DATABASE elsewhere", "DROP TABLE stranger")


@pytest.mark.alone  # what a statement writes through a view or a trigger may be a table of any pipeline
@on_all
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO moving VALUES (2, 2)",
        "UPDATE moving SET a = 5",
        "DELETE FROM moving",
        "REPLACE INTO moving VALUES (1, 9)",
        "INSERT INTO moving SELECT id + FLOOR(RAND()) + 1, 7 FROM moving_on",
        "INSERT INTO moving_view VALUES (2, 2)",
        "INSERT INTO triggered VALUES (2, 2)",
    ],
)
@pytest.mark.few
def test_a_statement_stops_the_table_that_it_writes_and_the_pipeline_goes_on(each: Line, statement: str) -> None:
    each.run(*TWO_TABLES, "CREATE OR REPLACE VIEW moving_view AS SELECT * FROM moving", "DROP TABLE IF EXISTS triggered",
             "CREATE TABLE triggered (id int PRIMARY KEY, a int)",
             "CREATE TRIGGER writes AFTER INSERT ON triggered FOR EACH ROW INSERT INTO moving VALUES (NEW.id, NEW.a)")  # fmt: skip
    try:
        each.run(STATEMENTS, statement, "SET SESSION binlog_format = 'ROW'", "INSERT INTO moving VALUES (5, 5)",
                 "INSERT INTO moving_on VALUES (5, 5)")  # fmt: skip
        found = stopped(each)
        if statement.startswith(("INSERT INTO moving_view", "INSERT INTO triggered")):
            assert set(found) == {"moving", "moving_on"}, "what it writes is not known"
            skip_all(each)
            each.run()
        else:
            assert set(found) == {"moving"}
        assert "instead of rows; SET GLOBAL binlog_format = 'ROW' and for all sessions, skip this, then send" in found["moving"]
        assert each.both("moving_on")[0] == each.both("moving_on")[1] and len(each.both("moving_on")[0]) == 2
        skip_all(each)
        each.run("INSERT INTO moving VALUES (6, 6)")
        assert {(5, 5), (6, 6)} <= set(each.both()[1]) and stopped(each) == {}
    finally:
        each.run("DROP VIEW moving_view", "DROP TABLE triggered")


@pytest.mark.alone  # changes a variable of the server
@on_all
def test_rows_of_a_file_that_is_loaded_by_a_statement(each: Line, tmp_path: Path) -> None:
    each.run(*TWO_TABLES)
    with each.log.globally(local_infile="1"):
        file = tmp_path / "rows.csv"
        file.write_text("7,7\n")
        url = urlsplit(each.log.url)
        place: dict[str, Any] = {
            "host": url.hostname,
            "port": url.port,
            "user": url.username,
            "password": url.password or "",
            "local_infile": True,
        }
        with closing(pymysql.connect(database=each.log.database, **place)) as connection, connection.cursor() as cursor:
            cursor.execute(STATEMENTS)
            cursor.execute(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE moving FIELDS TERMINATED BY ','")
            connection.commit()
    each.run("INSERT INTO moving_on VALUES (5, 5)")
    assert set(stopped(each)) == {"moving"} and len(each.both("moving_on")[1]) == 2


@on_mariadb
def test_a_table_that_is_made_of_a_query_by_a_statement_stops(each: Line) -> None:
    each.run(*TWO_TABLES)
    each.run(STATEMENTS, "DROP TABLE moving_on", "CREATE TABLE moving_on (id int PRIMARY KEY) SELECT id FROM moving")
    assert "CREATE TABLE ... SELECT brought rows that are not in the log" in stopped(each)["moving_on"]


@on_mariadb
def test_rows_are_undone_that_a_rolled_back_transaction_logged_for_a_temporary_table(each: Line) -> None:
    each.run(*TWO_TABLES)
    each.run("START TRANSACTION", "INSERT INTO moving VALUES (2, 2)", "UPDATE moving SET a = 9", "DELETE FROM moving_on",
             "CREATE TEMPORARY TABLE held (id int)", "INSERT INTO moving_on VALUES (4, 4)", "ROLLBACK",
             "INSERT INTO moving VALUES (3, 3)")  # fmt: skip
    assert stopped(each) == {} and each.both()[0] == each.both()[1] == [(1, 1), (3, 3)]
    assert each.both("moving_on")[0] == each.both("moving_on")[1] == [(1, 1)]


@on_all
def test_rows_behind_a_savepoint_are_undone_where_the_engine_undid_them(each: Line) -> None:
    each.run(*TWO_TABLES, "CREATE TABLE _moving_old (id int) ENGINE = MyISAM", "DROP TABLE IF EXISTS moving_log",
             "CREATE TABLE moving_log (id int PRIMARY KEY) ENGINE = MyISAM",
             "CREATE TRIGGER told AFTER INSERT ON moving FOR EACH ROW INSERT INTO moving_log VALUES (NEW.id)")  # fmt: skip
    try:
        if each.log.run("SELECT VERSION() LIKE '%MariaDB%'")[0][0] == 0 and each.log.run("SELECT @@GLOBAL.gtid_mode")[0][0] == "ON":
            return  # such transactions are refused there
        each.run("START TRANSACTION", "INSERT INTO moving VALUES (2, 2)", "SAVEPOINT `A b`", "INSERT INTO moving VALUES (3, 3)",
                 "UPDATE moving SET a = 0", "SAVEPOINT other", "DELETE FROM moving WHERE id = 2", "INSERT INTO moving_on VALUES (2, 2)",
                 "ROLLBACK TO `A b`", "INSERT INTO moving_on VALUES (7, 7)", "COMMIT", "INSERT INTO moving_on VALUES (8, 8)")  # fmt: skip
        assert each.both()[0] == each.both()[1] == [(1, 1), (2, 2)]
        assert each.both("moving_on")[0] == each.both("moving_on")[1] == [(1, 1), (7, 7), (8, 8)]
        assert set(stopped(each)) <= {"moving_log"}
    finally:
        each.run("DROP TABLE moving_log")


@on_mariadb
def test_rows_that_were_handed_on_before_they_were_undone_stop_their_table(each: Line) -> None:
    each.run(*TWO_TABLES)
    each.run("START TRANSACTION", "INSERT INTO moving SELECT seq, 0 FROM seq_2_to_20000", "INSERT INTO moving_on VALUES (2, 2)",
             "CREATE TEMPORARY TABLE held (id int)", "ROLLBACK", "INSERT INTO moving_on VALUES (3, 3)")  # fmt: skip
    assert set(stopped(each)) == {"moving"} and "before a ROLLBACK that may not have undone them" in stopped(each)["moving"]
    assert each.both("moving_on")[0] == each.both("moving_on")[1] == [(1, 1), (3, 3)]


PARTITIONED = """\
CREATE TABLE moving (id int PRIMARY KEY, a int)
PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10), PARTITION q VALUES LESS THAN MAXVALUE)"""


@on_all
def test_tables_that_exchange_a_partition_stop_both(each: Line) -> None:
    each.run(PARTITIONED, TWO_TABLES[1], *TWO_TABLES[2:])  # fmt: skip
    each.run("INSERT INTO moving VALUES (2, 2)", "ALTER TABLE moving EXCHANGE PARTITION p WITH TABLE moving_on")
    assert set(stopped(each)) == {"moving", "moving_on"}
    assert f"it exchanged rows with {each.log.database}.moving without a word of them" in stopped(each)["moving_on"]


@on_mariadb
def test_tables_that_become_partitions_and_partitions_that_become_tables(each: Line) -> None:
    each.run(PARTITIONED, "INSERT INTO moving VALUES (2, 2)", "ALTER TABLE moving CONVERT PARTITION p TO TABLE moving_on")  # fmt: skip
    assert set(stopped(each)) == {"moving", "moving_on"}


@pytest.mark.slow_on("mysql")
@on_both
@pytest.mark.few
def test_columns_that_were_changed_right_before_their_table_was_renamed_keep_their_values(line: Line) -> None:
    line.run("CREATE TABLE moving (id int PRIMARY KEY, x int)", "INSERT INTO moving VALUES (1, 10), (2, 20)")
    line.run(
        "ALTER TABLE moving CHANGE x y int", "ALTER TABLE moving ADD COLUMN z int NOT NULL DEFAULT 7", "RENAME TABLE moving TO moving_on"
    )
    line.run("INSERT INTO moving_on VALUES (3, 30, 8)")
    source, target = line.both("moving_on")
    assert target == source == [(1, 10, 7), (2, 20, 7), (3, 30, 8)]
    line.run("ALTER TABLE moving_on CHANGE y w bigint", "RENAME TABLE moving_on TO moving", "RENAME TABLE moving TO moving_on")
    line.run("INSERT INTO moving_on VALUES (4, 40, 9)")
    source, target = line.both("moving_on")
    assert target == source


@pytest.mark.slow_on("mariadb")
@on_both
@pytest.mark.few
def test_tables_that_exchange_their_names_keep_what_was_done_to_their_columns(line: Line) -> None:
    line.run("CREATE TABLE moving (id int PRIMARY KEY, x int)", "INSERT INTO moving VALUES (1, 10)")
    line.run("CREATE TABLE moving_on (id int PRIMARY KEY, a int)", "INSERT INTO moving_on VALUES (2, 20)")
    line.run(
        "ALTER TABLE moving CHANGE x y int",
        "ALTER TABLE moving_on CHANGE a b int",
        "RENAME TABLE moving TO aside, moving_on TO moving, aside TO moving_on",
        "INSERT INTO moving VALUES (3, 30)",
        "INSERT INTO moving_on VALUES (4, 40)",
    )
    for name in ("moving", "moving_on"):
        source, target = line.both(name)
        assert target == source


STRICTLY = "SET SESSION sql_mode = 'STRICT_TRANS_TABLES'"


@on_both
@pytest.mark.parametrize(("column", "row"), [("g int AS (id + 1) STORED", "(id) VALUES (1)"), ("g int", "VALUES (1, 7)")])
def test_a_column_that_is_computed_otherwise_stops_its_table(line: Line, column: str, row: str) -> None:
    """The log has no row of it, and the columns are as before."""
    line.run(f"CREATE TABLE moving (id int PRIMARY KEY, {column})", f"INSERT INTO moving {row}")
    source, target = line.both()
    assert source == target
    line.run(STRICTLY, "ALTER TABLE moving MODIFY g int AS (id + 100) STORED", "INSERT INTO moving (id) VALUES (2)")
    assert line.both() == ([(1, 101), (2, 102)], target)
    assert "moving.g is computed from other columns by that statement, which may have changed values" in line.reason()


@on_mariadb
def test_a_time_that_is_made_of_null_stops_its_table(line: Line) -> None:
    line.run("CREATE TABLE moving (id int PRIMARY KEY, at_ timestamp NULL)", "INSERT INTO moving VALUES (1, NULL)")
    line.run(STRICTLY, "ALTER TABLE moving MODIFY at_ timestamp NOT NULL", "INSERT INTO moving VALUES (2, '2026-01-01')")
    source, target = line.both()
    assert source[0][1] is not None and target == [(1, None)]
    assert "moving.at_ has no NULL since, of which a server" in line.reason()


@on_mariadb
@pytest.mark.parametrize(
    "statement",
    [
        "ADD COLUMN x int NOT NULL DEFAULT 0 UNIQUE",
        "MODIFY a varchar(9) COLLATE utf8mb4_general_ci",
        "ADD CHECK (id < 2)",
        "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (2))",
    ],
)
def test_rows_that_alter_ignore_deletes_stop_their_table(each: Line, statement: str) -> None:
    unique = ", UNIQUE (a)" if statement.startswith("MODIFY") else ""
    column = "a varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    each.run(f"CREATE TABLE moving (id int PRIMARY KEY, {column}{unique})", "INSERT INTO moving VALUES (1, 'a'), (2, 'A')")
    each.run(STRICTLY, f"ALTER IGNORE TABLE moving {statement}")
    assert each.log.run("SELECT COUNT(*) FROM moving") == [(1,)]
    assert "ALTER IGNORE deletes rows" in stopped(each)["moving"]
