"""Render comparisons of text, by exact characters."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model import Side
from auditor.sql.filter._columns import FilterColumn
from auditor.sql.filter._tree import CompareOp, Wildcard
from dialects import Dialect
from dialects.comparison import ESCAPE


def _characters(column: FilterColumn, side: Side, dialect: Dialect) -> str:
    return dialect.canonical_text(column.text_kind, column.sql[side], column.native(side))


def compare_columns(op: CompareOp, left: FilterColumn, right: FilterColumn, side: Side, dialect: Dialect) -> str:
    """Return the comparison of two columns."""
    exact = (dialect.exact_text(_characters(column, side, dialect)) for column in (left, right))
    return f" {op} ".join(exact)


def compare(op: CompareOp, column: FilterColumn, value: str, side: Side, dialect: Dialect, helped: bool) -> str:
    """Return the comparison of a column with a literal; ``helped`` adds the plain comparison, for which an index serves, if it follows."""
    literal = dialect.exact_text(dialect.string_literal(value))
    exact = f"{dialect.exact_text(_characters(column, side, dialect))} {op} {literal}"
    plain = _plain_literals(column, [value], side, dialect) if helped and op == "=" else []
    return f"({column.sql[side]} = {plain[0]} AND {exact})" if plain else exact


def is_in(column: FilterColumn, values: Sequence[str], side: Side, dialect: Dialect, helped: bool) -> str:
    """Return whether a column equals one of several literals; ``helped`` as in ``compare``."""
    literals = ", ".join(dialect.exact_text(dialect.string_literal(value)) for value in values)
    exact = f"{dialect.exact_text(_characters(column, side, dialect))} IN ({literals})"
    plain = _plain_literals(column, values, side, dialect) if helped else []
    return f"({column.sql[side]} IN ({', '.join(plain)}) AND {exact})" if plain else exact


def like(column: FilterColumn, pattern: Sequence[str | Wildcard], side: Side, dialect: Dialect, helped: bool) -> str:
    """Return whether a column has the form of a pattern; ``helped`` adds its fixed beginning where an index serves that."""
    parts = (part.value if isinstance(part, Wildcard) else _escape(part) for part in pattern)
    exact = dialect.like(_characters(column, side, dialect), "".join(parts))
    begin = pattern[0] if pattern else ""
    has_begin = helped and dialect.INDEX_SERVES_LIKE and isinstance(begin, str) and begin != ""
    plain = _plain_literals(column, [_escape(str(begin)) + "%"], side, dialect) if has_begin else []
    return f"({column.sql[side]} LIKE {plain[0]} ESCAPE '{ESCAPE}' AND {exact})" if plain else exact


def _plain_literals(column: FilterColumn, values: Sequence[str], side: Side, dialect: Dialect) -> list[str]:
    """Return literals for a plain comparison of a column; none if that is not true whenever the exact one is.

    It is not if trailing blanks are left out on this side, although its type keeps them. Labels of an enum are compared in other ways.
    """
    native = column.native(side).name
    if native != "char" and not (native == "text" and column.text_kind.name == "text"):
        return []
    literals = [dialect.plain_literal(value, column.columns[side].collation) for value in values]
    return [literal for literal in literals if literal] if None not in literals else []


def _escape(text: str) -> str:
    return "".join(ESCAPE + character if character in (ESCAPE, "%", "_") else character for character in text)
