"""Segments of a pipeline's stream, and segment audits, which compare those of two writers."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from auditor.api_models import ApiModel
from auditor.model import FindingKind, SegmentVerdict, Verdict


class SegmentEntry(ApiModel):
    """A segment of a table's events, known by its table and last event; equal segments have equal digests."""

    table: str
    first: int = Field(description="Position of its first event.")
    first_row: int = Field(description="Row of the first event within its transaction.")
    last: int
    last_row: int
    rows: int
    bytes: int = Field(description="Bytes of the text that is hashed.")
    schema_id: str
    sha256: str
    encoding: int = Field(description="Version of the text that is hashed.")
    path: str = Field(description="Of its file, relative to the folder of the staging, or to that of the archive.")
    began: dt.datetime
    ended: dt.datetime
    gtid: str | None


class CheckedSegment(SegmentEntry):
    """A segment, and what is wrong with its file."""

    first_gtid: str | None
    wrong: str | None = Field(description="Null if nothing is wrong, or the file was not read.")


class SideOfTable(ApiModel):
    """What a side registered of a table."""

    segments: int
    events: int
    through: dt.datetime | None = Field(description="When the source committed the last event that the side registered.")
    lag_seconds: float = Field(description="Seconds since the other side has a segment that this one lacks; 0 if there is none.")


class DifferentValue(ApiModel):
    """How many events with one value of a column, as a customer's number, differ between the two sides."""

    value: str | None = Field(description="As events have it; null for NULL, `***` for all values of a masked column.")
    lacking: dict[str, int] = Field(description="By side, the events that it lacks and the other one has.")
    altered: int = Field(description="Events that both have, with other contents.")


class SegmentFinding(ApiModel):
    """A stretch of a table's stream that two sides do not have alike."""

    kind: FindingKind
    side: str | None = Field(description="The side that lacks or doubled it; null where the two differ.")
    sentence: str = Field(description="What is wrong, with its positions, and whose events differ.")
    by: str | None = Field(description="The column by whose values it was opened; null if it was not.")
    buckets: list[int] | None = Field(description="The buckets of this column, of 256, that are unequal; null if that is not known.")
    values: list[DifferentValue] = Field(description="Whose events differ, those with most of them first.")
    more_values: int = Field(description="Values beyond these whose events differ.")


class ComparedTable(ApiModel):
    """What was compared of a table."""

    table: str
    matches: int = Field(description="Pairs of equal segments.")
    matched_events: int
    matched_through: dt.datetime | None = Field(description="When the source committed the last event before anything differs.")
    is_compared: bool = Field(description="Whether both sides have a segment that begins at the same place.")
    sides: dict[str, SideOfTable]
    findings: list[SegmentFinding]
    notes: list[str] = Field(description="Why some segments were not compared, or have no digests by bucket.")


class SegmentAuditStatus(ApiModel):
    """A segment audit: two writers of one change stream, compared segment by segment."""

    audit: str
    sides: list[str] = Field(description="Two pipelines; or one, and `anew` for its source's log, read again.")
    max_lag: float = Field(description="Seconds for which a side may be awaited before the verdict is unknown.")
    lag_seconds: float = Field(description="Seconds since the slower side is awaited; 0 if none is.")
    status: Literal["mismatch", "unknown", "stale", "never", "running", "within_threshold", "match"]
    refused: str = Field(description="Why segments of the two sides are not comparable; empty if they are.")
    paused: bool
    run: str | None = Field(description="The run of the last verdict.")
    verified_through: dt.datetime | None
    tables: list[ComparedTable]


class ConcludedSegmentAudit(SegmentAuditStatus):
    """A segment audit, and the verdict that its register gives now."""

    verdict: Verdict
    reasons: list[str]


class RegisteredEntry(ApiModel):
    """A segment that a side registered, and the verdict on it."""

    table: str
    side: str
    verdict: SegmentVerdict = Field(description="By the first segment of the other side whose start is not before its own.")
    start: list[int] = Field(description="Place of its first event: position (or number of the global id), and row.")
    end: list[int]
    other: list[int] | None = Field(description="Where the other side's segment starts, or ends after an end mismatch.")
    rows: int
    schema_id: str
    sha256: str
    first: int = Field(description="Position of its first event in the log that its writer read.")
    last: int
    gtid: str | None
    began: dt.datetime
    ended: dt.datetime
    registered: dt.datetime | None
