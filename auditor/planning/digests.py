"""Decide whether the stretches of a pre-scan are read by digests: one hash of the texts of many rows, in the order of the key."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.model import SIDES, Plan, Side
from auditor.planning.columns import Endpoint
from auditor.sql.stretches import most_bytes

AIM_ROWS = 1 << 14
"""Rows of a stretch where nothing asks for fewer: about 64 stretches of a million rows."""

LEAST_ROWS = 1_000
"""Rows of a stretch below which each row is hashed by itself."""

ROOM = 1.25
"""How many times more rows than expected a stretch may hold before it is left to the method."""

KEYS = 1 << 62
"""Integers from which on the end of a stretch might not fit into 64 bits."""


def find_digest_rows(plan: Plan, ends: Mapping[Side, Endpoint]) -> tuple[int, int]:
    """Return the most rows whose texts are hashed as one, and the partitions of such a stretch; zeros where stretches have no digests.

    They have one where both tables have the audit's integer key as their primary key, so that an index yields the rows in its order, and
    where the columns' types, or a limit that costs little, say how long the texts of so many rows can be.
    """
    if plan.partitioning.strategy != "range" or not _is_primary_key(plan, ends):
        return 0, 0
    if plan.least is None or plan.greatest is None or not -KEYS < plan.least <= plan.greatest < KEYS:
        return 0, 0
    most = AIM_ROWS * 4
    for side in SIDES:
        row = most_bytes(plan.columns, side, plan.salt)
        if row is None:
            return 0, 0
        most = min(most, ends[side].dialect.MAX_JOINED_BYTES // row)
    partitions = int(min(AIM_ROWS, most / ROOM) // plan.rows_per_partition)
    return (most, partitions) if partitions and most >= LEAST_ROWS else (0, 0)


def _is_primary_key(plan: Plan, ends: Mapping[Side, Endpoint]) -> bool:
    """Return whether the key is one integer column, and by itself the primary key of both tables."""
    if plan.key > 1 or set(plan.read_sides) != set(SIDES):
        return False
    column = plan.columns[0]
    return all(
        len(end.table.primary_key) == 1
        and not end.table.in_parts
        and column.expression[side] == end.dialect.quote(end.table.primary_key[0])
        and column.native[side].name == "integer"
        for side, end in ends.items()
    )
