"""Redact masked columns in a report or a plan before it is shown."""

from __future__ import annotations

from dataclasses import replace

from auditor.compare.accounting import MASK
from auditor.model import Differences, Divergent, Measure, Plan, RangeDifference, Report, Suggestions


def redact(report: Report) -> Report:
    """Return the report without the values of masked key columns, and without ranges that would reveal them.

    Values of other masked columns never enter a report.
    """
    plan = report.plan
    if plan is None:
        return report
    masked = frozenset(column.name for column in plan.key_columns if column.masked)
    if not masked and not plan.hides_ranges:
        return report
    comparison, differences = report.comparison, report.differences
    if comparison:
        comparison = replace(comparison, divergent=tuple(_redact_partition(partition, plan) for partition in comparison.divergent))
    if differences:
        differences = _redact_differences(differences, masked, plan)
    overdue = tuple(replace(row, key=_redact_key(row.key, masked)) for row in report.overdue)
    measures = tuple(_redact_measure(measure, plan) for measure in report.measures)
    if live := report.live:
        live = replace(live, lost=tuple(replace(row, key=_redact_key(row.key, masked)) for row in live.lost))
    redacted = replace(
        report, live=live, plan=redact_plan(plan), comparison=comparison, differences=differences, measures=measures, overdue=overdue
    )
    return replace(redacted, suggestions=_redact_suggestions(report.suggestions) if report.suggestions else None)


def _redact_suggestions(suggestions: Suggestions) -> Suggestions | None:
    """Remove the commands that name keys."""
    left = tuple(suggestion for suggestion in suggestions.items if suggestion.tool != "range bootstrap")
    return replace(suggestions, items=left) if left else None


def redact_plan(plan: Plan) -> Plan:
    """Return the plan without what reveals the range of a masked key: partition size, least and greatest key, partitions read."""
    if not plan.hides_ranges:
        return plan
    prescan = replace(plan.prescan, partitions=0) if plan.prescan else None
    return replace(plan, partitioning=replace(plan.partitioning, size=0), prescan=prescan, least=None, greatest=None, partition_ranges=())


def _redact_partition(partition: Divergent, plan: Plan) -> Divergent:
    if not plan.hides_ranges:
        return replace(partition, key_range=None)
    return replace(partition, key_range=None, label=plan.label(partition.partition), partition=None)


def _redact_measure(measure: Measure, plan: Plan) -> Measure:
    if not plan.hides_ranges or measure.partition is None:
        return measure
    return replace(measure, partition=None, label=plan.label(measure.partition))


def _redact_key(key: dict[str, str | None], masked: frozenset[str]) -> dict[str, str | None]:
    return {name: MASK if name in masked and text is not None else text for name, text in key.items()}


def _redact_differences(differences: Differences, masked: frozenset[str], plan: Plan) -> Differences:
    named = tuple(replace(row, key=_redact_key(row.key, masked)) for row in differences.named)
    return replace(differences, named=named, ranges=tuple(_redact_range(span, plan) for span in differences.ranges))


def _redact_range(span: RangeDifference, plan: Plan) -> RangeDifference:
    """Remove a range's keys, which ranges of hash buckets can have too."""
    if plan.hides_ranges:
        return replace(span, first=None, last=None, ids=(None, None), label=plan.label(0))
    if span.first is None and span.last is None:
        return span
    labels = dict.fromkeys(plan.label(number) for number in span.ids)
    return replace(span, first=None, last=None, label=" to ".join(labels))
