"""Reports as JSON: of a run, of a day, and of what files of evidence are.

A field of a run's report is declared here, set in `auditor/report/json.py`, and worded for people in `auditor/report/sentences.py`.
`docs/report.schema.json` is generated from that of a run: ``python -m scripts.report_schema``.
"""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from auditor.api_models import ApiModel
from auditor.api_models.audit import Plan, ThresholdValues, TrendPoint
from auditor.api_models.run import SIMILARITY_ERROR, UNSETTLED, ColumnValues, Recheck
from auditor.model import SIDES, DifferenceKind, Method, Settling, Side, State, Status, Tool, TopicFaultKind, Verdict

MAX_LISTED = 1000
"""Unequal partitions, and measures, listed at most; ``unequal`` counts all of the former."""

# Limits are said in the schema, and not enforced: a report that breaks one is better shown than refused.
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
Count = Annotated[int, WithJsonSchema(_COUNT)]
Share = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1})]
Amount = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0})]
Seconds = Annotated[Amount, AfterValidator(lambda seconds: round(seconds, 3))]
"""A duration, to the millisecond."""

NOT_EMPTY: dict[str, Any] = {"minItems": 1}
LISTED: dict[str, Any] = {"maxItems": MAX_LISTED}

_COUNTS = {"type": "object", "required": [*SIDES], "properties": dict.fromkeys(SIDES, _COUNT)}
RowCounts = Annotated[dict[Side, int], WithJsonSchema(_COUNTS)]
"""Rows on each side."""


class _Sparse(ApiModel):
    """A shape without its fields that are null."""

    @model_serializer(mode="wrap")
    def _without_nulls(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe the fields as they are, and not as the dictionary that the serializer returns."""
        return handler(cast("CoreSchema", {name: value for name, value in schema.items() if name != "serialization"}))


class Score(ApiModel):
    """A score between 0 and 1 with its bounds."""

    value: Share
    lower: Share
    upper: Share


class Jaccard(Score):
    """Row-weighted similarity: `lower` and `upper` are its 95 % interval, the hard bounds are certain; all are equal if it is exact."""

    hard_lower: Share = Field(description="The similarity is certainly not lower.")
    hard_upper: Share = Field(description="The similarity is certainly not higher.")
    differing_rows: Amount = Field(
        description="Rows that differ, exact or estimated: missing, extra and changed ones, each once. Where no row is named, as many as"
        " the numbers of rows allow count as changed."
    )


class Scores(ApiModel):
    """Both scores of a run; null where there is none."""

    published: Score | None = Field(
        description="The published score, an average over partitions, with its published bounds; null without partitions."
    )
    jaccard: Jaccard | None = Field(description="Row-weighted similarity |A and B| / |A or B|; null if the method does not give it.")


class Coverage(ApiModel):
    """Shares that a verdict speaks for."""

    rows: Share
    partitions: Share


class UnequalPartition(ApiModel):
    """A partition that is not equal."""

    partition: int | None = Field(description="The partition's id; null for rows whose key contains NULL, and if the key is masked.")
    key_range: tuple[int, int] | None = Field(
        description="Least and greatest key on either side; null unless the key is one integer column that is not masked."
    )
    label: str = Field(description="The partition in words.")
    rows: RowCounts
    similarity: Share | None = Field(description="Share of equal minhashes; null without minhashes.")
    similarity_error: Share | None = Field(description=SIMILARITY_ERROR)
    measures: tuple[str, ...] = Field(description="For the method counts: the measures that differ.")


class Partitions(ApiModel):
    """Numbers of partitions, and the first unequal ones."""

    total: Count
    equal: Count
    unequal: Count = Field(description="Partitions that differ, including those that only one side has.")
    source_only: Count = Field(description="Partitions that only the source has rows in.")
    target_only: Count = Field(description="Partitions that only the target has rows in.")
    skipped: Count = Field(description="Partitions that could not be compared; never counted as equal.")
    divergent: tuple[UnequalPartition, ...] = Field(description="The unequal partitions, at most 1000.", json_schema_extra=LISTED)


class DifferingRange(ApiModel):
    """Neighbouring rows that one side lacks."""

    kind: DifferenceKind
    first: int | None = Field(description="Least key; null if the range is not a key range, or the key is masked.")
    last: int | None = Field(description="Greatest key, likewise.")
    label: str = Field(description="The range in words.")
    rows: Count
    partitions: Count
    state: Settling = Field(description=UNSETTLED)
    shards: dict[str, Count] = Field(description="The shards that hold missing rows, each with how many.")


class DifferingRow(ApiModel):
    """A row that is not equal."""

    kind: DifferenceKind
    key: dict[str, int | str | None] = Field(description="The key's columns, integers as numbers.")
    rows: RowCounts = Field(description="For each side, how many more rows with this key it has than the other.")
    columns: tuple[ColumnValues, ...] = Field(description="For a changed row: the columns that differ.")
    state: Settling = Field(description=UNSETTLED)
    rechecks: tuple[Recheck, ...] = Field(description="The rechecks of this row.")
    cause: str = Field(description="What a history says of the target's row; empty without one.")
    shards: tuple[str, ...] = Field(description="The shards of the source that hold the key; empty for a source of one table.")
    doubled: bool = Field(description="Whether several shards hold the key, of which each row should be on one.")


class ChangedColumn(ApiModel):
    """A column in which changed rows differ."""

    name: str
    rows: Count = Field(description="In how many of the changed rows that were compared by column.")
    pattern: str = Field(
        description="What explains more than nine tenths of them, with its number; empty if nothing does, and for a masked column."
    )


class InFlight(ApiModel):
    """For how long the next changes of rows have not arrived."""

    rows: Count
    least_seconds: Seconds
    median_seconds: Seconds
    greatest_seconds: Seconds
    oldest: dt.datetime = Field(description="When the source committed the oldest of these changes.")


class LookedUp(ApiModel):
    """What became of the keys that differ, looked up among the versions that a pipeline keeps of the source's rows."""

    pipeline: str = Field(description="The pipeline that keeps them.")
    at_most: Seconds = Field(description="How long a change may take to arrive.")
    through: str = Field(description="The place in the source's log up to which its changes were known; empty if not far enough.")
    begins: dt.datetime | None = Field(description="Every change that was committed later was known.")
    begins_place: str = Field(description="Where that is in the log.")
    why_there: str = Field(description="Why the history begins there; empty where it began when it was first wanted.")
    looked_up: Count = Field(description="Keys that were looked up.")
    current: Count = Field(description="Of these, equal by now, or newer in the target than where the source was read.")
    in_flight: InFlight | None = Field(description="Those whose next change is on its way; null without any.")
    late: Count = Field(description="Those at an older version for too long.")
    foreign: Count = Field(description="Those in a state that the source did not hold since the history begins.")
    doubled: Count = Field(description="Those with several rows in the target.")
    unlogged: Count = Field(description="Those whose state in the source its log does not tell.")
    untold: Count = Field(description="Those of which nothing can be told.")
    why_untold: str = Field(description="Why not; empty if there are none.")


class Differences(ApiModel):
    """Numbers of differences, and those known by range or key."""

    missing: Count = Field(description="Rows that only the source has.")
    extra: Count = Field(description="Rows that only the target has.")
    changed: Count = Field(
        description="Rows of keys that both sides have, with rows that are not equal: of each key the greater number of both sides."
    )
    exact: bool = Field(description="True if every difference was counted, false if some were only estimated.")
    partitions_by_outcome: dict[str, Count] = Field(
        description="Numbers of unequal partitions by how their differences were found: one_sided, accounted, listed or estimated."
    )
    unsettled: Count = Field(description="Rows that differed at every recheck and were still changing; not counted above.")
    why_estimated: str = Field(description="Why some differences were only estimated; empty if none were.")
    ranges: tuple[DifferingRange, ...] = Field(
        description="Ranges of neighbouring rows that only one side has; counted, not listed one by one."
    )
    sample: tuple[DifferingRow, ...] = Field(description="Rows that differ, by key; a limited number of them.")
    in_flight: Count = Field(
        description="Rows that differ and are younger than the watermark on the source, or on their way by a history; not counted above."
    )
    equal_on_recheck: Count = Field(description="Rows that differed in the scan and were equal when rechecked.")
    tolerated: Count = Field(description="Rows that differ only within the tolerances of their columns; not counted above.")
    partitions_equal_on_recheck: Count = Field(description="Partitions that differed in the scan and were equal when read again.")
    rechecks: Count = Field(description="How often the differences were rechecked.")
    estimated: Count = Field(description="About how many further rows differ in partitions that were only estimated; not counted above.")
    columns: tuple[ChangedColumn, ...] = Field(description="The columns in which changed rows differ, the most frequent first.")
    compared_by_column: Count = Field(description="How many changed rows were compared by column.")
    doubled: Count = Field(description="How many of the listed keys are on several shards of the source.")
    history: LookedUp | None = Field(description="What a history says of them; null without one.")


class RecordedTimes(ApiModel):
    """What a server recorded of a run's statements, on Redshift."""

    statements: Count = Field(description="Statements that it recorded.")
    seconds: Seconds = Field(description="Seconds that they took in all.")
    queued_seconds: Seconds = Field(description="Seconds of these spent in queues.")
    executing_seconds: Seconds = Field(description="Seconds of these spent being executed.")


class SideCost(_Sparse):
    """What one side of a run cost."""

    statements: Count
    bytes_received: Count = Field(description="Bytes received from the server, including connecting and planning.")
    summary_bytes: Count = Field(description="Bytes of them that were summaries.")
    seconds: Seconds = Field(description="Seconds spent reading the summaries.")
    server: RecordedTimes | None = Field(None, description="What the server itself recorded; left out where it keeps no record.")


class ConnectionCost(ApiModel):
    """What a run cost on one connection, its planning among it."""

    connection: str
    statements: Count
    seconds: Seconds = Field(description="Seconds that its statements took, added up over sessions.")
    bytes: Count = Field(description="Bytes received.")
    usd: float | None = Field(description="US dollars by the connection's price; null where that is not known, which `basis` says why.")
    basis: str = Field(description="How the costs in USD were worked out, or why they are not known.")


class Cost(_Sparse):
    """Duration of a run, and the cost of each side; a side that was not reached is left out."""

    seconds: Seconds
    source: SideCost | None = None
    target: SideCost | None = None
    connections: tuple[ConnectionCost, ...] = Field((), description="What was spent on each connection, by which budgets are kept.")
    usd: float | None = Field(None, description="US dollars of all connections; left out where those of one are not known.")


class Measure(ApiModel):
    """A measure that differs, of the method counts."""

    partition: int | None = Field(
        description="The partition's id; null for rows whose key contains NULL, and for measures of several partitions."
    )
    label: str = Field(description="The rows that were measured, in words.")
    name: str = Field(description="`rows`, or a column and the measure, e.g. `amount sum`.")
    source: str | None
    target: str | None
    deviation: Amount | None = Field(description="Relative to the source (1 is 100 %); null if not defined.")
    allowed: bool = Field(description="Whether the audit's configuration allows this deviation.")


class CheaperMethod(ApiModel):
    """The result of a method that a ladder tried before the one reported."""

    method: Method
    verdict: Verdict
    seconds: Seconds
    reasons: tuple[str, ...]


class OverdueRange(ApiModel):
    """A part of the table of which no row was compared in so many runs in a row."""

    label: str = Field(description="Its keys or partitions, for a person.")
    rows: Count = Field(description="The rows that were left out there, the fewest of all these runs.")
    runs: Count
    since: dt.datetime


class OverdueRow(ApiModel):
    """A row that was not compared, one run after another: it was younger than the watermark each time, or still changing."""

    key: dict[str, str | None] = Field(description="Canonical text of each key column; *** where it is masked.")
    runs: Count = Field(description="Runs in a row that read its part of the table without comparing it.")
    since: dt.datetime = Field(description="When the first of them began.")


class Suggestion(ApiModel):
    """One way to repair a target."""

    tool: Tool = Field(
        description="Run by the method exact, change single rows, copy a range of keys or the table again, or run again once rows have "
        "settled."
    )
    rows: Count = Field(description="Rows that it writes or reads again.")
    share: Share = Field(description="The same as a share of the table.")
    seconds: Annotated[Amount, AfterValidator(lambda seconds: round(seconds, 1))] = Field(
        description="How long it is expected to take, by measured rates."
    )
    command: str = Field(description="The command to paste.")


class Suggestions(ApiModel):
    """Which way of repairing a target fits, and the others that are possible."""

    why: str = Field(description="Why the first one fits.")
    items: tuple[Suggestion, ...] = Field(description="The ways to repair it, the one that fits first.", json_schema_extra=NOT_EMPTY)


class Aligned(ApiModel):
    """Where both sides of a run were read."""

    position: str = Field(description="The place in the source's binary log, FILE:POS; of several shards each one's, with its name.")
    time: dt.datetime = Field(
        description="The source's clock right before its snapshot was opened: whatever was committed by then was compared. Of shards the "
        "earliest."
    )
    way: str = Field(description="How the source's snapshot came to be at this place.")
    pipeline: str = Field(description="The pipeline that brought the target there; of shards all of them.")
    held_seconds: Seconds = Field(description="Seconds for which the pipeline let the target's table stand still.")


class Shard(ApiModel):
    """What was found of one shard of the source."""

    label: str = Field(description="Its connection and table.")
    server: str = Field(description="Product and version of its server.")
    verdict: Verdict = Field(description="Whether the target holds all of its rows, and no other shard does.")
    rows: Count | None = Field(description="Rows that were read of it; null where this run did not read all of it.")
    missing: Count = Field(description="Its rows that are missing in the target, without those of doubled keys.")
    changed: Count = Field(description="Its rows that the target holds otherwise, without those of doubled keys.")
    doubled: Count = Field(description="Its keys that another shard holds too, as far as they were named.")
    snapshots_lost: Count = Field(description="Snapshots of it that were lost or given up, after which it was read as it was later.")
    cost: SideCost | None
    aligned: Aligned | None = Field(
        description="Where it was read in its own log, which the target shows of it; null if the run is not aligned."
    )


class TopicPartition(ApiModel):
    """What was read of one partition of a topic."""

    partition: Count = Field(description="Its number.")
    begin: Count = Field(description="The first offset that it had when the run began.")
    end: Count = Field(description="The offset before which it was read: behind the last message whose transaction was decided then.")
    messages: Count = Field(description="Committed messages between both.")


class TopicFault(ApiModel):
    """What is wrong with a topic, so that the run is no match."""

    kind: TopicFaultKind = Field(
        description="`missing` or `doubled` messages, or `disordered` ones behind later ones, by their publisher's numbers; a key in `two "
        "partitions`; a key whose latest message is `not the latest` change of its row."
    )
    count: Count = Field(description="Of how many messages, or keys, that is so.")
    sentence: str = Field(description="The same for a person, with where the first ones are.")


class Topic(ApiModel):
    """A topic that is a side of a run: what was read of it, and what is wrong with it."""

    side: Side
    label: str = Field(description="Its broker and its name.")
    id: str = Field(description="Kafka's own id of the topic.")
    partitions: tuple[TopicPartition, ...]
    messages: Count = Field(description="Committed messages that were read, tombstones among them.")
    rows: Count = Field(description="Keys whose latest message is no delete.")
    faults: tuple[TopicFault, ...]
    removed: str | None = Field(description="That messages at its beginning were removed; null if none were, but by compaction.")


class LogPlace(ApiModel):
    """A place of the source's log, and the source's clock there."""

    place: str = Field(description="A place in the source's binary log: FILE:POS.")
    time: dt.datetime


class Live(ApiModel):
    """What was compared with live summaries, and how old both proofs are."""

    pipeline: str = Field(description="The pipeline that keeps the sums.")
    place: str = Field(description="The place in the source's binary log, FILE:POS, as of which the target was compared.")
    time: dt.datetime | None = Field(description="When the source committed the last event before it; null if unknown.")
    began: LogPlace = Field(description="Since where the stream keeps the sums.")
    proved: LogPlace = Field(description="Where a scan of the source last proved them.")
    scanned: str | None = Field(description="Why this run scanned the source; null if it did not.")
    moved_rows: Count = Field(description="Rows that differed, and had changed in the source since.")
    lost: tuple[DifferingRow, ...] = Field(
        description="What the log did not say: rows of the source beside those that the stream had of them."
    )
    lost_partitions: tuple[str, ...] = Field(description="Partitions in which more rows were lost than the sums name.")


class Files(ApiModel):
    """What a run read of a side that consists of immutable files, whose sums are kept."""

    side: Side
    state: str = Field(description="Which version was read; empty where versions have no numbers.")
    files: Count = Field(description="Files of the version.")
    read: Count = Field(description="Files that were read as a whole; the sums of the others were kept.")
    hidden: Count = Field(description="Files that were read for rows that new deletes hide.")
    bytes: Count = Field(description="Bytes of all files.")
    read_bytes: Count = Field(description="Bytes of the files that were read.")
    rows: Count = Field(description="Rows of the version that were compared.")
    trusts: str = Field(description="On what the sums of files that were not read rest.")
    since: dt.datetime | None = Field(description="When all files were last read; null for a run that read them all.")
    why: str | None = Field(description="Why more was read than what is new; null if nothing was.")
    damaged: Count = Field(description="Kept sums that were not what had been stored; their files were read again.")
    changed: tuple[str, ...] = Field(description="Files in which other rows were found than those whose sums were kept.")


def _compared(schema: dict[str, Any]) -> None:
    """Say in the schema that a run with a verdict is done and has a score, rows and partitions."""
    properties = {"state": {"const": "done"}, **{name: {"type": "object"} for name in ("score", "rows", "partitions")}}
    schema["if"] = {"properties": {"verdict": {"enum": ["match", "mismatch"]}}}
    schema["then"] = {"properties": properties}


class RunReport(ApiModel):
    """The report of a run."""

    model_config = ConfigDict(json_schema_extra=_compared)

    audit: str = Field(description="The audit's name.")
    run: str = Field(description="The run's id.", json_schema_extra={"pattern": "^[0-9a-f]{32}$"})
    state: Literal[State.DONE, State.FAILED, State.CANCELLED] = Field(description="How the run ended; what it found is the verdict.")
    verdict: Verdict = Field(description="The result. unknown: something could not be compared, so the tables may or may not match.")
    method: Method | None = Field(
        description="The method, which decides how much each summary carries; null if saved results were compared or the run failed before "
        "it had a plan."
    )
    reasons: tuple[str, ...] = Field(description="Sentences that explain the verdict.", json_schema_extra=NOT_EMPTY)
    score: Scores | None = Field(description="Null if nothing was compared.")
    coverage: Coverage = Field(description="Shares of rows and of partitions that the verdict speaks for.")
    rows: RowCounts | None = Field(description="Number of rows on each side; null if nothing was compared.")
    partitions: Partitions | None = Field(description="Null if nothing was compared.")
    differences: Differences | None = Field(description="The rows that differ; null if the method does not name rows.")
    plan: Plan | None = Field(
        description="How the tables were compared; null if saved results were compared or the run failed before it had a plan."
    )
    servers: dict[Side, str] = Field(description="Product and version of each side's server; a side that was not reached is left out.")
    cost: Cost
    began: dt.datetime | None = Field(description="When the run began; null if saved results were compared.")
    share_read: Share = Field(description="Share of the table's partitions that this run read; below 1 for a rolling audit.")
    slice: str | None = Field(
        description="The slice that the run was restricted to, in words; the whole report is about this slice. Null: the whole table."
    )
    other_settings: str | None = Field(
        description="The settings of a one-off run that differ from its audit's, such as threshold 0; null for the audit's own run."
    )
    verified_through: dt.datetime | None = Field(
        description="Everything that the source held up to this moment was found equal in the target, by this run or earlier ones; null if "
        "never."
    )
    within_threshold: bool = Field(description="Whether the verdict is match although something differs, which the audit allows.")
    within_threshold_through: dt.datetime | None = Field(
        description="The time up to which everything was equal or within the threshold; null unless later than verified_through."
    )
    aligned: Aligned | None = Field(
        description="Where both sides were read, so that nothing was in flight between them; null if they were read at different positions."
    )
    not_aligned: str | None = Field(description="Why a run of an audit with align is not aligned; null if it is, or was not to be.")
    live: Live | None = Field(
        description="What was compared with live summaries, the sums that the stream keeps of the source; null for an audit without them."
    )
    files: tuple[Files, ...] = Field(
        description="What was read of the sides that consist of immutable files; empty for an audit that keeps no sums of files."
    )
    dump_as_of: dt.datetime | None = Field(
        description="For a leg of an audit by way of a dump: the moment whose data the dump holds; null without a dump or if unknown."
    )
    measures: tuple[Measure, ...] = Field(
        description="For the method counts: the measures that differ, at most 1000.", json_schema_extra=LISTED
    )
    cheaper_methods: tuple[CheaperMethod, ...] = Field(description="Results of the methods of a ladder that ran before the one reported.")
    schema_changes: tuple[str, ...] = Field(description="Columns that were added, removed or changed since the previous run.")
    left_out_rows: Count = Field(
        description="Rows of the source that were younger than the watermark, and so were not compared by this run."
    )
    overdue_rows: Count = Field(
        description="Rows that were not compared in overdue_after runs in a row, which lower the coverage; an estimate where too many rows "
        "are left out to follow each."
    )
    overdue_ranges: tuple[OverdueRange, ...] = Field(
        description="The first parts of the table that consist of such rows alone, those left out in most runs first."
    )
    overdue: tuple[OverdueRow, ...] = Field(description="The first of these rows, those left out in most runs first.")
    retries: Count = Field(description="How many failed statements were retried.")
    resumable: bool = Field(description="Whether `auditor resume` can resume this run.")
    reason: str = Field(description="Why the run was asked for, as after a patch; empty if nobody said so.")
    suggestions: Suggestions | None = Field(description="What would repair the target; null unless rows differ in a run that is stored.")
    notes: tuple[str, ...] = Field(description="Further remarks on the run.")
    shards: tuple[Shard, ...] = Field(description="What was found of each shard, where the source consists of several tables; else empty.")
    topics: tuple[Topic, ...] = Field(description="The sides that are topics, with the offsets up to which each was read; else empty.")


class DayScore(ApiModel):
    """The score of a run; its bounds are null if the method gives none."""

    value: float
    lower: float | None
    upper: float | None


class CombinedVerdict(ApiModel):
    """The verdict on source and target, combined from both legs of an audit by way of a dump; the hard bounds are certain."""

    verdict: Verdict
    reasons: tuple[str, ...]
    lower: float
    upper: float
    hard_lower: float
    hard_upper: float
    leg_ages_seconds: tuple[float | None, float | None]
    dump_age_seconds: float | None


class DayLastRun(ApiModel):
    """The run of an audit that ended last, and how: `done`, or `failed` or `cancelled` without a verdict."""

    run: str
    state: State
    ended: dt.datetime | None


class DayAudit(ApiModel):
    """One audit of a day. Ages and durations are in seconds."""

    audit: str
    status: Status
    configured: bool
    paused: bool
    reasons: tuple[str, ...]
    run: str | None = Field(description="The run of the last verdict, or else the last run.")
    began: dt.datetime | None
    age_seconds: float | None
    running: str | None
    verdict: Verdict | None
    score: DayScore | None
    threshold: ThresholdValues | None
    streak: int
    streak_since: dt.datetime | None
    verified_through: dt.datetime | None
    verified_age_seconds: float | None
    within_threshold: bool
    within_threshold_through: dt.datetime | None
    last_run: DayLastRun | None
    not_compared: tuple[str, ...]
    report: RunReport | None = Field(description="The report of `run`; null for audits of which nothing differs.")
    trend: tuple[TrendPoint, ...]
    combined: CombinedVerdict | None
    legs: tuple[DayAudit, ...]


class DayReport(ApiModel):
    """The report of a day."""

    date: dt.date
    at: dt.datetime
    counts: dict[Status, int] = Field(description="Numbers of configured audits by status.")
    audits: tuple[DayAudit, ...] = Field(description="The most urgent first.")


class VerifiedLink(ApiModel):
    """A link in a file of evidence, as it was signed."""

    audit: str
    number: int
    run: str
    key: str
    at: str
    verdict: Verdict | None = Field(description="Null if the file does not hold what its run found.")


class VerifiedFile(ApiModel):
    """A file of evidence."""

    file: str
    whole: bool
    broken: str | None = Field(description="How it is not whole.")
    links: tuple[VerifiedLink, ...]


class VerifiedChain(ApiModel):
    """The links of an audit in all of these files together."""

    audit: str
    first: int
    last: int
    head: str = Field(description="The digest of the last one.")
    keys: tuple[str, ...]
    broken: tuple[str, ...]


class VerifiedEvidence(ApiModel):
    """What files of evidence are, each by itself and together."""

    whole: bool
    pinned: bool = Field(description="Whether public keys were given that links have to be signed with.")
    files: tuple[VerifiedFile, ...]
    chains: tuple[VerifiedChain, ...]
    unseen_heads: tuple[str, ...] = Field(description="The heads that were given, and that no link in a whole file has.")
