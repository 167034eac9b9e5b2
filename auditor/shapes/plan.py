"""A plan: how an audit compares its tables."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from auditor.model import Leveling, Side
from auditor.shapes._shape import Shape


class PlanColumn(Shape):
    """How a column is compared."""

    name: str
    kind: str = Field(description="The canonical kind that both sides are compared as.")
    source_type: str = Field(description="The column's type in the source.")
    target_type: str = Field(description="The column's type in the target.")
    why: str = Field(description="Why this canonical kind was chosen.")
    masked: bool = Field(description="Whether the column's values are hidden everywhere.")
    tolerance: str | None = Field(description="How far two values may differ and still count as equal.")


class NotCompared(Shape):
    """Something that the comparison does not see, or takes for granted."""

    column: str | None = Field(
        description="The source's name of the column, or the target's if only the target has it; null for whole rows."
    )
    side: Side | None = Field(description="The side whose values are levelled; null for both.")
    how: Leveling = Field(
        description="How values are levelled; left out: the column, or rows by its value, are not compared at all; hidden: the server may "
        "hide rows, columns or values from the session."
    )
    what: str = Field(description="What is not seen, in words.")


class Plan(Shape):
    """How an audit compares its tables; `k`, `t`, `bits`, `salt` and `hash` as in the configuration."""

    partitioning: str = Field(description="How rows are assigned to partitions, in words.")
    partitioning_why: str = Field(description="Why this partitioning was chosen.")
    prescan: bool | None = Field(
        description="Whether one signature for each of a few parts of the table is read first; null where that is decided by the run."
    )
    prescan_why: str | None = Field(description="Why it is, or is not; null where prescan is.")
    hash: Literal["sha256", "md5"] = Field(description="The hash of a row's text.")
    encoding: Literal["injective", "published"] = Field(description="How a row becomes text.")
    k: int = Field(description="Minhashes per partition; 0 without.")
    t: int = Field(description="Differences per partition that the method exact can name from one scan; 0 for other methods.")
    bits: int = Field(description="Bits of the row hash that the signature sums.")
    salt: str = Field(description="Text that every row text begins with.")
    key: tuple[str, ...] = Field(description="The key's columns, in order.")
    columns: tuple[PlanColumn, ...]
    not_compared: tuple[NotCompared, ...] = Field(
        description="Everything that the comparison does not see or takes for granted. What is not listed here is compared in full."
    )
    notes: tuple[str, ...] = Field(description="Further remarks on the plan.")
    snapshot: Literal["whole", "per_chunk"] = Field(
        description="whole: each side is read in one snapshot; per_chunk: each chunk is read in its own."
    )
    watermark: str | None = Field(
        description="Rows from this moment on (UTC) were left out on both sides, as they may be in flight; null if none were."
    )
    partition_ranges: tuple[tuple[int, int], ...] = Field(
        description="The ranges of partition ids that were compared, each as [first, end) with end excluded; empty: all."
    )


class CheckedAudit(Shape):
    """What `auditor check` found of an audit: its plan, or the error that prevents it."""

    audit: str
    error: str | None
    plan: Plan | None


class ConsoleScripts(Shape):
    """The SQL to paste into each side's console; null for a side that was not asked for."""

    source: str | None = None
    target: str | None = None
