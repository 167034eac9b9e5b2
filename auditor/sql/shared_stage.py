"""Render the statements that merge changes of many tables from one staging table, which holds the values of each as texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sql_templates
from auditor.sql.merge import INTEGER, STAGE, TEXT, MergeStatements
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind

MOST_COLUMNS = 64
"""Columns of the tables that share the staging table. Redshift writes a block of 1 MB of each column on each slice, however few rows
there are, and few tables have more columns. https://repost.aws/knowledge-center/redshift-cluster-storage-space"""

COLUMNS: Mapping[str, Kind] = {
    "auditor_table": INTEGER,
    "auditor_op": Kind("char", 1),
    **{f"c{number}": TEXT for number in range(1, MOST_COLUMNS + 1)},
}
"""The columns of the staging table: the number of a table in the transaction, i for a row as it is after its last change or d for the key
of a row that is gone, and the values of the table's columns, in their order."""


@dataclass(frozen=True, slots=True)
class SharedStage:
    """The staging table of a session that several tables share; it has the last change of each key."""

    dialect: Dialect

    @property
    def name(self) -> str:
        """The staging table as SQL text."""
        return self.dialect.names.quote(f"{STAGE}shared")

    @property
    def columns(self) -> list[str]:
        """Its columns as SQL text."""
        return [self.dialect.names.quote(name) for name in COLUMNS]

    @property
    def longest(self) -> int:
        """Bytes of the longest text that one of its columns holds."""
        kind = self.dialect.types.kind(self.dialect.types.native_type(TEXT))
        assert kind and kind.bytes
        return kind.bytes

    def create(self) -> str:
        """Return the statement that creates the staging table."""
        natives = (self.dialect.types.native_type(kind) for kind in COLUMNS.values())
        columns = ",\n  ".join(f"{name} {native}" for name, native in zip(self.columns, natives, strict=True))
        return self._fill("merge_shared_create", columns=columns)

    def count(self) -> str:
        """Return the statement that counts the changes of each table, by its number."""
        return self._fill("merge_shared_count")

    def drop(self) -> str:
        """Return the statement that drops the staging table."""
        return self._fill("merge_shared_drop")

    def merge(self, number: int, statements: MergeStatements, kinds: Mapping[str, Kind]) -> Sequence[str]:
        """Return the statements that merge the changes of the table of this number, whose columns are of these kinds."""
        values = self._values(number, statements, kinds)
        columns = ", ".join(self.dialect.names.quote(name) for name in statements.columns)
        about = {"target": statements.target, "number": self.dialect.names.literal(number)}
        return [
            self._fill("merge_shared_delete", matching=statements.match_key(values), **about),
            self._fill("merge_shared_insert", columns=columns, values=", ".join(values.values()), **about),
        ]

    def _values(self, number: int, statements: MergeStatements, kinds: Mapping[str, Kind]) -> dict[str, str]:
        """Return the values of a table's columns as SQL, by their names."""
        found: dict[str, str] = {}
        for name, column in zip(statements.columns, list(COLUMNS)[2:], strict=False):
            text = f"{self.name}.{self.dialect.names.quote(column)}"
            # The texts of other tables are none of this type, and a cast may be computed before the condition leaves their rows out.
            own = f"CASE WHEN {self.name}.auditor_table = {number} THEN {text} END"
            value = self.dialect.types.value_of_text(own, kinds[name])
            found[name] = text if value == own else value
        return found

    def _fill(self, template: str, **fragments: str) -> str:
        return checked(sql_templates.fill(self.dialect.template(template), {"stage": self.name, **fragments}), self.dialect)
