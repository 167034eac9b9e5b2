"""Whether what differs may be rows in flight, where nobody can say which rows they are.

A row that was updated after the watermark is left out on the source, and its old version, which is still in the target, is compared:
the partition differs. The method exact names such a row and looks at it again. The other methods name none, and exact none of what it
only estimates; but they can say how many rows of the source are younger than the watermark, a partition. Each of these leaves
one row on one side only, at most: the old version in the target, or, of a row that was updated after the source was read and has
overtaken us, the one that was read. So a partition that differs by more rows than the source has young ones there does differ. Of
one that does not, nothing is claimed.

They are counted after the scan, so that those are among them which were updated meanwhile. A row that was deleted carries no time:
it is told as a difference, as it is where rows are named.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from auditor.compare.comparator import Aligned
from auditor.model import Method, Plan, Side, SidePlan
from auditor.summary import Integers, Summaries


def counting(plan: Plan) -> Plan:
    """The plan that summarises the source's rows in flight, as cheaply as may be, and nothing of the target."""
    source, target = plan.sides["source"], plan.sides["target"]
    young = f"CASE WHEN {source.settled} THEN 0 ELSE 1 END = 1"  # also where it is neither true nor false
    sides: dict[Side, SidePlan] = {"source": dataclasses.replace(source, settled=young), "target": dataclasses.replace(target, chunks=())}
    method: Method = "counts" if plan.method == "counts" else "signature"
    return dataclasses.replace(plan, method=method, k=0, t=0, bits=60, sides=sides)


def explains(plan: Plan, aligned: Aligned, chosen: Sequence[int], young: Summaries) -> bool:
    """Whether rows in flight can be all that differs in each of these partitions (by index); ``young`` are the source's."""
    if not int(young.rows.sum()):
        return False
    if plan.partitioning.strategy == "time":  # an update may have moved a row to another of them
        return True
    there = dict(zip(young.partition.tolist(), young.rows.tolist(), strict=True))
    here = [there.get(int(aligned.partition[index]), 0) for index in chosen]
    return bool((np.array(here, np.int64) >= _least(plan, aligned, chosen)).all())


def _least(plan: Plan, aligned: Aligned, chosen: Sequence[int]) -> Integers:
    """The fewest rows that are on one side only: by the row counts; where these are equal one on each, if signatures tell rows apart."""
    gaps = [abs(aligned.rows("source", index) - aligned.rows("target", index)) for index in chosen]
    return np.array([gap or (1 if plan.method == "counts" else 2) for gap in gaps], np.int64)
