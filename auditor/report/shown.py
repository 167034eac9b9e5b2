"""What of a report, and of a plan, may be shown: nothing that masked columns hold."""

from __future__ import annotations

from dataclasses import replace

from auditor.compare.account import MASK
from auditor.model import Differences, Divergent, Measure, Plan, RangeDifference, Report


def shown(found: Report) -> Report:
    """The report without the texts of masked columns in keys, and without the ranges that these are cut into.

    The values of other masked columns are not in it in the first place.
    """
    plan = found.plan
    if plan is None:
        return found
    masked = frozenset(column.name for column in plan.key_columns if column.masked)
    if not masked and not plan.hides_ranges:
        return found
    comparison, differences = found.comparison, found.differences
    if comparison:
        comparison = replace(comparison, divergent=tuple(_divergent(one, plan) for one in comparison.divergent))
    if differences:
        differences = _differences(differences, masked, plan)
    measures = tuple(_measure(one, plan) for one in found.measures)
    return replace(found, plan=shown_plan(plan), comparison=comparison, differences=differences, measures=measures)


def shown_plan(plan: Plan) -> Plan:
    """The plan without what tells how far the keys of a masked column reach, and which of them a rolling audit read."""
    if not plan.hides_ranges:
        return plan
    return replace(plan, partitioning=replace(plan.partitioning, size=0), least=None, greatest=None, stretches=())


def _divergent(one: Divergent, plan: Plan) -> Divergent:
    if not plan.hides_ranges:
        return replace(one, key_range=None)
    return replace(one, key_range=None, label=plan.label(one.partition), partition=None)


def _measure(one: Measure, plan: Plan) -> Measure:
    if not plan.hides_ranges or one.partition is None:
        return one
    return replace(one, partition=None, label=plan.label(one.partition))


def _differences(found: Differences, masked: frozenset[str], plan: Plan) -> Differences:
    named = tuple(
        replace(one, key={name: MASK if name in masked and text is not None else text for name, text in one.key.items()})
        for one in found.named
    )
    return replace(found, named=named, ranges=tuple(_range(one, plan) for one in found.ranges))


def _range(one: RangeDifference, plan: Plan) -> RangeDifference:
    """A range without its keys, of which the key's only column is masked; in buckets of a hash these have keys too."""
    if plan.hides_ranges:
        return replace(one, first=None, last=None, ids=(None, None), label=plan.label(0))
    if one.first is None and one.last is None:
        return one
    where = dict.fromkeys(plan.label(number) for number in one.ids)
    return replace(one, first=None, last=None, label=" to ".join(where))
