"""A difference: one row that is not equal, or a range of rows that one side lacks."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from auditor.model import DifferenceKind, Settling, Side
from auditor.shapes._shape import Shape

UNSETTLED = "`unsettled`: still changing when last rechecked."


class ColumnValues(Shape):
    """A column of a changed row, as canonical texts; null is NULL."""

    name: str
    source: str | None
    target: str | None
    reason: str = Field(description="Why two texts that look the same differ, e.g. `Unicode form`; empty for others.")


class Recheck(Shape):
    """When a difference was read again, and what was found."""

    at: dt.datetime
    outcome: str = Field(description="`same` as before, `moved` (changed since the last recheck), `in flight`, or `equal` by now.")


class RowRange(Shape):
    """Consecutive rows that one side lacks entirely."""

    label: str = Field(description="The range's keys, for display.")
    first: str | None = Field(description="The first key.")
    last: str | None = Field(description="The last key.")
    rows: int
    partitions: int


class Difference(Shape):
    """A row that is not equal, or a range of rows that one side lacks."""

    number: int = Field(description="Position in the run's list of differences, ascending.")
    kind: DifferenceKind
    state: Settling = Field(description=UNSETTLED)
    key: dict[str, str | None] | None = Field(description="The key's columns; null for a range.")
    range: RowRange | None
    rows: dict[Side, int] = Field(description="For each side, how many such rows it has beyond those of the other.")
    columns: tuple[ColumnValues, ...] = Field(description="The columns of a changed row that differ.")
    rechecks: tuple[Recheck, ...] = Field(description="The rechecks of this difference.")
    shards: tuple[str, ...] = Field(description="The shards that hold the source's rows; empty for a source of one table.")
    doubled: bool = Field(description="Whether several shards hold the key, of which each row should be on one.")
