"""Live summaries of a source, which its change stream keeps: one epoch of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

EpochState = Literal["wanted", "scanning", "kept", "ended"]
"""``wanted``: the pipeline shall sum up what comes. ``scanning``: the source is read as of the epoch's place, behind which everything is
summed up already. ``kept``: base and sums are there. ``ended``: they are no longer, and ``reason`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEpoch:
    """The time in which the stream keeps one audit's summaries of its source under one plan, salt and layout."""

    id: str
    """16 hexadecimal digits."""
    audit: str
    """Name of the audit."""
    pipeline: str
    """Name of the pipeline that carries the audit's table."""
    target: str
    """The pipeline's name of the target that the audit reads, in which the sums are."""
    table: str
    """The table as the stream calls it, ``database.table``."""
    fingerprint: str
    """What two plans have in common whose summaries are of the same rows, columns and texts: `auditor.planning.live.fingerprint`."""
    layout: str
    """How a key becomes a partition and a position in it: ``range 3072`` is floor(key / 3072), of every whole number; ``hash 1024`` the
    bucket of the key's number. Both are defined for every key, also for keys that did not exist when the epoch began."""
    plan: Mapping[str, Any]
    """The plan as JSON, as runs store theirs; its salt and its partitioning are those of the epoch."""
    where: str
    """The audit's filter in the portable language; '' for all rows."""
    state: EpochState
    position: int = 0
    """P, where the base was scanned, as a position of the stream; 0 until the source's snapshot is open."""
    log_place: str = ""
    """P as the source says it, ``FILE:POS``."""
    begun_at: dt.datetime | None = None
    """The source's clock at P."""
    proved_position: int = 0
    """Where the sums were last equal to a scan of the source, or were made so; at first P."""
    proved_log_place: str = ""
    proved_at: dt.datetime | None = None
    """The source's clock there."""
    ended: dt.datetime | None = None
    """When it ended, by the store's clock; None while it lasts."""
    reason: str = ""
    """Why it ended, as a sentence; '' while it lasts."""

    @property
    def salt(self) -> str:
        """The salt of the row texts, which is kept through the epoch."""
        return str(self.plan.get("salt", ""))
