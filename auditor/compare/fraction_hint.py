"""Recognise times that a loader cut where the target's engine rounds, or rounded where it cuts.

They differ by exactly one unit of the last digit that is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from auditor import canonical
from auditor.compare import tolerance
from auditor.model import ColumnPlan, Difference, Plan

DAY = 86400


def fraction_hints(plan: Plan, named: Sequence[Difference]) -> list[str]:
    """Return a sentence for each column of times in which most changed rows differ as if ``fraction`` said the wrong thing."""
    changed = [difference for difference in named if difference.kind == "changed"]
    hints = []
    for column in plan.columns[plan.key :]:
        unit = _unit(column)
        alike = sum(_differs_by_unit(difference, column, unit) for difference in changed) if unit else 0
        if 2 * alike > len(changed):
            did, other = ("cut", "cut") if column.kind.rounding else ("round", "rounded")
            hints.append(
                f"{column.name}: {alike:,} of the {len(changed):,} changed rows that were named differ by exactly one unit of the last"
                f" digit that is compared, as if a loader had {other} the source's times: if so, write columns: override:"
                f" {{{column.name}: {{fraction: {did}}}}}"
            )
    return hints


def _unit(column: ColumnPlan) -> Fraction | None:
    """Return the seconds of the last digit to which the source's finer times are brought; None for other columns."""
    native, kind = column.native["source"], column.kind
    if column.masked or column.tolerance:
        return None
    if kind.name == "date":
        return Fraction(DAY) if native.name in canonical.TIMESTAMPS and column.native["target"].name == "date" else None
    if kind.name not in canonical.TIMESTAMPS | {"time"} or kind.scale is None or native.name == "date":
        return None
    return Fraction(1, 10**kind.scale) if native.scale is None or native.scale > kind.scale else None


def _differs_by_unit(difference: Difference, column: ColumnPlan, unit: Fraction) -> bool:
    """Return whether a row's value was rounded up for the comparison and is one unit less in the target, or was cut and is one more."""
    for values in difference.columns:
        if values.name == column.name and values.source is not None and values.target is not None:
            source, target = (tolerance.exact_value(column.kind, text) for text in (values.source, values.target))
            if source is not None and target is not None:
                return abs(source) - abs(target) == (unit if column.kind.rounding else -unit)
    return False
