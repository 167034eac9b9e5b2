"""Neighbouring rows that one side lacks: joined into ranges, counted and not enumerated."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from auditor.compare.account import Row
from auditor.model import NULL_PARTITION, SIDES, Difference, DifferenceKind, Partitioning, RangeDifference, Side

if TYPE_CHECKING:
    from auditor.compare.comparator import Aligned

SHORTEST = 16
"""Neighbouring keys that one side lacks within a listed partition are a range from so many on."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Neighbouring rows on one side only, from partition ``begins`` to ``ends`` (indices of aligned partitions).

    ``first`` and ``last`` are keys, None where partitions are no key ranges. ``at_start`` and ``at_end`` say whether it reaches the
    edge of its first and last partition, so that it may go on beyond.
    """

    kind: DifferenceKind
    first: int | None
    last: int | None
    rows: int
    begins: int
    ends: int
    at_start: bool = True
    at_end: bool = True


def one_sided(aligned: Aligned, how: Partitioning) -> list[Stretch]:
    """The partitions that one side lacks altogether, each a stretch.

    Only that of a key range is told by its least and greatest key: those of a bucket, or of a day, have others' keys between them.
    """
    ordered = how.strategy == "range"
    found: list[Stretch] = []
    for index in (aligned.unequal & (aligned.on("source") != aligned.on("target"))).nonzero()[0]:
        side: Side = "source" if aligned.at["source"][index] >= 0 else "target"
        at = int(aligned.at[side][index])
        here = aligned.sides[side]
        kind: DifferenceKind = "missing" if side == "source" else "extra"
        first, last = (here.least[at], here.greatest[at]) if ordered else (None, None)
        found.append(Stretch(kind, first, last, int(here.rows[at]), int(index), int(index)))
    return found


def within(index: int, rows: Mapping[Side, Iterable[Row]], differences: Sequence[Difference]) -> tuple[list[Stretch], list[Difference]]:
    """Of one listed partition with integer keys: the long stretches that one side lacks, and the other differences."""
    by_key = {difference.key_number: difference for difference in differences}
    keys = sorted({int(row.key[0] or 0) for side in SIDES for row in rows[side]})
    found: list[Stretch] = []
    taken: set[int] = set()
    start = 0
    while start < len(keys):
        first = by_key.get(keys[start])
        end = start + 1
        if first and first.kind != "changed":
            while end < len(keys) and (there := by_key.get(keys[end])) and there.kind == first.kind:
                end += 1
            edge = start == 0 or end == len(keys)
            if end - start >= SHORTEST or (edge and end - start > 1):
                run = keys[start:end]
                taken.update(run)
                count = sum(sum(by_key[key].rows.values()) for key in run)
                found.append(Stretch(first.kind, run[0], run[-1], count, index, index, start == 0, end == len(keys)))
        start = end
    return found, [difference for difference in differences if difference.key_number not in taken]


def joined(stretches: Sequence[Stretch], how: Partitioning, partitions: Sequence[int], whole: bool) -> list[RangeDifference]:
    """Stretches as ranges: those that touch across the edge of neighbouring partitions are one.

    ``whole`` says that ``partitions`` are all there are, so that no row lies between two of them that follow one another.
    """
    found: list[Stretch] = []
    for stretch in sorted(stretches, key=lambda s: (s.begins, s.first or 0)):
        before = found[-1] if found else None
        follows = before is not None and stretch.begins == before.ends + 1
        near = follows and before is not None and (whole or partitions[stretch.begins] == partitions[before.ends] + 1)
        touches = near and before is not None and before.at_end and stretch.at_start
        if before and touches and before.kind == stretch.kind and partitions[before.begins] != NULL_PARTITION:
            rows = before.rows + stretch.rows
            found[-1] = dataclasses.replace(before, last=stretch.last, rows=rows, ends=stretch.ends, at_end=stretch.at_end)
        else:
            found.append(stretch)
    return [
        RangeDifference(
            kind=one.kind,
            first=one.first,
            last=one.last,
            label=_label(one, how, partitions),
            rows=one.rows,
            partitions=one.ends - one.begins + 1,
            ids=(_id(partitions[one.begins]), _id(partitions[one.ends])),
            buckets=how.buckets,
        )
        for one in found
    ]


def _label(one: Stretch, how: Partitioning, partitions: Sequence[int]) -> str:
    if one.first is not None and one.last is not None:
        return f"keys {one.first:,} to {one.last:,}"
    first, last = (how.label(_id(partitions[i])) for i in (one.begins, one.ends))
    return first if one.begins == one.ends else f"{first} to {last}"


def _id(partition: int) -> int | None:
    return None if partition == NULL_PARTITION else int(partition)


def runs(numbers: Sequence[int], most: int | None = None) -> list[tuple[int, int]]:
    """Numbers as runs of consecutive ones, (first, last); at most so many, the smallest gaps between them taken in."""
    ordered = sorted(numbers)
    gaps = sorted((b - a for a, b in pairwise(ordered) if b - a > 1), reverse=True)
    widest = 1 if most is None or len(gaps) < most else gaps[most - 1]
    found: list[tuple[int, int]] = []
    for number in ordered:
        if found and number - found[-1][1] <= widest:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
