"""The portable language of filters and values: one meaning on every engine.

``parse`` and ``parse_value`` make a tree of the text, ``bind`` and ``bind_value`` compute what the clock and literals decide, and
``Renderer`` writes one side's SQL. ``docs/filters.md`` documents the language; ``_parser`` has its grammar.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from auditor.errors import BadExpression
from auditor.sql.filter._bind import bind, bind_value
from auditor.sql.filter._parser import WAY_OUT, parse, parse_value
from auditor.sql.filter._render import FilterColumn, Renderer
from auditor.sql.filter._tree import Condition, Operand, column_names, reads_clock
from auditor.sql.filter._values import Value, of_kind

__all__ = [
    "WAY_OUT",
    "Condition",
    "FilterColumn",
    "Operand",
    "Renderer",
    "Value",
    "bind",
    "bind_value",
    "column_names",
    "naming",
    "of_kind",
    "parse",
    "parse_value",
    "reads_clock",
]


@contextmanager
def naming(what: str, way_out: str = WAY_OUT) -> Iterator[None]:
    """Let errors of the language begin with the setting in which a text stands, and end with the way out that this setting has."""
    try:
        yield
    except BadExpression as error:
        raise BadExpression(f"{what}: {str(error).replace(WAY_OUT, way_out)}") from error.__cause__
