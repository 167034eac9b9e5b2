"""A pipeline: its status, that of its targets and their tables, its problems, what it lags behind, and refreshes through its stream.

The fields of a status are set in `auditor/service/pipeline_status.py`.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal, NamedTuple

from pydantic import Field

from auditor.api_models import ApiModel
from auditor.model import EpochState

MergeState = Literal["merged", "delayed", "stopped"]
"""Whether a target's table continues, is retried, or needs a person."""

TableState = Literal["waiting", "merged", "delayed", "stopped"]
"""The same, and ``waiting`` where nothing was merged yet."""

MigrationState = Literal["planned", "applied", "refused"]

ProblemKind = Literal["down", "failing", "stopped", "lagging"]
"""No process runs the pipeline; staging fails; a table of a target is stopped; pipeline or table lag behind more than they may."""


class StagedBatch(ApiModel):
    """The last batch that had events."""

    events: int
    bytes: int
    seconds: float


class PartitionLag(ApiModel):
    """How far a partition of a topic was read."""

    topic: str
    partition: int
    offset: int = Field(description="The next offset that is read.")
    end: int = Field(description="The offset behind the last message whose transaction is decided.")


class PipelineProgress(ApiModel):
    """What was last seen of a pipeline's source and staging. A running pipeline stores it."""

    at: dt.datetime | None = None
    """When it was seen; None if the pipeline never ran."""
    began: dt.datetime | None = None
    """When the process began that saw it; only of one that runs the pipeline."""
    log_end: str | None = None
    """Where the source's binary log ends, ``FILE:POS``."""
    log_expires: int | None = None
    """Seconds after which the source deletes a file of its log; None if never."""
    lag_bytes: int | None = None
    """Bytes of the log after the last batch; None before the first one, and of topics."""
    lag_messages: int | None = None
    """Of topics, how many offsets lie behind the last batch; None of a log."""
    partitions: list[PartitionLag] = []
    """Of topics, each partition that is not read to its end, those with most first."""
    current_at: dt.datetime | None = None
    """When the log last ended where staging is now: its lag in seconds is the time since then."""
    free_bytes: int | None = None
    """Free on the disk of the staging's folder."""
    needed_bytes: int | None = None
    """Free bytes below which a warning is reported."""
    batch: StagedBatch | None = None
    warnings: list[str] = []
    notes: list[str] = []
    """What a person should know of the source's server, a sentence each."""

    @property
    def is_at_end(self) -> bool:
        """Whether staging was where the source ended."""
        return 0 in (self.lag_bytes, self.lag_messages)


class StagedTable(ApiModel):
    """What the staging's folder holds of a table."""

    parts: int
    events: int
    bytes: int


class TableStatus(ApiModel):
    """What a target holds of a table, and what is missing there."""

    position: int = Field(description="Up to which position the target holds the table; 0 for none.")
    through: dt.datetime | None = Field(description="When the source committed the last event that it holds.")
    events: int = Field(description="Events merged since the pipeline began.")
    state: TableState = Field(description="`waiting`: nothing was merged yet; `delayed`: it is retried; `stopped`: it needs a person.")
    reason: str = Field(description="Why it is delayed or stopped; empty if it is not.")
    pending_events: int
    pending_bytes: int
    lag_seconds: float = Field(description="Age of the oldest part that is missing there, in seconds.")


class PublishedTopic(ApiModel):
    """The topic into which a table is published."""

    topic: str
    ends: list[int] = Field(description="For each partition the offset behind the last message; 0 for none.")


class TopicsStatus(ApiModel):
    """What is published into the topics of a target, as its publisher reported it last."""

    at: dt.datetime | None = None
    committed: int = Field(0, description="Transactions since the target began.")
    aborted: int = Field(0, description="Transactions that were undone because a message was refused, and published again without it.")
    topics: dict[str, PublishedTopic] = Field({}, description="By table.")


class TargetStatus(ApiModel):
    """What a target holds, and what is missing there."""

    pending_events: int
    pending_bytes: int
    lag_seconds: float | None
    max_lag: float = Field(description="Seconds by which a table may lag behind staging before the channels are notified.")
    tables: dict[str, TableStatus]
    topics: TopicsStatus | None = Field(None, description="What is published, of a target that is topics; null for tables of a database.")


class StoppedTable(ApiModel):
    """Events that stop a table, or did so until somebody skipped them."""

    table: str
    place: str = Field(
        description="The event that stops the table: file and position of its transaction's end, and its number in that.",
        examples=["binlog.000012:4567:0"],
    )
    through: str = Field(description="The same of the last of these events.")
    events: int = Field(description="How many: rows where these could be told apart, else events of the log, which hold several.")
    time: dt.datetime = Field(description="When the source committed the first one.")
    stage: Literal["decoding", "staging", "merge", "statement"]
    target: str | None = Field(description="The target that cannot hold them; null if none can have them.")
    reason: str
    skipped_by: str | None = None
    skipped_at: dt.datetime | None = None
    skip_reason: str | None = None


class Migration(ApiModel):
    """How a target's table was brought from one schema to the next, or why it was not."""

    target: str
    table: str
    place: str = Field(description="File and position of the source's log up to which the target held the table under the old schema.")
    state: MigrationState
    statements: list[str]
    said: list[str] = Field(description="What a person should know of it.")
    reason: str = Field(description="Why it is refused, and what to do; empty if it is not.")
    at: dt.datetime | None
    ended: dt.datetime | None


class SchemaColumn(ApiModel):
    """A column of a version of a table."""

    name: str
    type: str = Field(description="Its type in the source.", examples=["decimal(12,2)"])
    nullable: bool
    in_key: bool
    doc: str = Field(
        description="What it holds: as the configuration says, else the source's comment on it, else what the pipeline computes it by."
    )


class SchemaChange(ApiModel):
    """One thing in which a version differs from the one before."""

    sentence: str = Field(examples=["fee was dropped"])
    breaks_readers: bool = Field(description="Whether who reads the table misses a column, or values that a column held.")

    @classmethod
    def of(cls, difference: Any) -> SchemaChange:
        """Return a difference of two schemas as it is shown."""
        return cls(sentence=difference.sentence, breaks_readers=difference.breaks_readers)


class SchemaVersion(ApiModel):
    """From one place of the log on, the columns of a table of a pipeline."""

    table: str = Field(examples=["shop.orders"])
    version: int = Field(description="The number of the schema, from 1, as they were first seen; equal columns, equal number.")
    place: str = Field(description="File and position of the source's log of the first event that has it.")
    position: int = Field(description="The same as a number, by which the versions of a table are ordered.")
    first_seen: dt.datetime = Field(description="When its first event was staged.")
    statements: list[str] = Field(description="The source's statements that changed the table since the version before.")
    columns: list[SchemaColumn]
    owner: str = Field(description="Who answers for the table, as the configuration says; empty if it does not.")
    doc: str = Field(
        description="What it holds: as the configuration says, else the source's comment on it, else what the pipeline computes it by."
    )
    changes: list[SchemaChange] = Field(description="What differs from the version before; empty for the first.")
    targets: list[str] = Field(description="The targets that hold the table under this version.")


class Heartbeat(ApiModel):
    """A heartbeat that came with the stream."""

    database: str = Field(description="The database of the source whose `auditor_heartbeat` it was written into.", examples=["shop"])
    serial: int = Field(examples=[4711])
    at: dt.datetime = Field(description="When it was written, by the source's clock.")
    age_seconds: float = Field(description="Seconds since then, by the service's clock.", examples=[4.2])


class LiveSummaries(ApiModel):
    """What the pipeline keeps of an audit's source: its newest live summaries."""

    audit: str = Field(examples=["orders"])
    table: str = Field(description="The source's table.", examples=["shop.orders"])
    target: str = Field(description="The target that holds the sums.", examples=["warehouse"])
    state: EpochState = Field(
        description="`wanted`: a run has asked for them; `scanning`: it reads the source; `kept`: audits compare with it; `ended`: no more."
    )
    since: dt.datetime | None = Field(description="The source's clock at the scan with which they began; null until then.")
    since_place: str = Field(description="File and position of the source's log there; empty until then.")
    proved: dt.datetime | None = Field(description="The source's clock at the last scan that they equal.")
    proved_place: str = Field(description="File and position of the source's log there; empty without one.")
    ended: dt.datetime | None = Field(description="When they ended; null while they last.")
    reason: str = Field(description="Why they ended; empty while they last.")


class PipelineStatus(ApiModel):
    """The status of a pipeline."""

    pipeline: str
    running: bool = Field(description="Whether a process reported within the last 30 s.")
    paused: bool
    paused_by: str = Field(description="Who paused it; empty if it is not paused, or nobody said.")
    paused_at: dt.datetime | None
    reason: str = Field(description="Why staging is stopped or retried; empty while it continues.")
    staged_through: int | None = Field(description="Position of the last staged event.")
    staged_time: dt.datetime | None = Field(description="When the source committed it.")
    staged_at: dt.datetime | None = Field(description="When it was staged.")
    events: int = Field(description="Events staged since the pipeline began.")
    heartbeat: Heartbeat | None = Field(description="The last heartbeat that the stream carried; null if none was seen.")
    lag_seconds: float | None = Field(description="Seconds since the source's log ended where staging is.")
    lag_bytes: int | None = Field(description="Bytes of the log after that place; null of topics.")
    lag_messages: int | None = Field(description="Offsets of topics that are not read yet; null of a log.")
    partitions: list[PartitionLag] = Field(description="Partitions of topics that are not read to their ends, those with most first.")
    log_end: str | None = Field(description="Where the source's log ended at the last check.")
    log_expires: int | None = Field(description="Seconds after which the source deletes its log; null: never, or not known.")
    max_lag: float = Field(
        description="Seconds by which staging may lag behind before the channels are notified: `max_lag` of the pipeline."
    )
    seen_at: dt.datetime | None = Field(description="When its process last checked source and staging.")
    began: dt.datetime | None = Field(description="When that process began.")
    free_bytes: int | None = Field(description="Free bytes on the staging's disk.")
    batch: StagedBatch | None = Field(description="The last batch that had events; null if none had.")
    warnings: list[str]
    notes: list[str] = Field(description="What is to be known of the source's server, a sentence each.")
    tables: dict[str, StagedTable]
    stopped: list[StoppedTable] = Field(description="What stops tables.")
    skipped: list[StoppedTable] = Field(description="What somebody let tables continue without.")
    migrations: list[Migration] = Field(description="The newest migrations of targets.")
    live_summaries: list[LiveSummaries] = Field(description="The newest live summaries of each audit, by its name.")
    targets: dict[str, TargetStatus]


class ProblemKey(NamedTuple):
    """What has which problem; '' where it is of no target or table."""

    kind: ProblemKind
    target: str = ""
    table: str = ""


class PipelineProblem(ApiModel):
    """A problem of a pipeline, of a target of it, or of a table in a target."""

    kind: ProblemKind
    target: str
    table: str
    since: dt.datetime
    reason: str
    notified: bool
    """Whether the channels were notified."""

    @property
    def key(self) -> ProblemKey:
        """What has which problem."""
        return ProblemKey(self.kind, self.target, self.table)


class PipelinePause(ApiModel):
    """Whether a pipeline is paused."""

    pipeline: str
    paused: bool


class LagPoint(ApiModel):
    """What something lagged behind from a moment on, for a span of seconds; of a span of an hour the maxima."""

    at: dt.datetime
    span: int = Field(description="Seconds: 30 within the last day, 3600 before.", examples=[30])
    seconds: float | None = Field(description="Null if it was not known.", examples=[1.5])
    bytes: int | None = Field(description="Bytes of the source's log that were not staged, or of parts that were missing in the target.")
    rate: float = Field(description="Events a second that were staged, or merged.", examples=[120.0])


class LagSeries(ApiModel):
    """The lag of a pipeline, of a target of it, or of a table in a target."""

    target: str | None = Field(description="Null for the pipeline itself: how far staging lags behind the source.", examples=["wh"])
    table: str | None = Field(description="Null for all tables together.", examples=["shop.orders"])
    points: list[LagPoint] = Field(description="In the order of time. While no process of the pipeline runs, there is none.")


class LagHistory(ApiModel):
    """What a pipeline, its targets, or a table in each of these lagged behind."""

    pipeline: str = Field(examples=["shop"])
    series: list[LagSeries]

    def points_of(self, target: str | None) -> list[LagPoint]:
        """Return the points of a target, or of the pipeline itself (None)."""
        return next(target_lags.points for target_lags in self.series if target_lags.target == target)


RefreshState = Literal["requested", "running", "done", "failed"]
"""``done``: all rows are in the source's log; targets may still lack them."""


class Refresh(ApiModel):
    """Existing rows of a table that are sent through a pipeline's stream."""

    refresh: str
    pipeline: str
    table: str
    ranges: int = Field(description="Ranges of keys that were requested; with no keys either, the whole table.")
    keys: int = Field(description="Single keys that were requested.")
    state: RefreshState = Field(description="`done`: all rows are in the source's log; targets hold them once they have merged it.")
    requested_by: str
    at: dt.datetime
    ended: dt.datetime | None
    rows: int = Field(description="Rows that were written into the source's log.")
    chunks: int
    seconds: float
    longest: float = Field(description="Seconds for which rows were locked at most.")
    log_place: str | None = Field(description="File and position of the source's log up to which the rows are in it; null until then.")
    reason: str = Field(description="Why it waits or failed; empty if it does not.")


class RebuiltTable(ApiModel):
    """A table that was written as it stood at a position of a pipeline's stream."""

    pipeline: str
    table: str
    place: str = Field(description="The position, as `FILE:POS` of the source's log.")
    begins: Literal["create", "clear", "refresh"] = Field(
        description="From what on all its rows are known: the statement that made it, one that emptied it, or a refresh of all its rows."
    )
    since: str = Field(description="Where that is: the place behind which its events were read.")
    names: list[str] = Field(description="The names that it had since then, the last one as it was asked for.")
    events: int = Field(description="Events that were merged.")
    rows: int
    written: str = Field(description="The file, or the connection and the table in it; empty if it was only planned.")
    warnings: list[str] = Field(description="What of the stream it lacks, or may lack, a sentence each.")


class TableEvent(ApiModel):
    """A line of a table's events: a message in Debezium's form, or a note."""

    position: str | None = Field(
        None, description="Where it stands, `FILE:POS:ROW`: reading continues after it. Null of the first of two lines of one event."
    )
    key: dict[str, Any] | None = Field(None, description="The key of the row; null if it has none.")
    value: dict[str, Any] | None = Field(None, description="Debezium's envelope: before, after, op and source.")
    note: str | None = Field(None, description="What is missing here: events that somebody let every target continue without.")
