"""SQL of a row's partition, and of the number of its key, from which bucket and position are computed.

`auditor.summary.key_number` defines the numbers.
"""

from __future__ import annotations

from auditor.model import ColumnPlan, Plan, Side
from auditor.sql.row_text import key_text, levelled, text
from auditor.summary.field import P
from auditor.summary.key_number import FACTORS, POSITIONS, UUID_LENGTH, Form, Q, forms
from dialects import Dialect, Kind
from dialects.hex_numbers import PLAIN_UUID_PLACES, UUID_PLACES

INTEGER = Kind("integer")


def partition(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a row's partition id; NULL for a row whose key holds a NULL."""
    how = plan.partitioning
    column = plan.columns[how.column]
    if how.strategy == "range":
        return dialect.floor_divide(column.expression[side], how.size, column.native[side])
    if how.strategy == "time":
        return dialect.time_index(levelled(column, side, dialect), how.unit)
    return bucket(key_number(plan, side, dialect), how.buckets, dialect)


def key_number(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the number of a row's key, a signed 64-bit integer of 0 .. p; NULL if a column of the key is NULL."""
    shapes = forms(plan)
    if not shapes:
        return dialect.low_bits(dialect.row_word(key_text(plan, side, dialect), plan.hash), 31)
    terms = [
        f"({_residue(form, column, plan, side, dialect)} + {Q}) * {factor}"
        for form, column, factor in zip(shapes, plan.key_columns, FACTORS, strict=False)
    ]
    total = " + ".join(terms)
    return f"({dialect.modulo(f'({total})', P)})"


def _residue(form: Form, column: ColumnPlan, plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of a column's number modulo Q, with its sign."""
    c, native = column.expression[side], column.native[side]
    match form:
        case "whole":
            return dialect.signed_remainder(c, Q, native)
        case "date":
            return dialect.as_bigint(dialect.day_index(c))  # fewer than Q days are in any calendar
        case "uuid":
            return dialect.modulo(_uuid_number(column, plan, side, dialect), Q)


def _uuid_number(column: ColumnPlan, plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return SQL of the number that 15 digits of a UUID denote; of text that has no such digits, the first 60 bits of its hash."""
    c, native = column.expression[side], column.native[side]
    if native.name == "uuid":
        return dialect.uuid_number(c)
    if native.name == "binary":
        number = dialect.uuid_bytes_number(c)
    else:
        characters = dialect.column_characters(c, native)
        shapes = (UUID_LENGTH, UUID_PLACES), (32, PLAIN_UUID_PLACES)
        branches = [f"WHEN {length} THEN {dialect.digits_number(characters, places)}" for length, places in shapes]
        number = f"CASE {dialect.length(characters)} {' '.join(branches)} END"
    return f"COALESCE({number}, {dialect.row_word(text(column, side, dialect), plan.hash)})"


def bucket(number: str, buckets: int, dialect: Dialect) -> str:
    """Return SQL of the bucket of a key's number."""
    return f"({dialect.modulo(dialect.modulo(f'{number} * {number}', P), buckets)})"


def position(number: str, dialect: Dialect) -> str:
    """Return SQL of the position of a key's number, 1 .. POSITIONS."""
    return f"({dialect.low_bits(number, POSITIONS.bit_length() - 1)} + 1)"
