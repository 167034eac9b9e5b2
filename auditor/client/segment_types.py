"""What the API answers about segment audits."""

from __future__ import annotations

from typing import TypedDict


class SideOfTable(TypedDict):
    """What a side registered of a table."""

    segments: int
    events: int
    through: str | None
    lag_seconds: float


class SegmentFinding(TypedDict):
    """A stretch of a table's stream that two sides do not have alike."""

    kind: str
    side: str | None
    sentence: str


class ComparedTable(TypedDict):
    """What was compared of a table."""

    table: str
    matches: int
    matched_events: int
    matched_through: str | None
    is_compared: bool
    sides: dict[str, SideOfTable]
    findings: list[SegmentFinding]


class SegmentAuditStatus(TypedDict):
    """A segment audit: two writers of one change stream, compared segment by segment."""

    audit: str
    sides: list[str]
    max_lag: float
    lag_seconds: float
    status: str
    refused: str
    paused: bool
    run: str | None
    verified_through: str | None
    tables: list[ComparedTable]


class RegisteredEntry(TypedDict):
    """A segment that a side registered, and the verdict on it."""

    table: str
    side: str
    verdict: str
    start: list[int]
    end: list[int]
    other: list[int] | None
    rows: int
    schema_id: str
    sha256: str
    first: int
    last: int
    gtid: str | None
    began: str
    ended: str
    registered: str | None
