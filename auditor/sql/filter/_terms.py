"""Numbers in SQL: exact, with as many digits as every result may need, and compared with literals that their own type holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from auditor.errors import BadExpression
from auditor.sql.filter._bind import EXACT
from auditor.sql.filter._parser import WAY_OUT
from auditor.sql.filter._tree import Arithmetic, CompareOp
from dialects import Dialect, Kind

MAX_DIGITS = 38
"""Most digits of a decimal on every engine that ships here; another may hold fewer."""
MAX_SCALE = 30
"""Most digits after the point of a decimal on every engine."""


@dataclass(frozen=True, slots=True)
class Term:
    """SQL of a number, with what its type can hold."""

    sql: str
    digits: int | None
    """Most digits; None if unlimited."""
    scale: int | None
    """Digits after the point; None if unlimited."""
    least: Decimal | None = None
    """The least value, inclusive; None if only the digits limit it."""
    greatest: Decimal | None = None
    """The greatest value, inclusive; None where ``least`` is."""
    is_cast: bool = False
    """Whether ``sql`` is a decimal of exactly these digits."""

    @property
    def whole(self) -> int | None:
        """Return the most digits before the point."""
        return None if self.digits is None or self.scale is None else self.digits - self.scale

    def limits(self) -> tuple[Decimal, Decimal] | None:
        """Return the least and greatest value, or None if there are none."""
        if self.least is not None and self.greatest is not None:
            return self.least, self.greatest
        if self.digits is None or self.scale is None:
            return None
        most = Decimal(10**self.digits - 1).scaleb(-self.scale, EXACT)
        return -most, most


def literal_term(value: Decimal, dialect: Dialect) -> Term:
    """Return a literal as it is, with the digits after the point that are written, or that a calculation with literals has."""
    exponent = value.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    digits = max(1, scale, len(f"{abs(value):f}".split(".", maxsplit=1)[0].lstrip("0")) + scale)
    return Term(dialect.names.number_literal(f"{value:f}"), digits, scale)


def arithmetic_term(node: Arithmetic, left: Term, right: Term, dialect: Dialect) -> Term:
    """Return a sum, difference or product, in decimals that hold every result. Raises BadExpression if it needs too many digits."""
    sql = f"({cast_number(left, dialect).sql} {node.op} {cast_number(right, dialect).sql})"
    if left.digits is None or left.scale is None or right.digits is None or right.scale is None:
        return Term(sql, None, None, is_cast=True)
    if node.op == "*":
        quotient = Term(sql, left.digits + right.digits + 1, left.scale + right.scale, is_cast=True)
    else:
        scale = max(left.scale, right.scale)
        quotient = Term(sql, max(left.digits - left.scale, right.digits - right.scale) + 1 + scale, scale, is_cast=True)
    check_size(quotient.digits or 0, quotient.scale or 0, dialect)
    return quotient


def check_size(digits: int, scale: int, dialect: Dialect) -> None:
    """Raise BadExpression if an engine has no decimal of so many digits."""
    most = min(MAX_DIGITS, dialect.types.MAX_DECIMAL_DIGITS)
    if digits > most or scale > MAX_SCALE:
        limited = "engines hold" if most == MAX_DIGITS else f"{dialect.name} holds"
        raise BadExpression(
            f"this calculation may need {digits} digits, {scale} of them after the point, and {limited} {most} and {MAX_SCALE}; {WAY_OUT}"
        )


def cast_number(term: Term, dialect: Dialect) -> Term:
    """Return a term as a decimal of its digits, so that calculating with it cannot overflow."""
    if term.is_cast:
        return term
    if term.digits is None or term.scale is None:
        decimal = "NUMERIC"  # only PostgreSQL has decimals without a limit
    else:
        check_size(term.digits, term.scale, dialect)
        decimal = dialect.types.native_type(Kind("decimal", max(term.digits, dialect.numbers.MIN_CALCULATED_DIGITS), term.scale))
    return Term(f"CAST({term.sql} AS {decimal})", term.digits, term.scale, term.least, term.greatest, is_cast=True)


def compare_terms(op: CompareOp, left: Term, right: Term, dialect: Dialect) -> str:
    """Return the comparison of two numbers, neither of which is a literal."""
    if (left.digits, left.scale, left.is_cast) != (right.digits, right.scale, right.is_cast):
        left, right = cast_number(left, dialect), cast_number(right, dialect)
        if left.whole is not None and right.whole is not None:
            scale = max(left.scale or 0, right.scale or 0)
            check_size(max(left.whole, right.whole) + scale, scale, dialect)
    return f"{left.sql} {op} {right.sql}"


def compare_number(op: CompareOp, term: Term, value: Decimal, dialect: Dialect) -> str:
    """Return the comparison of a number with a literal, as one with a literal that the number's own type holds."""
    limits = term.limits()
    if limits and (value < limits[0] or value > limits[1]):
        holds = value > limits[1] if op in ("<", "<=") else value < limits[0] if op in (">", ">=") else op == "<>"
        return _always(term) if holds else _never(term)
    if term.scale is None:
        return f"{term.sql} {op} {dialect.names.number_literal(f'{value:f}')}"
    low, high = (_round(value, term.scale, how) for how in (ROUND_FLOOR, ROUND_CEILING))
    if low != high and op in ("=", "<>"):
        return _never(term) if op == "=" else _always(term)
    return f"{term.sql} {op} {_plain_number(high if op in ('<', '>=') else low, dialect)}"


def number_in(term: Term, values: Sequence[Decimal], dialect: Dialect) -> str:
    """Return whether a number equals one of several literals."""
    limits = term.limits()
    within = [value for value in values if not limits or limits[0] <= value <= limits[1]]
    possible = [value for value in within if term.scale is None or _round(value, term.scale, ROUND_FLOOR) == value]
    return f"{term.sql} IN ({', '.join(_plain_number(value, dialect) for value in possible)})" if possible else _never(term)


def _never(term: Term) -> str:
    """Return a condition that is false, and unknown for NULL."""
    return f"{term.sql} <> {term.sql}"


def _always(term: Term) -> str:
    """Return a condition that is true, and unknown for NULL."""
    return f"{term.sql} = {term.sql}"


def _round(value: Decimal, scale: int, how: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-scale, EXACT), how, Context(prec=200))


def _plain_number(value: Decimal, dialect: Dialect) -> str:
    """Return a literal of a number, without zeros at the end of its fraction."""
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return dialect.names.number_literal("0" if text in ("-0", "") else text)
