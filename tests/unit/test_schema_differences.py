"""What two schemas of a table differ in, and what of that breaks those who read the table."""

from __future__ import annotations

import pytest

from auditor.pipeline.events import ColumnSchema, TableSchema
from auditor.pipeline.schema_differences import find_differences


def schema(*columns: tuple[str, str], key: tuple[str, ...] = ("id",), nullable: tuple[str, ...] = ()) -> TableSchema:
    described = tuple(ColumnSchema(name, native, name in nullable) for name, native in (("id", "bigint"), *columns))
    return TableSchema("shop", "orders", described, key)


def differences(old: TableSchema, new: TableSchema, **renamed: str) -> list[tuple[str, bool]]:
    names = {column.name for column in old.columns}
    kept = {column.name: column.name for column in new.columns if column.name in names}
    found = find_differences(old, new, {**kept, **{new_name: old_name for old_name, new_name in renamed.items()}})
    return [(one.sentence, one.breaks_readers) for one in found]


def test_equal_schemas_differ_in_nothing() -> None:
    assert differences(schema(("a", "int")), schema(("a", "int"))) == []


def test_columns_that_come_go_and_are_renamed() -> None:
    old, new = schema(("a", "int"), ("b", "text"), ("c", "date")), schema(("a", "int"), ("z", "date"), ("d", "int"))
    assert differences(old, new, c="z") == [("b was dropped", True), ("c is called z", True), ("d (int) was added", False)]


@pytest.mark.parametrize(
    ("before", "after", "breaks"),
    [
        ("int", "bigint", False),
        ("bigint", "int", True),
        ("int", "int unsigned", True),
        ("int unsigned", "bigint", False),
        ("int unsigned", "int", True),
        ("int unsigned", "bigint unsigned", False),
        ("decimal(10,2)", "decimal(12,2)", False),
        ("decimal(10,2)", "decimal(10,4)", True),
        ("varchar(40)", "varchar(80)", False),
        ("varchar(40)", "varchar(20)", True),
        ("varchar(40)", "text", False),
        ("text", "tinytext", True),
        ("text", "varchar(40)", True),
        ("blob", "longblob", False),
        ("longblob", "blob", True),
        ("varbinary(9)", "varbinary(8)", True),
        ("enum('a','b')", "enum('a','b','c')", False),
        ("enum('a','b')", "enum('a','c')", True),
        ("set('a','b''c')", "set('a')", True),
        ("datetime", "datetime(6)", False),
        ("datetime(6)", "datetime", True),
        ("datetime", "timestamp", True),
        ("int", "varchar(40)", True),
        ("float", "double", False),
        ("bit(3)", "bit(2)", True),
    ],
)
def test_types_that_hold_less_break_readers(before: str, after: str, breaks: bool) -> None:
    [(sentence, found)] = differences(schema(("a", before)), schema(("a", after)))
    assert (found, sentence.startswith(f"a is {after} and was {before}")) == (breaks, True)
    assert sentence.endswith("does not hold all that it held") is breaks


def test_nulls_keys_and_order() -> None:
    old = schema(("a", "int"), ("b", "int"))
    assert differences(old, schema(("a", "int"), ("b", "int"), nullable=("a",))) == [("a may be NULL", False)]
    assert differences(schema(("a", "int"), nullable=("a",)), schema(("a", "int"))) == [("a is never NULL", False)]
    assert differences(old, schema(("b", "int"), ("a", "int"))) == [("the columns have another order", False)]
    assert differences(old, schema(("a", "int"), ("b", "int"), key=("id", "a"))) == [("the key is (id, a) and was (id)", True)]
