"""What a statement reads of a side: its table, or the table with the rank of each row among the rows of its key."""

from __future__ import annotations

import sql_templates
from auditor.model import Chunk, Plan, Side, SidePlan
from auditor.sql.user_sql import checked
from dialects import Dialect


def relation(here: SidePlan, dialect: Dialect, within: str = "") -> str:
    """Return SQL of what is read of a side, as it stands after FROM.

    ``within`` is a condition of the rows that are read which the key alone decides, so that all rows of a key meet it or none does: ranks
    are computed of those rows alone, and an index, or the order in which the table is stored, serves it. Other conditions belong to the
    statement's WHERE, because a row of an older version may meet one that the latest does not.
    """
    versions = here.versions
    if versions is None:
        return here.table
    holes = {
        "p": versions.prefix,
        "key": ", ".join(versions.key),
        # A column without a value is older than any; engines differ about where they put it.
        "latest": ", ".join(f"CASE WHEN {column} IS NULL THEN 1 ELSE 0 END, {column} DESC" for column in versions.latest),
        "table": here.table,
        "where": within or "1 = 1",
    }
    ranked = sql_templates.fill(dialect.template("versions"), holes)
    return f"({ranked}) {versions.prefix}ranked_rows"


def of_chunk(plan: Plan, side: Side, dialect: Dialect, chunk: Chunk) -> str:
    """Return SQL of what a chunk reads of a side, with ranks of the rows in its range of keys alone."""
    return relation(plan.sides[side], dialect, key_condition(plan, side, chunk))


def key_condition(plan: Plan, side: Side, chunk: Chunk) -> str:
    """Return the condition of a chunk's range of keys, by plain comparisons for which an index can be used; empty for all keys."""
    key = plan.columns[0].expression[side]
    conditions = [f"{key} IS NULL"] if chunk.null_key else []
    if chunk.first is not None:
        conditions.append(f"{key} >= {chunk.first}")
    if chunk.end is not None:
        conditions.append(f"{key} < {chunk.end}")
    return " AND ".join(conditions)


def hidden_rows(here: SidePlan, dialect: Dialect) -> str:
    """Return the statement that counts what a side's convention hides: rows that are not current, and current rows that are flagged.

    Of a table that keeps versions it also counts the keys that have several rows of their latest version.
    """
    assert here.follows
    holes = {
        "current": here.follows.current or "1 = 1",
        "flagged": here.follows.flagged or "1 = 0",
        "table": relation(here, dialect),
    }
    if here.versions is None:
        return checked(sql_templates.fill(dialect.template("hidden"), holes), dialect)
    holes |= {"p": here.versions.prefix, "key": ", ".join(here.versions.key)}
    return checked(sql_templates.fill(dialect.template("hidden_versions"), holes), dialect)
