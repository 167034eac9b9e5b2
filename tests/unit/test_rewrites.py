"""Statements that may have changed values of rows without an event, although the columns before and after them are alike."""

from __future__ import annotations

import datetime as dt

import pytest

from auditor.model import TableNote
from auditor.pipeline.binlog.ddl import STRICT, read_statement
from auditor.pipeline.events import ColumnSchema, TableSchema
from auditor.pipeline.merge.rewrites import find_hidden

NOW = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


def schema(kind: str, *, name: str = "c", nullable: bool = True) -> TableSchema:
    charset = "utf8mb4" if "char" in kind or "text" in kind else None
    return TableSchema("shop", "t", (ColumnSchema("id", "int", False), ColumnSchema(name, kind, nullable, charset)), ("id",))


def hidden(before: str, *statements: str, after: str | None = None, mode: int = STRICT) -> list[int]:
    """Which of the statements may have changed values of the column c, by their numbers."""
    ops = [read_statement(f"ALTER TABLE t {one}", "shop", mode).ops.get(("shop", "t"), []) for one in statements]
    notes = [TableNote("shop.t", "change", number, number, 0, NOW, {"ops": some}) for number, some in enumerate(ops)]
    found = find_hidden(schema(before), schema(after or before), notes)
    assert all("shop.t.c " in why for why in found.values())
    return sorted(found)


@pytest.mark.parametrize(
    ("before", "statements"),
    [
        ("decimal(10,2)", ["MODIFY c decimal(10,1)", "MODIFY c decimal(10,2)"]),
        ("datetime(6)", ["MODIFY c datetime", "MODIFY c datetime(6)"]),
        ("time(3)", ["CHANGE c d time(2)", "CHANGE COLUMN d c time(3)"]),
        ("set('a','b')", ["MODIFY c set('b','a')", "MODIFY c set('a','b')"]),
        ("double", ["MODIFY c double(7,2)", "MODIFY c double"]),
        ("int", ["MODIFY c varchar(20)", "MODIFY c int"]),
        ("varchar(9)", ["MODIFY c char(9)", "MODIFY c varchar(9)"]),
        ("binary(4)", ["MODIFY c binary(9)", "MODIFY c binary(4)"]),
        ("int", ["MODIFY c int AS (id + 1) STORED"]),
        ("int", ["CHANGE c d int GENERATED ALWAYS AS (id + 1) VIRTUAL", "CHANGE d c int AS (id + 1)"]),
        ("timestamp", ["MODIFY c timestamp NOT NULL", "MODIFY c timestamp NULL"]),
        ("datetime(6)", ["MODIFY c timestamp(6) NOT NULL", "MODIFY c datetime(6)"]),
    ],
)
def test_what_every_session_changes_is_found(before: str, statements: list[str]) -> None:
    assert hidden(before, *statements)[:1] == [0]
    assert hidden(before, *statements, mode=0)[:1] == [0]


@pytest.mark.parametrize(
    ("before", "statements"),
    [
        ("varchar(9)", ["MODIFY c varchar(5)", "MODIFY c varchar(9)"]),
        ("int", ["MODIFY c tinyint", "MODIFY c int"]),
        ("bigint", ["MODIFY c bigint unsigned", "MODIFY c bigint"]),
        ("enum('a','b')", ["MODIFY c enum('a')", "MODIFY c enum('a','b')"]),
        ("int", ["MODIFY c int NOT NULL", "MODIFY c int"]),
        ("varchar(9)", ["MODIFY c varchar(9) CHARACTER SET latin1", "MODIFY c varchar(9) CHARACTER SET utf8mb4"]),
        ("text", ["CONVERT TO CHARACTER SET latin1", "CONVERT TO CHARSET utf8mb4"]),
        ("text", ["MODIFY c tinytext", "MODIFY c text"]),
        ("int", ["DROP PRIMARY KEY, ADD PRIMARY KEY (id, c)"]),
        ("varchar(9)", ["DROP PRIMARY KEY, ADD CONSTRAINT `k` PRIMARY KEY USING BTREE (`C`(4) DESC, id)"]),
    ],
)
def test_what_a_session_changes_that_is_not_strict_is_found(before: str, statements: list[str]) -> None:
    assert hidden(before, *statements, mode=0)[:1] == [0]
    assert hidden(before, *statements) == []


@pytest.mark.parametrize(
    ("before", "statement", "after"),
    [
        ("decimal(10,2)", "MODIFY c DECIMAL(12,3) COMMENT 'x'", "decimal(12,3)"), ("int", "MODIFY c INTEGER(11) NULL", "int"),
        ("int", "MODIFY COLUMN c bigint AFTER id", "bigint"), ("varchar(9)", "MODIFY c CHARACTER VARYING(20)", "varchar(20)"),
        ("varchar(9)", "MODIFY c text CHARACTER SET utf8mb4", "text"), ("enum('a','b')", "MODIFY c enum('b','a','c')", "enum('b','a','c')"),
        ("set('a','b')", "MODIFY c set('a','b','c')", "set('a','b','c')"), ("datetime(3)", "MODIFY c datetime(6)", "datetime(6)"),
        ("tinyint(1)", "MODIFY c bool", "tinyint(1)"), ("int", "ADD KEY (c), ALTER c SET DEFAULT 5", "int"),
        ("enum('it''s','b')", "MODIFY c enum('it''s','b')", "enum('it''s','b')"), ("text", "CONVERT TO CHARACTER SET utf8mb4", "text"),
        ("int", "ADD CONSTRAINT f FOREIGN KEY (c) REFERENCES u (c), ADD UNIQUE (c)", "int"), ("int", "ADD CONSTRAINT CHECK (c > 0)", "int"),
        ("decimal(10,2)", "MODIFY c decimal(10,1)", "decimal(10,1)"),  # which the schemas show
    ],
)  # fmt: skip
def test_what_changes_no_value_is_no_finding(before: str, statement: str, after: str) -> None:
    assert hidden(before, statement, after=after, mode=0) == []
