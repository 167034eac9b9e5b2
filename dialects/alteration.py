"""What a pipeline does to the columns of a target's table, and how engines state the statements that do it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dialects.catalogue import Column, Table


@dataclass(frozen=True, slots=True)
class Retyped:
    """A column that gets another type, in which it keeps its values."""

    column: Column
    """As it is before."""
    native: str
    bits: int = 0
    """Of how many bits its values are then, with zeros before their own; 0 if they are no bit strings."""
    is_longer_text: bool = False
    """Whether it holds longer texts then, and differs in nothing else."""


@dataclass(frozen=True, slots=True)
class Added:
    """A new column."""

    name: str
    native: str
    literal: str = ""
    """What rows that are there have in it; empty for NULL."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to the columns of a table, made together."""

    dropped: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The names that columns get, by those that they have."""
    retyped: Sequence[Retyped] = ()
    added: Sequence[Added] = ()
    key: Sequence[str] = ()
    """The primary key that the table gets, by the names that its columns have then; empty to keep its own."""

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.dropped or self.renamed or self.retyped or self.added or self.key)


@dataclass(frozen=True, slots=True)
class Alteration:
    """The statements that change a table."""

    statements: Sequence[str] = ()
    """In order: in one transaction with the position that the table then holds, where the engine takes these in transactions."""
    before: Sequence[str] = ()
    """Those to be run before, each by itself, after any of which the table is as good for its rows as it was."""
    rows: str = ""
    """The SELECT of all rows in the new form, where one commit puts these in place of the table's rows and columns, instead of statements;
    else empty."""
    moves_rows: bool = False
    """Whether all rows are written again."""
    refused: str = ""
    """Why the engine has no statements that do it, as a clause with what to do; empty if it has."""


class Altering:
    """How an engine changes the columns of a table: by ALTER TABLE, in transactions."""

    COMMITS_BY_ITSELF: ClassVar[bool] = False
    """Whether each statement that changes a table commits by itself: the changes of one migration are then one statement, which is done as
    a whole or not at all."""

    def alter(self, session: Any, table: Table, changes: Changes) -> Alteration:
        """Return the statements that change a described table."""
        retyped = [text for one in changes.retyped for text in self._retype(session, table, one, name_of(one, changes))]
        renamed = rename_columns(session, table, changes)
        changed = [*self._drop(session, table, changes), *renamed, *retyped, *self._add(session, table, changes)]
        if changes.key:
            changed = [*self._drop_key(session, table), *changed, *self._add_key(session, table, changes)]
        return Alteration(changed, moves_rows=rewrites(changes))

    def rename_at_once(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Return the statement that renames tables in this order, each given and wanted as SQL text; only where it commits by itself."""
        raise NotImplementedError

    def _drop_key(self, session: Any, table: Table) -> Sequence[str]:
        """Return the statement that drops the primary key; none if there is none."""
        name, literal = session.dialect.names, session.dialect.names.literal
        schema, own = (literal(part) for part in table.names[-2:])
        rows = session.query(session.dialect.catalogue_query("key_constraint", {"schema": schema, "table": own}))
        return [f"ALTER TABLE {table.sql} DROP CONSTRAINT {name.quote(str(constraint))}" for (constraint,) in rows]

    def _add_key(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        """Return the statement that adds the primary key."""
        return [f"ALTER TABLE {table.sql} ADD PRIMARY KEY ({', '.join(map(session.dialect.names.quote, changes.key))})"]

    def _drop(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        return [f"ALTER TABLE {table.sql} DROP COLUMN {session.dialect.names.quote(name)}" for name in changes.dropped]

    def _retype(self, session: Any, table: Table, one: Retyped, name: str) -> Sequence[str]:
        """Return the statements that give a column, which then has this name, its type."""
        quoted = session.dialect.names.quote(name)
        using = f" USING CAST(LPAD(CAST({quoted} AS VARCHAR), {one.bits}, '0') AS {one.native})" if one.bits else ""
        return [f"ALTER TABLE {table.sql} ALTER COLUMN {quoted} TYPE {one.native}{using}"]

    def _add(self, session: Any, table: Table, changes: Changes) -> Sequence[str]:
        """Return the statements that add columns, with what older rows have in them."""
        statements = []
        for one in changes.added:
            quoted = session.dialect.names.quote(one.name)
            default = f" DEFAULT CAST({one.literal} AS {one.native})" if one.literal else ""
            statements.append(f"ALTER TABLE {table.sql} ADD COLUMN {quoted} {one.native}{default}")
            statements += [f"ALTER TABLE {table.sql} ALTER COLUMN {quoted} DROP DEFAULT"] if default else []
        return statements


def rewrites(changes: Changes) -> bool:
    """Return whether a column gets a type for which its values are written again."""
    return any(not one.is_longer_text for one in changes.retyped)


def rename_columns(session: Any, table: Table, changes: Changes) -> list[str]:
    """Return the statements that rename columns; over another name where two exchange theirs."""
    quote, gone = session.dialect.names.quote, {name.lower() for name in changes.dropped}
    taken = {column.name.lower() for column in table.columns} - gone
    free = (name for number in itertools.count() if (name := f"auditor_renamed_{number}") not in taken)
    first, second = list[str](), list[str]()
    for old, new in changes.renamed.items():
        between = next(free) if new.lower() in taken and new.lower() != old.lower() else ""
        first.append(f"ALTER TABLE {table.sql} RENAME COLUMN {quote(old)} TO {quote(between or new)}")
        second += [f"ALTER TABLE {table.sql} RENAME COLUMN {quote(between)} TO {quote(new)}"] if between else []
    return first + second


def name_of(one: Retyped, changes: Changes) -> str:
    """Return the name that a column has once all are renamed."""
    return changes.renamed.get(one.column.name, one.column.name)
