"""Read the columns of tables from a server's catalogue, as far as table maps of a log do not tell them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from auditor.pipeline.binlog.dump import query
from auditor.pipeline.binlog.sql_tokens import tokens
from auditor.pipeline.binlog.tracked_columns import TrackedColumn, TrackedTable
from auditor.pipeline.tracker.replay import Name, quote
from dialects.kinds import without_comments
from dialects.mysql.dialect import MySQL

COLUMNS = """\
SELECT table_name, column_name, data_type, column_type, character_set_name, is_nullable
FROM information_schema.columns WHERE table_schema = {database}{tables} ORDER BY table_name, ordinal_position"""

KEYS = """\
SELECT table_name, column_name
FROM information_schema.statistics WHERE table_schema = {database}{tables} AND index_name = 'PRIMARY' ORDER BY table_name, seq_in_index"""

FEW = 20
"""Tables up to which these alone are asked for, and not all of their database."""


def describe_tables(connection: Any, tables: Collection[Name]) -> dict[Name, TrackedTable]:
    """Return the columns of these tables, of those that are there. Raises AuditorError."""
    described: dict[Name, TrackedTable] = {}
    for database in {name[0] for name in tables}:
        names = [table for other, table in tables if other == database]
        described |= {name: table for name, table in _describe(connection, database, names).items() if name[1] in names}
    return described


def _describe(connection: Any, database: str, names: list[str]) -> dict[Name, TrackedTable]:
    literal = MySQL().string_literal
    some = f" AND table_name IN ({', '.join(literal(name) for name in names)})" if len(names) <= FEW else ""
    fragments = {"database": literal(database), "tables": some}
    columns: dict[str, list[TrackedColumn]] = {}
    nullable: dict[str, set[str]] = {}
    for table, name, kind, native, charset, null in query(connection, COLUMNS.format(**fragments)):
        columns.setdefault(str(table), []).append(_column(str(name), _text(kind).lower(), _text(native), charset and _text(charset)))
        if null == "YES":
            nullable.setdefault(str(table), set()).add(str(name))
    keys: dict[str, list[str]] = {}
    for table, name in query(connection, KEYS.format(**fragments)):
        keys.setdefault(str(table), []).append(str(name))
    for table in columns:
        if table not in keys and (not some or table in names):
            keys[table] = _unique_key(connection, (database, table), nullable.get(table, set()))
    return {(database, table): TrackedTable(tuple(of_table), tuple(keys.get(table, ()))) for table, of_table in columns.items()}


def _column(name: str, kind: str, native: str, charset: str | None) -> TrackedColumn:
    labels = [token.text for token in tokens(without_comments(native)) if token.kind == "string"] if kind in ("enum", "set") else []
    return TrackedColumn(name, kind, " unsigned" in native.lower() and not labels, charset, tuple(labels))


def _unique_key(connection: Any, name: Name, nullable: set[str]) -> list[str]:
    """Return the columns of the key that the log names as the primary one where there is none: the first unique one without NULL."""
    indexes: dict[str, list[str]] = {}
    left_out: set[str] = set()
    for row in query(connection, f"SHOW KEYS FROM {quote(name[0])}.{quote(name[1])}"):
        non_unique, index, column, part = int(row[1]), str(row[2]), row[4], row[7]
        indexes.setdefault(index, []).append(str(column))
        if non_unique or column is None or part is not None or column in nullable:
            left_out.add(index)
    return next((columns for index, columns in indexes.items() if index not in left_out), [])


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
