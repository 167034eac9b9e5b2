"""How Redshift changes the columns of a table.

It adds, drops and renames columns in transactions, one by each statement. It makes a VARCHAR longer outside of transactions, and changes no
other type: the values then move into another column of the same table, so that its owner, grants, comments, views, distribution key and
sort key stay.
https://docs.aws.amazon.com/redshift/latest/dg/r_ALTER_TABLE.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dialects.alteration import Alteration, Altering, Changes, Retyped
from dialects.catalogue import Table

FIXED_ENCODINGS = frozenset({"bytedict", "runlength", "text255", "text32k"})
"""Encodings of columns that are not made longer."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """How a column is stored."""

    has_default: bool
    encoding: str
    is_distribution_key: bool
    is_sort_key: bool


class RedshiftAltering(Altering):
    """How Redshift changes the columns of a table."""

    def alter(self, session: Any, table: Table, changes: Changes) -> Alteration:
        if not (changes.retyped or changes.dropped):
            return super().alter(session, table, changes)
        stored = _read_stored(session, table)
        if unseen := [name for name in (*changes.dropped, *(one.column.name for one in changes.retyped)) if name not in stored]:
            return Alteration(refused=f"svv_redshift_columns does not show {unseen[0]} to this user; let the table's owner write to it")
        grown = [one for one in changes.retyped if one.is_longer_text and _can_grow(table, one, stored)]
        moved = [one for one in changes.retyped if one not in grown]
        for name in [*changes.dropped, *(one.column.name for one in moved)]:
            if why := _why_it_stays(table, name, stored):
                return Alteration(refused=why)
        keyed = [one for one in moved if one.column.name in table.primary_key]
        before = [f"ALTER TABLE {table.sql} ALTER COLUMN {session.dialect.names.quote(one.column.name)} TYPE {one.native}" for one in grown]
        key = changes.key or ([changes.renamed.get(name, name) for name in table.primary_key] if keyed else ())
        made = super().alter(session, table, replace(changes, retyped=moved, key=key)).statements
        return Alteration(made, before, moves_rows=bool(moved))

    def _add_key(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        # It is no more than a hint, and only for columns that may not be NULL, which none becomes later.
        never_null = {changes.renamed.get(column.name, column.name) for column in table.columns if not column.nullable}
        return super()._add_key(session, table, changes) if set(changes.key) <= never_null else []

    def _retype(self, session: Any, table: Table, one: Retyped, name: str) -> Sequence[str]:
        quote = session.dialect.names.quote
        taken = {column.name.lower() for column in table.columns}
        other = next(quote(free) for number in range(len(taken) + 1) if (free := f"auditor_retyped_{number}") not in taken)
        # A column of the key may not be NULL, and such a one is added with a default alone, which stays.
        needed = f" DEFAULT {_some_value(one)} NOT NULL" if one.column.name in table.primary_key else ""
        return [
            f"ALTER TABLE {table.sql} ADD COLUMN {other} {one.native}{needed}",
            f"UPDATE {table.sql} SET {other} = CAST({quote(name)} AS {one.native})",
            f"ALTER TABLE {table.sql} DROP COLUMN {quote(name)}",
            f"ALTER TABLE {table.sql} RENAME COLUMN {other} TO {quote(name)}",
        ]

    def _add(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        # The default stays, because no statement removes it; a merge gives every column a value.
        return [
            f"ALTER TABLE {table.sql} ADD COLUMN {session.dialect.names.quote(one.name)} {one.native}"
            + (f" DEFAULT {one.literal}" if one.literal else "")
            for one in changes.added
        ]


def _read_stored(session: Any, table: Table) -> dict[str, _Stored]:
    literal = session.dialect.names.literal
    # A function of the leader node cannot be asked for together with the view.
    database = literal(str(session.query("SELECT CURRENT_DATABASE()")[0][0]))
    names = {"database": database, "schema": literal(table.names[-2]), "table": literal(table.names[-1])}
    rows = session.query(session.dialect.catalogue_query("column_storage", names))
    return {
        str(column): _Stored(bool(default), str(encoding), bool(distributed), int(sorted_by) != 0)
        for column, default, encoding, distributed, sorted_by in rows
    }


def _can_grow(table: Table, one: Retyped, stored: dict[str, _Stored]) -> bool:
    found = stored[one.column.name]
    return not found.has_default and found.encoding not in FIXED_ENCODINGS and one.column.name not in table.primary_key


def _why_it_stays(table: Table, name: str, stored: dict[str, _Stored]) -> str:
    """Return why a column can neither be dropped nor exchanged for another one; empty if it can."""
    found = stored[name]
    if found.is_distribution_key:
        return f"{name} is its distribution key; run there: ALTER TABLE {table.sql} ALTER DISTSTYLE EVEN, and set it again afterwards"
    if found.is_sort_key:
        return f"{name} is in its sort key; run there: ALTER TABLE {table.sql} ALTER SORTKEY NONE, and set it again afterwards"
    return ""


def _some_value(one: Retyped) -> str:
    """Return the literal of a value of a column's type."""
    kind = one.column.kind
    if kind and kind.name in ("date", "timestamp", "timestamptz"):
        return "'1970-01-01'"
    return "'0'" if kind is None or kind.is_free_text else "''" if kind.name == "binary" else "0"
