"""The nouns, frozen. One word per idea; the glossary in the README says what each means."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """How one column is compared.

    ``native`` is the kind that each side's own type stands for, ``expression`` the SQL that stands for the column on each side.
    ``trim``, ``case`` and ``null_as`` change the canonical text on both sides alike. ``lossy`` says what the comparison cannot see.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """How rows are put into partitions, the same on both sides.

    ``range``: floor(key / size). ``hash``: the key's hash modulo ``buckets``. ``time``: hours, days or months (``unit``) of a
    column since 1970. ``column`` is the position, in the plan's columns, of what ``range`` and ``time`` cut.
    """

    strategy: Literal["range", "hash", "time"]
    size: int = 0
    buckets: int = 0
    unit: Unit = "day"
    column: int = 0
    why: str = ""

    def __str__(self) -> str:
        detail = {"range": f"of {self.size:,} keys", "hash": f"in {self.buckets:,} buckets", "time": f"by {self.unit}"}
        return f"{self.strategy} {detail[self.strategy]}"

    def label(self, partition: int | None) -> str:
        """What a partition is, for a person: its keys, its bucket, or its time (UTC)."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePlan:
    """One side of a plan: where the table is, how rows are chosen, and the chunks it is read in."""

    dialect: str
    connection: str
    label: str
    table: str
    where: str
    chunks: tuple[Chunk, ...] = (Chunk(),)
    estimate: int | None = None


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
    span: int = 0
    """How many keys there can be between the least and the greatest of both sides; 0 where keys have no order."""
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def key_columns(self) -> tuple[ColumnPlan, ...]:
        """The columns that identify a row, in order."""
        return self.columns[: self.key]

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


@dataclass(frozen=True, slots=True)
class Score:
    """An estimate between 0 and 1 with its bounds."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergent:
    """A partition that is not equal: its id (None: keys with a NULL), its keys, its rows per side, how similar it is."""

    partition: int | None
    key_range: tuple[int, int] | None
    label: str
    rows: dict[Side, int]
    similarity: float | None
    measures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two sets of summaries say of each other. ``skipped`` partitions could not be compared."""

    verdict: Verdict
    reasons: tuple[str, ...]
    published: Score | None
    rows: dict[Side, int]
    total: int
    equal: int
    source_only: int
    target_only: int
    skipped: int
    skipped_rows: int
    divergent: tuple[Divergent, ...]

    @property
    def unequal(self) -> int:
        """Partitions that differ, those on one side only among them."""
        return len(self.divergent)


DifferenceKind = Literal["missing", "extra", "changed"]


@dataclass(frozen=True, slots=True)
class ColumnDifference:
    """A column of a changed row: its canonical text on each side (None: NULL), shortened; hidden where it is masked."""

    name: str
    source: str | None
    target: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key whose rows are not equal. ``key`` holds the canonical texts of its columns; ``rows`` how many rows each side has over."""

    kind: DifferenceKind
    key: dict[str, str | None]
    rows: dict[Side, int]
    columns: tuple[ColumnDifference, ...] = ()

    @property
    def key_number(self) -> int:
        """The key as a number, where it is one column of whole numbers."""
        return int(next(iter(self.key.values())) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDifference:
    """Neighbouring rows that one side lacks altogether, counted and not enumerated; keys are None where they have no order."""

    kind: DifferenceKind
    first: int | None
    last: int | None
    label: str
    rows: int
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The differences of a run. Counts are of keys (of rows within ranges); ``exact`` says that nothing was estimated.

    ``named`` is capped. ``partitions`` counts the unequal ones by how they were settled: ``one_sided``, ``accounted``,
    ``listed``, or ``estimated``, for which ``why`` says the reason. ``unsettled`` partitions differed in the scan and not when listed.
    """

    missing: int
    extra: int
    changed: int
    exact: bool
    named: tuple[Difference, ...]
    ranges: tuple[RangeDifference, ...]
    partitions: dict[str, int]
    unsettled: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jaccard:
    """Row-weighted similarity |A and B| / |A or B|: an estimate with a 95 % interval, and bounds that hold for certain."""

    score: Score
    least: float
    most: float
    differing: float
    """Rows that are on one side only, a changed row counting on both: exact or estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCost:
    """What one side of a run took."""

    statements: int = 0
    bytes: int = 0
    scan_bytes: int = 0
    """Bytes of the summaries alone, without connecting and planning."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of one run of one audit. ``comparison`` is None where a side failed; ``reasons`` then say why."""

    audit: str
    run: str
    state: State
    verdict: Verdict
    reasons: tuple[str, ...]
    seconds: float
    exit_code: int
    method: Method | None = None
    plan: Plan | None = None
    comparison: Comparison | None = None
    differences: Differences | None = None
    jaccard: Jaccard | None = None
    cost: dict[Side, SideCost] = field(default_factory=dict)
    servers: dict[Side, str] = field(default_factory=dict)
