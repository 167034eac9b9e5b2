"""What the API answers about pipelines, but for their lag."""

from __future__ import annotations

from typing import Literal, TypedDict


class StagedTable(TypedDict):
    """What a pipeline's staging holds of a table."""

    parts: int
    events: int
    bytes: int


class TargetTable(TypedDict):
    """What a target of a pipeline holds and lacks of a table."""

    position: int
    through: str | None
    events: int
    state: str
    reason: str
    pending_events: int
    pending_bytes: int
    lag_seconds: float


class TargetStatus(TypedDict):
    """What a target of a pipeline holds and lacks."""

    pending_events: int
    pending_bytes: int
    lag_seconds: float | None
    max_lag: float
    tables: dict[str, TargetTable]


class StoppedTable(TypedDict):
    """Events that stop a table, or did so until somebody skipped them."""

    table: str
    place: str
    through: str
    events: int
    time: str
    stage: Literal["decoding", "staging", "merge", "statement"]
    target: str | None
    reason: str
    skipped_by: str | None
    skipped_at: str | None
    skip_reason: str | None


class Migration(TypedDict):
    """How a target's table was brought from one schema to the next, or why it was not."""

    target: str
    table: str
    place: str
    state: Literal["planned", "applied", "refused"]
    statements: list[str]
    said: list[str]
    reason: str
    at: str | None
    ended: str | None


class Heartbeat(TypedDict):
    """A heartbeat that came with the stream."""

    database: str
    serial: int
    at: str
    age_seconds: float


class LiveSummaries(TypedDict):
    """What a pipeline keeps of an audit's source: its newest live summaries."""

    audit: str
    table: str
    target: str
    state: Literal["wanted", "scanning", "kept", "ended"]
    since: str | None
    since_place: str
    proved: str | None
    proved_place: str
    ended: str | None
    reason: str


class PipelineStatus(TypedDict):
    """How a pipeline stands."""

    pipeline: str
    running: bool
    paused: bool
    paused_by: str
    paused_at: str | None
    reason: str
    staged_through: int | None
    staged_time: str | None
    staged_at: str | None
    events: int
    heartbeat: Heartbeat | None
    lag_seconds: float | None
    lag_bytes: int | None
    max_lag: float
    log_end: str | None
    log_expires: float | None
    seen_at: str | None
    began: str | None
    free_bytes: int | None
    batch: dict[str, float]
    warnings: list[str]
    notes: list[str]
    tables: dict[str, StagedTable]
    stopped: list[StoppedTable]
    skipped: list[StoppedTable]
    migrations: list[Migration]
    live_summaries: list[LiveSummaries]
    targets: dict[str, TargetStatus]


class BootstrapEntry(TypedDict):
    """A bootstrap of a table of a pipeline."""

    refresh: str
    pipeline: str
    table: str
    ranges: int
    keys: int
    state: str
    who: str
    at: str
    ended: str | None
    rows: int
    chunks: int
    seconds: float
    longest: float
    reason: str


class PipelinePause(TypedDict):
    """Whether a pipeline stands still by request."""

    pipeline: str
    paused: bool


class SegmentEntry(TypedDict):
    """A segment of a table's events, known by its table and last event."""

    table: str
    first: int
    first_row: int
    last: int
    last_row: int
    rows: int
    bytes: int
    schema_id: str
    sha256: str
    encoding: int
    path: str
    began: str
    ended: str
    gtid: str | None
