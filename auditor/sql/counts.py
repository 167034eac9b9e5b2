"""SQL of the method counts: measures of each column."""

from __future__ import annotations

from collections.abc import Sequence

from auditor import canonical
from auditor.model import ColumnPlan, Plan, Side
from auditor.summary.measures import EXTREMES, column_measures, family
from dialects import Dialect, Kind

SUM_KIND = Kind("decimal", 38)
"""Kind of a sum: a decimal with the most digits there are, of which only those at the column's scale are rendered."""


def fragments(plan: Plan, side: Side, dialect: Dialect, texts: Sequence[str]) -> dict[str, str]:
    """Return the fragments for the template ``counts``; ``texts`` is the SQL of each column's canonical text."""
    columns: list[str] = []
    folded: list[str] = []
    selected: list[str] = []
    for index, (column, text) in enumerate(zip(plan.columns, texts, strict=True)):
        v, d, b = (plan.named(f"read_rows.{letter}{index}") for letter in "vdb")
        values = _row_columns(column, side, dialect, text)
        columns += [f"{sql} AS {plan.named(f'{letter}{index}')}" for sql, letter in zip(values, "vdb", strict=False)]
        for name in column_measures(column):
            measured = f"{name}_{index}"
            folded.append(f"{_aggregate(name, column, side, dialect, v, b if name == 'bytes' else d)} AS {plan.named(measured)}")
            shown = dialect.text.stored_text(_measure_text(name, column, side, dialect, plan.named(f"m.{measured}")))
            selected.append(f"{shown} AS {measured}")
    return {"columns": ",\n      ".join(columns), "folded": ",\n    ".join(folded), "measures": ",\n  ".join(selected)}


def _row_columns(column: ColumnPlan, side: Side, dialect: Dialect, text: str) -> list[str]:
    """Return SQL of a row's columns for a measured column: ``v``, the stored value, ``d``, the number to add up, if it differs from
    ``v``, and of a text that may have more bytes than characters ``b``, its bytes."""
    kind, expression = family(column), column.expression[side]
    if kind == "text":
        counted = text if column.null_as is not None else expression
        has_bytes = "bytes" in column_measures(column)
        return [counted, _length(column, side, dialect, text), *([dialect.text.byte_length(text)] if has_bytes else [])]
    if kind == "truth":
        return [expression, f"CASE WHEN {text} = '1' THEN 1 ELSE 0 END"]
    value = dialect.numbers.as_number(expression, column.native[side]) if kind == "number" else expression
    summed = addend(column, side, dialect, text) if "sum" in column_measures(column) else expression
    return [value, *([summed] if summed != expression else [])]


def _length(column: ColumnPlan, side: Side, dialect: Dialect, text: str) -> str:
    """Return SQL of a text's characters; of a document that may be too long to be built its bytes, of such bytes their digits."""
    if not column.pieces:
        return dialect.text.length(text)
    count = dialect.hashes.byte_count(column.kind, column.expression[side], column.native[side])
    return f"2 * {count}" if column.kind.name == "binary" else count


def addend(column: ColumnPlan, side: Side, dialect: Dialect, text: str) -> str:
    """Return SQL of the exact number to add up: rounded to the compared scale on a side that stores more digits."""
    native, expression = column.native[side], column.expression[side]
    if native.name in canonical.FLOATS:
        return _float_units(expression, column.kind.scale or 0, dialect)
    if column.kind == canonical.FULL_DECIMAL:
        return dialect.numbers.as_number(expression, native)
    scale = 0 if column.kind.name == "rounded" else column.kind.scale or 0
    if column.kind.name != "rounded" and (native.name != "decimal" or (native.scale is not None and native.scale <= scale)):
        return dialect.numbers.as_number(expression, native)
    return f"CAST({text} AS {dialect.types.native_type(Kind('decimal', dialect.types.MAX_DECIMAL_DIGITS, scale))})"


def _float_units(c: str, scale: int, dialect: Dialect) -> str:
    """Return SQL of a float in units of 10^-scale, as in ``Dialect.rounded_text``; 0 for values too large for that."""
    x = dialect.numbers.as_double(c)
    size = f"FLOOR(ABS({x}) * {dialect.numbers.double_literal(f'1e{scale}')} + {dialect.numbers.double_literal('0.5')})"
    within = f"ABS({x}) < {dialect.numbers.double_literal(f'9e{18 - scale}')}"
    return dialect.numbers.as_bigint(
        f"CASE WHEN NOT {within} THEN {dialect.numbers.double_literal('0')} WHEN {x} < 0 THEN -{size} ELSE {size} END"
    )


def _aggregate(name: str, column: ColumnPlan, side: Side, dialect: Dialect, v: str, d: str) -> str:
    """Return SQL of the aggregate of one measure, in the engine's own type, of the columns that ``_row_columns`` describes."""
    if name == "nulls":
        return f"COUNT(*) - COUNT({v})"
    if name in EXTREMES:
        return f"{name.upper()}({v})"
    if name in ("characters", "bytes", "true"):
        return dialect.numbers.integer_sum(d)
    native, expression = column.native[side], column.expression[side]
    if addend(column, side, dialect, "") == expression:
        return dialect.numbers.number_sum(v, native)
    return dialect.numbers.number_sum(d, Kind("integer") if native.name in ("bit", *canonical.FLOATS) else SUM_KIND)


def _measure_text(name: str, column: ColumnPlan, side: Side, dialect: Dialect, measured: str) -> str:
    """Return SQL of a measure as canonical text."""
    if name not in ("sum", *EXTREMES):
        return dialect.text.as_text(measured)
    if column.kind == canonical.FULL_DECIMAL:
        return full_number_text(measured, column.native[side], dialect)
    if name == "sum" or family(column) == "number":
        # Digits are rendered at the column's scale, because the engine's type of an aggregate may have another one.
        native = column.native[side] if name in EXTREMES and column.native[side].name in ("integer", "year") else SUM_KIND
        return dialect.numbers.decimal_text(measured, 0 if column.kind.name == "rounded" else column.kind.scale or 0, native)
    return dialect.canonical.canonical_text(column.kind, measured, column.native[side])


def full_number_text(measured: str, native: Kind, dialect: Dialect) -> str:
    """Return SQL of an aggregate of exact numbers of that kind, with all their digits."""
    return dialect.numbers.full_decimal_text(measured, Kind("decimal", 38, native.scale if native.name == "decimal" else 0))
