"""An audit: its definition, its plan, and its status, which is its last verdict, how old that is, and its runs."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from pydantic import Field, JsonValue

from auditor.api_models import ApiModel
from auditor.api_models.incident import Incident
from auditor.api_models.run import VERIFIED, WITHIN, Run
from auditor.model import Leveling, Side, State, Status, Verdict

Definition: TypeAlias = dict[str, JsonValue]
"""JSON values of an audit's settings that differ from their defaults, by the names that they have in ``auditor.yaml``."""

Overrides: TypeAlias = dict[str, JsonValue]
"""Settings of one run that differ from its audit's."""


class ProposedTable(TypedDict):
    """One end of a proposed audit."""

    connection: str
    table: str
    columns: NotRequired[dict[str, str]]
    """The target's names of columns that are called differently there."""


class ProposedColumns(TypedDict):
    """What of the columns is compared, and how."""

    exclude: NotRequired[list[str]]
    override: NotRequired[dict[str, dict[str, Any]]]


class ProposedAudit(TypedDict):
    """An audit that is written into ``auditor.yaml``."""

    source: ProposedTable
    target: ProposedTable
    columns: NotRequired[ProposedColumns]
    where: NotRequired[str]
    where_on: NotRequired[str]


class PlanColumn(ApiModel):
    """How a column is compared."""

    name: str
    kind: str = Field(description="The canonical kind that both sides are compared as.")
    source_type: str = Field(description="The column's type in the source.")
    target_type: str = Field(description="The column's type in the target.")
    why: str = Field(description="Why this canonical kind was chosen.")
    masked: bool = Field(description="Whether the column's values are hidden everywhere.")
    tolerance: str | None = Field(description="How far two values may differ and still count as equal.")


class NotCompared(ApiModel):
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


class PlanWrites(ApiModel):
    """How the writes of the source's rows are distributed over its keys, by which a plan chooses what is read first, and how."""

    origin: Literal["events", "settle column", "unknown"] = Field(
        description="What counted them: the events that a pipeline staged, or the rows by the time in their settle column."
    )
    total: int = Field(description="Writes since the whole table was last seen equal; 0 where unknown.")
    since: dt.datetime | None = Field(description="Since when they were counted; null where unknown.")
    parts: int = Field(description="Into how many spans of keys the table is divided; 0 where unknown.")
    written_parts: int = Field(description="How many of these hold writes.")
    first: tuple[tuple[int, int], ...] = Field(
        description="The ranges of keys that are read first, each as [first, end) with end excluded; empty: in the order of the keys."
    )
    summary: str = Field(description="All of that in words.")


class ExpectedCost(ApiModel):
    """What a run is expected to cost on a connection."""

    connection: str
    scan_statements: int = Field(description="Statements of the scans, by the plan.")
    scan_bytes: int = Field(description="Bytes of summaries that they send, by the plan.")
    runs: int = Field(description="Last runs of which the following are medians; 0 where none is known.")
    seconds: float | None = Field(description="Seconds of statements; null without such runs.")
    bytes: int | None = Field(description="Bytes received; null without such runs.")
    usd: float | None = Field(description="US dollars by the connection's price; null where one of the runs had none.")


class FilesExpected(ApiModel):
    """What a run is expected to read of a side that consists of immutable files, whose sums are kept."""

    files: int = Field(description="Files of the version that is there now.")
    new: int = Field(description="Files that are to be read as a whole; the sums of the others are kept.")
    hidden: int = Field(description="Files that are to be read for rows that new deletes hide.")
    bytes: int = Field(description="Bytes of all files.")
    new_bytes: int = Field(description="Bytes of the files that are to be read.")
    statements: int = Field(description="Statements that read them.")
    why: str | None = Field(description="Why more is to be read than what is new; null if nothing is.")


class Plan(ApiModel):
    """How an audit compares its tables; `k`, `t`, `bits`, `salt` and `hash` as in the configuration."""

    partitioning: str = Field(description="How rows are assigned to partitions, in words.")
    partitioning_why: str = Field(description="Why this partitioning was chosen.")
    prescan: bool | None = Field(
        description="Whether one signature for each of a few parts of the table is read first; null where that is decided by the run."
    )
    prescan_why: str | None = Field(description="Why it is, or is not; null where prescan is.")
    read_at_once: tuple[tuple[int, int], ...] = Field(
        description="The ranges of keys that a pre-scan leaves to the method at once, each as [first, end) with end excluded."
    )
    writes: PlanWrites | None = Field(description="How writes are distributed over the table; null where that is decided by the run.")
    hash: Literal["sha256", "md5"] = Field(description="The hash of a row's text.")
    encoding: Literal["injective", "published"] = Field(description="How a row becomes text.")
    k: int = Field(description="Minhashes per partition; 0 without.")
    t: int = Field(description="Differences per partition that the method exact can name from one scan; 0 for other methods.")
    bits: int = Field(description="Bits of the row hash that the signature sums.")
    salt: str = Field(description="Text that every row text begins with.")
    queries: dict[Side, str] = Field({}, description="The query of each side that is one, in place of a table.")
    key: tuple[str, ...] = Field(description="The key's columns, in order.")
    columns: tuple[PlanColumn, ...]
    not_compared: tuple[NotCompared, ...] = Field(
        description="Everything that the comparison does not see or takes for granted. What is not listed here is compared in full."
    )
    expected: tuple[ExpectedCost, ...] = Field(
        (), description="What a run is expected to cost on each connection; empty in the plan of a run, which says what it cost."
    )
    files: dict[Side, FilesExpected] = Field(
        {}, description="What is to be read of each side that consists of files, with files: kept; empty in the plan of a run."
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


class CheckedAudit(ApiModel):
    """What `auditor check` found of an audit: its plan, or the error that prevents it."""

    audit: str
    error: str | None
    plan: Plan | None


class ConsoleScripts(ApiModel):
    """The SQL to paste into each side's console; null for a side that was not asked for."""

    source: str | None = None
    target: str | None = None


STREAM = "Up to this time the target was seen equal to the stream of its source, which live summaries say; null without them."


class TrendPoint(ApiModel):
    """A run of the last 30 days."""

    run: str
    at: dt.datetime
    verdict: Verdict
    score: float | None
    lower: float | None
    upper: float | None


class LastRun(ApiModel):
    """The run of an audit that ended last, with or without a verdict."""

    run: str
    state: State
    ended: dt.datetime | None
    note: str = Field(description="A sentence on it if it failed or was cancelled after the last verdict, else empty.")


class ThresholdValues(ApiModel):
    """What a threshold allows: at least this score, or at most this many differing rows, or this share of them."""

    score: float
    rows: int | None
    share: float | None


class AuditStatus(ApiModel):
    """An audit's status. One-off runs, with other settings than the audit's, change nothing of it."""

    status: Status = Field(
        description="The last verdict; `within_threshold` for a match although something differs, `stale` for a match that is too old,"
        " `running` and `never` before the first verdict."
    )
    reasons: tuple[str, ...] = Field(description="Why.")
    verdict: Verdict | None = Field(
        description="The last verdict; of a rolling audit that of its whole table. Runs without one do not count."
    )
    within_threshold: bool = Field(description="Whether that is a match although something differs, which the audit allows.")
    run: str | None = Field(description="The run of the last verdict; of a rolling audit the last part.")
    ended: dt.datetime | None = Field(description="When that run ended.")
    threshold: ThresholdValues | None = Field(description="The threshold under which that verdict was reached.")
    last_run: LastRun | None = Field(description="The run that ended last; failed and cancelled runs stand beside the last verdict.")
    verified_through: dt.datetime | None = Field(description=VERIFIED)
    within_threshold_through: dt.datetime | None = Field(description=WITHIN)
    stream_through: dt.datetime | None = Field(description=STREAM)


class SharedTableStatus(ApiModel):
    """How a target's table stands of which several audits name columns of their own."""

    status: Status = Field(description="The most urgent status of its audits: the table matches if each of them does.")
    audits: dict[str, Status] = Field(description="The status of each of these audits, by its name.")


Change: TypeAlias = Literal["new", "still", "recovered"]
"""Whether what differs is new or was there before, or the audit has recovered with its last run."""


class Audit(ApiModel):
    """An audit and its status. Each leg of an audit via a dump is an audit here."""

    name: str = Field(examples=["orders"])
    source: str
    target: str
    method: str
    threshold: float = Field(description="The score below which a run is a mismatch; 1 if no score below is allowed.")
    owner: str | None = Field(description="Who answers for the audit, as `owner` in auditor.yaml says; null without one.")
    defined_over_http: bool = Field(description="Whether the audit was defined over HTTP rather than in auditor.yaml.")
    paused: bool = Field(description="Whether the schedule skips the audit.")
    next_due: dt.datetime | None = Field(description="When the schedule requests the next run.")
    status: AuditStatus = Field(description="The audit's status.")
    since: dt.datetime | None = Field(
        description="When the first of the runs started that ended in the last verdict, one after the other; of a rolling audit, when its"
        " last incident was opened or closed. Null without a verdict, and for a rolling audit that never had an incident."
    )
    change: Change | None = Field(
        description="`new`: the last run was the first that did not match. `still`: earlier ones did not match either. `recovered`: the"
        " last run was the first that matched again. Null for any other match. Of a rolling audit it is the table that does, not the run."
    )
    table: SharedTableStatus | None = Field(description="How the target's table stands, if other audits name columns of it; else null.")
    verified_through: dt.datetime | None = Field(description=VERIFIED)
    latest_run: Run | None = Field(description="The newest run with the audit's own settings that has begun, or else waits.")
    active_run: Run | None = Field(description="The running run, else the one that waits for a worker.")
    incident: Incident | None = Field(description="The open incident, with who acknowledged it; null while the audit has none.")


class AuditDetails(Audit):
    """An audit with its status, its runs of the last 30 days and its definition."""

    trend: tuple[TrendPoint, ...]
    definition: dict[str, Any] = Field(description="The audit's settings that differ from their defaults.")


class Verification(ApiModel):
    """Whether an audit has verified everything up to a moment, for a gate before the next step of a data pipeline."""

    audit: str
    through: dt.datetime = Field(description="The moment that was asked for.")
    outcome: Literal["verified", "mismatch", "waiting"] = Field(
        description="`verified`: everything up to the moment was seen equal, or within the audit's threshold, and no later run found"
        " differences. `mismatch`: the last verdict, of a run that began after the moment. `waiting`: no run has said either yet."
    )
    sentence: str = Field(description="Why, and if it waits, what is awaited.")
    verified_through: dt.datetime | None = Field(description=VERIFIED)
    within_threshold_through: dt.datetime | None = Field(description=WITHIN)
    run: str | None = Field(description="The run of the last verdict.")
    next_due: dt.datetime | None = Field(description="When the schedule requests the next run.")


class ScheduledAudit(ApiModel):
    """When an audit, of tables or of segments, is due."""

    audit: str
    cron: str = Field(examples=["30 6 * * *"])
    timezone: str = Field(examples=["UTC"])
    jitter: float = Field(description="Seconds within which the audit is late by an amount of its own.")
    paused: bool = Field(description="Whether the schedule skips the audit.")
    next: tuple[dt.datetime, ...] = Field(description="The next times at which it is due; fewer than asked for if the schedule ends.")


class PauseState(ApiModel):
    """Whether the schedule skips an audit."""

    name: str
    paused: bool


class ListedAudit(ApiModel):
    """A line of the list of audits, of tables or of segments."""

    audit: str
    source: str
    target: str
    status: Status
    verdict: Verdict | None
    reasons: tuple[str, ...]
    run: str | None = Field(description="The run of the last verdict.")
    age: float | None = Field(description="Seconds since that run ended.")
    next_due: dt.datetime | None
    paused: bool
    active_run: str | None
    last_run: str = Field(description="A sentence on a last run that failed or was cancelled after the last verdict, else empty.")
    last_run_state: State | None = Field(None, description="How the run that ended last ended, or null if none has.")
    table: SharedTableStatus | None = Field(
        None, description="How the target's table stands, if other audits name columns of it; else null."
    )
