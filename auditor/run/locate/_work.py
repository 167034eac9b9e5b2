"""What locating differences works on: one scan's unequal partitions, the reader, and what was located so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.compare import jaccard
from auditor.compare.accounting import Row
from auditor.compare.comparator import Aligned
from auditor.compare.ranges import OneSidedRows
from auditor.compare.sampling import Sample
from auditor.compare.text_forms import MOST_CHARACTERS
from auditor.config import Limits
from auditor.connections.reader import Reader
from auditor.model import NULL_PARTITION, SIDES, Difference, Plan, RangeDifference, Side
from auditor.run.fetch import Fetcher, Place
from auditor.sql.render import WORD_BITS
from auditor.summary import key_number
from auditor.summary.lazy_numpy import np
from dialects import Session


@dataclass(slots=True)
class ScatteredRows:
    """Rows of differences that lie in no range: ``rows``, and ``one_sided`` if a changed row counts on both sides."""

    rows: int = 0
    one_sided: int = 0


@dataclass(slots=True)
class Tally:
    """What was located so far, over both scans."""

    named: Sample
    """The differences that are kept with their keys."""
    ranges: list[RangeDifference] = field(default_factory=list)
    differing_rows: int = 0
    """Rows on one side only, a changed row counting on both."""
    scattered: ScatteredRows = field(default_factory=ScatteredRows)
    """Those of them that lie in no range."""
    counts: dict[str, int] = field(default_factory=lambda: {"missing": 0, "extra": 0, "changed": 0})
    partitions: dict[str, int] = field(default_factory=lambda: {"one_sided": 0, "accounted": 0, "refined": 0, "listed": 0, "estimated": 0})
    """How many unequal partitions were settled in which way."""
    states: dict[int, str] = field(default_factory=dict)
    """How each of the first scan's unequal partitions (by id) was settled."""
    vanished: int = 0
    unaccounted: int = 0
    tolerated: int = 0
    undecided: int = 0
    by_time: list[Difference] = field(default_factory=list)
    """Differences found in partitions by time, not yet merged by key nor counted."""
    counted_twice: str = ""
    """Why rows whose time changed count as missing and as extra; empty if they do not."""
    why: str = ""
    """Why partitions are left that were only estimated."""


@dataclass(frozen=True, slots=True)
class Work:
    """One scan whose unequal partitions are to be explained."""

    plan: Plan
    aligned: Aligned
    limits: Limits
    reader: Reader
    deadline: float
    """The moment, by ``time.monotonic``, after which nothing further is listed."""
    tally: Tally
    resumed: bool = False
    """Whether some chunks were read in the snapshot of an earlier attempt."""
    second_scan: bool = False

    @property
    def saw_one_snapshot(self) -> bool:
        """Whether both sides are seen as they were at the scan, so that nothing can have changed in between."""
        return self.plan.snapshot == "whole" and not self.resumed and self.reader.saw_one_snapshot

    @property
    def most_listed(self) -> int:
        """Return how many rows of both sides may be listed."""
        if self.limits.max_rows_listed is not None:
            return self.limits.max_rows_listed
        return max(100_000, sum(int(self.aligned.sides[side].rows.sum()) for side in SIDES) // 100)

    def fetcher(self, side: Side, session: Session) -> Fetcher:
        """Return what fetches rows of a side."""
        return Fetcher(self.plan, side, session, max(self.limits.value_length, MOST_CHARACTERS))

    def add(self, differences: Sequence[Difference]) -> None:
        """Count differences, and keep as many by their keys as the limits allow; those of partitions by time wait to be merged."""
        if self.plan.partitioning.strategy == "time":
            self.tally.by_time += differences
        else:
            self.count(differences)

    def count(self, differences: Sequence[Difference]) -> None:
        """Count differences, one of a key, and keep as many by their keys as the limits allow."""
        for difference in differences:
            self.tally.counts[difference.kind] += difference.row_count
            self.tally.differing_rows += sum(difference.rows.values())
            self.tally.scattered.rows += difference.row_count
            self.tally.scattered.one_sided += sum(difference.rows.values())
        self.tally.named.add(differences)

    def add_one_sided(self, one_sided: Sequence[OneSidedRows]) -> None:
        """Count neighbouring rows that are missing on one side."""
        for rows in one_sided:
            self.tally.counts[rows.kind] += rows.rows
            self.tally.differing_rows += rows.rows

    def estimate_differing(self, indices: Sequence[int]) -> float:
        """Return about how many rows of these partitions (by index, of both sides) are on one side only."""
        at = np.array(indices, np.int64)
        return jaccard.estimate_differing(jaccard.select_unresolved(self.aligned, at, {}, WORD_BITS[self.plan.method]))

    def record_state(self, indices: Iterable[int], state: str) -> None:
        """Record how partitions (by index) were settled; those of a second scan lie within partitions that are recorded already."""
        for index in () if self.second_scan else indices:
            self.tally.states.setdefault(int(self.aligned.partition[index]), state)


def place_of(plan: Plan, row: Row) -> Place | None:
    """Return the partition and the position of a row in a partition by hash or time; None for a row without either."""
    number = key_number.key_number(plan, row.key)
    return None if number is None or row.partition is None else (row.partition, key_number.position_of(number))


def group_by_partition(work: Work, indices: Iterable[int], rows: Mapping[Side, Iterable[Row]]) -> dict[int, dict[Side, list[Row]]]:
    """Return rows by the partitions (by index) that they belong to; rows of other partitions are dropped."""
    grouped: dict[int, dict[Side, list[Row]]] = {index: {side: [] for side in SIDES} for index in indices}
    index_of = {int(work.aligned.partition[index]): index for index in grouped}
    for side in SIDES:
        for row in rows[side]:
            index = index_of.get(NULL_PARTITION if row.partition is None else row.partition)
            if index is not None:
                grouped[index][side].append(row)
    return grouped
