"""What DuckDB states of being written to.

It drops no column that stands before one of a key, and gives none of a key another type: such a table is made again, in the transaction
that the statements are run in.
https://duckdb.org/docs/stable/sql/statements/alter_table
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from dialects.writing import LineFormat, Loads, Writing

_NAME = re.compile(r'"((?:[^"]|"")*)"')

MADE = '"auditor_made_anew"'


class DuckDBWriting(Writing):
    """How DuckDB is written to."""

    LOADS: ClassVar[Loads] = "alone"
    MERGES_RANGES: ClassVar[bool] = True
    CHANGES_TABLES: ClassVar[bool] = True
    RETYPES_KEYS: ClassVar[bool] = False
    ADDS_DEFAULTS: ClassVar[bool] = False
    """The COMMIT of such a transaction fails in DuckDB 1.5, as does one that changes a table after an UPDATE of it."""
    FOLDS_NAMES: ClassVar[Literal["", "A to Z", "all"]] = "A to Z"
    """https://duckdb.org/docs/stable/sql/dialect/keywords_and_identifiers#case-sensitivity-of-identifiers"""
    WRITE_SETTINGS = ("SET TimeZone = 'UTC'",)
    STAGING_TABLE = "TEMPORARY TABLE"
    LINES: ClassVar[LineFormat] = LineFormat(between=",", null="", escapes=(('"', '""'),), quote='"')
    READS_FILES = True

    def drop_columns(self, session: Any, table: str, columns: Sequence[str], retyped: Mapping[str, str]) -> Sequence[str]:
        # Where it has more than a primary key and columns that may not be NULL, which a table that is made again would not have, these are
        # what DuckDB itself offers.
        quote, literal = session.dialect.names.quote, session.dialect.names.string_literal
        plain = [f"ALTER TABLE {table} DROP COLUMN {quote(name)}" for name in columns]
        plain += [f"ALTER TABLE {table} ALTER COLUMN {quote(name)} TYPE {native}" for name, native in retyped.items()]
        schema, name = (part.replace('""', '"') for part in _NAME.findall(table)[-2:])
        where = f"WHERE database_name = current_database() AND schema_name = {literal(schema)} AND table_name = {literal(name)}"
        constraints = session.query(f"SELECT constraint_type, constraint_column_names FROM duckdb_constraints() {where}")
        key = next((list(names) for kind, names in constraints if kind == "PRIMARY KEY"), [])
        rows = session.query(
            f"SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() {where} ORDER BY column_index"
        )
        order = [str(row[0]) for row in rows]
        last = max((order.index(column) for column in key), default=-1)
        others = {str(kind) for kind, _ in constraints} - {"PRIMARY KEY", "NOT NULL"}
        indexes = session.query(f"SELECT COUNT(*) FROM duckdb_indexes() {where}")[0][0]
        if others or indexes or not (retyped or any(order.index(column) < last for column in columns if column in order)):
            return plain
        kept = [row for row in rows if str(row[0]) not in columns]
        lines = []
        for column, native, nullable, default in kept:
            given = f" DEFAULT {default}" if default is not None else ""
            lines.append(f"{quote(str(column))} {retyped.get(column, native)}{'' if nullable else ' NOT NULL'}{given}")
        lines.append(f"PRIMARY KEY ({', '.join(map(quote, key))})")
        names, made = ", ".join(quote(str(row[0])) for row in kept), f"{quote(schema)}.{MADE}"
        return [
            f"CREATE TABLE {made} ({', '.join(lines)})",
            f"INSERT INTO {made} ({names}) SELECT {names} FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE {made} RENAME TO {quote(name)}",
        ]
