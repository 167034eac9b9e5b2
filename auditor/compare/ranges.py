"""Range differences: neighbouring rows that are missing on one side, counted instead of enumerated."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.compare.accounting import Row
from auditor.model import NULL_PARTITION, SIDES, Difference, DifferenceKind, Partitioning, RangeDifference, Side

if TYPE_CHECKING:
    from auditor.compare.comparator import Aligned

MIN_RANGE_KEYS = 16
"""Fewest neighbouring keys within a listed partition that are reported as a range."""


@dataclass(frozen=True, slots=True)
class OneSidedRows:
    """Neighbouring rows that are on one side only."""

    kind: DifferenceKind
    """Missing or extra."""
    first: int | None
    """Least key, inclusive; None where partitions are no key ranges."""
    last: int | None
    """Greatest key, inclusive; None where ``first`` is."""
    rows: int
    """Rows, at least 1."""
    first_index: int
    """Index, among the aligned partitions, of the first one it touches."""
    last_index: int
    """Index of the last one it touches, inclusive."""
    touches_start: bool = True
    """Whether no other row lies before it in its first partition, so that the range may continue in the partition before."""
    touches_end: bool = True
    """Whether no other row lies after it in its last partition, so that the range may continue in the partition after."""


def one_sided_partitions(aligned: Aligned, how: Partitioning) -> list[OneSidedRows]:
    """Return the partitions that are missing entirely on one side, one item each.

    Only key ranges get their least and greatest key: between the keys of a bucket, or of a day, lie keys of other partitions.
    """
    ordered = how.strategy == "range"
    ranges: list[OneSidedRows] = []
    for index in (aligned.unequal & (aligned.present["source"] != aligned.present["target"])).nonzero()[0]:
        side: Side = "source" if aligned.row_index["source"][index] >= 0 else "target"
        at = int(aligned.row_index[side][index])
        summaries = aligned.sides[side]
        kind: DifferenceKind = "missing" if side == "source" else "extra"
        first, last = (summaries.least[at], summaries.greatest[at]) if ordered else (None, None)
        ranges.append(OneSidedRows(kind, first, last, int(summaries.rows[at]), int(index), int(index)))
    return ranges


def split_ranges(
    index: int, rows: Mapping[Side, Iterable[Row]], differences: Sequence[Difference]
) -> tuple[list[OneSidedRows], list[Difference]]:
    """Split the differences of one listed partition with integer keys into ranges that are missing on one side, and the others.

    ``rows`` are all rows of the partition, ``index`` is its index among the aligned partitions. A range has at least MIN_RANGE_KEYS keys,
    or at least 2 at an end of the partition, where it may continue beyond. A key on several shards is in none, because it is on both sides.
    """
    by_key = {difference.key_number: difference for difference in differences}
    keys = sorted({int(row.key[0] or 0) for side in SIDES for row in rows[side]})
    ranges: list[OneSidedRows] = []
    taken: set[int] = set()
    start = 0
    while start < len(keys):
        first = by_key.get(keys[start])
        end = start + 1
        if first and first.kind != "changed" and not first.is_doubled:
            while end < len(keys) and (there := by_key.get(keys[end])) and there.kind == first.kind and not there.is_doubled:
                end += 1
            edge = start == 0 or end == len(keys)
            if end - start >= MIN_RANGE_KEYS or (edge and end - start > 1):
                span = keys[start:end]
                taken.update(span)
                count = sum(sum(by_key[key].rows.values()) for key in span)
                ranges.append(OneSidedRows(first.kind, span[0], span[-1], count, index, index, start == 0, end == len(keys)))
        start = end
    return ranges, [difference for difference in differences if difference.key_number not in taken]


def join_ranges(one_sided: Sequence[OneSidedRows], partitions: Sequence[int], whole: bool) -> list[OneSidedRows]:
    """Return neighbouring rows, joining those that touch across the border of neighbouring partitions.

    ``partitions`` are the ids by index. ``whole`` says that they are all partitions of the table, so that no row lies between two
    consecutive ones even if their ids are not consecutive.
    """
    joined: list[OneSidedRows] = []
    for following in sorted(one_sided, key=lambda s: (s.first_index, s.first or 0)):
        before = joined[-1] if joined else None
        follows = before is not None and following.first_index == before.last_index + 1
        near = follows and before is not None and (whole or partitions[following.first_index] == partitions[before.last_index] + 1)
        touches = near and before is not None and before.touches_end and following.touches_start
        if before and touches and before.kind == following.kind and partitions[before.first_index] != NULL_PARTITION:
            rows = before.rows + following.rows
            joined[-1] = dataclasses.replace(
                before, last=following.last, rows=rows, last_index=following.last_index, touches_end=following.touches_end
            )
        else:
            joined.append(following)
    return joined


def describe(rows: OneSidedRows, how: Partitioning, partitions: Sequence[int], whole: bool) -> RangeDifference:
    """Return the range difference of neighbouring rows; ``partitions`` and ``whole`` as for ``join_ranges``."""
    return RangeDifference(
        kind=rows.kind,
        first=rows.first,
        last=rows.last,
        label=_label(rows, how, partitions, whole),
        rows=rows.rows,
        partitions=rows.last_index - rows.first_index + 1,
        ids=(_partition_id(partitions[rows.first_index]), _partition_id(partitions[rows.last_index])),
        buckets=how.buckets,
    )


def _label(rows: OneSidedRows, how: Partitioning, partitions: Sequence[int], whole: bool) -> str:
    if rows.first is not None and rows.last is not None:
        return f"keys {rows.first:,} to {rows.last:,}"
    if whole and how.strategy == "hash" and rows.last_index - rows.first_index + 1 == len(partitions):
        return "all rows"
    first, last = (how.label(_partition_id(partitions[i])) for i in (rows.first_index, rows.last_index))
    return first if rows.first_index == rows.last_index else f"{first} to {last}"


def _partition_id(partition: int) -> int | None:
    return None if partition == NULL_PARTITION else int(partition)
