"""SQL of canonical texts of columns, rows and keys."""

from __future__ import annotations

import re

from auditor import canonical
from auditor.model import ColumnPlan, Plan, Side
from dialects import Dialect, Kind
from dialects.kinds import FREE_TEXT_KINDS

LABELS = re.compile(r"(enum|set)\(", re.IGNORECASE)
"""How a type begins that lists its labels."""


def text(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a column's canonical text, with the audit's trim, case and null_as applied; NULL for NULL without null_as."""
    sql = dialect.canonical.canonical_text(column.kind, column.expression[side], column.native[side])
    if column.tolerance and column.kind.name == "float32" and column.native[side].name != "float32":
        sql = _single_precision_text(sql, column, side, dialect)
    if column.trim:
        sql = dialect.text.trim(sql)
    if column.case:
        sql = dialect.text.lower(sql) if column.case == "lower" else dialect.text.upper(sql)
    return _replace_null(column, side, sql, dialect.names.string_literal(column.null_as)) if column.null_as is not None else sql


def levelled(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a time whose hour, day and month are those of the compared text: on a side that is rounded, moved as rounding does."""
    return dialect.times.rounded_time(column.kind, column.expression[side], column.native[side])


def _single_precision_text(sql: str, column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a double's text in single precision, or in double precision if it is outside the range of single precision."""
    x = dialect.numbers.as_double(column.expression[side])
    fits = f"ABS({x}) > {dialect.numbers.double_literal('1e-37')} AND ABS({x}) < {dialect.numbers.double_literal('3e38')}"
    whole = dialect.canonical.canonical_text(Kind("float64"), column.expression[side], column.native[side])
    return f"CASE WHEN {fits} THEN {sql} ELSE {whole} END"


def escaped(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a column's canonical text as an operand of ``Dialect.concat``, with the row encoding's special character escaped if
    the text can contain it."""
    return _escape_bar(operand(column, side, dialect), column, side, dialect)


def _escape_bar(sql: str, column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    return dialect.text.replace(sql, canonical.BAR, canonical.ESCAPED) if _can_hold_bar(column, side) else sql


def operand(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a column's canonical text as an operand of ``Dialect.concat``, which may print values on its own."""
    if _is_changed(column):
        return text(column, side, dialect)
    return dialect.canonical.operand_text(column.kind, column.expression[side], column.native[side])


def _is_changed(column: ColumnPlan) -> bool:
    """Return whether the audit's settings change the canonical text that the dialect renders."""
    return bool(column.trim or column.case or column.null_as is not None or column.tolerance)


def _can_hold_bar(column: ColumnPlan, side: Side) -> bool:
    """Return whether a text can contain the row encoding's special character: not if its type lists its labels, and none does."""
    if column.null_as and canonical.BAR in column.null_as:
        return True
    native = column.native[side]
    if native.name in ("enum", "set") and LABELS.match(column.types[side]):
        return canonical.BAR in column.types[side]
    return column.kind.is_free_text or native.name in FREE_TEXT_KINDS


def _replace_null(column: ColumnPlan, side: Side, sql: str, null: str) -> str:
    """Return SQL of a text, or of ``null`` if the column itself is NULL.

    COALESCE would not do: a text that the engine could not build (because it is too long, say) is NULL as well, and must make the row
    text NULL, so that the row is counted as not hashed.
    """
    return f"CASE WHEN {column.expression[side]} IS NULL THEN {null} ELSE {sql} END"


def mark_null(column: ColumnPlan, side: Side, sql: str, null: str, dialect: Dialect) -> str:
    """Return SQL of a text, or of ``null``, an encoding's mark for NULL.

    A column with null_as needs no mark, nor one that its catalogue says holds no NULL: one that comes nevertheless, from a view say,
    makes the row text NULL, so that the row is counted as not hashed. COALESCE serves where only NULL has no text; the digest of a value
    with more bytes than its pieces hold is NULL, too.
    """
    if column.null_as is not None or side in column.never_null:
        return sql
    if column.pieces or _is_changed(column) or dialect.canonical.can_fail(column.kind, column.native[side]):
        return _replace_null(column, side, sql, null)
    return f"COALESCE({sql}, {null})"


def row_text(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the row text in the plan's encoding; NULL only if the engine could not build it."""
    texts = column_texts(plan, side, dialect)
    if plan.encoding == "published":
        return dialect.text.concat(texts)
    between = dialect.names.string_literal(canonical.SEPARATOR)
    pieces = [piece for text in texts for piece in (between, text)]
    return dialect.text.concat([dialect.names.string_literal(plan.salt + canonical.SEPARATOR), *pieces[1:]] if plan.salt else pieces[1:])


def column_texts(plan: Plan, side: Side, dialect: Dialect) -> list[str]:
    """Return SQL of what stands for each column in the row text; NULL only if the engine could not build it."""
    if plan.encoding == "published":
        null = dialect.names.string_literal("NULL")
        return [mark_null(column, side, operand(column, side, dialect), null, dialect) for column in plan.columns]
    null = dialect.names.string_literal(canonical.NULL)
    return [mark_null(column, side, _in_row(column, side, dialect), null, dialect) for column in plan.columns]


def _in_row(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of what stands for a column in an injective row text: its escaped text, or its digest, which holds no bar."""
    return digest(column, side, dialect) if column.digest else escaped(column, side, dialect)


def digest(column: ColumnPlan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the 64 hexadecimal digits that stand for a column's canonical text."""
    if column.pieces:
        return dialect.hashes.digest_of_pieces(column.kind, column.expression[side], column.native[side], column.pieces)
    return dialect.hashes.row_hash(text(column, side, dialect), "sha256")


def key_text(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the key's text; NULL if a column of the key is NULL."""
    if plan.key == 1:  # no operand that an engine prints on its own: it would be compared as a number or a time
        return _escape_bar(text(plan.columns[0], side, dialect), plan.columns[0], side, dialect)
    between = dialect.names.string_literal(canonical.SEPARATOR)
    pieces = [piece for column in plan.key_columns for piece in (between, escaped(column, side, dialect))]
    return dialect.text.concat(pieces[1:])


def shortened_text(column: ColumnPlan, side: Side, dialect: Dialect, length: int) -> str:
    """Return SQL of a column's canonical text, shortened to its beginning and its hash if it is longer than ``length`` characters.

    Equal texts yield equal results. A masked column yields its SHA-256 in hexadecimal.
    """
    if column.pieces:
        return _short_or_digest(column, side, dialect, length)
    sql = text(column, side, dialect)
    if column.masked:
        return dialect.hashes.row_hash(sql, "sha256")
    if not column.kind.is_free_text and column.kind.name != "binary" and column.native[side].name not in FREE_TEXT_KINDS:
        return sql
    hashed = dialect.text.left(dialect.hashes.row_hash(sql, "sha256"), 16)
    cut = dialect.text.concat([dialect.text.left(sql, length), dialect.names.string_literal("... sha256 "), hashed])
    return f"CASE WHEN {dialect.text.length(sql)} > {length} THEN {cut} ELSE {sql} END"


def _short_or_digest(column: ColumnPlan, side: Side, dialect: Dialect, length: int) -> str:
    """Return ``shortened_text`` of a column whose texts may be too long to be built: without their beginning where they are long."""
    hashed = digest(column, side, dialect)
    if column.masked:
        return hashed
    most = length // 2 if column.kind.name == "binary" else length
    short = dialect.hashes.short_text(column.kind, column.expression[side], column.native[side], most)
    return f"COALESCE({short}, {dialect.text.concat([dialect.names.string_literal('... sha256 '), dialect.text.left(hashed, 16)])})"
