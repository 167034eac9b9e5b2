"""Plan how a target's table is brought from one schema to the next, so that it holds the rows that the source has."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.canonical import holds
from auditor.errors import SchemaChanged, ValueRefused
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from auditor.pipeline.merge.column_origins import Origins
from auditor.sql.literals import canonical_literal
from auditor.sql.table_definition import TableStatements
from dialects import Column, Dialect, Kind, Table
from dialects.writing import Writing

CLOCKS = {"timestamp", "timestamptz"}


@dataclass(slots=True)
class Migration:
    """The statements that change a target's table, and what a person should know of them."""

    statements: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    """Names that columns have now and had not before."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a plan is made of."""

    dialect: Dialect
    table: Table
    """The target's table as it is now."""
    old: TableSchema
    new: TableSchema
    natives: Mapping[str, str]
    """The target's types of the new schema's columns."""
    origins: Origins
    catalogue: Mapping[str, Mapping[str, Any]]
    """What the source's catalogue says that rows which were there have in new columns, by name; for those of which no statement says it."""
    is_empty: bool
    create: Callable[[str], str]
    """Returns the statement that makes a table for the new schema's rows, of this name in the target's schema."""
    drop: Callable[[Sequence[str], Mapping[str, str]], Sequence[str]]
    """Returns the statements that drop columns of the target's table, and give some of its key other types, by name."""

    @property
    def writing(self) -> Writing:
        """How the target's engine is written to."""
        return self.dialect.writing

    def make(self) -> Migration:
        """Return the migration. Steps that somebody did by hand are left out.

        Raises SchemaChanged, with the statement to run by hand, for a change after which the target's rows would not be the source's.
        """
        found = Migration(said=list(self.origins.said))
        if self._has_another_key():
            found.statements = self._made_anew()
            return found
        there = {column.name.lower(): column for column in self.table.columns}
        kept, fresh = self._sort(there)
        gone = self._dropped(there, kept)
        retyped = self._retyped(kept)
        found.statements += self.drop(gone, retyped) if gone or retyped else []
        free = {name for name in there if name not in {one.lower() for one in gone}}
        found.statements += self._renames({column.name: new.name for new, column in kept if column.name.lower() != new.name.lower()}, free)
        for new, column in kept:
            found.statements += [] if column.name in retyped else self._widened(new, column)
        found.taken = [new.name for new in fresh]
        found.taken += [new.name for new, column in kept if (self.origins.old.get(new.name) or column.name).lower() != new.name.lower()]
        values: dict[str, str] = {}
        for new in fresh:
            found.statements += self._added(new, found, values)
        found.statements += [self._sql.fill(values)] if values else []  # last: see ADDS_DEFAULTS of DuckDB
        return found

    @property
    def _sql(self) -> TableStatements:
        return TableStatements(self.dialect, self.table.sql)

    @property
    def _name(self) -> str:
        return f"{self.new.database}.{self.new.table}"

    def _has_another_key(self) -> bool:
        before = {self.origins.old.get(name) for name in self.new.key}
        there, wanted = ({name.lower() for name in key} for key in (self.table.primary_key, self.new.key))
        return before != set(self.old.key) and there != wanted

    def _made_anew(self) -> list[str]:
        """Return the statements that make an empty table anew, with the new key.

        Raises SchemaChanged if it has rows, with statements that keep them where the columns are the same.
        """
        name = self.table.names[-1]
        if self.is_empty:
            return [self._sql.drop_table(), self.create(name)]
        about = f"{self._name} has the key ({', '.join(self.new.key)}) and had ({', '.join(self.old.key)})"
        if {column.name.lower() for column in self.new.columns} != {column.name.lower() for column in self.table.columns}:
            raise SchemaChanged(f"{about}, and other columns; reset the pipeline, drop the table there, and copy the table again")
        other, names = f"{name}_auditor", ", ".join(self.dialect.names.quote(column.name) for column in self.new.columns)
        copy = TableStatements(self.dialect, self.dialect.names.table(self.table.names[-2], other))
        statements = (
            " ".join(self.create(other).split()),
            f"INSERT INTO {copy.table} ({names}) SELECT {names} FROM {self.table.sql}",
            self._sql.drop_table(),
            copy.rename_table(name),
        )
        raise SchemaChanged(f"{about}; run there: {'; '.join(statements)}")

    def _sort(self, there: Mapping[str, Column]) -> tuple[list[tuple[ColumnSchema, Column]], list[ColumnSchema]]:
        """Return the new schema's columns that the target has, with these, and those that it lacks."""
        kept: list[tuple[ColumnSchema, Column]] = []
        fresh: list[ColumnSchema] = []
        for new in self.new.columns:
            old = self.origins.old.get(new.name)
            target = there.get(old.lower()) if old else None
            if old and target is None:
                target = there.get(new.name.lower())  # renamed by hand
            elif old is None and not self._had(new.name):
                target = there.get(new.name.lower())  # added by hand
            if target is None:
                fresh.append(new)
            elif self._keeps(new, old, target):
                kept.append((new, target))
            else:
                fresh.append(new)
        return kept, fresh

    def _had(self, name: str) -> bool:
        return any(column.name.lower() == name.lower() for column in self.old.columns)

    def _keeps(self, new: ColumnSchema, old: str | None, target: Column) -> bool:
        """Return whether the target's column can stay, with the values that it has. Raises SchemaChanged."""
        before = next((source_kind(column) for column in self.old.columns if column.name == old), None)
        after = source_kind(new)
        if old is None or after is None or before is None or keeps_values(before, after):
            return True
        if target.kind and holds(target.kind, after) and keeps_values(target.kind, after):
            return True  # altered by hand
        if self.is_empty and old not in self.old.key:
            return False
        native = self.natives[new.name]
        was = next(column.type for column in self.old.columns if column.name == old)
        raise SchemaChanged(
            f"{self._name}.{new.name} is {new.type} and was {was}, which may have changed values of older rows; run there:"
            f" {self._sql.retype(target.name, native) if self.writing.CHANGES_TABLES else self._sql.retype_by_hand(target.name, native)}"
        )

    def _dropped(self, there: Mapping[str, Column], kept: Sequence[tuple[ColumnSchema, Column]]) -> list[str]:
        stays = {column.name.lower() for _, column in kept}
        return [there[old.name.lower()].name for old in self.old.columns if old.name.lower() in there and old.name.lower() not in stays]

    def _retyped(self, kept: Sequence[tuple[ColumnSchema, Column]]) -> dict[str, str]:
        """Return the columns of the key that get another type, where no statement by itself does that."""
        if self.writing.RETYPES_KEYS:
            return {}
        key = set(self.table.primary_key)
        return {column.name: self.natives[new.name] for new, column in kept if column.name in key and self._widened(new, column)}

    def _renames(self, wanted: Mapping[str, str], taken: set[str]) -> list[str]:
        """Return the statements that rename columns; over another name where two exchange theirs."""
        first, second = [], []
        free = (name for number in itertools.count() if (name := f"auditor_renamed_{number}") not in taken)
        for old, new in wanted.items():
            if new.lower() in taken:
                between = next(free)
                first.append(self._sql.rename(old, between))
                second.append(self._sql.rename(between, new))
            else:
                first.append(self._sql.rename(old, new))
        return first + second

    def _widened(self, new: ColumnSchema, target: Column) -> list[str]:
        after = source_kind(new)
        if after is None or (target.kind and holds(target.kind, after)):
            return []
        if not self.writing.CHANGES_TABLES:
            return [self._sql.retype_by_hand(new.name, self.natives[new.name])]
        is_bits = after.name == "bit" and target.kind is not None and target.kind.name == "bit"
        return [self._sql.retype(new.name, self.natives[new.name], bits=after.digits or 1 if is_bits else 0)]

    def _added(self, new: ColumnSchema, found: Migration, values: dict[str, str]) -> list[str]:
        """Return the statements that add a column; the literal that older rows get is put into ``values`` where these do not give it."""
        native, value = self.natives[new.name], self.origins.values.get(new.name) or self.catalogue.get(new.name)
        add = self._sql.add(new.name, native)
        if self.is_empty:
            return [add]
        if value is None:
            found.said.append(f"{self._name}.{new.name} is new, and nothing says what older rows have in it: they have NULL in the target")
            return [add]
        literal = None if "unknown" in value else self._literal(new, value)
        if literal is None:
            why = value.get("unknown", "its default cannot be written there")
            raise SchemaChanged(
                f"{self._name}.{new.name} ({new.type}) is new, and {why}; run there: {add}, and give the older rows the values that the"
                " source has"
            )
        if literal == "NULL":
            return [add]
        if not self.writing.ADDS_DEFAULTS:
            values[new.name] = literal
            return [add]
        return [self._sql.add(new.name, native, literal), self._sql.drop_default(new.name)]

    def _literal(self, new: ColumnSchema, value: Mapping[str, Any]) -> str | None:
        """Return the literal of a default, or None if there is none."""
        kind, text = source_kind(new), value.get("hex", value.get("text"))
        if text is None:
            return "NULL"
        if kind and kind.name == "binary" and "hex" in value and self.writing.CHANGES_TABLES:
            return f"CAST({self.dialect.names.binary_literal(bytes.fromhex(text))} AS {self.natives[new.name]})"
        if (
            kind is None
            or not self.writing.CHANGES_TABLES
            or kind.name in ("binary", "json", "time", "network", "uuid")
            or (kind.name in CLOCKS and len(text) not in (10, 19))
        ):
            return None
        try:
            target = Kind("text") if kind.is_free_text else kind
            literal = canonical_literal(self.dialect, kind, text, target, native_type="")
        except (ValueRefused, ValueError, ArithmeticError):
            return None
        return f"CAST({literal} AS {self.natives[new.name]})"


def keeps_values(before: Kind, after: Kind) -> bool:
    """Return whether the source kept all values when it changed a column from one kind to another."""
    if before.name == after.name == "bit":
        return (after.digits or 1) >= (before.digits or 1)
    if {before.name, after.name} == CLOCKS:  # converted in the zone of a session
        return False
    return holds(after, before)
