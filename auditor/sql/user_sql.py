"""Translate SQL of computed columns between dialects, check filters that are written for one side, and check rendered statements in tests.

The parser, sqlglot, is imported when it is first needed, because that takes as long as scanning 50,000 rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from auditor.errors import BadExpression
from dialects import Dialect, Kind

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

CHECK_RENDERED_SQL = False
"""Whether every rendered statement is parsed before it is used. The tests set it; in a run the engine parses the statement anyway."""


def translate(sql: str, read: Dialect, write: Dialect, columns: Mapping[str, str], what: str) -> str:
    """Translate an expression over columns from the dialect ``read`` to ``write``, quoting every name.

    ``columns`` maps the names that may be used, in lower case, to the column names of the side. ``what`` names the expression in
    messages. Raises BadExpression for anything other than one expression over these columns.
    """
    from sqlglot import exp

    tree = _parse(sql, read, what)
    for column in list(tree.find_all(exp.Column)):
        name = column.name.lower()
        if name not in columns:
            known = ", ".join(sorted(columns))
            raise BadExpression(f"{what}: there is no column {column.name!r}; use one of {known}")
        column.replace(exp.column(exp.to_identifier(columns[name], quoted=True)))
    if isinstance(tree, exp.Column):  # the root cannot be replaced in place
        tree = exp.column(exp.to_identifier(columns[tree.name.lower()], quoted=True))
    return str(tree.sql(dialect=write.sqlglot_dialect, identify=True, comments=False))


def typed(sql: str, dialect: Dialect, kind: Kind) -> str:
    """Return an expression with the type of a kind, if it is nothing but a text or NULL, which has no type of its own.

    As a column of a derived table it would need one: PostgreSQL gives it the type text, and Redshift refuses it.
    """
    from sqlglot import exp

    tree = _parse(sql, dialect, sql).unnest()
    if not (isinstance(tree, exp.Null) or (isinstance(tree, exp.Literal) and tree.is_string)):
        return sql
    try:
        return dialect.types.typed_value(sql, kind)
    except LookupError:
        return sql


CLOCKS = frozenset(
    {
        "NOW",
        "SYSDATE",
        "GETDATE",
        "TODAY",
        "CURDATE",
        "CURTIME",
        "CURRENT_DATE",
        "CURRENT_TIME",
        "CURRENT_TIMESTAMP",
        "CURRENT_DATETIME",
        "LOCALTIME",
        "LOCALTIMESTAMP",
        "UTC_DATE",
        "UTC_TIME",
        "UTC_TIMESTAMP",
        "UNIX_TIMESTAMP",
        "TRANSACTION_TIMESTAMP",
        "STATEMENT_TIMESTAMP",
        "CLOCK_TIMESTAMP",
        "TIMEOFDAY",
        "GET_CURRENT_TIME",
        "GET_CURRENT_TIMESTAMP",
        "CURRENT_LOCALTIME",
        "CURRENT_LOCALTIMESTAMP",
    }
)
"""Functions that read the server's clock."""

CLOCK_TEXTS = frozenset({"now", "today", "yesterday", "tomorrow"})
"""Texts that PostgreSQL and its descendants turn into a time by the server's clock."""


def check_filter(sql: str, dialect: Dialect, columns: Mapping[str, str], what: str) -> str:
    """Return a filter of one side, unchanged, in parentheses. Raises BadExpression unless it is one expression over ``columns``.

    ``columns`` has the names that may be used, in lower case.
    """
    from sqlglot import exp

    for column in _parse(sql, dialect, what).find_all(exp.Column):
        if not column.table and column.name.lower() not in columns:
            raise BadExpression(f"{what}: there is no column {column.name!r}; use one of {', '.join(sorted(columns))}")
    end = "\n" if "--" in sql or "#" in sql else ""  # a comment must not swallow the bracket
    return f"({sql.strip()}{end})"


def find_clock(sql: str, dialect: Dialect) -> str:
    """Return what reads the server's clock in an expression: a function or a text; empty if nothing known does."""
    import sqlglot
    from sqlglot import TokenType

    for token in sqlglot.tokenize(sql, read=dialect.sqlglot_dialect):
        known = token.text.lower() in CLOCK_TEXTS if token.token_type == TokenType.STRING else token.text.upper() in CLOCKS
        if known and token.token_type != TokenType.IDENTIFIER:
            return str(token.text)
    return ""


def _parse(sql: str, read: Dialect, what: str) -> exp.Expression:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        trees = sqlglot.parse(f"SELECT 1 WHERE {sql}", dialect=read.sqlglot_dialect)
    except SqlglotError as error:
        raise BadExpression(f"{what} is not valid {read.name} SQL{error_position(error)}: {sql!r}") from None
    tree = trees[0] if len(trees) == 1 else None
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    extra = {name for name, value in tree.args.items() if value and name not in ("expressions", "where", "kind")} if tree else {"?"}
    if where is None or extra:
        raise BadExpression(f"{what} must be one expression, without other clauses: {sql!r}")
    condition: exp.Expression = where.this
    if condition.find(exp.Select, exp.Placeholder, exp.Parameter):
        raise BadExpression(f"{what} must not contain a subquery or a parameter: {sql!r}")
    return condition


def error_position(error: SqlglotError) -> str:
    """Return where the parser stopped. Its own message is left out, because it names internal classes."""
    at = [str(detail.get("highlight") or "") for detail in getattr(error, "errors", [])]
    return f", near {at[0]!r}" if at and at[0] else ""


def checked(sql: str, dialect: Dialect) -> str:
    """Return ``sql`` after parsing it, if CHECK_RENDERED_SQL is set. Raises ValueError for malformed SQL, which is a bug of the auditor.

    Parsing takes as long as a small scan, so statements that differ only in names, numbers and plain texts are parsed once.
    """
    if CHECK_RENDERED_SQL:
        check_shape(_shape(sql), dialect.sqlglot_dialect)
    return sql


_TEXT_OR_NAME = re.compile(r"""'(?:[^'\\]|'')*'|"[^"]*"|`[^`]*`|\b\d+\b""")
_PLAIN_TEXT = re.compile(r"'[\w .:+|-]*'")
_ALTERNATIVES = re.compile(r"(\([^()]*\))(?: OR \1)+")


def _shape(sql: str) -> str:
    """Return a statement with one name for all quoted names, one number for all numbers, one text for all plain texts, and one
    alternative of several that are equal then."""
    if "\\" in sql:  # in some dialects it escapes a quotation mark
        return re.sub(r"\b\d+\b", "1", sql)

    def shorten(match: re.Match[str]) -> str:
        first = match[0][0]
        if first == "'":
            return "'1'" if _PLAIN_TEXT.fullmatch(match[0]) else match[0]
        return f"{first}name{first}" if first in '"`' else "1"

    return _ALTERNATIVES.sub(r"\1", _TEXT_OR_NAME.sub(shorten, sql))


@cache
def check_shape(sql: str, sqlglot_name: str) -> None:
    """Raise ValueError if a statement, whose names and literals are shortened, cannot be parsed; one shape is parsed once."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        sqlglot.parse_one(sql, dialect=sqlglot_name)
    except SqlglotError as error:
        raise ValueError(f"rendered SQL is malformed: {error}\n{sql}") from error
