"""Plan how a target's table is brought from one schema to the next, so that it holds the rows that the source has."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.canonical import holds
from auditor.errors import SchemaChanged, ValueRefused
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from auditor.pipeline.merge.column_origins import Origins
from auditor.pipeline.schema_differences import CLOCKS, SIZED, is_computed_anew, is_longer, is_narrower, keeps_values
from auditor.sql.literals import canonical_literal
from auditor.sql.merge import STAGE
from auditor.sql.table_definition import TableStatements
from dialects import Column, Dialect, Kind, Table
from dialects.alteration import Added, Alteration, Changes, Retyped
from dialects.writing import Writing


@dataclass(slots=True)
class Migration:
    """The statements that change a target's table, and what a person should know of them."""

    statements: list[str] = field(default_factory=list)
    """Those of the transaction in which the target gets its new position."""
    before: list[str] = field(default_factory=list)
    """Those that the engine runs in no transaction, and which are harmless until then."""
    rows: str = ""
    """The SELECT of the rows that one commit puts in place of the table's, with its position, instead of statements; else empty."""
    moves_rows: bool = False
    """Whether all rows are written again."""
    said: list[str] = field(default_factory=list)


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
    alter: Callable[[Changes], Alteration]
    """Returns the statements that change the target's columns."""
    fits: Callable[[Column, Kind], bool]
    """Returns whether a kind has each value that the target has in a column."""

    @property
    def writing(self) -> Writing:
        """How the target's engine is written to."""
        return self.dialect.writing

    def make(self) -> Migration:
        """Return the migration. Steps that somebody did by hand are left out.

        Raises SchemaChanged, with the statement to run by hand, for a change after which the target's rows would not be the source's.
        """
        found = Migration(said=list(self.origins.said))
        has_another_key = self._has_another_key()
        if has_another_key and self.is_empty:
            found.statements = self._made_anew()
            return found
        there = {column.name.lower(): column for column in self.table.columns}
        kept, fresh = self._sort(there)
        changes = Changes(
            self._dropped(there, kept),
            {column.name: new.name for new, column in kept if column.name.lower() != new.name.lower()},
            [one for new, column in kept for one in self._widened(new, column)],
            [self._added(new, found.said) for new in fresh],
            self.new.key if has_another_key else (),
        )
        if changes.key:
            found.said.append(f"{self._name} has the key ({', '.join(self.new.key)}) and had ({', '.join(self.old.key)})")
        alteration = self.alter(changes) if changes else Alteration()
        if alteration.refused:
            raise SchemaChanged(f"{self._name} has changed in the source: {alteration.refused}")
        found.statements, found.before = list(alteration.statements), list(alteration.before)
        found.rows, found.moves_rows = alteration.rows, alteration.moves_rows
        return found

    @property
    def _sql(self) -> TableStatements:
        return TableStatements(self.dialect, self.table.sql)

    @property
    def _commits(self) -> bool:
        return self.writing.altering.COMMITS_BY_ITSELF

    @property
    def _name(self) -> str:
        return f"{self.new.database}.{self.new.table}"

    def _has_another_key(self) -> bool:
        if self.writing.WRITES_COMMITS:  # tables without keys, into which rows are merged by whatever the source's key is
            return False
        before = {self.origins.old.get(name) for name in self.new.key}
        there, wanted = ({name.lower() for name in key} for key in (self.table.primary_key, self.new.key))
        return before != set(self.old.key) and there != wanted

    def _made_anew(self) -> list[str]:
        """Return the statements that make an empty table anew, with the new key."""
        name = self.table.names[-1]
        if not self._commits:
            return [self._sql.drop_table(), self.create(name)]
        schema, digest = self.table.names[-2], hashlib.sha256(self.table.sql.encode()).hexdigest()[:16]
        new, old = (f"{STAGE}{word}_{digest}" for word in ("new", "old"))
        there = {one: self.dialect.names.table(schema, one) for one in (new, old)}
        exchange = self.writing.altering.rename_at_once([(self.table.sql, there[old]), (there[new], self.table.sql)])
        dropped = f"DROP TABLE IF EXISTS {there[new]}, {there[old]}"
        return [dropped, self.create(new), exchange, dropped]

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
        was_column = next((column for column in self.old.columns if column.name == old), None)
        if was_column and is_computed_anew(was_column, new) and not self.is_empty:
            raise SchemaChanged(
                f"{self._name}.{new.name} is computed by {new.computed or 'the source'} and was by {was_column.computed or 'the source'},"
                f" so that older rows have other values; run there: {self._drop(target)}, after which the column is added without"
                " values, and send the table's rows again: auditor pipeline refresh"
            )
        before, after = source_kind(was_column) if was_column else None, source_kind(new)
        if old is None or after is None or before is None or keeps_values(before, after):
            return True
        if target.kind and holds(target.kind, after) and keeps_values(target.kind, after):
            return True  # altered by hand
        if is_narrower(before, after) and self.fits(target, after):
            return True  # as the source kept each value, too
        if self.is_empty and old not in self.old.key:
            return False
        native = self.natives[new.name]
        was = next(column.type for column in self.old.columns if column.name == old)
        raise SchemaChanged(
            f"{self._name}.{new.name} is {new.type} and was {was}, which may have changed values of older rows; run there:"
            f" {self._sql.retype_by_hand(target.name, native)}"
        )

    def _drop(self, target: Column) -> str:
        return f"ALTER TABLE {self.table.sql} DROP COLUMN {self.dialect.names.quote(target.name)}"

    def _dropped(self, there: Mapping[str, Column], kept: Sequence[tuple[ColumnSchema, Column]]) -> list[str]:
        stays = {column.name.lower() for _, column in kept}
        return [there[old.name.lower()].name for old in self.old.columns if old.name.lower() in there and old.name.lower() not in stays]

    def _widened(self, new: ColumnSchema, target: Column) -> list[Retyped]:
        """Return the type that a column gets, if it cannot hold the new one's values as it is."""
        after, before, native = source_kind(new), target.kind, self.natives[new.name]
        if after is None:
            return []
        if before is None or not holds(before, after):
            is_bits = after.name == "bit" and before is not None and before.name == "bit"
            return [Retyped(target, native, after.digits or 1 if is_bits else 0)]
        if new.name in self.new.key and after.is_free_text and native.lower() != target.native.lower():
            return [Retyped(target, native)]  # engines that have keys of bounded texts alone
        old = next((column.type for column in self.old.columns if column.name == self.origins.old.get(new.name)), new.type)
        if before.name in SIZED and is_longer(new.type, old) and is_longer(native, target.native):
            return [Retyped(target, native, is_longer_text=before.is_free_text)]
        return []

    def _added(self, new: ColumnSchema, said: list[str]) -> Added:
        """Return a new column with what older rows get in it. Raises SchemaChanged if that is not known, or cannot be written."""
        native, value = self.natives[new.name], self.origins.values.get(new.name) or self.catalogue.get(new.name)
        if self.is_empty:
            return Added(new.name, native)
        if new.computed:
            said.append(
                f"{self._name}.{new.name} is computed by {new.computed}: older rows have NULL until they are sent again:"
                " auditor pipeline refresh"
            )
            return Added(new.name, native)
        if value is None:
            said.append(f"{self._name}.{new.name} is new, and nothing says what older rows have in it: they have NULL in the target")
            return Added(new.name, native)
        literal = None if "unknown" in value else self._literal(new, value)
        if literal is None:
            why = value.get("unknown", "its default cannot be written there")
            raise SchemaChanged(
                f"{self._name}.{new.name} ({new.type}) is new, and {why}; run there: {self._sql.add(new.name, native)}, and give the older"
                " rows the values that the source has"
            )
        return Added(new.name, native, literal)

    def _literal(self, new: ColumnSchema, value: Mapping[str, Any]) -> str | None:
        """Return the literal of a default, empty for NULL; None if there is none."""
        kind, text = source_kind(new), value.get("hex", value.get("text"))
        if text is None:
            return ""
        if kind and kind.name == "binary" and "hex" in value:
            return self.dialect.names.binary_literal(bytes.fromhex(text))
        if (
            kind is None
            or kind.name in ("binary", "json", "time", "network", "uuid")
            or (kind.name in CLOCKS and len(text) not in (10, 19))
        ):
            return None
        try:
            target = Kind("text") if kind.is_free_text else kind
            return canonical_literal(self.dialect, kind, text, target, native_type="")
        except (ValueRefused, ValueError, ArithmeticError):
            return None
