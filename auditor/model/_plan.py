"""Plans and their parts: sides, methods, columns, partitions, chunks.

A plan is stored as JSON by the names of its fields, so that a run can be resumed: renaming a field needs a migration.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, Literal, cast

from pydantic import GetPydanticSchema

from dialects import Kind, TimeUnit

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
"""Both sides, always in this order."""

AnySide = Annotated[Side, GetPydanticSchema(lambda _, handler: handler(str))]
"""A side, or what stands for a shard of the source: a key of what a plan or a reader holds for each table that is read."""

_SHARD = "source "

SLICES = ("keys", "times")
"""Overrides that limit a run to a slice of its table."""

PERMISSIONS = ("force", "rescan")
"""Overrides that change how a run may read, but not what it says of the audit; a run with others is a one-off run."""

Method = Literal["counts", "signature", "minhash", "exact"]
"""How much the summary of a partition carries, from the cheapest: see section 4 of the design."""

NULL_PARTITION = -(2**63)
"""Id, in int64 arrays, of the partition of rows whose key holds a NULL. Engines return NULL, and models hold None."""


def shard_side(number: int) -> Side:
    """Return what stands for a shard (1 for the first) wherever one table's side is asked for: in plans, SQL, statements and chunks.

    Only what reads tables knows it. Whatever compares both sides has the source as a whole.
    """
    return cast("Side", f"{_SHARD}{number}")


def is_shard(side: Side) -> bool:
    """Return whether it stands for a shard of the source."""
    return side.startswith(_SHARD)


def shard_number(side: Side) -> int:
    """Return which of the source's shards it stands for, 1 for the first."""
    return int(side.removeprefix(_SHARD))


def side_of(side: Side) -> Side:
    """Return the side to which a shard belongs, which for others is the side itself."""
    return "source" if is_shard(side) else side


def read_sides(sides: Iterable[Side]) -> tuple[Side, ...]:
    """Return those of these that are read as tables: the source itself is not if it consists of shards."""
    every = tuple(sides)
    return tuple(side for side in every if side != "source") if any(map(is_shard, every)) else every


def describe_other_settings(overrides: Mapping[str, Any]) -> str:
    """Return the overrides of a one-off run for a person, e.g. ``threshold 0, keys 1000..2000``; empty if it is the audit's own."""
    return ", ".join(f"{name} {_describe_setting(value)}" for name, value in overrides.items() if name not in PERMISSIONS)


def _describe_setting(value: Any) -> str:
    if isinstance(value, Mapping) and value.keys() <= {"from", "to"}:
        return f"{value.get('from', '')}..{value.get('to', '')}"
    if isinstance(value, Mapping):
        return " ".join(f"{name} {part}" for name, part in value.items())
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The rows to which a run is limited, on both sides: those within all bounds that are given."""

    first: int | None = None
    """Least key, inclusive; None for no bound."""
    last: int | None = None
    """Greatest key, inclusive; None for no bound."""
    since: str | None = None
    """Least time of ``column``, inclusive, as canonical text in UTC; None for no bound."""
    before: str | None = None
    """End of the times of ``column``, exclusive, as canonical text in UTC; None for no bound."""
    column: str = ""
    """The column of times, by the source's name; empty until the run is planned."""

    def __str__(self) -> str:
        return f"rows with {' and '.join(part for part in (self._keys(), self._times()) if part)}"

    @property
    def has_keys(self) -> bool:
        """Return whether it bounds keys."""
        return self.first is not None or self.last is not None

    @property
    def has_times(self) -> bool:
        """Return whether it bounds times."""
        return self.since is not None or self.before is not None

    def _keys(self) -> str:
        if self.first is not None and self.last is not None:
            return f"keys {self.first:,} to {self.last:,}"
        if self.first is not None:
            return f"keys from {self.first:,} on"
        return f"keys up to {self.last:,}" if self.last is not None else ""

    def _times(self) -> str:
        if not self.has_times:
            return ""
        since, before = (None if at is None else f"{at.removesuffix('.000000')} UTC" for at in (self.since, self.before))
        bounds = [f"from {since} on" if since else "", f"before {before}" if before else ""]
        return f"{self.column or 'times'} {' and '.join(bound for bound in bounds if bound)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prescan:
    """Whether a run reads one signature, or one digest, of each of a few stretches of the table first, and by the method only what
    differs."""

    used: bool
    """Whether it does."""
    why: str
    """Why, for a person."""
    partitions: int = 0
    """Range partitions in each stretch; 0 if partitions are no key ranges."""
    digest_rows: int = 0
    """The most rows of a stretch whose texts are hashed as one, in key order; 0 if each row of a stretch is hashed by itself."""
    hashes_bytes: bool = False
    """Whether rows are hashed as bytes that need no escapes, as both engines can; otherwise each as its row text."""
    groups: int = 0
    """Into about how many stretches the keys are grouped where partitions are buckets of a hash; 0 elsewhere."""
    cuts: dict[AnySide, tuple[str, ...]] = field(default_factory=dict)
    """Where partitions are buckets of a hash and stretches have digests: SQL of the first value of each stretch in the key's first column,
    ascending, and of the end of the last, by side; empty otherwise."""
    at_once: tuple[tuple[int, int], ...] = ()
    """Whole stretches that the method reads before the pre-scan, which leaves them out: ranges of keys, from the first (inclusive) to the
    end (exclusive), in the order in which they are read."""

    def __str__(self) -> str:
        how = ", by one hash of many rows," if self.used and self.digest_rows else ","
        return f"{'yes' if self.used else 'no'}{how} because {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """How the writes of the source's rows are distributed over equally wide spans of keys, since all of the table was last seen equal.

    It says where differences are expected, never what is equal: every span is read, whatever this holds.
    """

    origin: Literal["events", "settle column", "unknown"]
    """What counted them: the events that a pipeline staged of the table, or the rows by the time in their settle column."""
    why: str
    """Why they are not known, or what was counted, as a clause for a person."""
    since: dt.datetime | None = None
    """The moment since which they were counted; None where they are not known."""
    width: int = 0
    """Keys of a span; 0 where they are not known."""
    spans: int = 0
    """How many spans the plan reads."""
    counts: tuple[tuple[int, int], ...] = ()
    """The spans with writes, each as its number (key // ``width``), ascending, and its writes."""
    first: tuple[tuple[int, int], ...] = ()
    """The spans that are read first, as ranges from the first number (inclusive) to the end (exclusive), the most writes per span first;
    empty where the order is that of the keys."""

    @property
    def total(self) -> int:
        """Return how many writes were counted."""
        return sum(writes for _, writes in self.counts)

    def __str__(self) -> str:
        if self.origin == "unknown":
            return f"not known, because {self.why}"
        since = f"since {self.since:%Y-%m-%d %H:%M:%S} UTC ({self.why})" if self.since else f"({self.why})"
        if not self.total:
            return f"none {since}"
        if not self.first:
            return f"{self.total:,} writes {since}, in {len(self.counts):,} of {self.spans:,} parts"
        held = sum(writes for number, writes in self.counts if any(low <= number < end for low, end in self.first))
        parts = sum(end - low for low, end in self.first)
        return f"{parts:,} of {self.spans:,} parts hold {held / self.total:.0%} of {self.total:,} writes {since}, and are read first"


class State(StrEnum):
    """How far a run is, independent of its verdict."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Verdict(StrEnum):
    """What a run found; ``unknown`` where nothing is claimed."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """Return the exit code of a command: 0 match, 1 mismatch, 3 unknown."""
        return {"match": 0, "mismatch": 1, "unknown": 3}[self.value]


Status = Literal["mismatch", "unknown", "stale", "never", "running", "within_threshold", "match"]
"""The status of an audit: its last verdict, or why there is none that can be relied on."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one side of a run."""

    audit: str
    """Name of the audit."""
    side: Side
    """The side."""
    doing: str
    """What the side does or waits for now, for a person."""
    done: int = 0
    """Rows read by the current scan; 0 outside a scan."""
    total: int = 0
    """Estimated rows of the current scan; 0 where unknown."""
    statements: int = 0
    """Statements that finished on this side since the run began."""
    running: int = 0
    """Statements that are running on this side now."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far apart two values may be and still count as equal."""

    measure: Literal["absolute", "relative", "time"]
    """``absolute``: |a - b| <= most. ``relative``: |a - b| <= most * max(|a|, |b|). ``time``: at most ``most`` seconds apart."""
    most: Decimal
    """The limit, inclusive: a number, a share of the greater value, or seconds."""

    def __str__(self) -> str:
        return {"absolute": f"{self.most}", "relative": f"{self.most} of the value", "time": f"{self.most.normalize():f} s"}[self.measure]


Leveling = Literal["rounded", "cut", "padded", "folded", "ignored", "assumed", "left out", "hidden"]
"""How different values become equal, or why they are not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCompared:
    """Something that the comparison does not see, or takes for granted: one entry of the list that every plan and report shows."""

    column: str
    """The source's name of the column, or the target's if only the target has it; empty for what holds of whole rows."""
    how: Leveling
    """How values are levelled; ``left out`` if the column, or rows by its value, are not compared at all; ``hidden`` if the server may hide
    rows, columns or values from the session."""
    what: str
    """What is not seen, as a clause for a person."""
    side: Side | None = None
    """The side whose values are levelled; None for both."""

    def __str__(self) -> str:
        if self.how == "hidden":  # the clause names what is hidden
            return f"{self.side}: {self.what}"
        return f"{self.column or 'rows'}{f' ({self.side})' if self.side else ''}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """How one column is compared.

    ``trim``, ``case`` and ``null_as`` change the canonical text on both sides, in this order.
    """

    name: str
    """The source's name of the column."""
    kind: Kind
    """The canonical kind in which the scan compares both sides; with a ``tolerance``, coarse enough for it."""
    native: dict[AnySide, Kind]
    """The canonical kind of each side's own type."""
    expression: dict[AnySide, str]
    """SQL of the column on each side: its quoted name, or an expression in parentheses."""
    types: dict[AnySide, str]
    """Each side's own type as the catalogue spells it, for a person."""
    why: str
    """Why the columns are compared as ``kind``, for a person."""
    trim: bool = False
    """Whether blanks at both ends are removed."""
    case: Literal["lower", "upper"] | None = None
    """The case to which text is folded, if any."""
    null_as: str | None = None
    """Text that stands for NULL, so that NULL and this text count as equal; None if NULL equals only NULL."""
    masked: bool = False
    """Whether values are hidden in results; only their hashes are fetched."""
    tolerance: Tolerance | None = None
    """How far apart values may be and still count as equal."""
    by_value: bool = False
    """Whether texts that differ may be the same JSON document, so that rows which differ in them are compared by its value."""
    fine: dict[AnySide, Kind] = field(default_factory=dict)
    """With a tolerance, the kind in which each side's unrounded values are fetched; empty otherwise."""

    never_null: tuple[AnySide, ...] = ()
    """The sides whose catalogue says that the column holds no NULL."""
    zones: dict[AnySide, str] = field(default_factory=dict)
    """The side whose times are those of UTC and are taken to a zone, with the zone; empty where both sides' are of one zone."""

    digest: bool = False
    """Whether the column's SHA-256 stands in the row text instead of its canonical text, because a side's engine builds no row text that
    is long enough for both sides' longest values."""
    pieces: int = 0
    """Of a column with a digest: of how many pieces at most a long value is hashed, as ``Dialect.digest_of_pieces`` says; 0 if its text is
    hashed as it is."""

    def unrounded(self, side: Side) -> ColumnPlan:
        """Return this column for fetching one side's unrounded values, without its tolerance; itself if it has none."""
        return replace(self, kind=self.fine[side], tolerance=None, fine={}) if self.fine else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """How rows are assigned to partitions; the same on both sides."""

    strategy: Literal["range", "hash", "time", "group", "whole"]
    """How a row's partition id is computed.

    ``range``: floor(key / ``size``). ``hash``: the upper bits of the key's hash modulo ``buckets``. ``time``: whole hours, days or months
    (``unit``) since 1970-01-01 UTC. Of the stretches of a pre-scan also ``group``: a number of the key that costs little, and ``whole``: 0
    for every row.
    """
    size: int = 0
    """Keys per range partition, at least 1; 0 for other strategies."""
    buckets: int = 0
    """Number of hash buckets, at least 1; 0 for other strategies."""
    unit: TimeUnit = "day"
    """Width of a time partition: hour, day or month."""
    column: int = 0
    """Index, in the plan's columns, of the column that ``range`` and ``time`` use."""
    why: str = ""
    """Why this partitioning was chosen, for a person."""

    def __str__(self) -> str:
        if self.strategy == "whole":
            return "the whole table"
        keys = f"{self.size:,} keys" if self.size else "keys"  # 0 in a report where the size would reveal the span of a masked key
        detail = {"range": f"of {keys}", "hash": f"in {self.buckets:,} buckets", "time": f"by {self.unit}", "group": "of keys"}
        return f"{self.strategy} {detail[self.strategy]}"

    def label(self, partition: int | None) -> str:
        """Return a description of a partition for a person: its keys, its bucket, or its time (UTC)."""
        if self.strategy == "whole":
            return "the whole table"
        if partition is None:
            return f"no {'time' if self.strategy == 'time' else 'key'} (NULL)"
        if self.strategy == "range":
            return f"keys {partition * self.size:,} to {(partition + 1) * self.size - 1:,}"
        return f"bucket {partition:,} of {self.buckets:,}" if self.strategy == "hash" else _time_label(self.unit, partition)


def _time_label(unit: TimeUnit, index: int) -> str:
    if unit == "month":
        year, month = divmod(index, 12)
        return f"{1970 + year:04}-{month + 1:02}"
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(hours=index * (24 if unit == "day" else 1))
    except OverflowError:
        return f"{unit} {index} since 1970"
    return f"{moment:%Y-%m-%d}" if unit == "day" else f"{moment:%Y-%m-%d %H}:00"


@dataclass(frozen=True, slots=True)
class Chunk:
    """The rows that one statement summarises: consecutive partitions of one side."""

    first: int | None = None
    """Least key, inclusive; None for no bound."""
    end: int | None = None
    """End of the keys, exclusive; None for no bound."""
    null_key: bool = False
    """Whether the chunk is the rows whose key is NULL instead of a range of keys."""
    within: str = ""
    """A further condition, in the side's SQL."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Return its first key (inclusive) and its end (exclusive), infinite where it has no bound."""
        return (-math.inf if self.first is None else self.first), (math.inf if self.end is None else self.end)

    def overlaps(self, other: Chunk) -> bool:
        """Return whether a row can lie in both chunks, judging by keys alone."""
        if self.null_key or other.null_key:
            return self.null_key and other.null_key
        (first, end), (low, high) = self.bounds, other.bounds
        return first < high and low < end


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """How the latest row of each key is found in a table that keeps older ones beside it."""

    key: tuple[str, ...]
    """SQL of the key's columns, at least one."""
    latest: tuple[str, ...]
    """SQL of the columns whose greatest values the latest row has, the first column first, at least one."""
    prefix: str
    """How the names begin that statements give to ranks, and to what has them: as no name of the side does."""

    @property
    def is_latest(self) -> str:
        """Return the SQL condition of the latest rows: of all that share the latest version of their key."""
        return f"{self.prefix}ranked_rows.{self.prefix}rank = 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """What a side's convention hides of its table."""

    convention: str
    """Name of the convention."""
    current: str = ""
    """SQL condition of rows that are the current ones of their keys; empty where all are."""
    current_by: str = ""
    """What says so, for a person."""
    by_version: bool = False
    """Whether it is the greatest version that makes a row the current one, so that each key has one."""
    flagged: str = ""
    """SQL condition of rows that are flagged as deleted; empty where none can be."""
    flagged_by: str = ""
    """What says so, for a person."""
    not_current_rows: int | None = None
    """Rows that are not the current ones of their keys; None until they were counted."""
    flagged_rows: int | None = None
    """Current rows that are flagged as deleted; None until they were counted."""
    tied_keys: int = 0
    """Keys that have several rows of their latest version, all of which are compared."""

    @property
    def hides_rows(self) -> bool:
        """Return whether it hides rows."""
        return bool(self.current or self.flagged)

    @property
    def hidden(self) -> str:
        """Return the SQL condition of current rows that are flagged, or of rows that are not current where none can be flagged."""
        if not self.flagged:
            return f"NOT ({self.current})"
        return f"{self.current} AND {self.flagged}" if self.current else self.flagged

    @property
    def counted(self) -> str:
        """Return the SQL condition of the rows that count; empty for all."""
        return " AND ".join([*([self.current] if self.current else []), *([f"NOT {self.flagged}"] if self.flagged else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePlan:
    """One side of a plan: its table, the rows that are compared, and the chunks in which they are read."""

    dialect: str
    """Name of the dialect."""
    connection: str
    """Name of the connection."""
    label: str
    """The connection and the table as configured, for a person: ``shop: orders``."""
    table: str
    """SQL of the table's qualified name, or of a query as a derived table; of a source of several shards their names, for a person."""
    where: str
    """SQL condition of the audit's filter and the slice; empty for all rows."""
    settled: str = ""
    """SQL condition of rows that are no longer in flight; empty without a watermark."""
    written: str = ""
    """SQL of the canonical text of when a row was last written; empty without a watermark."""
    chunks: tuple[Chunk, ...] = (Chunk(),)
    """The chunks, which together hold every row once."""
    chunk_keys: int = 0
    """Keys per statement: while they are read, chunks are split into pieces of at most this many keys; 0 to read each chunk whole."""
    estimate: int | None = None
    """Estimated number of rows; None where unknown."""
    query: str = ""
    """The query that is read in place of a table, of which ``table`` is a derived one; empty for a table."""
    versions: Versions | None = None
    """How the latest rows are found, by whose rank ``where`` selects them; None where a key has one row."""
    follows: Followed | None = None
    """What the side's convention hides, which ``where`` leaves out; None without one."""

    @property
    def conditions(self) -> list[str]:
        """Return the SQL conditions that every compared row meets."""
        return [condition for condition in (self.where, self.settled) if condition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedCost:
    """What a run is expected to cost on a connection: what its scan sends by the plan, and what the last runs cost."""

    connection: str
    scan_statements: int
    """Statements of the scans, without planning and naming."""
    scan_bytes: int
    """Bytes of summaries that they send."""
    runs: int = 0
    """Last runs of which the following are the medians; 0 where none is known, and these say nothing."""
    seconds: float | None = None
    """Seconds of statements."""
    bytes: int | None = None
    """Bytes received."""
    usd: float | None = None
    """By the connection's price; None where one of the runs had none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesExpected:
    """What a run is expected to read of a side that consists of immutable files, whose sums are kept."""

    files: int
    """Files of the version that is there now."""
    new: int
    """Those of them that are to be read as a whole."""
    hidden: int
    """Files that are to be read for rows that deletes hide."""
    bytes: int
    """Bytes of all files of the version."""
    new_bytes: int
    """Bytes of the files that are to be read, as a whole or for rows that deletes hide."""
    statements: int
    """Statements that read them."""
    why: str
    """Why more is to be read than what is new, as a clause; empty where nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that determines the SQL of a run."""

    audit: str
    """Name of the audit."""
    method: Method
    """What the summaries carry."""
    sides: dict[AnySide, SidePlan]
    """Tables, filters and chunks of both sides; of a source of several shards also those of each, which are read in place of it."""
    columns: tuple[ColumnPlan, ...]
    """The compared columns: first those of the key, in key order."""
    key: int
    """Number of key columns, at least 1."""
    partitioning: Partitioning
    """How rows are assigned to partitions."""
    prefix: str
    """How every name begins that statements give to tables and columns of their own: as no name of either side does."""
    hash: Literal["sha256", "md5"] = "sha256"
    """The row hash."""
    encoding: Literal["injective", "published"] = "injective"
    """How a row's canonical texts become one text: see ``auditor.canonical``."""
    k: int = 0
    """Minhashes per partition; 0 for none."""
    t: int = 0
    """Differing positions that a partition's syndromes decode (method exact), at least 1; 0 for other methods."""
    bits: int = 60
    """Bits of the row hash that enter the signature under the method exact: 60 or 120, in words of 30 bits."""
    salt: str = ""
    """Text at the beginning of every row text, which makes hashes unpredictable; empty for none."""
    least: int | None = None
    """Least key over both sides; None where keys have no order or there are no rows."""
    greatest: int | None = None
    """Greatest key over both sides; None where ``least`` is."""
    snapshot: Literal["whole", "per_chunk"] = "whole"
    """Whether one snapshot holds for a whole side, or each chunk is read in a short one of its own."""
    aligned: str = ""
    """The place of the source's log (of shards each one's) at which both sides are read, in one snapshot; empty if they are not aligned."""
    barrier: str = ""
    """How the run knew that what is older than the watermark had arrived, as a sentence; empty if it waited for no heartbeat."""
    watermark: str = ""
    """Moment (UTC, canonical text) from which rows are left out on both sides as still in flight; empty if none are."""
    partition_ranges: tuple[tuple[int, int], ...] = ()
    """The partitions that are compared, as ranges from the first id (inclusive) to the end (exclusive); empty for all of the table."""
    slice: Slice | None = None
    """The slice to which the run is limited; ``where`` of both sides contains its conditions."""
    not_compared: tuple[NotCompared, ...] = ()
    """What the comparison does not see: left-out columns, and what levels the values of the others."""
    now: str = ""
    """Moment (UTC, canonical text) of the source's clock that the filter's ``now`` and ``today`` stand for; empty if it reads no clock."""
    notes: tuple[str, ...] = ()
    """Further sentences for a person."""
    prescan: Prescan | None = None
    """Whether stretches are read first; None until it is decided."""
    expected: tuple[ExpectedCost, ...] = ()
    """What a run is expected to cost on each connection; empty of a plan that a run made itself."""
    files: dict[Side, FilesExpected] = field(default_factory=dict)
    """What a run is expected to read of sides that consist of files, whose sums are kept; empty in the plan of a run."""
    writes: Writes | None = None
    """How the writes since the last match are distributed; None until they are asked for."""
    joins_words: bool = False
    """Whether a signature's two words are carried into one number, which says whether rows are equal, and not how many differ."""
    digest_rows: int = 0
    """The most rows of a partition whose texts are hashed as one, in key order, in place of a signature; 0 where rows are hashed one by
    one. A partition that holds more is counted as having no hashed rows."""
    hashes_bytes: bool = False
    """Whether the rows of a signature that is summed over stretches are hashed as bytes that need no escapes, in place of row texts."""
    version: int = 0
    """`canonical.VERSION` of the auditor that made the plan; 0 before there were versions."""

    def named(self, name: str) -> str:
        """Return a name of our own with the plan's prefix; with a point it is that of a table and one of its columns."""
        return ".".join(self.prefix + part for part in name.split("."))

    @property
    def read_sides(self) -> tuple[Side, ...]:
        """Return the sides of the tables that are read: source and target, or the shards of the source and the target."""
        return read_sides(self.sides)

    @property
    def key_columns(self) -> tuple[ColumnPlan, ...]:
        """Return the columns that identify a row, in key order."""
        return self.columns[: self.key]

    @property
    def queries(self) -> dict[Side, str]:
        """Return the queries that are read in place of tables, by side."""
        return {side: here.query for side, here in self.sides.items() if here.query}

    @property
    def has_integer_key(self) -> bool:
        """Return whether the key is one column of whole numbers, by both sides' own types, so that keys have an order and a range.

        A masked key has neither: its ranges would reveal values, in partitions, chunks and SQL.
        """
        column = self.columns[0]
        if column.masked:
            return False
        # No year: MySQL reads a number beside one as a year of two digits, or as none. A key of years alone has 256 rows at most.
        whole = column.kind.name == "integer" and not {native.name for native in column.native.values()} - {"integer", "decimal"}
        return self.key == 1 and whole and column.null_as is None  # NULL lies in no key range, and the text for NULL might

    @property
    def hides_ranges(self) -> bool:
        """Return whether the limits of its partitions would reveal values of a masked column."""
        return self.partitioning.strategy in ("range", "time") and self.columns[self.partitioning.column].masked

    @property
    def is_tolerant(self) -> bool:
        """Return whether rows must be fetched with their columns to know whether they differ: a column has a tolerance, or is compared by
        the value of its documents."""
        return any(column.tolerance or column.by_value for column in self.columns)

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the names of the columns that are compared by the value of their JSON documents."""
        return tuple(column.name for column in self.columns if column.by_value)

    @property
    def undecided_documents(self) -> tuple[str, ...]:
        """Return those of which rows that are not fetched may differ though they are equal: by a method that fetches rows any, by others
        those whose keys are not in one order on both sides."""
        every = self.method == "exact"
        return tuple(column.name for column in self.columns if column.by_value and (every or column.kind.form != "printed"))

    @property
    def span(self) -> int:
        """Return the number of possible keys from the least to the greatest of both sides; 0 where keys have no order."""
        return 0 if self.least is None or self.greatest is None else self.greatest - self.least + 1

    @property
    def rows_per_partition(self) -> int:
        """Return the estimated number of rows per partition, at least 1."""
        rows = max((side.estimate or 0) for side in self.sides.values())
        how = self.partitioning
        if how.strategy == "range" and self.span:
            return max(1, min(how.size, rows * how.size // self.span))
        return max(1, rows // how.buckets) if how.strategy == "hash" else max(1, rows)


def consecutive_ranges(numbers: Sequence[int], most: int | None = None) -> list[tuple[int, int]]:
    """Return numbers as ranges (first, last), both inclusive, ascending.

    With ``most`` there are at most that many ranges: neighbours are joined across the smallest gaps.
    """
    ordered = sorted(numbers)
    gaps = sorted((b - a for a, b in pairwise(ordered) if b - a > 1), reverse=True)
    widest = 1 if most is None or len(gaps) < most else gaps[most - 1]
    ranges: list[tuple[int, int]] = []
    for number in ordered:
        if ranges and number - ranges[-1][1] <= widest:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges


@dataclass(frozen=True, slots=True)
class DefinedColumn:
    """A column as it should be."""

    name: str
    type: str
    """Its type on the engine."""
    kind: Kind
    """The canonical kind of the values that it must hold."""
    nullable: bool
    comment: str = ""


@dataclass(frozen=True, slots=True)
class DefinedTable:
    """A table as it should be."""

    columns: tuple[DefinedColumn, ...]
    key: tuple[str, ...]
    """The columns of its primary key, in order; empty if it has none."""
    left_out: Mapping[str, str]
    """Why columns of the source have no place in it, by their names."""
    comment: str = ""


def parse_time(text: str) -> dt.datetime:
    """Return an ISO 8601 date or time as an aware datetime in UTC; without an offset it is taken as UTC. Raises ValueError."""
    try:
        time = dt.datetime.fromisoformat(text)
        return time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        raise ValueError("write a time as 2026-11-01 or 2026-11-01T06:30:00, in UTC unless it says otherwise") from None
