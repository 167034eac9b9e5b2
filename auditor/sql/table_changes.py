"""Render the statements that change a target's table."""

from __future__ import annotations

from dataclasses import dataclass

import sql_templates
from auditor.sql.user_sql import checked
from dialects import Dialect


@dataclass(frozen=True, slots=True)
class TableStatements:
    """Statements about one table of a target, whose name is SQL text."""

    dialect: Dialect
    table: str

    def add(self, column: str, native: str, default: str | None = None) -> str:
        """Return the statement that adds a column; all rows that are there get the default, a literal."""
        return f"ALTER TABLE {self.table} ADD COLUMN {self._q(column)} {native}{self._null}" + (f" DEFAULT {default}" if default else "")

    def drop_default(self, column: str) -> str:
        """Return the statement that takes a column's default from rows to come."""
        return f"ALTER TABLE {self.table} ALTER COLUMN {self._q(column)} DROP DEFAULT"

    def drop(self, column: str) -> str:
        """Return the statement that drops a column."""
        return f"ALTER TABLE {self.table} DROP COLUMN {self._q(column)}"

    def rename(self, column: str, name: str) -> str:
        """Return the statement that renames a column."""
        return f"ALTER TABLE {self.table} RENAME COLUMN {self._q(column)} TO {self._q(name)}"

    def retype(self, column: str, native: str, bits: int = 0) -> str:
        """Return the statement that changes a column's type; of a bit string that gets so many ``bits``, with zeros before its own."""
        name = self._q(column)
        using = f" USING CAST(LPAD(CAST({name} AS VARCHAR), {bits}, '0') AS {native})" if bits else ""
        return f"ALTER TABLE {self.table} ALTER COLUMN {name} TYPE {native}{using}"

    def retype_by_hand(self, column: str, native: str) -> str:
        """Return what gives a column another type, as a person runs it; where the engine changes none, by another column."""
        names = {"table": self.table, "column": self._q(column), "type": native, "other": self._q(f"{column}_auditor")}
        remake = (
            "ALTER TABLE {table} ADD COLUMN {other} {type}",
            "UPDATE {table} SET {other} = {column}",
            "ALTER TABLE {table} DROP COLUMN {column}",
            "ALTER TABLE {table} RENAME COLUMN {other} TO {column}",
        )
        return "; ".join(statement.format(**names) for statement in self.dialect.TABLE_FORM.change or remake)

    def rename_table(self, name: str) -> str:
        """Return the statement that renames the table within its schema."""
        return f"ALTER TABLE {self.table} RENAME TO {self._q(name)}"

    def drop_table(self) -> str:
        """Return the statement that drops the table."""
        return f"DROP TABLE {self.table}"

    def clear(self) -> str:
        """Return the statement that deletes all rows."""
        return checked(sql_templates.fill(self.dialect.template("merge_target_clear"), {"target": self.table}), self.dialect)

    def any_row(self) -> str:
        """Return the statement that finds out whether there is a row."""
        return checked(sql_templates.fill(self.dialect.template("merge_target_any"), {"target": self.table}), self.dialect)

    @property
    def _null(self) -> str:
        return f" {self.dialect.TABLE_FORM.null}" if self.dialect.TABLE_FORM.null else ""

    def _q(self, name: str) -> str:
        return self.dialect.quote(name)
