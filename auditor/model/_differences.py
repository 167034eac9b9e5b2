"""Differences between a source and its target, by key and by range.

They are stored as JSON by the names of these fields: renaming a field needs a migration.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from auditor.model._side import Side

DifferenceKind = Literal["missing", "extra", "changed"]
"""``missing``: the row is in the source only. ``extra``: in the target only. ``changed``: its key is on both sides, and the rows differ."""

Settling = Literal["confirmed", "unsettled"]
"""``confirmed``: the difference stands. ``unsettled``: its rows were still changing at the last recheck, or it was not rechecked."""


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
