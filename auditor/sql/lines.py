"""Render the statement that reads rows of a source as the lines of text that a target loads.

The source's server builds each line, so that no value is converted here. A value has the canonical text of its kind where the target's type
reads that; what a type reads otherwise (floats, intervals, binary strings) is written as it reads it.
"""

from __future__ import annotations

from auditor.errors import ColumnRefused
from auditor.model import Chunk, ColumnPlan, Plan
from auditor.sql.render import where
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind
from dialects.base import writing_of
from dialects.kinds import FREE_TEXT_KINDS
from dialects.writing import LineFormat
from sql_templates import fill

FLOATS = ("float32", "float64")

NUMBERS = frozenset({"integer", "year", "decimal", "boolean"})
"""Kinds of columns whose text is digits, whatever rows they hold."""


def read_lines(plan: Plan, columns: list[ColumnPlan], source: Dialect, target: Dialect, chunk: Chunk) -> str:
    """Return the statement that yields a line for each of the source's rows in a chunk.

    ``columns`` are those that are loaded, in their order. Raises ColumnRefused for a column whose values the target cannot load.
    """
    lines = writing_of(target).LINES
    parts = [_value(column, source, lines) for column in columns]
    between = source.string_literal(lines.between)
    pieces = [piece for part in parts for piece in (between, part)][1:]
    ends = [source.string_literal(end) if end else "" for end in (lines.begin, lines.end)]
    line = source.concat([piece for piece in (ends[0], *pieces, ends[1]) if piece])
    fragments = {"line": line, "table": plan.sides["source"].table, "where": where(plan, "source", chunk)}
    return checked(fill(source.template("copy_lines"), fragments), source)


def _value(column: ColumnPlan, source: Dialect, lines: LineFormat) -> str:
    """Return SQL of a value as it stands in a line."""
    text, around = _text(column, source), (lines.quote, lines.quote)
    native, to = column.native["source"], column.native["target"]
    if column.kind.is_free_text or native.name in FREE_TEXT_KINDS or column.kind.name == "json":
        for character, written in lines.escapes:
            text = source.replace(text, character, written)
    if to.name == "binary" and lines.binary:
        around = lines.binary
    elif to.name == "bit" and lines.bits:
        around = lines.bits
    elif to.name in lines.bare and native.name in NUMBERS:
        around = ("", "")
    parts = [source.string_literal(around[0]) if around[0] else "", text, source.string_literal(around[1]) if around[1] else ""]
    whole = source.concat([part for part in parts if part])
    if "source" in column.never_null:
        return whole
    return f"CASE WHEN {column.expression['source']} IS NULL THEN {source.string_literal(lines.null)} ELSE {whole} END"


def _text(column: ColumnPlan, source: Dialect) -> str:
    """Return SQL of the text that the target's type reads as the value."""
    c, native, to, kind = column.expression["source"], column.native["source"], column.native["target"], column.kind
    if to.name in FLOATS and native.name in FLOATS:
        # MySQL 9 writes at most 22 characters of a computed double, and all of a column's.
        return source.as_text(c if native.name == "float64" else source.as_double(c))
    if to.name in FLOATS:
        return source.canonical_text(_exact(native), c, native)
    text = source.canonical_text(kind, c, native)
    if kind.name in FLOATS:
        raise ColumnRefused(
            f"the column {column.name!r} holds floats, and the target {column.types['target']}: it cannot be copied exactly"
        )
    if to.name == "bit" and kind.name != "bit":
        raise ColumnRefused(f"the column {column.name!r} holds numbers, and the target bits: copy it by hand")
    if kind.name == "interval":
        for mark, unit in (("m", " months "), ("d", " days "), ("us", " microseconds")):
            text = source.replace(text, mark, unit)
    is_short = kind.name == "uuid" and (to.name == "binary" or to.digits == 32 or "(32)" in column.types["target"])
    return source.replace(text, "-", "") if is_short else text


def _exact(native: Kind) -> Kind:
    """Return the kind whose text has all digits of an exact number."""
    return native if native.name != "decimal" else Kind("decimal")
