"""What of a report may be shown: nothing that masked columns hold."""

from __future__ import annotations

from dataclasses import replace

from auditor.compare.account import MASK
from auditor.model import Differences, Divergent, Plan, Report


def shown(found: Report) -> Report:
    """The report without the texts of masked columns in keys, and without the ranges that these are cut into.

    The values of other masked columns are not in it in the first place.
    """
    plan = found.plan
    if plan is None:
        return found
    masked = frozenset(column.name for column in plan.key_columns if column.masked)
    cut = hides_ranges(plan)
    if not masked and not cut:
        return found
    comparison, differences = found.comparison, found.differences
    if comparison:
        comparison = replace(comparison, divergent=tuple(_divergent(one, cut) for one in comparison.divergent))
    if differences:
        differences = _differences(differences, masked, cut)
    measures = tuple(replace(one, label=_label(one.partition)) if one.partition is not None else one for one in found.measures)
    return replace(found, comparison=comparison, differences=differences, measures=measures if cut else found.measures)


def hides_ranges(plan: Plan) -> bool:
    """Whether the ranges of a plan's partitions would tell what a masked column holds."""
    return plan.partitioning.strategy in ("range", "time") and plan.columns[plan.partitioning.column].masked


def _label(partition: int | None) -> str:
    return "partition of NULL" if partition is None else f"partition {MASK}"


def _divergent(one: Divergent, cut: bool) -> Divergent:
    return replace(one, key_range=None, label=_label(one.partition), partition=None) if cut else replace(one, key_range=None)


def _differences(found: Differences, masked: frozenset[str], cut: bool) -> Differences:
    named = tuple(
        replace(one, key={name: MASK if name in masked and text is not None else text for name, text in one.key.items()})
        for one in found.named
    )
    ranges = tuple(replace(one, first=None, last=None, ids=(None, None), label=_label(0)) for one in found.ranges) if cut else found.ranges
    return replace(found, named=named, ranges=ranges)
