"""What is found: comparisons, differences, scores, and the report of a run."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Literal

from auditor.model._plan import Method, Plan, Section, Side, State, Verdict


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
class Measure:
    """What was counted, summed or compared under the method counts and is not the same on both sides, as texts (None: no value).

    ``label`` says of which rows: of a partition, or (``partition`` None) of more. ``deviation`` is relative to the source, None
    where there is none; ``allowed`` says that the audit allows it.
    """

    partition: int | None
    label: str
    name: str
    source: str | None
    target: str | None
    deviation: float | None
    allowed: bool


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
    def coverage(self) -> dict[str, float]:
        """The share of rows and of partitions that the verdict speaks for; 0 where there are none."""
        rows = sum(self.rows.values())
        return {
            "rows": (rows - self.skipped_rows) / rows if rows else 0.0,
            "partitions": (self.total - self.skipped) / self.total if self.total else 0.0,
        }

    @property
    def unequal(self) -> int:
        """Partitions that differ, those on one side only among them."""
        return len(self.divergent)


DifferenceKind = Literal["missing", "extra", "changed"]
Settling = Literal["confirmed", "unsettled"]
"""Whether a difference is believed, or was still moving when it was last looked at."""


@dataclass(frozen=True, slots=True)
class ColumnDifference:
    """A column of a changed row: its canonical text on each side (None: NULL), shortened; hidden where it is masked."""

    name: str
    source: str | None
    target: str | None


@dataclass(frozen=True, slots=True)
class Look:
    """When a difference was looked at again, and what was seen: ``same``, ``moved``, ``in flight`` or ``equal``."""

    at: dt.datetime
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key whose rows are not equal. ``key`` holds the canonical texts of its columns; ``rows`` how many rows each side has over,
    ``hashes`` the beginnings of their row hashes. ``state`` says whether it may still settle."""

    kind: DifferenceKind
    key: dict[str, str | None]
    rows: dict[Side, int]
    columns: tuple[ColumnDifference, ...] = ()
    hashes: dict[Side, tuple[str, ...]] = field(default_factory=dict)
    state: Settling = "confirmed"
    looks: tuple[Look, ...] = ()

    @property
    def key_number(self) -> int:
        """The key as a number, where it is one column of whole numbers."""
        return int(next(iter(self.key.values())) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDifference:
    """Neighbouring rows that one side lacks altogether, counted and not enumerated.

    ``first`` and ``last`` are its least and greatest key where partitions are key ranges, None where they are anything else, for
    then keys between these lie in other partitions too. ``ids`` are its first and last partition (None: the one without a key);
    ``buckets`` is how many there are, where they are buckets of a hash: a second scan cuts them smaller than the plan says.
    """

    kind: DifferenceKind
    first: int | None
    last: int | None
    label: str
    rows: int
    partitions: int
    ids: tuple[int | None, int | None] = (None, None)
    buckets: int = 0
    state: Settling = "confirmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The differences of a run. Counts are of keys (of rows within ranges); ``exact`` says that nothing was estimated.

    ``named`` is capped. ``partitions`` counts the unequal ones by how they were settled: ``one_sided``, ``accounted``,
    ``listed``, or ``estimated``, for which ``why`` says the reason; ``vanished`` ones differed in the scan and not when looked at.
    Those of which the rows fetched are not the ones that the scan summarised are ``unaccounted``: nothing is claimed of them.
    Of the rows that were looked at again, ``unsettled`` were still moving, ``in_flight`` are younger than the watermark on the
    source, and ``cleared`` are equal by now; none of these is counted above. Nor are ``tolerated`` rows, which differ within their
    columns' tolerances alone.
    """

    missing: int
    extra: int
    changed: int
    exact: bool
    named: tuple[Difference, ...]
    ranges: tuple[RangeDifference, ...]
    partitions: dict[str, int]
    vanished: int = 0
    unaccounted: int = 0
    unsettled: int = 0
    in_flight: int = 0
    cleared: int = 0
    tolerated: int = 0
    looks: int = 0
    """How often the differences were looked at again."""
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
class Step:
    """One level of a ladder: its method, and what it found."""

    method: Method
    verdict: Verdict
    seconds: float
    reasons: tuple[str, ...] = ()


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
    began: dt.datetime | None = None
    measures: tuple[Measure, ...] = ()
    steps: tuple[Step, ...] = ()
    """The levels of a ladder below the one that is reported."""
    schema_changes: tuple[str, ...] = ()
    """What of both tables' columns is not as it was at the last run."""
    covered: float = 1.0
    """The share of the table's partitions that this run read."""
    section: Section | None = None
    """The rows that the run was asked to look at alone: all that it found is about these."""
    verified_through: dt.datetime | None = None
    """The moment up to which everything is verified, over all runs."""
    as_of: dt.datetime | None = None
    """The moment that a dump stands for, in an audit by way of one."""
    retries: int = 0
    resumable: bool = False
    notes: tuple[str, ...] = ()
    """What else a person should know of this run."""

    @property
    def coverage(self) -> dict[str, float]:
        """The share of the table's rows, or of its section's, and partitions that the verdict speaks for."""
        here = self.comparison.coverage if self.comparison else {"rows": 0.0, "partitions": 0.0}
        return {name: share * self.covered for name, share in here.items()}
