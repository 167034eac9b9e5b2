"""Render the statements that merge staged changes into a target's table."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sql_templates
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind

CHANGE_COLUMNS: Mapping[str, Kind] = {
    "auditor_attempt": Kind("text"), "auditor_position": Kind("integer"), "auditor_row": Kind("integer"), "auditor_op": Kind("text"),
}  # fmt: skip
"""The columns of a staging table before those of the target."""

POSITIONS = "auditor_positions"
"""The table of a target that says up to which position it holds each table."""

TEXT, INTEGER = Kind("text"), Kind("integer")


@dataclass(frozen=True, slots=True)
class Positions:
    """Statements about the positions of a pipeline's tables in one schema of a target."""

    dialect: Dialect
    schema: str
    pipeline: str

    def create(self) -> str:
        """Return the statement that makes the table of positions if it is missing."""
        types = {"text": TEXT, "integer": INTEGER, "timestamp": Kind("timestamp", scale=6)}
        return _fill(
            self.dialect, "merge_positions_create", self._table(), {n: self.dialect.native_type(kind) for n, kind in types.items()}
        )

    def list(self) -> str:
        """Return the statement that lists the tables with their positions and schema ids."""
        return _fill(self.dialect, "merge_positions", self._table(), self._pipeline())

    def write(self, table: str, position: int, schema_id: str) -> Sequence[str]:
        """Return the statements that replace the position of a table."""
        literal = self.dialect.literal
        names = {**self._pipeline(), "table": literal(table)}
        values = {"position": literal(position), "schema_id": literal(schema_id), "now": self.dialect.UTC_NOW}
        return [*self.forget(table), _fill(self.dialect, "merge_position_insert", self._table(), {**names, **values})]

    def forget(self, table: str) -> Sequence[str]:
        """Return the statements that delete the position of a table."""
        names = {**self._pipeline(), "table": self.dialect.literal(table)}
        return [_fill(self.dialect, "merge_position_delete", self._table(), names)]

    def _table(self) -> dict[str, str]:
        return {"positions": self.dialect.table(self.schema, POSITIONS)}

    def _pipeline(self) -> dict[str, str]:
        return {"pipeline": self.dialect.literal(self.pipeline)}


@dataclass(frozen=True, slots=True)
class MergeStatements:
    """Statements that bring changes of the source's ``table`` into one table.

    ``target`` is that table as SQL text, in ``schema``; ``columns`` and ``key`` are its names.
    """

    dialect: Dialect
    schema: str
    pipeline: str
    table: str
    target: str
    columns: Sequence[str]
    key: Sequence[str]

    @property
    def stage(self) -> str:
        """The staging table as SQL text: one for each pipeline and table, in the target's schema unless it belongs to the session."""
        name = f"auditor_stage_{hashlib.sha256(f'{self.pipeline}/{self.table}'.encode()).hexdigest()[:16]}"
        return self.dialect.quote(name) if self._alone else self.dialect.table(self.schema, name)

    def create_target(self, types: Mapping[str, str]) -> str:
        """Return the statement that makes the target's table with these native types."""
        columns = [f"{self.dialect.quote(name)} {native}" for name, native in types.items()]
        return self._fill("merge_target_create", target=self.target, columns=",\n  ".join(columns), key=self._names(self.key))

    def create_stage(self) -> Sequence[str]:
        """Return the statements that make the staging table anew."""
        native = self.dialect.native_type
        types = {"text": native(TEXT), "integer": native(INTEGER)}
        parts = {"kind": self.dialect.STAGING_TABLE, "columns": self._names(self.columns, ",\n  "), "target": self.target}
        return [self._fill("merge_stage_drop", stage=self.stage), self._fill("merge_stage_create", stage=self.stage, **parts, **types)]

    def clear_stage(self) -> str:
        """Return the statement that empties the staging table."""
        return self._fill("merge_stage_clear", stage=self.stage)

    def lock_stage(self) -> Sequence[str]:
        """Return the statements that keep other sessions off the staging table until the transaction ends; none where there are none."""
        # Not parsed: sqlglot knows no LOCK TABLE.
        return () if self._alone else [sql_templates.fill(self.dialect.template("merge_stage_lock"), {"stage": self.stage})]

    def count_staged(self, attempt: str) -> str:
        """Return the statement that counts an attempt's changes."""
        return self._fill("merge_stage_count", stage=self.stage, attempt=self.dialect.literal(attempt))

    def merge(self, attempt: str) -> Sequence[str]:
        """Return the statements that merge an attempt's changes, to be run in one transaction."""
        q, last = self.dialect.quote, self.dialect.quote("auditor_last")
        names, key = self._names(self.columns), self._names(self.key)
        matching = " AND ".join(f"merged.{q(name)} = changed.{q(name)}" for name in self.key)
        staged = {"stage": self.stage, "attempt": self.dialect.literal(attempt)}
        return [
            self._fill("merge_last_create", last=last, columns=names, key=key, **staged),
            self._fill("merge_delete", target=self.target, last=last, matching=matching),
            self._fill("merge_insert", target=self.target, last=last, columns=names),
            self._fill("merge_last_drop", last=last),
            self.clear_stage(),
        ]

    @property
    def _alone(self) -> bool:
        return self.dialect.LOADS == "alone"

    def _names(self, names: Sequence[str], between: str = ", ") -> str:
        return between.join(self.dialect.quote(name) for name in names)

    def _fill(self, template: str, **fragments: str) -> str:
        return _fill(self.dialect, template, fragments)


def _fill(dialect: Dialect, template: str, *fragments: Mapping[str, str]) -> str:
    every = {name: text for some in fragments for name, text in some.items()}
    return checked(sql_templates.fill(dialect.template(template), every), dialect)
