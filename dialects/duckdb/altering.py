"""How DuckDB changes the columns of a table.

It drops no column that stands before one of a key, and gives none of a key another type: such a table is made again, in the transaction
that the statements are run in.
https://duckdb.org/docs/stable/sql/statements/alter_table
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from dialects.alteration import Alteration, Altering, Changes, Retyped
from dialects.catalogue import Table

MADE = '"auditor_made_anew"'


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
