"""The partitions of the stretches that a pre-scan found equal on both sides.

A stretch is a union of partitions, and the key of a row, or its time, says in which partition the row lies. So rows that are equal over a
whole stretch are equal in each of its partitions; how they are distributed over these was not read, and is taken to be even.
"""

from __future__ import annotations

from auditor.compare.comparator import Aligned
from auditor.model import NULL_PARTITION, Plan
from auditor.summary.arrays import Integers
from auditor.summary.lazy_numpy import np


def partitions_of(stretches: Aligned, plan: Plan) -> tuple[Integers, Integers]:
    """Return the partitions of equal stretches, ascending by id, and the rows of each; ``plan`` is that of the partitions.

    Of key ranges these are all from the least to the greatest key of each stretch, one without a row among them. Of buckets of a hash
    these are all, each with the same share of the rows.
    """
    ids = [_ids_of(stretches, index, plan) for index in range(len(stretches.partition))]
    rows = [_spread(int(stretches.rows["source"][index]), len(partitions)) for index, partitions in enumerate(ids)]
    if not ids:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if plan.partitioning.strategy == "hash":  # each bucket has rows of every stretch
        total = int(stretches.rows["source"].sum())
        buckets = np.arange(min(plan.partitioning.buckets, total), dtype=np.int64)
        return buckets, _spread(total, len(buckets))
    partition = np.concatenate(ids)
    order = np.argsort(partition, kind="stable")
    return partition[order], np.concatenate(rows)[order]


def _ids_of(stretches: Aligned, index: int, plan: Plan) -> Integers:
    how, number = plan.partitioning, stretches.partition[index]
    if how.strategy != "range" or number == NULL_PARTITION:
        return np.array([number], np.int64)
    least, greatest = stretches.key_range(index)
    assert least is not None and greatest is not None, "rows with an integer key have a least and a greatest one"
    ids = np.arange(least // how.size, greatest // how.size + 1, dtype=np.int64)
    if not plan.partition_ranges:
        return ids
    return ids[np.logical_or.reduce([(ids >= first) & (ids < end) for first, end in plan.partition_ranges])]


def _spread(rows: int, partitions: int) -> Integers:
    """Return the rows of each partition if they are distributed evenly."""
    borders = np.arange(partitions + 1, dtype=np.int64) * rows // partitions
    return np.diff(borders)
