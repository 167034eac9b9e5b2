"""Render the statements that copy a table: into one that takes its name, as lines of text that a target loads, or into a dump.

The source's server builds each line, so that no value is converted here. A value has the canonical text of its kind where the target's type
reads that; what a type reads otherwise (floats, intervals, binary strings) is written as it reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sql_templates
from auditor import canonical
from auditor.errors import ColumnRefused
from auditor.model import Chunk, ColumnPlan, Plan
from auditor.sql.render import where
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind
from dialects.kinds import FREE_TEXT_KINDS
from dialects.writing import LineFormat
from sql_templates import fill

FLOATS = ("float32", "float64")

NUMBERS = frozenset({"integer", "year", "decimal", "boolean"})
"""Kinds of columns whose text is digits, whatever rows they hold."""


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
    def target(self) -> str:
        """The target's table."""
        return self.plan.sides["target"].table

    def create(self, table: str, *, whole: bool = False) -> str:
        """Return the statement that makes the table to copy into, or the one for the replaced rows.

        With ``whole`` it has all that it needs to take the target's name.
        """
        template = "bootstrap_whole_create" if whole and self.dialect.writing.CARRIES_ON_RENAME else "bootstrap_stage_create"
        return self._fill(template, stage=table, target=self.target)

    def drop(self, table: str) -> str:
        """Return the statement that drops a table if it is there."""
        return self._fill("bootstrap_drop", table=table)

    def clear(self, table: str, chunk: Chunk) -> str:
        """Return the statement that deletes a range of rows."""
        return self._fill("bootstrap_clear", table=table, where=where(self.plan, "target", chunk))

    def lock_writers(self, chunk: Chunk, *, has_primary_key: bool) -> str:
        """Return the statement that keeps other writers off a range of the target's rows."""
        by_key = self.dialect.writing.LOCK_BY_KEY if has_primary_key else ""
        return self.dialect.writing.LOCK_WRITERS.format(table=self.target, by_key=by_key, where=where(self.plan, "target", chunk))

    def copy(self, table: str, into: str, chunk: Chunk) -> str:
        """Return the statement that copies a range of rows from one table to another."""
        overriding = self.dialect.writing.OVERRIDES_IDENTITY.strip() if self.overriding else ""
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


def read_lines(plan: Plan, columns: list[ColumnPlan], source: Dialect, target: Dialect, chunk: Chunk) -> str:
    """Return the statement that yields a line for each of the source's rows in a chunk.

    ``columns`` are those that are loaded, in their order. Raises ColumnRefused for a column whose values the target cannot load.
    """
    assert target.writing.LINES
    parts = [_line_value(column, source, target.writing.LINES) for column in columns]
    between = source.names.string_literal(target.writing.LINES.between)
    pieces = [piece for part in parts for piece in (between, part)][1:]
    ends = [source.names.string_literal(end) if end else "" for end in (target.writing.LINES.begin, target.writing.LINES.end)]
    line = source.text.concat([piece for piece in (ends[0], *pieces, ends[1]) if piece])
    fragments = {"line": line, "table": plan.sides["source"].table, "where": where(plan, "source", chunk)}
    return checked(fill(source.template("copy_lines"), fragments), source)


def _line_value(column: ColumnPlan, source: Dialect, lines: LineFormat) -> str:
    """Return SQL of a value as it stands in a line."""
    text, around = _line_text(column, source), (lines.quote, lines.quote)
    native, to = column.native["source"], column.native["target"]
    if column.kind.is_free_text or native.name in FREE_TEXT_KINDS or column.kind.name == "json":
        for character, written in lines.escapes:
            text = source.text.replace(text, character, written)
    if to.name == "binary" and lines.binary:
        around = lines.binary
    elif to.name == "bit" and lines.bits:
        around = lines.bits
    elif to.name in lines.bare and native.name in NUMBERS:
        around = ("", "")
    parts = [source.names.string_literal(around[0]) if around[0] else "", text, source.names.string_literal(around[1]) if around[1] else ""]
    whole = source.text.concat([part for part in parts if part])
    if "source" in column.never_null:
        return whole
    return f"CASE WHEN {column.expression['source']} IS NULL THEN {source.names.string_literal(lines.null)} ELSE {whole} END"


def _line_text(column: ColumnPlan, source: Dialect) -> str:
    """Return SQL of the text that the target's type reads as the value."""
    c, native, to, kind = column.expression["source"], column.native["source"], column.native["target"], column.kind
    if to.name in FLOATS and native.name in FLOATS:
        # MySQL 9 writes at most 22 characters of a computed double, and all of a column's.
        return source.text.as_text(c if native.name == "float64" else source.numbers.as_double(c))
    if to.name in FLOATS:
        return source.canonical.canonical_text(_exact(native), c, native)
    text = source.canonical.canonical_text(kind, c, native)
    if kind.name in FLOATS:
        raise ColumnRefused(
            f"the column {column.name!r} holds floats, and the target {column.types['target']}: it cannot be copied exactly"
        )
    if to.name == "bit" and kind.name != "bit":
        raise ColumnRefused(f"the column {column.name!r} holds numbers, and the target bits: copy it by hand")
    if kind.name == "interval":
        for mark, unit in (("m", " months "), ("d", " days "), ("us", " microseconds")):
            text = source.text.replace(text, mark, unit)
    is_short = kind.name == "uuid" and (to.name == "binary" or to.digits == 32 or "(32)" in column.types["target"])
    return source.text.replace(text, "-", "") if is_short else text


def _exact(native: Kind) -> Kind:
    """Return the kind whose text has all digits of an exact number."""
    return native if native.name != "decimal" else Kind("decimal")


def read_rows(dialect: Dialect, table: str, values: Sequence[str], where: str) -> str:
    """Return the statement that yields these values (SQL text) of the rows of a table (SQL text) that meet a condition."""
    return checked(fill(dialect.template("values"), {"values": ", ".join(values), "table": table, "where": where}), dialect)


def dump_value(dialect: Dialect, expression: str, native: Kind | None, stored: Kind) -> str:
    """Return SQL of a column's value as a dump stores it, in a column of the kind ``stored``: with nothing lost.

    A floating-point number stays one, in double precision, which its text would not be on every engine. ``native`` is the kind of the
    column; None if it has no canonical text, and is printed as its engine prints it.
    """
    if native is None:
        return dialect.text.as_text(expression)
    if native.name in canonical.FLOATS:
        return expression if native.name == "float64" else dialect.numbers.as_double(expression)
    shared = canonical.shared_kind(native, stored)
    return dialect.canonical.canonical_text(shared.kind if shared else native, expression, native)
