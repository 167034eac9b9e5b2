"""Say which tables a statement writes that is in the log instead of rows.

What a statement does by views, triggers and functions, its text does not say: views and triggers are looked up, those that the reader's
user may see; functions are not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from auditor.pipeline.binlog.ddl import ALL_TABLES
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.sql_tokens import Token, TokenReader, tokens
from auditor.pipeline.binlog.table_statements import TableStatement
from dialects.mysql.expressions import MySQLNames

Name = tuple[str, str]
"""Database and table."""

Ask = Callable[[str], Sequence[Sequence[Any]]]
"""Runs a statement on the source, and returns its rows."""

_MORE = ("LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "QUICK", "IGNORE", "INTO", "FROM")
_ENDS = ("SET", "WHERE", "ORDER", "LIMIT", "RETURNING", "FORCE", "PARTITION", "AS")

HIDDEN = """\
SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = {database} AND TABLE_NAME = {table} AND TABLE_TYPE LIKE '%VIEW%'
UNION ALL
SELECT 1 FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = {database} AND EVENT_OBJECT_TABLE = {table}"""

TABLES = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE LIKE 'BASE%' AND TABLE_SCHEMA IN ({databases})"

DATABASES = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA"


def written_tables(token_list: Sequence[Token], database: str) -> list[Name] | None:
    """Return the tables that a statement with these tokens may write, perhaps more; None if that is not known.

    ``database`` is the session's.
    """
    left = TokenReader(token_list, database)
    if left.take("INSERT") or left.take("REPLACE"):
        _pass(left)
        return [name] if (name := left.take_table()) else None
    if left.take("LOAD", "DATA") or left.take("LOAD", "XML"):
        while left.left and not left.take("INTO", "TABLE"):
            left.left.pop(0)
        return [name] if (name := left.take_table()) else None
    is_update = left.take("UPDATE")
    if is_update or left.take("DELETE"):
        is_from = any(token.is_word("FROM") for token in left.left[: len(_MORE)])
        _pass(left)
        first = left.take_table()
        if first and (is_update or is_from) and (not left.left or left.left[0].is_word(*_ENDS)):
            return [first]
        return list(_names(token_list, database))
    return None


def _pass(left: TokenReader) -> None:
    while left.left and left.left[0].is_word(*_MORE):
        left.left.pop(0)


def _names(token_list: Sequence[Token], database: str) -> Iterator[Name]:
    """Yield everything in a statement that may be the name of a table."""
    yield from ((database, token.text) for token in token_list if token.is_name)
    for qualifier, (dot, name) in zip(token_list, pairwise(token_list[1:]), strict=False):
        if qualifier.is_name and dot.text == "." and name.is_name:
            yield qualifier.text, name.text


def chosen_tables(statement: TableStatement, selection: Selection, ask: Ask) -> list[Name]:
    """Return the tables that are read and that a statement writes, or may write where that is not known.

    For all tables of a database there is one named `ALL_TABLES` as well, which stands for those that were dropped since.
    """
    token_list = tokens(statement.characters, statement.sql_mode)
    names = written_tables(token_list, statement.database)
    if names is not None and not any(ask(_hidden(name)) for name in dict.fromkeys(names)):
        return list(dict.fromkeys(name for written in names for name in _as_written(written) if selection.has(*name)))
    mentioned = {statement.database, *(token.text for token in token_list if token.is_name)}
    known = [str(row[0]) for row in ask(DATABASES)]
    databases = [database for database in known if selection.has_database(database) and (names is not None or database in mentioned)]
    if not databases:
        return []
    listed = ask(TABLES.format(databases=", ".join(MySQLNames().string_literal(database) for database in databases)))
    there = [(_text(database), _text(table)) for database, table in listed]
    return [*(name for name in there if selection.has(*name)), *((database, ALL_TABLES) for database in databases)]


def _as_written(name: Name) -> Iterable[Name]:
    """Return a name, and as it is called on a server that folds names."""
    return dict.fromkeys((name, (name[0].lower(), name[1].lower())))


def _hidden(name: Name) -> str:
    literal = MySQLNames().string_literal
    return HIDDEN.format(database=literal(name[0]), table=literal(name[1]))


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
