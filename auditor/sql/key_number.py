"""SQL of a row's partition, and of the number of its key, from which bucket and position are computed.

`auditor.summary.key_number` defines the numbers.
"""

from __future__ import annotations

from auditor.model import ColumnPlan, Plan, Side
from auditor.sql.row_text import key_text, levelled, text
from auditor.summary.key_number import FACTORS, POSITIONS, UUID_LENGTH, Form, P, Q, forms
from dialects import Dialect, Kind
from dialects.kinds import FREE_TEXT_KINDS
from dialects.numbers import PLAIN_UUID_PLACES, UUID_PLACES

INTEGER = Kind("integer")

GROUPS = 64
"""Groups of keys of whole numbers and dates."""

LETTER_GROUPS = 256
"""Groups of random UUIDs, by two of their digits; of other text there are at most 1,024."""


def partition(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a row's partition id; NULL for a row whose key holds a NULL, unless all rows are one partition."""
    how = plan.partitioning
    if how.strategy == "whole":
        return "0"
    column = plan.columns[how.column]
    if how.strategy == "range":
        return dialect.numbers.floor_divide(column.expression[side], how.size, column.native[side])
    if how.strategy == "time":
        return dialect.times.time_index(levelled(column, side, dialect), how.unit)
    if how.strategy == "group":
        return _group(plan, side, dialect)
    return bucket(key_number(plan, side, dialect), how.buckets, dialect)


def count_groups(plan: Plan) -> int:
    """Return into about how many groups the stretches of a pre-scan divide a table; 0 if it is not divided."""
    column = _find_lettered(plan)
    if column is None:
        return GROUPS if forms(plan) else 0
    return 0 if column.masked else LETTER_GROUPS


def _group(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the group of a row's key.

    It is the number of the key if that costs no hash. Of text, UUIDs among it, it is made of the last character and the eighth, of which
    one varies in UUIDs of every version; where rows are hashed as bytes, of such bytes. Equal text that is stored in different ways may be
    in another group on either side: then both groups differ, and the method reads both.
    """
    column = _find_lettered(plan)
    if column is None:
        return dialect.numbers.modulo(key_number(plan, side, dialect), GROUPS)
    c, native = column.expression[side], column.native[side]
    is_text = native.name in FREE_TEXT_KINDS
    text = (
        dialect.text.column_characters(c, native)
        if is_text
        else dialect.text.hex_text(c)
        if native.name == "binary"
        else dialect.text.as_text(c)
    )
    if plan.hashes_bytes:
        return dialect.hashes.group_of_text(text)
    last, eighth = (
        dialect.numbers.low_bits(dialect.text.code_point(character), 5) for character in (f"RIGHT({text}, 1)", f"SUBSTRING({text}, 8, 1)")
    )
    return f"({last} * 32 + {eighth})"  # five bits distinguish hexadecimal digits, and letters whatever their case


def _find_lettered(plan: Plan) -> ColumnPlan | None:
    """Return the column of the key that is text or a UUID, the last of several; None if there is none."""
    return next((column for column in reversed(plan.key_columns) if column.kind.name in ("text", "char", "uuid")), None)


def key_number(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the number of a row's key, a signed 64-bit integer of 0 .. p; NULL if a column of the key is NULL."""
    shapes = forms(plan)
    if not shapes:
        return dialect.numbers.low_bits(dialect.hashes.row_word(key_text(plan, side, dialect), plan.hash), 31)
    terms = [
        f"({_residue(form, column, plan, side, dialect)} + {Q}) * {factor}"
        for form, column, factor in zip(shapes, plan.key_columns, FACTORS, strict=False)
    ]
    total = " + ".join(terms)
    return f"({dialect.numbers.modulo(f'({total})', P)})"


def _residue(form: Form, column: ColumnPlan, plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a column's number modulo Q, with its sign."""
    c, native = column.expression[side], column.native[side]
    match form:
        case "whole":
            return dialect.numbers.signed_remainder(dialect.numbers.as_number(c, native), Q, native)
        case "date":
            return dialect.numbers.as_bigint(dialect.times.day_index(c))  # fewer than Q days are in any calendar
        case "uuid":
            return dialect.numbers.modulo(_uuid_number(column, plan, side, dialect), Q)


def _uuid_number(column: ColumnPlan, plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the number that 15 digits of a UUID denote; of text that has no such digits, the first 60 bits of its hash."""
    c, native = column.expression[side], column.native[side]
    if native.name == "uuid":
        return dialect.numbers.uuid_number(c)
    if native.name == "binary":
        number = dialect.numbers.uuid_bytes_number(c)
    else:
        characters = dialect.text.column_characters(c, native)
        shapes = (UUID_LENGTH, UUID_PLACES), (32, PLAIN_UUID_PLACES)
        branches = [f"WHEN {length} THEN {dialect.numbers.digits_number(characters, places)}" for length, places in shapes]
        number = f"CASE {dialect.text.length(characters)} {' '.join(branches)} END"
    return f"COALESCE({number}, {dialect.hashes.row_word(text(column, side, dialect), plan.hash)})"


def bucket(number: str, buckets: int, dialect: Dialect) -> str:
    """Return SQL of the bucket of a key's number."""
    return f"({dialect.numbers.modulo(dialect.numbers.modulo(f'{number} * {number}', P), buckets)})"


def position(number: str, dialect: Dialect) -> str:
    """Return SQL of the position of a key's number, 1 .. POSITIONS."""
    return f"({dialect.numbers.low_bits(number, POSITIONS.bit_length() - 1)} + 1)"
