"""Decide whether in-flight rows alone can explain a mismatch when the method names no rows.

A row that was updated after the watermark is left out on the source, and its old version, which is still in the target, is compared:
the partition differs. The method exact names such a row and rechecks it. The other methods name none, and exact none of what it only
estimates; but they can count the source's rows that are younger than the watermark, by partition. Each of these leaves at most one
row on one side only: the old version in the target, or, of a row that was updated after the source was read and has overtaken the
scan, the one that was read. So a partition that differs by more rows than the source has young ones there does differ. Of one that
does not, nothing is claimed.

They are counted after the scan, so that rows updated meanwhile are among them. A deleted row carries no time: it is reported as a
difference, as it is where rows are named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from auditor.compare import deviations
from auditor.compare.comparator import Aligned
from auditor.connections.reader import Reader
from auditor.model import Differences, Measure, Method, Plan, SidePlan
from auditor.run.scan import scan
from auditor.summary.arrays import Integers, Summaries
from auditor.summary.lazy_numpy import np


def find_unexplained(
    plan: Plan, aligned: Aligned, differences: Differences | None, states: Mapping[int, str], measures: Sequence[Measure]
) -> list[int] | None:
    """Return the partitions (by index) of which only a count or a share says that they differ; None if rows are known to differ.

    ``states`` says how unequal partitions, by id, were settled; ``measures`` are those of the method counts.
    """
    if differences and (differences.missing or differences.extra or differences.changed):
        return None
    unequal = [int(index) for index in np.flatnonzero(aligned.unequal)]
    if differences:
        return [index for index in unequal if states.get(int(aligned.partition[index])) == "estimated"]
    if plan.method == "counts":
        deviating = {measure.partition for measure in measures if not measure.allowed and not deviations.is_distribution(measure)}
        return [index for index in unequal if aligned.partition_id(index) in deviating]
    return unequal


def count_explaining(reader: Reader, plan: Plan, aligned: Aligned, chosen: Sequence[int]) -> int:
    """Return how many rows of the source are in flight if they can be all that differs in these partitions (by index), else 0.

    ``plan`` leaves out what is in flight now, as the open snapshots show the tables.
    """
    young = scan(reader, plan_of_young_rows(plan)).sides["source"]
    return int(young.rows.sum()) if can_explain(plan, aligned, chosen, young) else 0


def plan_of_young_rows(plan: Plan) -> Plan:
    """Return the plan that counts the source's rows in flight as cheaply as possible, and reads nothing of the target."""

    def young(here: SidePlan) -> SidePlan:  # also if the condition is neither true nor false
        return dataclasses.replace(here, settled=f"CASE WHEN {here.settled} THEN 0 ELSE 1 END = 1")

    sides = {side: young(here) if here.settled else here for side, here in plan.sides.items()}
    sides["target"] = dataclasses.replace(plan.sides["target"], chunks=())
    method: Method = "counts" if plan.method == "counts" else "signature"
    return dataclasses.replace(plan, method=method, k=0, t=0, bits=60, sides=sides)


def can_explain(plan: Plan, aligned: Aligned, chosen: Sequence[int], young: Summaries) -> bool:
    """Whether rows in flight can be all that differs in each of these partitions (by index); ``young`` are the source's."""
    if not int(young.rows.sum()):
        return False
    if plan.partitioning.strategy == "time":  # an update may have moved a row to another partition
        return True
    young_rows = dict(zip(young.partition.tolist(), young.rows.tolist(), strict=True))
    available = [young_rows.get(int(aligned.partition[index]), 0) for index in chosen]
    return bool((np.array(available, np.int64) >= _fewest_differing(plan, aligned, chosen)).all())


def _fewest_differing(plan: Plan, aligned: Aligned, chosen: Sequence[int]) -> Integers:
    """Return the fewest rows that can be on one side only: the gap between row counts, or one on each side if signatures differ."""
    gaps = [abs(int(aligned.rows["source"][index]) - int(aligned.rows["target"][index])) for index in chosen]
    return np.array([gap or (1 if plan.method == "counts" else 2) for gap in gaps], np.int64)
