"""Results: comparisons, scores, and the report of a run.

A run's report is stored as JSON by the names of these fields: renaming a field needs a migration.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from auditor.model._files import FilesRead
from auditor.model._plan import Method, Plan, Side, Slice, State, Verdict
from dialects import ServerTimes

DifferenceKind = Literal["missing", "extra", "changed"]
"""``missing``: the row is in the source only. ``extra``: in the target only. ``changed``: its key is on both sides, and the rows differ."""

Settling = Literal["confirmed", "unsettled"]
"""``confirmed``: the difference stands. ``unsettled``: its rows were still changing at the last recheck, or it was not rechecked."""

Tool = Literal["exact", "patch", "range bootstrap", "bootstrap", "wait"]
"""``exact``: run by the method exact, which names the rows. ``patch``: change single rows. ``range bootstrap``: copy a range of keys again.
``bootstrap``: copy the table again. ``wait``: run again later, because rows are still changing."""


@dataclass(frozen=True, slots=True)
class ColumnDifference:
    """A column in which a changed row differs."""

    name: str
    """The source's name of the column."""
    source: str | None
    """Readable canonical text on the source, shortened; None for NULL, ``***`` where the column is masked."""
    target: str | None
    """Readable canonical text on the target, shortened; None for NULL, ``***`` where the column is masked."""
    reason: str = ""
    """Why two texts that look the same differ, in a word or two, e.g. ``Unicode form``; empty for others."""


@dataclass(frozen=True, slots=True)
class ChangedColumn:
    """A column in which changed rows differ."""

    name: str
    """The source's name of the column."""
    rows: int
    """In how many of the rows whose columns were compared."""
    pattern: str = ""
    """What explains more than nine tenths of them, with its number, e.g. ``all 785 are the source's divided by 100``."""


@dataclass(frozen=True, slots=True)
class Look:
    """One recheck of a difference."""

    at: dt.datetime
    """When, in UTC."""
    outcome: str
    """``same`` as before, ``moved`` (its rows changed in between), ``in flight``, or ``equal`` by now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key whose rows differ between source and target."""

    kind: DifferenceKind
    """Missing, extra or changed."""
    key: dict[str, str | None]
    """Canonical text of each key column by the source's name, in key order, floats in a report as decimal numbers; None for NULL."""
    rows: dict[Side, int]
    """Rows of this key on each side that have no equal row on the other, at least 0; 1 and 1 for an ordinary changed row."""
    columns: tuple[ColumnDifference, ...] = ()
    """The differing columns of a changed row; empty for other kinds, and where values are not fetched."""
    hashes: dict[Side, tuple[str, ...]] = field(default_factory=dict)
    """For each side the leading hexadecimal digits of those rows' hashes (15 at 60 bits, 30 at 120), ascending."""
    state: Settling = "confirmed"
    """Whether the difference stands or may still settle."""
    looks: tuple[Look, ...] = ()
    """Its rechecks, the first one first."""
    cause: str = ""
    """What a history says of it, as a clause about the target's row; '' without one."""
    shards: tuple[str, ...] = ()
    """The shards of the source that hold the key; empty where none does, and for a source of one table."""

    @property
    def is_doubled(self) -> bool:
        """Return whether several shards of the source hold the key, of which each row should have one."""
        return len(self.shards) > 1

    @property
    def key_number(self) -> int:
        """Return the key as a number, for a key of one integer column; 0 for NULL."""
        return int(next(iter(self.key.values())) or 0)

    @property
    def row_count(self) -> int:
        """Return how many rows differ: the greater number of both sides, so that a changed row counts once."""
        return max(self.rows.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDifference:
    """Neighbouring rows that one side lacks altogether: counted, not enumerated."""

    kind: DifferenceKind
    """Missing or extra."""
    first: int | None
    """Least key, inclusive; None where partitions are no key ranges, because other partitions then hold keys in between."""
    last: int | None
    """Greatest key, inclusive; None where ``first`` is."""
    label: str
    """The range for a person."""
    rows: int
    """Rows of the side that has them, at least 1."""
    partitions: int
    """Partitions that it touches, at least 1."""
    ids: tuple[int | None, int | None] = (None, None)
    """Ids of its first and last partition, both inclusive; None for the partition of rows whose key holds a NULL."""
    buckets: int = 0
    """Number of buckets if partitions are hash buckets, else 0. A second scan may use more buckets than the plan says."""
    state: Settling = "confirmed"
    """Whether the difference stands or may still settle."""
    shards: dict[str, int] = field(default_factory=dict)
    """The shards of the source that hold missing rows, each with how many; empty where that is not known, and without shards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCheck:
    """What became of the rows that differ, looked up among the versions that a pipeline keeps of the source's rows."""

    pipeline: str
    """The pipeline that keeps them."""
    at_most: float
    """Seconds that a change may take to arrive."""
    through: str = ""
    """The place in the source's log up to which its changes were known; '' if they were not known far enough."""
    begins: dt.datetime | None = None
    """Every change that was committed later was known."""
    begins_place: str = ""
    """Where that is in the log."""
    why_there: str = ""
    """Why the history begins there, as a clause; '' where it began when it was first wanted."""
    looked_up: int = 0
    """Keys that were looked up."""
    current: int = 0
    """Of these, those whose rows are equal by now, or newer in the target than where the source was read."""
    in_flight: int = 0
    """Those whose next change has not arrived, and is not too old."""
    ages: tuple[float, float, float] | None = None
    """For how long it has not, in seconds: the least, the median, the greatest; None without any."""
    oldest: dt.datetime | None = None
    """When the source committed the oldest of these changes; None without any."""
    late: int = 0
    """Those in an older version for too long: its next change never came."""
    foreign: int = 0
    """Those in a state that the source did not hold since the history begins."""
    doubled: int = 0
    """Those with several rows in the target."""
    unlogged: int = 0
    """Those whose state in the source its log does not tell."""
    untold: int = 0
    """Those of which nothing can be told."""
    why_untold: str = ""
    """Why not, as a clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The differences that a run named. Counts are of rows, as many as share a key; all are at least 0."""

    missing: int
    """Rows in the source only."""
    extra: int
    """Rows in the target only, among them those of a key that the target holds more often."""
    changed: int
    """Rows of keys whose rows differ on both sides: of each key the greater number of both."""
    exact: bool
    """Whether the counts above are complete: no partition was estimated, skipped, vanished or unaccounted."""
    named: tuple[Difference, ...]
    """The differences by key, ascending for integer keys. At most ``limits: max_differences``; the counts above are not capped."""
    ranges: tuple[RangeDifference, ...]
    """The range differences, ascending by first key."""
    partitions: dict[str, int]
    """Unequal partitions by how they were settled: ``one_sided``, ``accounted``, ``listed``, ``refined`` or ``estimated``."""
    vanished: int = 0
    """Partitions that differed in the scan and were equal when they were read again."""
    unaccounted: int = 0
    """Partitions whose fetched rows do not account for the difference in the scan: nothing is claimed about them."""
    unsettled: int = 0
    """Rows that were still changing at the last recheck, or were counted and not named and so not rechecked; not in the counts above."""
    in_flight: int = 0
    """Rows whose difference is explained by source rows younger than the watermark; not in the counts above."""
    cleared: int = 0
    """Rows that were equal when they were rechecked; not in the counts above."""
    tolerated: int = 0
    """Pairs of rows that differ only within their columns' tolerances, or in how documents are written; not in the counts above."""
    undecided: int = 0
    """Pairs of rows that differ in the text of documents whose values were not compared; not in the counts above."""
    looks: int = 0
    """How many times the differences were rechecked."""
    why: str = ""
    """Why partitions were estimated instead of named; empty if none were."""
    estimated: int = 0
    """About how many further rows differ in partitions that were estimated; not in the counts above."""
    columns: tuple[ChangedColumn, ...] = ()
    """The columns in which changed rows differ, the most frequent first."""
    compared: int = 0
    """How many changed rows were compared by column: those that were named, and of lists as many as are fetched with their columns."""
    history: HistoryCheck | None = None
    """What became of the differences by a history; None without one."""

    @property
    def doubled(self) -> int:
        """Return how many of the listed keys are on several shards of the source."""
        return sum(difference.is_doubled for difference in self.named)

    def __bool__(self) -> bool:
        """Return whether anything differs, or may: also where nothing is listed, because the counts and estimates are not capped."""
        counts = (self.missing, self.extra, self.changed, self.unsettled, self.unaccounted, self.estimated, self.undecided)
        return any(counts) or bool(self.partitions.get("estimated"))

    def __len__(self) -> int:
        """Return how many differences are listed, ranges and keys; at most ``limits: max_differences`` of those that were counted."""
        return len(self.ranges) + len(self.named)

    def __iter__(self) -> Iterator[RangeDifference | Difference]:
        """Yield the differences that are listed: the ranges, then those by key."""
        yield from self.ranges
        yield from self.named


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of the method counts that differs between the two sides, or whose classes were capped."""

    partition: int | None
    """Partition id; None for the partition without a key and for measures over all partitions (classes and histograms)."""
    label: str
    """The rows it is about, for a person: a partition, a class, a bucket of a histogram, or the whole table."""
    name: str
    """``rows``, or the column and its measure, e.g. ``price sum``."""
    source: str | None
    """Value on the source as readable text; None for no value, ``***`` for a masked one."""
    target: str | None
    """Value on the target as readable text; None for no value, ``***`` for a masked one."""
    deviation: float | None
    """abs(target - source) / abs(source), at least 0; None where it is undefined, too large for a float, or masked."""
    allowed: bool
    """Whether ``counts: allow`` in the audit permits this deviation."""

    @property
    def reports_cap(self) -> bool:
        """Return whether it reports that only the most frequent classes of a column were compared."""
        return self.partition is None and self.name.endswith(" classes") and self.label.startswith("only ")

    @property
    def deviates(self) -> bool:
        """Return whether the two sides differ in it, allowed or not."""
        return self.source != self.target or not self.reports_cap


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One way to repair a target."""

    tool: Tool
    rows: int
    """The rows that it writes, or reads again; of a range at most."""
    share: float
    """The same as a share of the table's rows, 0 .. 1."""
    seconds: float
    """How long it is expected to take, by measured rates."""
    command: str
    """The command to paste."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Which way fits a mismatch, and the others that are possible."""

    why: str
    """Why the first one fits, as a clause."""
    items: tuple[Suggestion, ...]
    """At least one: the one that fits first."""


@dataclass(frozen=True, slots=True)
class Score:
    """An estimate with its bounds: 0 <= lower <= value <= upper <= 1, where 1 means equal."""

    value: float
    """The estimate."""
    lower: float
    """Its lower bound."""
    upper: float
    """Its upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergent:
    """A partition that differs between source and target."""

    partition: int | None
    """Partition id; None for the partition of rows whose key holds a NULL."""
    key_range: tuple[int, int] | None
    """Least and greatest key in it over both sides, both inclusive; None where the key is not one integer column."""
    label: str
    """The partition for a person, e.g. ``keys 1,024 to 2,047``; masked where its limits would reveal a masked column."""
    rows: dict[Side, int]
    """Rows on each side, 0 on a side that lacks the partition."""
    similarity: float | None
    """Share of equal minhashes, 0 .. 1; 0 where one side lacks the partition, None without minhashes."""
    similarity_error: float | None = None
    """How far the similarity of its rows may be from that, as published: 1 / sqrt(k); None where it is exact, or not known."""
    measures: tuple[str, ...] = ()
    """Differing measures of the method counts, one sentence each."""


def similarity_error(k: int) -> float | None:
    """Return how far the share of ``k`` equal minhashes may be from a partition's similarity, as published; None without minhashes."""
    return 1 / math.sqrt(k) if k else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of two sides' summaries, before any differing row is named."""

    verdict: Verdict
    """The verdict of the summaries alone; finding the rows that differ may change it."""
    reasons: tuple[str, ...]
    """Sentences that explain the verdict."""
    published: Score | None
    """The published score with its published bound; None where there is no partition."""
    rows: dict[Side, int]
    """Rows of each side in all partitions."""
    total: int
    """Partitions that at least one side has."""
    equal: int
    """Partitions with equal row counts, signatures, syndromes and measures."""
    source_only: int
    """Unequal partitions that the target lacks."""
    target_only: int
    """Unequal partitions that the source lacks."""
    skipped: int
    """Partitions that could not be compared because an engine could not hash one of their rows: total = equal + unequal + skipped."""
    skipped_rows: int
    """Rows of both sides together in skipped partitions."""
    divergent: tuple[Divergent, ...]
    """Unequal partitions, ascending by id."""

    @property
    def coverage(self) -> dict[str, float]:
        """Return the shares, 0 .. 1, of ``rows`` and of ``partitions`` that were compared; 0 where there are none."""
        rows = sum(self.rows.values())
        return {
            "rows": (rows - self.skipped_rows) / rows if rows else 0.0,
            "partitions": (self.total - self.skipped) / self.total if self.total else 0.0,
        }

    @property
    def unequal(self) -> int:
        """Return the number of unequal partitions, including those that one side lacks."""
        return len(self.divergent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jaccard:
    """Row-weighted Jaccard similarity of source A and target B as multisets of rows: J = |A and B| / |A or B|, 0 .. 1.

    With T rows on both sides together, D of them on one side only, J = (T - D) / (T + D); see ``auditor.compare.score``.
    """

    score: Score
    """Estimate of J with its 95 % interval; all three are equal where every difference is known."""
    least: float
    """Hard lower bound of J."""
    most: float
    """Hard upper bound of J."""
    differing: float
    """D, at least 0: rows on one side only, where a changed row counts on both sides. Exact or estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCost:
    """What one side of a run cost."""

    statements: int = 0
    """Statements that were run."""
    bytes: int = 0
    """Bytes received from the server, where the kernel or the driver counts them; else the characters of all results."""
    scan_bytes: int = 0
    """Bytes of the summaries alone, without connecting, planning and naming."""
    seconds: float = 0.0
    """Duration of the scan in seconds, over all levels of a ladder."""
    server: ServerTimes | None = None
    """What the server itself recorded of the statements; None where it keeps no record, or showed none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What statements cost on a connection."""

    statements: int = 0
    """Statements that ended."""
    seconds: float = 0.0
    """Seconds that they took as the auditor saw it, added up over its sessions."""
    bytes: int = 0
    """Bytes received."""
    usd: float | None = None
    """By the connection's price; None where that is not known."""

    def __add__(self, other: Spent) -> Spent:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Spent(
            statements=self.statements + other.statements, seconds=self.seconds + other.seconds, bytes=self.bytes + other.bytes, usd=usd
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionCost:
    """What a run cost on one connection, its planning among it."""

    connection: str
    spent: Spent
    basis: str
    """How the costs in USD were worked out, or why they are not known, as a clause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayCost:
    """What runs of an audit cost on a connection on one day."""

    day: dt.date
    """The day in UTC on which the statements ended, by the store's clock."""
    audit: str
    connection: str
    spent: Spent
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardResult:
    """One shard of a source in a run: what was read of it, and which of its rows the target does not hold."""

    label: str
    """Its connection and table, for a person."""
    server: str = ""
    """Product and version of its server, and whether it was reached by TLS and verified."""
    rows: int | None = None
    """Rows that were read of it; None where the scan was not read whole by this run."""
    missing: int = 0
    """Rows of it that the target lacks, as far as they were named or counted in ranges; without those of doubled keys."""
    changed: int = 0
    """Rows of it that the target holds otherwise, as far as they were named; without those of doubled keys."""
    doubled: int = 0
    """Its keys that another shard holds too, as far as they were named."""
    verdict: Verdict = Verdict.UNKNOWN
    """Match if the target is known to hold all of its rows; mismatch if it does not, or a key is on another shard too."""
    snapshots_lost: int = 0
    """Snapshots of it that were lost or given up, after which it was read as it was later."""
    cost: SideCost | None = None
    """What reading it cost."""
    aligned: Alignment | None = None
    """At which place of its own log it was read, which the target shows of it; None if the run is not aligned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """A row that was not compared, one run after another: it was younger than the watermark each time, or still changing."""

    key: dict[str, str | None]
    """Canonical text of each key column by the source's name, in key order; None for NULL."""
    runs: int
    """Runs in a row that read its part of the table without comparing it."""
    since: dt.datetime
    """When the first of them began, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverdueRange:
    """A stretch of the table of which no row was compared, one run after another."""

    label: str
    """Its keys or partitions, for a person."""
    rows: int
    """The rows that were left out there, the fewest of all these runs."""
    runs: int
    """Runs in a row that read it and compared none of its rows."""
    since: dt.datetime
    """When the first of them began, in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """At which position of the source's change stream both sides of a run were read."""

    position: str
    """The place in the source's binary log: ``FILE:POS``; of shards each one's, with its name."""
    time: dt.datetime
    """The source's clock (UTC) right before its snapshot was opened: whatever was committed by then was compared; of shards the least."""
    way: str
    """How the source's snapshot came to be at this place, as a clause for a person."""
    pipeline: str
    """The pipeline that brought the target there; of shards all of them, joined by ``and``."""
    held_seconds: float
    """Seconds for which the pipeline let the target's table stand still."""


TopicFaultKind = Literal["missing", "doubled", "disordered", "two partitions", "not the latest"]
"""What is wrong with a topic, beside what its rows are: ``missing`` and ``doubled`` messages, and messages behind later ones, by their
numbers; a key in ``two partitions``; a key whose latest message is ``not the latest`` change of its row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFault:
    """What is wrong with a topic."""

    kind: TopicFaultKind
    count: int
    """Messages, or keys, of which that is so."""
    sentence: str
    """The same for a person, with where the first ones are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartition:
    """What was read of one partition of a topic."""

    partition: int
    """Its number."""
    begin: int
    """The first offset that it had when the run began."""
    end: int
    """The offset behind the last one that was read: up to there all transactions were decided when the run began."""
    messages: int
    """Committed messages between both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSide:
    """A topic that is a side of a run: what was read of it, and what is wrong with it."""

    label: str
    """Its broker and its name."""
    id: str
    """Kafka's own id of the topic, which another one of the same name does not have."""
    partitions: tuple[TopicPartition, ...]
    """What was read of each partition."""
    messages: int
    """Committed messages that were read, tombstones among them."""
    rows: int
    """Rows that these left: the keys whose latest message is no delete."""
    faults: tuple[TopicFault, ...] = ()
    """What is wrong with it, so that a run is no match."""
    removed: str = ""
    """That messages at its beginning were removed, as a sentence; empty if it has all, or compaction alone removed some."""
    notes: tuple[str, ...] = ()
    """Further sentences for a person: what could not be checked, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCheck:
    """What a run compared with the summaries that the stream keeps of the source, and how old both proofs are."""

    pipeline: str
    """The pipeline that keeps them."""
    place: str
    """The place of the source's log as of which the target was compared: its snapshot holds exactly that."""
    time: dt.datetime | None
    """When the source committed the last event before it; for a run that scanned the source, its clock there. None if unknown."""
    began: dt.datetime
    """Since when the stream keeps the summaries, by the source's clock."""
    began_place: str
    """Where in the source's log that was."""
    proved: dt.datetime
    """When a scan of the source last proved them, by the source's clock."""
    proved_place: str
    """Where in the source's log that was."""
    scanned: str = ""
    """Why this run scanned the source, as a clause; empty if it did not."""
    moved: int = 0
    """Rows that differed as of the place, and had changed in the source since when they were fetched from there."""
    lost: tuple[Difference, ...] = ()
    """The rows that the scan found and the stream's summaries lacked: what the log did not say. At most ``limits: max_differences``."""
    lost_partitions: tuple[str, ...] = ()
    """The partitions in which more rows were lost than the sums name, for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A finished level of a ladder of methods."""

    method: Method
    """Its method."""
    verdict: Verdict
    """Its verdict."""
    seconds: float
    """Its duration in seconds."""
    reasons: tuple[str, ...] = ()
    """Sentences that explain its verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one run of one audit."""

    audit: str
    """Name of the audit."""
    run: str
    """Id of the run, 32 hexadecimal digits."""
    state: State
    """Whether the run finished: done, failed or cancelled."""
    verdict: Verdict
    """What the run found; unknown if it failed or was cancelled."""
    reasons: tuple[str, ...]
    """Sentences that explain the verdict, or the error message of a failed run."""
    seconds: float
    """Duration of the run in seconds."""
    exit_code: int
    """Exit code of the command: 0 match, 1 mismatch, 2 or 3 as the verdict or the error says."""
    method: Method | None = None
    """Method of the reported result; None if the run ended before one was chosen."""
    plan: Plan | None = None
    """The plan; None if the run ended before it was planned."""
    comparison: Comparison | None = None
    """Comparison of the summaries; None if the run ended before both sides were read."""
    differences: Differences | None = None
    """Named differences; None unless the method is exact."""
    jaccard: Jaccard | None = None
    """Row-weighted similarity; None under the method counts, and where there are no rows."""
    cost: dict[Side, SideCost] = field(default_factory=dict)
    """Cost of each side that was connected."""
    spent: tuple[ConnectionCost, ...] = ()
    """What this process spent on each connection for the run, by name; a resumed run says it of its last part alone."""
    servers: dict[Side, str] = field(default_factory=dict)
    """Product and version of each side that was connected, and whether by TLS and verified."""
    began: dt.datetime | None = None
    """When the run began, in UTC."""
    statements: dict[str, str] = field(default_factory=dict)
    """The statement that summarised each side, without the limits of chunks; of a pre-scan also that of its stretches. Empty for a run
    that ended before both sides were read."""
    measures: tuple[Measure, ...] = ()
    """Differing measures of the method counts."""
    steps: tuple[Step, ...] = ()
    """Levels of a ladder before the reported one, in the order they ran."""
    schema_changes: tuple[str, ...] = ()
    """Changes of both tables' columns since the last run, one sentence each."""
    covered: float = 1.0
    """Share of the table's partitions that this run read, 0 .. 1; below 1 in a rolling audit."""
    slice: Slice | None = None
    """The slice of the table to which the run, and all of its results, are limited; None for the whole table."""
    other_settings: str = ""
    """The settings of a one-off run that differ from its audit's, e.g. ``threshold 0``; empty for the audit's own run."""
    verified_through: dt.datetime | None = None
    """The moment (UTC) through which the whole table was seen equal, over all runs; None if it never was."""
    within_threshold_through: dt.datetime | None = None
    """The moment (UTC) through which the whole table was equal, or differed within the threshold; None if it is not later than the
    other, or it never was."""
    aligned: Alignment | None = None
    """Where both sides were read, so that nothing was in flight; None if they were read at different positions."""
    not_aligned: str = ""
    """Why a run of an audit with ``align`` is not aligned, as a clause; empty if it is, or was not to be."""
    topics: dict[Side, TopicSide] = field(default_factory=dict)
    """The sides that are topics, as far as they were read."""
    live: LiveCheck | None = None
    """What was compared with live summaries; None for an audit without them, and for a run that failed before."""
    files: dict[Side, FilesRead] = field(default_factory=dict)
    """What was read of the sides that consist of immutable files whose sums are kept; empty for an audit that keeps none."""
    as_of: dt.datetime | None = None
    """The moment (UTC) that the dump stands for, in an audit through a proxy; None where unknown, or without a proxy."""
    left_out: int = 0
    """Rows of the source that were younger than the watermark, and so were not compared by this run."""
    overdue_rows: int = 0
    """Rows that were not compared in ``overdue_after`` runs in a row; an estimate where too many rows were left out to follow each."""
    overdue: tuple[Overdue, ...] = ()
    """The first of these rows, those left out in most runs first."""
    overdue_ranges: tuple[OverdueRange, ...] = ()
    """The first stretches that consist of such rows alone, those left out in most runs first."""
    retries: int = 0
    """Transient errors that were retried, over both sides."""
    resumable: bool = False
    """Whether ``auditor resume`` can continue this run."""
    reason: str = ""
    """Why the run was asked for; empty if nobody said so."""
    suggestions: Suggestions | None = None
    """What would repair the target; None unless rows differ."""
    notes: tuple[str, ...] = ()
    """Further sentences about this run for a person."""
    shards: tuple[ShardResult, ...] = ()
    """What was found of each shard of the source, in their order; empty for a source of one table."""

    @property
    def within_threshold(self) -> bool:
        """Return whether it is a match although something differs, which the audit allows."""
        if self.verdict is not Verdict.MATCH or self.comparison is None:
            return False
        if self.differences is not None:
            return bool(self.differences)
        if self.method == "counts":
            return any(measure.deviates for measure in self.measures)
        return self.comparison.unequal > 0

    @property
    def coverage(self) -> dict[str, float]:
        """Return the shares, 0 .. 1, of ``rows`` and ``partitions`` of the table, or of its slice, for which the verdict speaks."""
        coverage = self.comparison.coverage if self.comparison else {"rows": 0.0, "partitions": 0.0}
        if self.comparison and self.overdue_rows:
            known = self.comparison.rows["source"] + self.left_out
            coverage["rows"] *= 1 - self.overdue_rows / max(known, self.overdue_rows)
        return {name: share * self.covered for name, share in coverage.items()}
