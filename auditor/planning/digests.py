"""Decide whether the stretches of a pre-scan are read by digests: one hash of the texts of many rows, in the order of the key."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.model import SIDES, Plan, Side
from auditor.planning.columns import Endpoint
from auditor.sql.prescan import most_bytes

AIM_ROWS = 1 << 14
"""Rows of a stretch where nothing asks for fewer: about 64 stretches of a million rows."""

LEAST_ROWS = 1_000
"""Rows of a stretch below which each row is hashed on its own."""

ROOM = 1.25
"""How many times more rows than expected a stretch may hold before it is left to the method."""

KEYS = 1 << 62
"""Integers from which on the end of a stretch might not fit into 64 bits."""


def find_digest_rows(plan: Plan, ends: Mapping[Side, Endpoint]) -> tuple[int, int]:
    """Return the most rows whose texts are hashed as one, and the partitions of such a stretch; zeros where stretches have no digests.

    They have one where both tables have the audit's integer key as their primary key, so that an index yields the rows in its order, and
    where the columns' types, or a limit that costs little, say how long the texts of so many rows can be.
    """
    if plan.partitioning.strategy != "range" or not has_primary_key(plan, ends):
        return 0, 0
    if {native.name for native in plan.columns[0].native.values()} != {"integer"}:
        return 0, 0
    if plan.least is None or plan.greatest is None or not -KEYS < plan.least <= plan.greatest < KEYS:
        return 0, 0
    most = most_joined_rows(plan, ends)
    partitions = int(min(AIM_ROWS, most / ROOM) // plan.rows_per_partition)
    return (most, partitions) if partitions and most >= LEAST_ROWS else (0, 0)


def has_primary_key(plan: Plan, ends: Mapping[Side, Endpoint]) -> bool:
    """Return whether the audit's key is the primary key of both tables, column by column, and its index yields all rows in its order."""
    if set(plan.read_sides) != set(SIDES):
        return False
    keys = {side: [column.expression[side] for column in plan.key_columns] for side in SIDES}
    return all(
        keys[side] == [end.dialect.quote(name) for name in end.table.primary_key] and end.table.yields_in_order
        for side, end in ends.items()
    )


def most_joined_rows(plan: Plan, ends: Mapping[Side, Endpoint]) -> int:
    """Return the most rows whose texts both engines hash as one; 0 where the columns' types do not say how long these can be."""
    most = AIM_ROWS * 4
    for side in SIDES:
        row = most_bytes(plan.columns, side, plan.salt)
        if row is None:
            return 0
        most = min(most, ends[side].dialect.MAX_JOINED_BYTES // row)
    return most
