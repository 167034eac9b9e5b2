"""What stands in place of the values of masked columns, in everything that is shown: in values, keys, labels, errors, plans and reports.

What is stored of masked keys are digests: `history/key_digests.py`. Secrets in logs and URLs are another matter: `telemetry.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from auditor.errors import StatementRefused
from auditor.model import Differences, Divergent, Measure, Plan, RangeDifference, Report, Suggestions

T = TypeVar("T")

MASK = "***"
"""Text shown instead of a masked column's value."""

MASKED_KEYS = f"keys {MASK}"
"""Label of a range of masked keys."""


def as_shown(value: T, is_masked: bool) -> T | str:
    """Return a value of a column as it may be shown: of a masked one the mask, also where it is NULL."""
    return MASK if is_masked else value


def mask_key(key: Mapping[str, str | None], masked: Collection[str]) -> dict[str, str | None]:
    """Return a key, by the names of its columns, with the mask in place of the values of masked ones; NULL stays None."""
    return {name: MASK if name in masked and text is not None else text for name, text in key.items()}


def partition_label(plan: Plan, partition: int | None) -> str:
    """Return a description of a partition for a person, without values of masked columns; None is that of NULL keys."""
    if not plan.hides_ranges:
        return plan.partitioning.label(partition)
    return "partition of NULL" if partition is None else f"partition {MASK}"


def error_text(error: Exception, plan: Plan | None) -> str:
    """Return an error's message; where an engine refused a statement over masked columns, without what it quotes, which may be values."""
    if isinstance(error, StatementRefused) and plan and any(column.masked for column in plan.columns):
        return re.sub(r"'[^']*'|\"[^\"]*\"", f"'{MASK}'", str(error))
    return str(error)


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
    overdue = tuple(replace(row, key=mask_key(row.key, masked)) for row in report.overdue)
    measures = tuple(_redact_measure(measure, plan) for measure in report.measures)
    if live := report.live:
        live = replace(live, lost=tuple(replace(row, key=mask_key(row.key, masked)) for row in live.lost))
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
    return replace(partition, key_range=None, label=partition_label(plan, partition.partition), partition=None)


def _redact_measure(measure: Measure, plan: Plan) -> Measure:
    if not plan.hides_ranges or measure.partition is None:
        return measure
    return replace(measure, partition=None, label=partition_label(plan, measure.partition))


def _redact_differences(differences: Differences, masked: frozenset[str], plan: Plan) -> Differences:
    named = tuple(replace(row, key=mask_key(row.key, masked)) for row in differences.named)
    return replace(differences, named=named, ranges=tuple(_redact_range(span, plan) for span in differences.ranges))


def _redact_range(span: RangeDifference, plan: Plan) -> RangeDifference:
    """Remove a range's keys, which ranges of hash buckets can have too."""
    if plan.hides_ranges:
        return replace(span, first=None, last=None, ids=(None, None), label=partition_label(plan, 0))
    if span.first is None and span.last is None:
        return span
    labels = dict.fromkeys(partition_label(plan, number) for number in span.ids)
    return replace(span, first=None, last=None, label=" to ".join(labels))
