"""How DuckDB is written to: how tables change, how rows are loaded from memory and from files of lines, and what it states of it.

It drops no column that stands before one of a key, and gives none of a key another type: such a table is made again, in the transaction
that the statements are run in.
https://duckdb.org/docs/stable/sql/statements/alter_table, https://duckdb.org/docs/stable/data/csv/overview
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from dialects.alteration import Alteration, Altering, Changes, Retyped
from dialects.base import Dialect, Loading
from dialects.catalogue import Table
from dialects.kinds import Kind
from dialects.times import BC
from dialects.writing import LineFormat, Loads, Writing

MADE = '"auditor_made_anew"'

LONGEST_LINE = 1 << 30
"""Bytes of the longest line that is read from a file."""

FEW_VALUES = 100
"""Values up to which an INSERT lists them: each takes longer so than in lists that are unnested, and the statement a third less."""

SHORTEST_BUFFER = 2 << 20
"""The smallest buffer, in bytes, through which a file is read. Without a size DuckDB 1.5 allocates sixteen times the longest line."""


class DuckDBAltering(Altering):
    """How DuckDB changes the columns of a table."""

    def alter(self, session: Any, table: Table, changes: Changes) -> Alteration:
        if not changes.key:
            return super().alter(session, table, changes)
        if replace(changes, key=(), dropped=()):
            return Alteration(refused=f"{table.sql} gets another key and other columns at once: make it again by hand")
        if _has_more(session, table):
            return Alteration(refused=f"{table.sql} has more constraints or indexes than its key: give it the key by hand")
        return Alteration(_made_again(session, table, changes.key, changes.dropped, {}), moves_rows=True)

    def _drop(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        # Where it has more than a primary key and columns that may not be NULL, which a table that is made again would not have, these are
        # what DuckDB itself offers.
        quote = session.dialect.names.quote
        retyped = {one.column.name: one.native for one in changes.retyped if one.column.name in table.primary_key}
        plain = [f"ALTER TABLE {table.sql} DROP COLUMN {quote(name)}" for name in changes.dropped]
        plain += [f"ALTER TABLE {table.sql} ALTER COLUMN {quote(name)} TYPE {native}" for name, native in retyped.items()]
        key, order = table.primary_key, [column.name for column in table.columns]
        last = max((order.index(column) for column in key), default=-1)
        is_needed = retyped or any(order.index(column) < last for column in changes.dropped if column in order)
        return _made_again(session, table, key, changes.dropped, retyped) if is_needed and not _has_more(session, table) else plain

    def _retype(self, session: Any, table: Table, one: Retyped, name: str) -> Sequence[str]:
        return [] if one.column.name in table.primary_key else super()._retype(session, table, one, name)

    def _add(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        # The values come last, by an UPDATE: the COMMIT of a transaction that adds columns with a default beside other changes fails in
        # DuckDB 1.5, as does that of one that changes a table after an UPDATE of it.
        quote = session.dialect.names.quote
        statements = [f"ALTER TABLE {table.sql} ADD COLUMN {quote(one.name)} {one.native}" for one in changes.added]
        values = [f"{quote(one.name)} = CAST({one.literal} AS {one.native})" for one in changes.added if one.literal]
        return [*statements, f"UPDATE {table.sql} SET {', '.join(values)}"] if values else statements


def _of_table(session: Any, table: Table) -> str:
    literal = session.dialect.names.string_literal
    schema, name = (literal(part) for part in table.names[-2:])
    return f"WHERE database_name = current_database() AND schema_name = {schema} AND table_name = {name}"


def _has_more(session: Any, table: Table) -> bool:
    """Return whether a table has more than a primary key and columns that may not be NULL."""
    where = _of_table(session, table)
    constraints = {str(kind) for (kind,) in session.query(f"SELECT constraint_type FROM duckdb_constraints() {where}")}
    indexes = session.query(f"SELECT COUNT(*) FROM duckdb_indexes() {where}")[0][0]
    return bool(constraints - {"PRIMARY KEY", "NOT NULL"} or indexes)


def _made_again(session: Any, table: Table, key: Sequence[str], dropped: Sequence[str], retyped: Mapping[str, str]) -> Sequence[str]:
    """Return the statements that make a table again, of the same name, with a key, and without some columns or with other types."""
    quote, where = session.dialect.names.quote, _of_table(session, table)
    rows = session.query(f"SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() {where} ORDER BY column_index")
    kept = [row for row in rows if str(row[0]) not in dropped]
    lines = []
    for column, native, nullable, default in kept:
        given = f" DEFAULT {default}" if default is not None else ""
        lines.append(f"{quote(str(column))} {retyped.get(column, native)}{'' if nullable else ' NOT NULL'}{given}")
    lines.append(f"PRIMARY KEY ({', '.join(map(quote, key))})")
    schema, name = table.names[-2:]
    names, made = ", ".join(quote(str(row[0])) for row in kept), f"{quote(schema)}.{MADE}"
    return [
        f"CREATE TABLE {made} ({', '.join(lines)})",
        f"INSERT INTO {made} ({names}) SELECT {names} FROM {table.sql}",
        f"DROP TABLE {table.sql}",
        f"ALTER TABLE {made} RENAME TO {quote(name)}",
    ]


class DatabaseSession(Protocol):
    """What is asked of the session that rows are loaded by."""

    dialect: Dialect
    connection: Any

    def execute(self, sql: str) -> None:
        """Run a statement."""

    def translated(self) -> AbstractContextManager[None]:
        """Limit the time of the block, and raise the driver's errors as those of ``dialects.errors``."""


class DuckDBLoading(Loading):
    """How rows are written to a database in this process."""

    def __init__(self, session: DatabaseSession) -> None:
        self.session = session

    def write(self, sql: str) -> int:
        with self.session.translated():
            rows = self.session.connection.execute(sql).fetchall()
        return int(rows[0][0]) if rows else 0

    def analyze(self, table: str) -> str:
        self.session.execute(self.session.dialect.writing.ANALYZE.format(table=table))
        return ""

    def load(self, table: str, columns: Mapping[str, Kind], rows: Any) -> int:
        names = [self.session.dialect.names.quote(name) for name in columns]
        values = [f"UNHEX({name})" if kind.name == "binary" else name for name, kind in zip(names, columns.values(), strict=True)]
        with self.session.translated():
            self.session.connection.register("staged_rows", rows)
            try:
                insert = f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} FROM staged_rows"
                [(count,)] = self.session.connection.execute(insert).fetchall()
            finally:
                self.session.connection.unregister("staged_rows")
        return int(count)

    def insertion(self, table: str, columns: Mapping[str, Kind], rows: Sequence[Sequence[str | None]]) -> str:
        quote, literal = self.session.dialect.names.quote, self.session.dialect.names.literal
        if len(rows) * len(columns) <= FEW_VALUES:
            binary = [kind.name == "binary" for kind in columns.values()]
            listed = (
                ", ".join(f"UNHEX({literal(value)})" if is_binary else literal(value) for value, is_binary in zip(row, binary, strict=True))
                for row in rows
            )
            return f"INSERT INTO {table} ({', '.join(map(quote, columns))}) VALUES ({'), ('.join(listed)})"
        lists = [f"UNNEST(CAST([{', '.join(map(literal, values))}] AS VARCHAR[]))" for values in zip(*rows, strict=True)]
        values = (f"UNHEX({one})" if kind.name == "binary" else one for one, kind in zip(lists, columns.values(), strict=True))
        return f"INSERT INTO {table} ({', '.join(map(quote, columns))}) SELECT {', '.join(values)}"

    def load_files(self, table: str, columns: Mapping[str, Kind], paths: Sequence[str], folder: str) -> None:
        values, files = ", ".join(file_values(columns)), read_files(self.session.dialect, columns, paths)
        self.session.execute(f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {files}")


def read_files(dialect: Dialect, columns: Mapping[str, Kind], paths: Sequence[str]) -> str:
    """Return SQL of the table of texts that files of lines hold: ``c0`` and so on. https://duckdb.org/docs/stable/data/csv/overview"""
    longest = min(LONGEST_LINE, max([SHORTEST_BUFFER, *(Path(path).stat().st_size for path in paths)]))  # no line is longer than its file
    types = ", ".join(f"c{number}: 'VARCHAR'" for number in range(len(columns)))
    files = ", ".join(dialect.names.string_literal(path) for path in paths)
    return (
        f"READ_CSV([{files}], columns = {{{types}}}, auto_detect = false, header = false, delim = ',', quote = '\"', escape = '\"',"
        f" nullstr = '', allow_quoted_nulls = false, parallel = false, new_line = '\\n', max_line_size = {longest},"
        f" buffer_size = {longest})"
    )


def file_values(columns: Mapping[str, Kind]) -> list[str]:
    """Return SQL of the values of columns, by their kinds, of the texts in `read_files`."""
    return [_loaded(f"c{number}", kind) for number, kind in enumerate(columns.values())]


def _loaded(c: str, kind: Kind) -> str:
    """A value of a column of this kind, of its text in a file of lines."""
    if kind.name == "binary":
        return f"UNHEX({c})"
    if kind.name in ("date", "timestamp", "timestamptz"):  # the era follows the date
        return f"CASE WHEN {c} LIKE '%{BC}' THEN REGEXP_REPLACE({c}, '^(\\S+)(.*){BC}$', '\\1 (BC)\\2') ELSE {c} END"
    return c


class DuckDBWriting(Writing):
    """How DuckDB is written to."""

    ANALYZE = "ANALYZE {table}"
    """https://duckdb.org/docs/stable/sql/statements/analyze"""
    LOADS: ClassVar[Loads] = "alone"
    MERGES_LITERALS: ClassVar[bool] = True
    """A statement takes about a millisecond, and a staging table several; its session ends with the merge, so that each merge makes it."""
    altering: ClassVar[Altering] = DuckDBAltering()
    FOLDS_NAMES: ClassVar[Literal["", "A to Z", "all"]] = "A to Z"
    """https://duckdb.org/docs/stable/sql/dialect/keywords_and_identifiers#case-sensitivity-of-identifiers"""
    WRITE_SETTINGS = ("SET TimeZone = 'UTC'",)
    STAGING_TABLE = "TEMPORARY TABLE"
    LINES: ClassVar[LineFormat] = LineFormat(between=",", null="", escapes=(('"', '""'),), quote='"')
    READS_FILES = True
