"""SQL of the stretches between cuts of a table's key: ranges of its first column, numbered from 1.

Rows whose key is below the first cut or from the last on are the stretch 0, of which there are none where both tables' keys are ordered as
the cuts are. So every row is in one stretch, by each engine's own comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import sql_templates
from auditor.model import Plan, Side, consecutive_ranges
from auditor.sql.user_sql import checked
from dialects import Dialect

OUTSIDE = 0
"""The stretch of rows that lie between no two cuts."""


def ends(plan: Plan, side: Side, dialect: Dialect, is_text: bool) -> str:
    """Return the statement that reads the least and the greatest value of the key's first column, by an index that begins with it."""
    column = plan.columns[0]
    key, native = column.expression[side], column.native[side].name
    value = key if not is_text else dialect.hex_text(key) if native == "binary" else dialect.as_text(key)
    return checked(
        sql_templates.fill(dialect.template("key_ends"), {"p": plan.prefix, "key": key, "value": value, "table": plan.sides[side].table}),
        dialect,
    )


def stretches(plan: Plan, side: Side, dialect: Dialect) -> list[str]:
    """Return a statement for each stretch between cuts, from 1 on, that reads its rows."""
    template, last = dialect.template("key_range"), len(_cuts(plan, side)) - 1
    return [
        checked(sql_templates.fill(template, {"table": plan.sides[side].table, "where": condition(plan, side, [number])}), dialect)
        for number in range(1, last + 1)
    ]


def crossings(plan: Plan, side: Side, dialect: Dialect) -> str:
    """Return the statement that reads a row for each two neighbouring cuts between which rows lie in the wrong order, each by the index."""
    key, cuts, template = plan.columns[0].expression[side], _cuts(plan, side), dialect.template("key_crossing")
    each = [
        sql_templates.fill(template, {"table": plan.sides[side].table, "key": key, "first": first, "end": end})
        for end, first in pairwise(cuts)
    ]
    checked(each[0], dialect)
    return "\nUNION ALL\n".join(f"({statement.rstrip()})" for statement in each)


def condition(plan: Plan, side: Side, numbers: Sequence[int]) -> str:
    """Return the condition of the rows in these stretches."""
    key, cuts = plan.columns[0].expression[side], _cuts(plan, side)
    inside = consecutive_ranges([number for number in numbers if number != OUTSIDE])
    conditions = [f"({key} >= {cuts[first - 1]} AND {key} < {cuts[last]})" for first, last in inside]
    if OUTSIDE in numbers:
        conditions.append(f"({key} < {cuts[0]} OR {key} >= {cuts[-1]})")
    return " OR ".join(conditions)


def _cuts(plan: Plan, side: Side) -> tuple[str, ...]:
    assert plan.prescan is not None and plan.prescan.cuts, "only of plans whose key was cut"
    return plan.prescan.cuts[side]
