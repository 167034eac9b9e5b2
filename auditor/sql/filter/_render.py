"""Render a portable filter as the SQL of one side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from auditor.errors import BadExpression
from auditor.model import Side
from auditor.sql.filter import _numbers, _texts, _times
from auditor.sql.filter._bind import describe
from auditor.sql.filter._columns import FilterColumn
from auditor.sql.filter._numbers import Term
from auditor.sql.filter._tokens import WAY_OUT
from auditor.sql.filter._tree import (
    Arithmetic,
    Column,
    CompareOp,
    Comparison,
    Condition,
    Constant,
    In,
    IsNull,
    Junction,
    Like,
    Moment,
    Not,
    Number,
    Operand,
    Text,
    Truth,
)
from dialects import Dialect

TRUE, FALSE = "1 = 1", "1 = 0"
EXAMPLES = {"text": "= 'draft'", "number": "<> 0", "float": "> 0.5", "truth": "= TRUE", "time": ">= DATE '2026-11-01'"}
"""What can be done with a column, by its sort, for messages."""


@dataclass(frozen=True, slots=True)
class Renderer:
    """What the SQL of one side depends on."""

    columns: Mapping[str, FilterColumn]
    """The filter's columns, by their names as written."""
    side: Side
    """The side."""
    dialect: Dialect
    """The dialect of the side."""

    def condition(self, condition: Condition, helped: bool = True) -> str:
        """Return SQL of a bound condition. ``helped``: it is not negated, so that plain comparisons may be added for an index."""
        match condition:
            case Truth(value=value):
                return TRUE if value else FALSE
            case Not(condition=inner):
                return f"NOT ({self.condition(inner, helped=False)})"
            case Junction(op=op, conditions=conditions):
                return "(" + f" {op} ".join(self.condition(part, helped) for part in conditions) + ")"
            case IsNull(column=column):
                filtered = self.columns[column.name]
                return self.dialect.is_null(filtered.sql[self.side], filtered.native(self.side))
            case Comparison(op=op, left=left, right=right):
                return self._constant(op, left, right, helped) if isinstance(right, Constant) else self._operands(op, left, right)
            case In(operand=operand, values=values):
                return self._in(operand, values, helped)
            case Like(operand=operand, pattern=pattern):
                text = self._column(operand)
                if text is None or text.sort != "text":
                    raise BadExpression(f"where: LIKE takes a column of text, and {self._what(operand)}; {WAY_OUT}")
                return _texts.like(text, pattern, self.side, self.dialect, helped)

    def _constant(self, op: CompareOp, left: Operand, value: Operand, helped: bool) -> str:
        column = self._column(left)
        match value:
            case Text(value=text) if column and column.sort == "text":
                return _texts.compare(op, column, text, self.side, self.dialect, helped)
            case Truth(value=truth) if column and column.sort == "truth" and op in ("=", "<>"):
                sql = self._truth(column)
                return sql if truth == (op == "=") else f"NOT ({sql})"
            case Moment(value=moment) if column and column.sort == "time":
                return _times.compare(op, column, moment, self.side, self.dialect)
            case Number(value=number) if column and column.sort == "float":
                double = self.dialect.as_double(column.sql[self.side])
                return f"{double} {op} {_numbers.float_literal(number, self.dialect)}"
            case Number(value=number) if self._is_number(left):
                return _numbers.compare(op, self._term(left), number)
        return self._refuse(left, value, op)

    def _operands(self, op: CompareOp, left: Operand, right: Operand) -> str:
        """Return the comparison of two operands that depend on the row."""
        if self._is_number(left) and self._is_number(right):
            return _numbers.compare_terms(op, self._term(left), self._term(right), self.dialect)
        first, other = self._column(left), self._column(right)
        if first and other and first.sort == other.sort:
            match first.sort:
                case "text":
                    return _texts.compare_columns(op, first, other, self.side, self.dialect)
                case "time":
                    return _times.compare_columns(op, first, other, self.side)
                case "float":
                    return f"{self.dialect.as_double(first.sql[self.side])} {op} {self.dialect.as_double(other.sql[self.side])}"
                case "truth" if op in ("=", "<>"):
                    return f"({self._truth(first)}) {op} ({self._truth(other)})"
        return self._refuse(left, right, op)

    def _in(self, operand: Operand, values: tuple[Operand, ...], helped: bool) -> str:
        column = self._column(operand)
        texts = [value.value for value in values if isinstance(value, Text)]
        if column and column.sort == "text" and len(texts) == len(values):
            return _texts.is_in(column, texts, self.side, self.dialect, helped)
        numbers = [value.value for value in values if isinstance(value, Number)]
        if self._is_number(operand) and len(numbers) == len(values):
            return _numbers.is_in(self._term(operand), numbers)
        return "(" + " OR ".join(self._constant("=", operand, value, helped) for value in values) + ")"

    def _column(self, operand: Operand) -> FilterColumn | None:
        return self.columns[operand.name] if isinstance(operand, Column) else None

    def _truth(self, column: FilterColumn) -> str:
        """Return SQL of a column of truth values as a condition; a number other than 0 is true."""
        c, native = column.sql[self.side], column.native(self.side)
        return c if native.name == "boolean" else f"{self.dialect.as_number(c, native)} <> 0"

    def _is_number(self, operand: Operand) -> bool:
        column = self._column(operand)
        return column.sort == "number" if column else isinstance(operand, Number | Arithmetic)

    def _term(self, operand: Operand) -> Term:
        """Return SQL of a number."""
        match operand:
            case Arithmetic(left=left, right=right):
                return _numbers.arithmetic_term(operand, self._term(left), self._term(right), self.dialect)
            case Number(value=value):
                return _numbers.literal_term(value)
            case Column(name=name) if self.columns[name].sort == "number":
                return _numbers.column_term(self.columns[name], self.side, self.dialect)
        raise BadExpression(f"where: + - * calculate with whole numbers and decimals, and {self._what(operand)}; {WAY_OUT}")

    def _refuse(self, left: Operand, right: Operand, op: CompareOp) -> NoReturn:
        """Raise the error for operands that cannot be compared; it says what the column can be compared with."""
        column = self._column(left) or self._column(right)
        example = f"write {column.name} {EXAMPLES[column.sort]}, or " if column and column.sort != "other" else ""
        raise BadExpression(f"where: {self._named(left)} cannot be compared with {self._named(right)} by {op}; {example}{WAY_OUT}")

    def _named(self, operand: Operand) -> str:
        """Return an operand for a message, a column with its types."""
        column = self._column(operand)
        return f"the column {column.name!r} ({column.types()})" if column else describe(operand)

    def _what(self, operand: Operand) -> str:
        """Return the clause that an operand is something else, for a message."""
        column = self._column(operand)
        return f"the column {column.name!r} is {column.types()}" if column else f"{describe(operand)} is none"
