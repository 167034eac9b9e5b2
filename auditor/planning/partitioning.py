"""Choose the partitions of an audit: how many, of what size, and by what: the whole table, ranges or hashes of the key, or times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from auditor.config import Audit
from auditor.errors import PlanError
from auditor.model import SIDES, Partitioning, Plan, Side, side_of

COUNTS_ROWS = 1 << 20
"""Least aim of rows per partition for the method counts, if its partitions have no configured size: its summaries are large."""

FINER_FROM, FINER_PARTITIONS = 1 << 16, 512
"""Rows from which the method exact cuts a table into at least this many partitions, unless rows of a partition are configured: 1 % of
differing rows is then named from one scan. A second scan of a smaller table costs nothing that anybody notices, and of a table with as many
partitions of the usual size the summaries would become large."""

MAX_KEYS_PER_ROW = 64
"""Most possible keys per row for range partitions; sparser keys get hash partitions."""

SIZE_MULTIPLE = 32
"""Sizes of large range partitions, and of those that are cut finer, are multiples of this, so that a second scan can divide them evenly."""

MAX_RANGE_KEYS = 2**31 - SIZE_MULTIPLE
"""Most keys of a range partition, so that positions stay below p = 2^31 - 1."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The extent of one side's rows."""

    rows: int
    """Rows, counted or estimated."""
    least: int | None = None
    """Least key; None if there are no rows or the key is not one integer column."""
    greatest: int | None = None
    """Greatest key; None where ``least`` is."""
    even: bool | None = None
    """Whether sparse keys are distributed about uniformly between these; None if that was not checked."""


def count_rows(bounds: Mapping[Side, Bounds]) -> dict[Side, int]:
    """Return about how many rows both sides have; those of shards add up."""
    rows: dict[Side, int] = dict.fromkeys(SIDES, 0)
    for side, side_bounds in bounds.items():
        rows[side_of(side)] += side_bounds.rows
    return rows


def choose_partitioning(plan: Plan, audit: Audit, bounds: Mapping[Side, Bounds]) -> Partitioning:
    """Return how the table is cut, by its size, its key and what the audit says. Raises PlanError if that does not fit the key."""
    how = _choose(plan, audit, bounds)
    if how.strategy == "range" and how.size < 2 and plan.columns[0].kind.unsigned:
        raise PlanError(f"audit {plan.audit}: partitions of an unsigned key hold at least 2 keys; write size: 2 or more")
    return how


def _choose(plan: Plan, audit: Audit, bounds: Mapping[Side, Bounds]) -> Partitioning:
    settings = audit.partition
    if plan.method == "counts" and not (settings.strategy or settings.size or settings.buckets or settings.column):
        return Partitioning(strategy="whole", why="the method counts measures the whole table")
    rows = max(count_rows(bounds).values())
    aim = max(_aim(plan, audit, rows), math.ceil(rows / settings.limit))
    if settings.strategy == "time" or (settings.column and settings.strategy is None):
        return _time_partitioning(plan, audit)
    buckets = settings.buckets or max(1, min(settings.limit, math.ceil(rows / aim)))
    if settings.strategy == "hash" or settings.buckets:
        return Partitioning(strategy="hash", buckets=buckets, why="the audit says so")
    if not plan.has_integer_key:
        if (settings.strategy == "range" or settings.size) and plan.columns[0].masked:
            raise PlanError(f"audit {plan.audit}: range partitions would reveal values of its masked key; write strategy: hash")
        if settings.strategy == "range" or settings.size:
            raise PlanError(f"audit {plan.audit}: range partitions need a key of one integer column; write strategy: hash")
        why = "the key is masked" if any(column.masked for column in plan.key_columns) else "the key is not one integer column"
        return Partitioning(strategy="hash", buckets=buckets, why=why)
    if settings.size:
        return Partitioning(strategy="range", size=settings.size, why="the audit says so")
    span = _span(bounds)
    size = max(1, math.ceil(aim * span / max(rows, 1)))
    sparse = [side_bounds.even for side, side_bounds in bounds.items() if side != "target"]
    even = all(sparse) and bounds["target"].even is not False
    if even and span <= MAX_RANGE_KEYS * settings.limit:
        size = min(size, MAX_RANGE_KEYS)
    if settings.strategy == "range" or size <= min(aim * MAX_KEYS_PER_ROW, MAX_RANGE_KEYS) or (even and size <= MAX_RANGE_KEYS):
        size = max(size, math.ceil(span / settings.limit))
        if SIZE_MULTIPLE**2 < size < MAX_RANGE_KEYS:
            size = math.ceil(size / SIZE_MULTIPLE) * SIZE_MULTIPLE
        elif aim < settings.rows:  # cut finer, with room below the limit
            size -= size % SIZE_MULTIPLE
        return Partitioning(strategy="range", size=max(2, size), why=f"an integer key, {_span_text(span, rows)}")
    return Partitioning(strategy="hash", buckets=buckets, why=f"the key is sparse: {_span_text(span, rows)}")


def _aim(plan: Plan, audit: Audit, rows: int) -> int:
    """Return how many rows a partition should hold, of a table of so many: a power of two where the table is cut finer than usual."""
    configured = audit.partition.rows
    if plan.method == "counts":
        return max(configured, COUNTS_ROWS)
    if plan.method != "exact" or rows < FINER_FROM or "rows" in audit.partition.model_fields_set:
        return configured
    return min(configured, 1 << (rows // FINER_PARTITIONS).bit_length() - 1)


def _span_text(span: int, rows: int) -> str:
    return f"{span:,} possible values for about {rows:,} rows"


def _span(bounds: Mapping[Side, Bounds]) -> int:
    """Return the number of possible keys from the least to the greatest of both sides, at least 1."""
    least = [b.least for b in bounds.values() if b.least is not None]
    greatest = [b.greatest for b in bounds.values() if b.greatest is not None]
    return max(greatest) - min(least) + 1 if least and greatest else 1


def _time_partitioning(plan: Plan, audit: Audit) -> Partitioning:
    name = audit.partition.column
    if not name:
        raise PlanError(f"audit {plan.audit}: time partitions need a column: partition: {{strategy: time, column: ...}}")
    for index, column in enumerate(plan.columns):
        if column.name.lower() == name.lower():
            if column.masked:
                raise PlanError(
                    f"audit {plan.audit}: time partitions would reveal values of the masked column {name!r}; write another column, or"
                    " strategy: hash"
                )
            if column.null_as is not None:
                raise PlanError(f"audit {plan.audit}: partitions are cut by the column {name!r}: it cannot have null_as; remove it")
            kinds = {n.name for n in column.native.values()}
            if audit.partition.unit == "hour" and "date" in kinds | {column.kind.name}:
                raise PlanError(
                    f"audit {plan.audit}: the column {name!r} of its time partitions has no hours"
                    f" ({' and '.join(column.types[side] for side in SIDES)}, compared as {column.kind}); write unit: day"
                )
            if kinds <= {"date", "timestamp", "timestamptz"}:
                return Partitioning(strategy="time", unit=audit.partition.unit, column=index, why="the audit says so")
            raise PlanError(
                f"audit {plan.audit}: the column {name!r} of its time partitions holds no dates or timestamps; write another column"
            )
    raise PlanError(f"audit {plan.audit}: the column {name!r} of its time partitions is not compared; include it, or write another column")
