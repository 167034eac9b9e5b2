"""Render the statement that reads rows of a source for a dump."""

from __future__ import annotations

from collections.abc import Sequence

from auditor import canonical
from auditor.sql.user_sql import checked
from dialects import Dialect, Kind
from sql_templates import fill


def read_rows(dialect: Dialect, table: str, values: Sequence[str], where: str) -> str:
    """Return the statement that yields these values (SQL text) of the rows of a table (SQL text) that meet a condition."""
    return checked(fill(dialect.template("values"), {"values": ", ".join(values), "table": table, "where": where}), dialect)


def value(dialect: Dialect, expression: str, native: Kind | None, stored: Kind) -> str:
    """Return SQL of a column's value as a dump stores it, in a column of the kind ``stored``: with nothing lost.

    A floating-point number stays one, in double precision, which its text would not be on every engine. ``native`` is the kind of the
    column; None if it has no canonical text, and is printed as its engine prints it.
    """
    if native is None:
        return dialect.as_text(expression)
    if native.name in canonical.FLOATS:
        return expression if native.name == "float64" else dialect.as_double(expression)
    shared = canonical.shared_kind(native, stored)
    return dialect.canonical_text(shared.kind if shared else native, expression, native)
