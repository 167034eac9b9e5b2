"""What is asked: sides, methods, plans and their parts."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from dialects import Kind, Unit

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
Method = Literal["counts", "signature", "minhash", "exact"]
"""How much each summary carries."""

NULL_PARTITION = -(2**63)
"""The id, in arrays, of the partition of rows whose key holds a NULL; the engines say NULL."""


class State(StrEnum):
    """Whether the work of a run ended."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Verdict(StrEnum):
    """What a run found."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """0 match, 1 mismatch, 3 nothing is claimed."""
        return {"match": 0, "mismatch": 1, "unknown": 3}[self.value]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one side of a run is: what it does or waits for now, and of a scan how many rows of about how many are read.

    ``statements`` are those that have ended on this side, over the whole run; ``running`` those that are under way now.
    """

    audit: str
    side: Side
    doing: str
    done: int = 0
    total: int = 0
    statements: int = 0
    running: int = 0


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far two values may be apart and count as equal: a number, a share of the greater of both, or seconds."""

    measure: Literal["absolute", "relative", "time"]
    most: Decimal

    def __str__(self) -> str:
        return {"absolute": f"{self.most}", "relative": f"{self.most} of the value", "time": f"{self.most.normalize():f} s"}[self.measure]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """How one column is compared.

    ``native`` is the kind that each side's own type stands for, ``expression`` the SQL that stands for the column on each side.
    ``trim``, ``case`` and ``null_as`` change the canonical text on both sides alike. ``lossy`` says what the comparison cannot see.
    With a ``tolerance``, ``kind`` is coarse enough for it, and ``fine`` what each side's unrounded values are fetched as.
    """

    name: str
    kind: Kind
    native: dict[Side, Kind]
    expression: dict[Side, str]
    types: dict[Side, str]
    why: str
    lossy: str | None = None
    trim: bool = False
    case: Literal["lower", "upper"] | None = None
    null_as: str | None = None
    masked: bool = False
    tolerance: Tolerance | None = None
    fine: dict[Side, Kind] = field(default_factory=dict)

    def finely(self, side: Side) -> ColumnPlan:
        """This column as one side's unrounded values are fetched."""
        return replace(self, kind=self.fine[side], tolerance=None, fine={}) if self.fine else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """How rows are put into partitions, the same on both sides.

    ``range``: floor(key / size). ``hash``: the key's hash modulo ``buckets``. ``time``: hours, days or months (``unit``) of a
    column since 1970. ``whole``: all rows in one. ``column`` is the position, in the plan's columns, of what ``range`` and ``time`` cut.
    """

    strategy: Literal["range", "hash", "time", "whole"]
    size: int = 0
    buckets: int = 0
    unit: Unit = "day"
    column: int = 0
    why: str = ""

    def __str__(self) -> str:
        if self.strategy == "whole":
            return "the whole table"
        keys = f"{self.size:,} keys" if self.size else "keys"  # how many is hidden where it would tell how far they reach
        detail = {"range": f"of {keys}", "hash": f"in {self.buckets:,} buckets", "time": f"by {self.unit}"}
        return f"{self.strategy} {detail[self.strategy]}"

    def label(self, partition: int | None) -> str:
        """What a partition is, for a person: its keys, its bucket, or its time (UTC)."""
        if self.strategy == "whole":
            return "the whole table"
        if partition is None:
            return f"no {'time' if self.strategy == 'time' else 'key'} (NULL)"
        if self.strategy == "range":
            return f"keys {partition * self.size:,} to {(partition + 1) * self.size - 1:,}"
        return f"bucket {partition:,} of {self.buckets:,}" if self.strategy == "hash" else _moment(self.unit, partition)


def _moment(unit: Unit, index: int) -> str:
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
    """Consecutive partitions that one statement summarises: keys from ``first`` (inclusive) to ``end`` (exclusive).

    None is no bound. ``null_key`` makes it the rows without a key instead; ``within`` is a further condition in the side's SQL.
    """

    first: int | None = None
    end: int | None = None
    null_key: bool = False
    within: str = ""


SECTIONS = ("keys", "times")
"""The overrides that make a run one of a section of its table: what it found says nothing of how the whole stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The rows that a run looks at alone, on both sides, and says nothing of the others. None is no bound.

    Those whose key lies from ``first`` to ``last``, both included; those whose ``column`` holds a time from ``since`` on and before
    ``before`` (UTC, as canonical text); where both are given, those of which both hold.
    """

    first: int | None = None
    last: int | None = None
    since: str | None = None
    before: str | None = None
    column: str = ""
    """The column of times, once the run is planned."""

    def __str__(self) -> str:
        return f"rows with {' and '.join(part for part in (self._keys(), self._times()) if part)}"

    @property
    def has_keys(self) -> bool:
        """Whether it bounds keys."""
        return self.first is not None or self.last is not None

    @property
    def has_times(self) -> bool:
        """Whether it bounds times."""
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
        told = [f"from {since} on" if since else "", f"before {before}" if before else ""]
        return f"{self.column or 'times'} {' and '.join(one for one in told if one)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePlan:
    """One side of a plan: where the table is, how rows are chosen, and the chunks it is read in.

    Where ``chunk_keys`` is not 0, ``chunks`` are cut to pieces of at most so many keys while they are read. ``settled`` is the
    condition of rows that are no longer in flight.
    """

    dialect: str
    connection: str
    label: str
    table: str
    where: str
    settled: str = ""
    chunks: tuple[Chunk, ...] = (Chunk(),)
    chunk_keys: int = 0
    estimate: int | None = None

    @property
    def conditions(self) -> list[str]:
        """What holds of every row that is compared."""
        return [condition for condition in (self.where, self.settled) if condition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides what the two engines are asked.

    ``columns`` begins with the key's, ``key`` is how many they are. ``left_out`` and ``notes`` are sentences for a person.
    """

    audit: str
    method: Method
    sides: dict[Side, SidePlan]
    columns: tuple[ColumnPlan, ...]
    key: int
    partitioning: Partitioning
    hash: Literal["sha256", "md5"] = "sha256"
    encoding: Literal["injective", "published"] = "injective"
    k: int = 0
    t: int = 0
    bits: int = 60
    salt: str = ""
    least: int | None = None
    """The least key of both sides; None where keys have no order or there are none."""
    greatest: int | None = None
    snapshot: Literal["whole", "per_chunk"] = "whole"
    """Whether one snapshot holds for a whole side, or each chunk has a short one of its own."""
    watermark: str = ""
    """Rows from this moment on (UTC) are left out on both sides as still in flight; empty: none are."""
    stretches: tuple[tuple[int, int], ...] = ()
    """The partitions that are compared, each first (inclusive) to end (exclusive), where it is not the whole table."""
    section: Section | None = None
    """The rows that are compared, where these are not all of the audit's; both sides' ``where`` says so too."""
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def key_columns(self) -> tuple[ColumnPlan, ...]:
        """The columns that identify a row, in order."""
        return self.columns[: self.key]

    @property
    def hides_ranges(self) -> bool:
        """Whether the ranges of its partitions would tell what a masked column holds."""
        return self.partitioning.strategy in ("range", "time") and self.columns[self.partitioning.column].masked

    def label(self, partition: int | None) -> str:
        """What a partition is, for a person, without what masked columns hold."""
        if not self.hides_ranges:
            return self.partitioning.label(partition)
        return "partition of NULL" if partition is None else "partition ***"

    @property
    def is_tolerant(self) -> bool:
        """Whether rows have to be fetched with their columns to know whether they differ."""
        return any(column.tolerance for column in self.columns)

    @property
    def span(self) -> int:
        """How many keys there can be between the least and the greatest of both sides; 0 where keys have no order."""
        return 0 if self.least is None or self.greatest is None else self.greatest - self.least + 1

    @property
    def rows_each(self) -> int:
        """About how many rows a partition holds."""
        rows = max((side.estimate or 0) for side in self.sides.values())
        how = self.partitioning
        if how.strategy == "range" and self.span:
            return max(1, min(how.size, rows * how.size // self.span))
        return max(1, rows // how.buckets) if how.strategy == "hash" else max(1, rows)

    @property
    def lossy(self) -> list[str]:
        """What the comparison cannot see, a sentence a column."""
        return [f"{column.name}: {column.lossy}" for column in self.columns if column.lossy]
