"""What statements of a source's log become on a schema tracker."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.pipeline.binlog.table_statements import TableStatement
from auditor.pipeline.binlog.tracked_columns import TrackedColumn, TrackedTable, pack_versions, unpack_versions
from auditor.pipeline.tracker.replay import plan_replay

T, U = ("shop", "t"), ("shop", "u")


def plan(text: str, database: str = "shop") -> tuple[list[Any], list[tuple[str, str]]] | None:
    """The statements and tables of a replay where the database shop alone is carried."""
    found = plan_replay(TableStatement(text.encode(), database), lambda name: name == "shop")
    return (found.statements, found.tables) if found else None


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE t ADD x int", "alter ignore table shop.t wait 3 add x int", "/*!50000 ALTER TABLE */ `t` ADD x int",
        "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (x) REFERENCES other.z (id)", "CREATE UNIQUE INDEX i USING BTREE ON t (x)",
        "DROP INDEX i ON shop.t", "ALTER TABLE t ORDER BY x", "CREATE OR REPLACE TABLE t (x int)", "CREATE TABLE IF NOT EXISTS t LIKE u",
        "SET STATEMENT a=1, b=2 FOR ALTER TABLE t ADD x int",
    ],
)  # fmt: skip
def test_statements_that_are_replayed_as_they_are(text: str) -> None:
    assert plan(text) == ([text.encode()], [T])


@pytest.mark.parametrize(
    ("text", "statements", "tables"),
    [
        ("CREATE TABLE t (x int) START TRANSACTION", ["DROP TABLE IF EXISTS `shop`.`t`", b"CREATE TABLE t (x int)"], [T]),
        ("DROP TABLE IF EXISTS t, beside.x, `u` /* generated */", ["DROP TABLE IF EXISTS `shop`.`t`", "DROP TABLE IF EXISTS `shop`.`u`"],
         [T, U]),
        ("RENAME TABLE t TO tmp, u TO t", ["RENAME TABLE `shop`.`t` TO `shop`.`tmp`", "RENAME TABLE `shop`.`u` TO `shop`.`t`"],
         [T, ("shop", "tmp"), U]),
        ("RENAME TABLE t TO beside.t", ["DROP TABLE IF EXISTS `shop`.`t`"], [T]),
        ("ALTER TABLE t ADD x int, RENAME TO beside.t", ["DROP TABLE IF EXISTS `shop`.`t`"], [T]),
        ("ALTER TABLE t RENAME AS u", [b"ALTER TABLE t RENAME AS u"], [T, U]),
        ("ALTER TABLE t CONVERT PARTITION p TO TABLE u", [b"ALTER TABLE t CONVERT PARTITION p TO TABLE u"], [T, U]),
        ("DROP SCHEMA shop", ["DROP DATABASE IF EXISTS `shop`"], [("shop", "")]),
        ("CREATE DATABASE shop", ["DROP DATABASE IF EXISTS `shop`", b"CREATE DATABASE shop"], [("shop", "")]),
        ("ALTER DATABASE CHARACTER SET latin1", [b"ALTER DATABASE CHARACTER SET latin1"], [("shop", "")]),
    ],
)  # fmt: skip
def test_statements_of_which_parts_are_replayed(text: str, statements: list[Any], tables: list[Any]) -> None:
    assert plan(text) == (statements, tables)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE beside.t ADD x int", "CREATE TEMPORARY TABLE t (x int)", "DROP TEMPORARY TABLE t", "TRUNCATE TABLE t", "DROP VIEW t",
        "CREATE VIEW v AS SELECT 1", "ALTER TABLE t DISCARD TABLESPACE", "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET @a = 1", "DROP DATABASE beside", "CREATE USER t", "ALTER USER t ACCOUNT LOCK",
        "RENAME TABLE beside.a TO beside.b", "GRANT ALL ON t TO u", "CREATE FUNCTION f RETURNS int SONAME 'x'", "ALTER", "DROP TABLE",
    ],
)  # fmt: skip
def test_statements_that_change_nothing_that_is_carried(text: str) -> None:
    assert plan(text) is None


def test_a_table_that_comes_from_elsewhere_is_lost_until_it_is_made_anew() -> None:
    found = plan_replay(TableStatement(b"RENAME TABLE beside.t TO t, u TO v", "shop"), lambda name: name == "shop")
    assert found and found.lost == {T: "it was beside.t, of a database that the pipeline does not carry"}
    assert found.statements == ["DROP TABLE IF EXISTS `shop`.`t`", "RENAME TABLE `shop`.`u` TO `shop`.`v`"]
    kept = plan_replay(TableStatement(b"CREATE TABLE IF NOT EXISTS t (x int)", "shop"), lambda name: name == "shop")
    assert kept and kept.keeps_existing


def test_tasks_get_the_columns_that_tables_had_from_a_position_on() -> None:
    bodies = [TrackedTable((TrackedColumn(name, "enum", labels=("x",)),), (name,)).to_body() for name in "abc"]
    versions = {T: [(10, bodies[0]), (20, bodies[1]), (30, bodies[2])], U: [(25, TrackedTable(reason="why").to_body())]}
    tracked = unpack_versions(pack_versions(versions, 20))
    assert [tracked.table(T, tracked.version(T, position)).key for position in (15, 20, 21, 30, 31, 99)] == [
        (),
        (),
        *(("b",),) * 2,
        *(("c",),) * 2,
    ]
    assert tracked.table(T, tracked.version(T, 20)).reason == "the tracker began later"
    assert tracked.table(U, tracked.version(U, 26)).reason == "why" and ("shop", "v") not in tracked
    assert tracked.table(("shop", "v"), 0).reason == "the tracker has no such table"
    earlier = unpack_versions(pack_versions(versions, 15))
    assert earlier.table(T, earlier.version(T, 20)).columns == (TrackedColumn("a", "enum", labels=("x",)),)
