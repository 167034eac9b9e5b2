"""Compare stretches of a target with the stream's sums of the source, and read by the method only those that differ.

Signatures are sums, so those of a stretch's partitions add up to that of the stretch: the stream's sums serve for any stretch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from auditor.compare.comparator import align
from auditor.connections.reader import Reader
from auditor.model import NULL_PARTITION, Plan
from auditor.planning.prescan import plan_of_stretches
from auditor.run.prescan import ReadResult, count_contradicted, describe, keys_of_stretch, plan_of_rest, some_keys
from auditor.sql import render
from auditor.summary import arrays, live
from auditor.summary.arrays import Integers, Summaries
from auditor.summary.lazy_numpy import np

if TYPE_CHECKING:
    import numpy.typing as npt


def read_stretches(reader: Reader, plan: Plan, source: Summaries, read: Callable[[Plan], Summaries]) -> ReadResult:
    """Return the summaries of every partition on both sides; ``read`` reads the target by a plan, in the snapshot of the sums.

    Of a stretch that is equal, the target's are those of the source: equal sums of rows are sums of equal rows.
    """
    parents = _stretches_of(plan, source.partition)
    united, whole = live.unite(source, parents), read(plan_of_stretches(plan))
    scanned = align(arrays.join_words(united), arrays.join_words(whole))
    rest = plan_of_rest(reader, plan, scanned, scanned.equal, {side: [] for side in plan.read_sides})
    is_equal = np.isin(parents, scanned.partition[scanned.equal])
    names = render.result_columns(plan)
    remainder = read(rest) if rest else arrays.read([], names)
    target = arrays.concatenate([select(source, is_equal), remainder], names)
    contradicted = count_contradicted(plan, scanned, align(select(source, ~is_equal), remainder)) if rest else 0
    return ReadResult(
        align(source, target),
        describe(plan, scanned, scanned.equal, rest is not plan),
        read_by=(plan_of_stretches(plan), *((plan,) if rest else ())),
        keys=some_keys(scanned),
        contradicted=contradicted,
    )


def select(sums: Summaries, which: npt.NDArray[np.bool_]) -> Summaries:
    """Return the summaries of some partitions."""
    return Summaries(**{name: getattr(sums, name)[which] for name in Summaries.__slots__})


def _stretches_of(plan: Plan, partition: Integers) -> Integers:
    """Return the stretches in which partitions lie, (n,) int64."""
    if plan.partitioning.strategy != "range":
        return np.zeros(len(partition), np.int64)
    return np.where(partition == NULL_PARTITION, NULL_PARTITION, partition // (keys_of_stretch(plan) // plan.partitioning.size))
