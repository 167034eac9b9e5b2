"""Partitions that hold more differences than decode, but not very many: cut into smaller ones, and summarised once more."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from auditor.compare import jaccard, ranges
from auditor.compare.comparator import Aligned
from auditor.model import NULL_PARTITION, SIDES, Chunk, Partitioning, Plan
from auditor.naming._work import Naming
from auditor.render import WORD_BITS, of_partitions

FINER_LIMIT = 1 << 20
"""The most partitions of a second scan."""

FINER_RANGES, FINER_AT_ONCE = 100, 25
"""The most key ranges that a second scan reads, and how many of them one statement reads."""

FINER_TIMES = 10
"""A second scan is made for up to so many times max_differences."""


def finer(naming: Naming, overloaded: Sequence[int]) -> tuple[list[int], Plan | None]:
    """Which overloaded partitions to summarise again, and a plan that cuts them so that about one difference lies in each.

    Not those without a position, nor those that one side lacks a good part of, nor the neighbours of partitions that one side
    lacks: these hold ranges, which a list shows.
    """
    aligned, how = naming.aligned, naming.plan.partitioning
    none: tuple[list[int], Plan | None] = ([], None)
    lone = aligned.on("source") != aligned.on("target")
    chosen: list[int] = []
    for index in overloaded:
        source, target = (aligned.rows(side, index) for side in SIDES)
        edge = bool(lone[index - 1 : index + 2].any()) if index else bool(lone[:2].any())
        if (
            aligned.partition[index] != NULL_PARTITION
            and not edge
            and abs(source - target) < max(ranges.SHORTEST, (source + target) // 256)
        ):
            chosen.append(index)
    if not chosen or how.strategy == "time":
        return none
    expected = jaccard.differing(jaccard.rest_of(aligned, np.array(chosen, np.int64), {}, WORD_BITS[naming.plan.method]))
    rows = sum(aligned.rows(side, index) for index in chosen for side in SIDES)
    if expected > FINER_TIMES * naming.limits.max_differences or expected > rows / 8:
        return none
    times = _divisor(how, math.ceil(max(expected / 2 / len(chosen), 4)))
    if times is None or len(chosen) * times > FINER_LIMIT:
        return none
    why = f"about {expected:,.0f} rows of {len(chosen):,} partitions differ"
    smaller = dataclasses.replace(how, why=why, size=how.size // times, buckets=how.buckets * times)
    numbers = [int(aligned.partition[index]) for index in chosen]
    if how.strategy == "range":
        numbers = [number for first, last in ranges.runs(numbers, FINER_RANGES) for number in range(first, last + 1)]
    return chosen, dataclasses.replace(_reading(naming, numbers), partitioning=smaller)


def _reading(naming: Naming, numbers: Sequence[int]) -> Plan:
    """The plan that reads these partitions alone."""
    sides = dict(naming.plan.sides)
    for side in SIDES:
        conditions = of_partitions(naming.plan, side, naming.session(side).dialect, numbers, FINER_AT_ONCE)
        sides[side] = dataclasses.replace(sides[side], chunks=tuple(Chunk(within=one) for one in conditions))
    return dataclasses.replace(naming.plan, sides=sides)


def only(naming: Naming, numbers: Sequence[int]) -> Plan:
    """The plan that summarises these partitions once more; where they are no key ranges, the whole of what was scanned, as it was."""
    if naming.plan.partitioning.strategy != "range":
        return naming.plan
    keyed = [number for number in numbers if number != NULL_PARTITION]
    plan = _reading(naming, keyed)
    if len(keyed) == len(numbers):
        return plan
    sides = {side: dataclasses.replace(here, chunks=(*here.chunks, Chunk(null_key=True))) for side, here in plan.sides.items()}
    return dataclasses.replace(plan, sides=sides)


def _divisor(how: Partitioning, wanted: int) -> int | None:
    """Into how many a partition is cut, at least ``wanted``: smaller ranges must lie whole within their parent."""
    if how.strategy != "range":
        return wanted
    return next((times for times in range(wanted, how.size // 2 + 1) if how.size % times == 0), None)


def within(again: Aligned, naming: Naming, refined: Sequence[int], finer: Plan) -> Aligned:
    """The second scan's partitions that lie within the refined ones; it may have seen others between these."""
    coarse, fine = naming.plan.partitioning, finer.partitioning
    parents = again.partition // (coarse.size // fine.size) if coarse.strategy == "range" else again.partition % coarse.buckets
    wanted = naming.aligned.partition[list(refined)]
    kept = (again.partition != NULL_PARTITION) & np.isin(parents, wanted)
    equal = len(wanted) - len(np.unique(parents[kept & ~again.equal]))
    if naming.still():
        naming.found.unaccounted += equal
    else:
        naming.found.vanished += equal  # they no longer differ
    return again.only(kept)
