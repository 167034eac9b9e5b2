"""SQL that is parsed: what a person writes (filters, computed columns), read in one dialect and written in another; our own, checked.

The parser is loaded when it is first needed, which takes as long as scanning 50,000 rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from auditor.errors import BadExpression
from dialects import Dialect

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

CHECK = False
"""Whether every statement of ours is parsed before it is used: in the tests, which render every form of each. In a run the
engine parses it anyway."""


def translate(sql: str, read: Dialect, write: Dialect, columns: Mapping[str, str], what: str) -> str:
    """An expression over columns, as ``write`` spells it, every name quoted.

    ``columns`` maps the names a person may write, in lower case, to the names on the side that it is written for. ``what``
    says in messages what the expression is. Raises BadExpression for anything that is not one expression over these columns.
    """
    from sqlglot import exp

    tree = _parsed(sql, read, what)
    for column in list(tree.find_all(exp.Column)):
        name = column.name.lower()
        if name not in columns:
            known = ", ".join(sorted(columns))
            raise BadExpression(f"{what}: there is no column {column.name!r} (columns here: {known})")
        column.replace(exp.column(exp.to_identifier(columns[name], quoted=True)))
    if isinstance(tree, exp.Column):  # replacing the root leaves the variable behind
        tree = exp.column(exp.to_identifier(columns[tree.name.lower()], quoted=True))
    return str(tree.sql(dialect=write.sqlglot, identify=True, comments=False))


def _parsed(sql: str, read: Dialect, what: str) -> exp.Expression:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        trees = sqlglot.parse(f"SELECT 1 WHERE {sql}", dialect=read.sqlglot)
    except SqlglotError as error:
        raise BadExpression(f"{what} could not be understood as {read.name}'s SQL{_near(error)}: {sql!r}") from None
    tree = trees[0] if len(trees) == 1 else None
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    extra = {name for name, value in tree.args.items() if value and name not in ("expressions", "where", "kind")} if tree else {"?"}
    if where is None or extra:
        raise BadExpression(f"{what} must be one expression, without other clauses: {sql!r}")
    found: exp.Expression = where.this
    if found.find(exp.Select, exp.Placeholder, exp.Parameter):
        raise BadExpression(f"{what} may hold neither a subquery nor a parameter: {sql!r}")
    return found


def _near(error: SqlglotError) -> str:
    """Where the parser stopped; its own words speak of its classes."""
    at = [str(one.get("highlight") or "") for one in getattr(error, "errors", [])]
    return f", near {at[0]!r}" if at and at[0] else ""


def checked(sql: str, dialect: Dialect) -> str:
    """``sql`` itself, which the parser takes where CHECK says so. Raises ValueError: one that it does not take is a slip of ours.

    Parsing takes as long as a small scan, so statements that differ in large numbers alone are parsed once.
    """
    if CHECK:
        _check(re.sub(r"\b\d{4,}\b", "1111", sql), dialect.sqlglot)
    return sql


@cache
def _check(sql: str, sqlglot_name: str) -> None:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        sqlglot.parse_one(sql, dialect=sqlglot_name)
    except SqlglotError as error:
        raise ValueError(f"rendered SQL is malformed: {error}\n{sql}") from error
