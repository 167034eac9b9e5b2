"""Render the statements that make a table to copy into, fill it, and bring it into its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sql_templates
from auditor.model import Chunk, Plan
from auditor.sql.render import where
from auditor.sql.user_sql import checked
from dialects import Dialect
from dialects.base import writing_of
from dialects.writing import Writing


@dataclass(frozen=True, slots=True)
class BootstrapStatements:
    """Statements on a target's table, the table that its rows are copied into, and the one that the replaced rows go to.

    All names are SQL text. ``columns`` are those that are copied; ``plan`` has the keys' expression, and its filter chooses the rows that
    are replaced.
    """

    plan: Plan
    dialect: Dialect
    stage: str
    old: str
    columns: Sequence[str]
    overriding: bool = False
    """Whether values are given to columns that the server numbers."""

    @property
    def writing(self) -> Writing:
        """How the target's engine is written to."""
        return writing_of(self.dialect)

    @property
    def target(self) -> str:
        """The target's table."""
        return self.plan.sides["target"].table

    def create(self, table: str, *, whole: bool = False) -> str:
        """Return the statement that makes the table to copy into, or the one for the replaced rows.

        With ``whole`` it has all that it needs to take the target's name.
        """
        template = "bootstrap_whole_create" if whole and self.writing.CARRIES_ON_RENAME else "bootstrap_stage_create"
        return self._fill(template, stage=table, target=self.target)

    def drop(self, table: str) -> str:
        """Return the statement that drops a table if it is there."""
        return self._fill("bootstrap_drop", table=table)

    def clear(self, table: str, chunk: Chunk) -> str:
        """Return the statement that deletes a range of rows."""
        return self._fill("bootstrap_clear", table=table, where=where(self.plan, "target", chunk))

    def lock_writers(self, chunk: Chunk, *, has_primary_key: bool) -> str:
        """Return the statement that keeps other writers off a range of the target's rows."""
        by_key = self.writing.LOCK_BY_KEY if has_primary_key else ""
        return self.writing.LOCK_WRITERS.format(table=self.target, by_key=by_key, where=where(self.plan, "target", chunk))

    def copy(self, table: str, into: str, chunk: Chunk) -> str:
        """Return the statement that copies a range of rows from one table to another."""
        overriding = self.writing.OVERRIDES_IDENTITY.strip() if self.overriding else ""
        return self._fill(
            "bootstrap_copy",
            table=table,
            into=into,
            columns=", ".join(self.columns),
            where=where(self.plan, "target", chunk),
            overriding=overriding,
        )

    def rename(self) -> str:
        """Return the statement that exchanges both tables. Raises LookupError where one statement cannot."""
        return self._fill("bootstrap_rename", target=self.target, old=self.old, stage=self.stage)

    def _fill(self, template: str, **fragments: str) -> str:
        return checked(sql_templates.fill(self.dialect.template(template), fragments), self.dialect)
