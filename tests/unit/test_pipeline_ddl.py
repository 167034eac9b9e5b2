"""What statements do to tables, as far as their text says it."""

from __future__ import annotations

from typing import Any

import pytest

from auditor.pipeline.binlog.ddl import read_statement
from auditor.pipeline.binlog.sql_tokens import ANSI_QUOTES, NO_BACKSLASH_ESCAPES
from auditor.pipeline.table_ops import Op

T = ("shop", "t")


def ops(statement: str) -> list[Op]:
    """What a statement does to the table t of the database shop."""
    found = read_statement(statement, "shop")
    assert set(found.ops) <= {T}, found
    return found.ops.get(T, [])


def value(definition: str) -> Any:
    [op] = ops(f"ALTER TABLE t ADD COLUMN c {definition}")
    return op["value"].get("text", "unknown")


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ("int", None), ("int NULL", None), ("int NOT NULL", "0"), ("int NOT NULL DEFAULT 5", "5"), ("int DEFAULT -5 COMMENT 'x'", "-5"),
        ("varchar(5) DEFAULT 'it''s, \\'so\\''", "it's, 'so'"), ("char(5) DEFAULT 'a  '", "a"), ("varchar(5) NOT NULL", ""),
        ("decimal(10,2) NOT NULL DEFAULT 2.5 AFTER a", "2.5"), ("enum('x','y') NOT NULL", "x"), ("bit(3) DEFAULT b'101'", "5"),
        ("bool DEFAULT TRUE", "1"), ("varchar(9) CHARACTER SET utf8mb4 DEFAULT _utf8mb4'ü'", "unknown"),
        ("varchar(9) DEFAULT _latin1'u'", "u"),
        ("date DEFAULT '2020-01-02'", "2020-01-02"),
        ("datetime DEFAULT CURRENT_TIMESTAMP", "unknown"), ("timestamp DEFAULT '2020-01-01 00:00:00'", "unknown"),
        ("int AS (a + 1) STORED", "unknown"), ("int GENERATED ALWAYS AS (a) VIRTUAL", "unknown"),
        ("varchar(36) DEFAULT (uuid())", "unknown"),
        ("int NOT NULL AUTO_INCREMENT UNIQUE", "unknown"), ("date NOT NULL", "unknown"), ("int CHECK (c > 0) DEFAULT 7", "7"),
        ("year DEFAULT 99", "unknown"), ("year DEFAULT 2001", "2001"), ("int DEFAULT 007", "7"), ("int DEFAULT 1e2", "unknown"),
        ("int DEFAULT 2.5", "unknown"), ("int DEFAULT '-4'", "-4"), ("varchar(9) DEFAULT 'a' 'b'", "ab"),
        ("varchar(9) DEFAULT 007", "unknown"),
        ("varchar(9) DEFAULT b'1000001'", "unknown"), ("varchar(9) DEFAULT x'41'", "unknown"), ("int DEFAULT b'101'", "5"),
        ("enum('x','y') DEFAULT 'Y'", "unknown"), ("enum('x','y') DEFAULT 'y'", "y"), ("set('b','a') DEFAULT 'a,b'", "unknown"),
        ("set('b','a') DEFAULT 'b,a'", "b,a"), ("set('b','a') DEFAULT ''", ""), ("set('b','a') DEFAULT 'A'", "unknown"),
        ("double(7,2) DEFAULT 1.239", "unknown"), ("double(7,2) DEFAULT 1.23", "1.23"), ("double DEFAULT 1.239", "1.239"),
        ("decimal(5,1) DEFAULT 1.25", "unknown"), ("decimal DEFAULT 2.5", "unknown"), ("float DEFAULT 1e2", "unknown"),
        ("date DEFAULT 20200102", "unknown"), ("datetime DEFAULT '2020-1-2'", "unknown"), ("int DEFAULT 1 + 1", "unknown"),
        ("varchar(9) DEFAULT 'a' COLLATE utf8mb4_bin", "a"), ("varchar(9) DEFAULT '\\%'", "\\%"), ("bool DEFAULT FALSE NOT NULL", "0"),
    ],
)  # fmt: skip
def test_what_rows_have_in_a_new_column(definition: str, text: str | None) -> None:
    assert value(definition) == text


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("alter table t drop a, drop column `b c`, drop index i, drop primary key", [("drop", "a"), ("drop", "b c")]),
        ("ALTER ONLINE TABLE `shop`.`t` MODIFY a bigint, ENGINE=InnoDB, ALGORITHM=INPLACE", [("modify", "a")]),
        ("ALTER TABLE t ADD (x int, y varchar(3) default ','), ADD KEY (x), ADD UNIQUE u (y)", [("add", "x"), ("add", "y")]),
        ("/*!50100 ALTER */ /* a, b */ TABLE t -- add column no int\n ADD x int # , drop y", [("add", "x")]),
        ("SET STATEMENT max_statement_time=0 FOR ALTER TABLE t DROP x", [("drop", "x")]),
        ("ALTER TABLE t ALTER a SET DEFAULT 5, COMMENT='drop column b, add c int', AUTO_INCREMENT = 9", []),
        ("ALTER TABLE t ADD COLUMN IF NOT EXISTS `index` int, DROP COLUMN IF EXISTS `key`", [("add", "index"), ("drop", "key")]),
        ("CREATE TEMPORARY TABLE t (a int)", []),
        ("CREATE VIEW t AS SELECT 1", []),
        ("ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 4", []),
        ("ALTER USER t IDENTIFIED BY 'x'", []),
    ],
)
def test_columns(statement: str, found: list[tuple[str, str]]) -> None:
    assert [(one["op"], one["column"]) for one in ops(statement)] == found


def test_another_key() -> None:
    for added in (
        "PRIMARY KEY (id, `a b`)",
        "CONSTRAINT PRIMARY KEY (id, `a b`(10))",
        "CONSTRAINT c PRIMARY KEY USING BTREE (id ASC, `a b`)",
    ):
        assert ops(f"ALTER TABLE t DROP PRIMARY KEY, ADD {added}") == [{"op": "key", "columns": ["id", "a b"], "strict": False}], added
    assert ops("ALTER TABLE t ADD CONSTRAINT c UNIQUE (a), ADD INDEX (b), ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES p (a)") == []


def test_renamed_columns() -> None:
    swap = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN `b` TO a, CHANGE COLUMN c `d e` varchar(4) NOT NULL DEFAULT ''"
    assert [(one["from"], one["to"]) for one in ops(swap)] == [("a", "b"), ("b", "a"), ("c", "d e")]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t DROP PARTITION p1", "ALTER TABLE t TRUNCATE PARTITION ALL", "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
        "ALTER TABLE t IMPORT TABLESPACE", "ALTER IGNORE TABLE t ADD UNIQUE (a)", "ALTER ONLINE IGNORE TABLE t ADD CONSTRAINT c UNIQUE (a)",
        "ALTER IGNORE TABLE t PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (9))", "ALTER IGNORE TABLE t ADD CHECK (a < 9)",
        "ALTER IGNORE TABLE t ADD CONSTRAINT c CHECK (a < 9)", "ALTER IGNORE TABLE t ENGINE = InnoDB",
    ],
)  # fmt: skip
def test_rows_that_come_or_go_in_silence(statement: str) -> None:
    [op] = read_statement(statement, "shop").ops[T]
    assert op["op"] == "rows" and "without a word of them in the log" in op["why"]


@pytest.mark.parametrize(
    ("part", "loses"),
    [
        ("ADD COLUMN x int NOT NULL DEFAULT 0 UNIQUE", True), ("ADD x int KEY", True), ("MODIFY a varchar(9) COLLATE utf8mb4_bin", True),
        ("CONVERT TO CHARACTER SET utf8mb4", True), ("DROP COLUMN a", True), ("CHANGE a b int UNIQUE", True),
        ("ADD COLUMN x int", False), ("ADD (x int, y int DEFAULT 1)", False), ("ADD INDEX i (a)", False), ("ADD KEY i (a)", False),
        ("RENAME TO u", False), ("ADD COLUMN `unique` int", False),
    ],
)  # fmt: skip
def test_alter_ignore_may_delete_rows_unless_it_only_adds(part: str, loses: bool) -> None:
    ops = read_statement(f"ALTER IGNORE TABLE t {part}", "shop").ops.get(T, [])
    assert any(op["op"] == "rows" for op in ops) is loses
    assert not any(op["op"] == "rows" for op in read_statement(f"ALTER TABLE t {part}", "shop").ops.get(T, []))


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE `u` WITHOUT VALIDATION", "ALTER TABLE t CONVERT PARTITION p TO TABLE shop.u",
        "ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (3)",
    ],
)  # fmt: skip
def test_rows_that_two_tables_exchange(statement: str) -> None:
    found = read_statement(statement, "shop").ops
    assert {table: [op["op"] for op in some] for table, some in found.items()} == {T: ["rows"], ("shop", "u"): ["rows"]}


def test_all_texts_get_another_character_set() -> None:
    assert ops("ALTER TABLE t CONVERT TO CHARACTER SET latin1") == [{"op": "convert", "charset": "latin1", "strict": False}]


def test_what_is_not_understood_is_said() -> None:
    [op] = ops("ALTER TABLE t ADD COLUMN")
    assert op == {"op": "unread", "text": "ALTER TABLE t ADD COLUMN"}


def test_tables_that_come_and_go() -> None:
    assert ops("CREATE TABLE t (a int)") == [{"op": "create", "sure": True}]
    assert ops("CREATE TABLE IF NOT EXISTS t LIKE u") == [{"op": "create", "sure": False}]
    made, rows = ops("CREATE OR REPLACE TABLE t (a int) SELECT 1")
    assert made == {"op": "create", "sure": True} and rows["why"] == "CREATE TABLE ... SELECT brought rows that are not in the log"
    assert ops("TRUNCATE t") == ops("TRUNCATE TABLE `shop`.t") == [{"op": "clear"}]
    assert read_statement("DROP TABLE IF EXISTS `t`,`other`.`u` /* generated by server */", "shop").ops == {
        T: [{"op": "gone"}], ("other", "u"): [{"op": "gone"}],
    }  # fmt: skip
    assert read_statement("DROP DATABASE IF EXISTS shop", "").dropped_database == "shop"


def test_tables_that_are_renamed() -> None:
    found = read_statement("RENAME TABLE `t` TO `_t_del`, `shop`.`_t_gho` TO `t`", "shop")
    assert found.renames == [(T, ("shop", "_t_del")), (("shop", "_t_gho"), T)]
    found = read_statement("ALTER TABLE t ADD x int, RENAME TO other.u, RENAME INDEX a TO b", "shop")
    assert found.renames == [(T, ("other", "u"))] and [one["op"] for one in found.ops[T]] == ["add"]


def test_the_mode_of_the_session_says_what_a_string_is() -> None:
    statement = "ALTER TABLE t ADD COLUMN c varchar(20) DEFAULT 'c:\\temp'"
    assert [op["value"] for op in read_statement(statement, "shop", NO_BACKSLASH_ESCAPES).ops[T]] == [{"text": "c:\\temp"}]
    assert [op["value"] for op in read_statement(statement, "shop").ops[T]] == [{"text": "c:\temp"}]
    quoted = 'ALTER TABLE "t" RENAME COLUMN "a""b" TO c'
    assert read_statement(quoted, "shop", ANSI_QUOTES).ops[T] == [{"op": "rename", "from": 'a"b', "to": "c"}]
