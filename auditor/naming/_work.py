"""What naming works on: one scan's unequal partitions, what was found of them so far, and rows sorted into them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor import canonical, tolerance
from auditor.compare import account
from auditor.compare.account import Row
from auditor.compare.comparator import Aligned
from auditor.compare.ranges import Stretch
from auditor.config import Limits
from auditor.field import P
from auditor.model import NULL_PARTITION, SIDES, Difference, Plan, RangeDifference, Side
from auditor.rows import Fetcher
from dialects import Session

Both = Callable[[Callable[[Side], Any]], dict[Side, Any]]
"""Does a piece of work for both sides at once."""


@dataclass(slots=True)
class Found:
    """What was found so far, over both scans."""

    named: list[Difference] = field(default_factory=list)
    ranges: list[RangeDifference] = field(default_factory=list)
    differing: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"missing": 0, "extra": 0, "changed": 0})
    partitions: dict[str, int] = field(default_factory=lambda: {"one_sided": 0, "accounted": 0, "refined": 0, "listed": 0, "estimated": 0})
    states: dict[int, str] = field(default_factory=dict)
    """How the first scan's unequal partitions (by id) were settled."""
    vanished: int = 0
    unaccounted: int = 0
    tolerated: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Naming:
    """One scan whose unequal partitions are to be explained: by which plan, what it found, and how to ask the engines more."""

    plan: Plan
    aligned: Aligned
    limits: Limits
    session: Callable[[Side], Session]
    both: Both
    rescan: Callable[[Plan], Aligned]
    still: Callable[[], bool]
    """Whether both sides are seen as they were at the scan, up to now."""
    deadline: float
    found: Found
    again: bool = False
    """Whether this is the second scan."""

    def fetch(self, side: Side) -> Fetcher:
        """What fetches rows of a side."""
        return Fetcher(self.plan, side, self.session(side), self.limits.value_length)

    def keep(self, differences: Sequence[Difference]) -> None:
        """Count differences, and keep as many by their keys as the limits allow."""
        for difference in differences:
            self.found.counts[difference.kind] += 1
            self.found.differing += sum(difference.rows.values())
        self.found.named += differences[: max(0, self.limits.max_differences - len(self.found.named))]

    def settled(self, indices: Iterable[int], how: str) -> None:
        """Note how partitions (by index) were settled; those of a second scan lie within ones that are noted already."""
        for index in () if self.again else indices:
            self.found.states.setdefault(int(self.aligned.partition[index]), how)

    def keep_stretches(self, stretches: Sequence[Stretch]) -> None:
        """Count stretches of rows on one side only."""
        for stretch in stretches:
            self.found.counts[stretch.kind] += stretch.rows
            self.found.differing += stretch.rows


def differences(naming: Naming, rows: Mapping[Side, Sequence[Row]]) -> tuple[list[Difference], int]:
    """The differences of these rows; and how many rows differ within tolerances, which are noted."""
    found, forgiven = tolerance.named(naming.plan, rows)
    naming.found.tolerated += forgiven
    return found, forgiven


def position_of(plan: Plan, key: account.Key) -> int:
    """The hashed position of a key, from its canonical texts."""
    digits = canonical.row_hash(canonical.row_text(key), plan.hash)
    return (canonical.word(digits, 1, 15) & P) % (P - 1) + 1


def by_index(naming: Naming, indices: Iterable[int], rows: Mapping[Side, Iterable[Row]]) -> dict[int, dict[Side, list[Row]]]:
    """Rows sorted into the partitions (by index) that they belong to; those of others are dropped."""
    sorted_out: dict[int, dict[Side, list[Row]]] = {index: {side: [] for side in SIDES} for index in indices}
    index_of = {int(naming.aligned.partition[index]): index for index in sorted_out}
    for side in SIDES:
        for row in rows[side]:
            index = index_of.get(NULL_PARTITION if row.partition is None else row.partition)
            if index is not None:
                sorted_out[index][side].append(row)
    return sorted_out
