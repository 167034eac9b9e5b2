"""The verdict of the method counts: the measures that differ, and the deviations that ``counts: allow`` permits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from auditor.compare.comparator import PUBLISHED_SCORE, Aligned
from auditor.config import Counts
from auditor.masking import MASK, partition_label
from auditor.model import NULL_PARTITION, SIDES, ColumnPlan, Comparison, Measure, Plan, Side, Verdict
from auditor.summary import measures

WHOLE = "the whole table"
"""Label of measures of all rows."""

MAX_REASONS = 5
"""Most measures that the verdict's reasons name one by one."""


def deviations(plan: Plan, aligned: Aligned, counts: Counts) -> tuple[Measure, ...]:
    """Return every measure of every unequal partition in which the two sides differ.

    For a partition that is missing on one side, the other measures follow its row count only if that deviation of the row count is allowed.
    """
    result: list[Measure] = []
    for index in np.flatnonzero(aligned.unequal):
        number = int(aligned.partition[index])
        result += _partition_deviations(plan, aligned, int(index), None if number == NULL_PARTITION else number, counts)
    return tuple(result)


def _partition_deviations(plan: Plan, aligned: Aligned, index: int, partition: int | None, counts: Counts) -> list[Measure]:
    label = partition_label(plan, partition)
    rows = {side: int(aligned.rows[side][index]) for side in SIDES}
    deviations: list[Measure] = []
    if rows["source"] != rows["target"]:
        deviations.append(measure(None, "rows", "rows", {side: str(rows[side]) for side in SIDES}, counts, partition, label))
        if not all(rows.values()) and not deviations[0].allowed:
            return deviations
    cells: dict[Side, Any] = {}
    for side in SIDES:
        at = int(aligned.row_index[side][index])
        cells[side] = aligned.sides[side].measures[at] if at >= 0 else None
    named = [(column, name) for column in plan.columns for name in measures.column_measures(column)]
    for place, (column, name) in enumerate(named):
        texts = {side: None if cells[side] is None else cells[side][place] for side in SIDES}
        none = any(cell is None for cell in cells.values()) and name not in measures.EXTREMES
        if measures.are_equal(name, texts["source"], texts["target"]):
            continue
        if not (none and not any(measures.numeric_value(text) for text in texts.values())):
            deviations.append(measure(column, name, f"{column.name} {name}", texts, counts, partition, label))
    return deviations


def measure(
    column: ColumnPlan | None,
    name: str,
    display_name: str,
    texts: Mapping[Side, str | None],
    counts: Counts,
    partition: int | None,
    label: str,
) -> Measure:
    """Return a measure with its deviation, and whether the audit allows it.

    The allowance is found by ``column`` (None for rows) and ``name``; ``display_name`` is the name for a person. ``texts`` are the
    canonical texts of the measure on each side, None for no value.
    """
    adds = name not in measures.EXTREMES  # the sum of nothing is 0, and its least value is no value
    source, target = (measures.numeric_value("0" if texts[side] is None and adds else texts[side]) for side in SIDES)
    relative = None
    if source is not None and target is not None and not (column and measures.family(column) in ("moment", "clock") and not adds):
        relative = abs(target - source) / abs(source) if source else Fraction(0) if target == source else None
    equal = measures.are_equal(name, texts["source"], texts["target"])
    hidden = column is not None and column.masked and name in ("sum", *measures.EXTREMES)
    shown = [MASK if hidden and texts[s] is not None else measures.readable(column, name, texts[s]) if column else texts[s] for s in SIDES]
    return Measure(
        partition=partition,
        label=label,
        name=display_name,
        source=shown[0],
        target=shown[1],
        deviation=None if hidden or relative is None else _to_float(relative),
        allowed=equal or _is_allowed(_allowance(column, name, counts), source, target, relative),
    )


def _to_float(value: Fraction) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _allowance(column: ColumnPlan | None, name: str, counts: Counts) -> str | None:
    """Return the allowed deviation of a measure as the audit writes it: the one for its column, else the one for all columns."""
    written = {" ".join(key.split()).lower(): str(limit).strip() for key, limit in counts.allow.items()}
    if column is None:
        return written.get(name)
    return written.get(f"{' '.join(column.name.split()).lower()} {name}", written.get(f"* {name}"))


def _is_allowed(limit: str | None, source: Fraction | None, target: Fraction | None, relative: Fraction | None) -> bool:
    if limit is None or source is None or target is None:
        return False
    if limit.endswith("%"):
        return relative is not None and relative <= Fraction(limit[:-1].strip()) / 100
    return abs(target - source) <= Fraction(limit)


def verdict(comparison: Comparison, measures: Sequence[Measure]) -> tuple[Verdict, tuple[str, ...]]:
    """Return the verdict of the method counts with its reasons; ``measures`` are all deviations, including classes and histograms.

    The comparison's own verdict stands where nothing was compared, and where the threshold allows the unequal partitions.
    """
    capped = tuple(f"{measure.name.removesuffix(' classes')}: {measure.label}" for measure in measures if measure.reports_cap)
    differing = [measure for measure in measures if not measure.allowed]
    tolerated = comparison.verdict is Verdict.MATCH and not any(is_distribution(measure) for measure in differing)
    if not comparison.total or (differing and tolerated and comparison.unequal):
        return comparison.verdict, (*comparison.reasons, *capped)
    if differing:
        reasons = [f"{comparison.unequal:,} of {comparison.total:,} partitions differ"] if comparison.total > 1 else []
        reasons.append(f"{len(differing):,} measures differ" if len(differing) > 1 else "one measure differs")
        reasons += [_sentence(measure, comparison.total > 1) for measure in differing[:MAX_REASONS]]
        return Verdict.MISMATCH, (
            *reasons,
            *(reason for reason in comparison.reasons if reason.startswith(PUBLISHED_SCORE)),
            *([f"and {len(differing) - MAX_REASONS:,} more"] if len(differing) > MAX_REASONS else []),
            *capped,
        )
    deviating = [measure for measure in measures if measure.deviates]
    if deviating:
        names = list(dict.fromkeys(measure.name for measure in deviating))
        listed = ", ".join(names[:MAX_REASONS]) + (f" and {len(names) - MAX_REASONS:,} more" if len(names) > MAX_REASONS else "")
        return Verdict.MATCH, (f"what differs is within what the audit allows: {listed}", *capped)
    return Verdict.MATCH, ("every measure is equal" + (f" in all {comparison.total:,} partitions" if comparison.total > 1 else ""), *capped)


def is_distribution(measure: Measure) -> bool:
    """Return whether a measure is about a column's values over all partitions: a class, a bucket of a histogram, or a capped list."""
    return measure.partition is None and (measure.label == WHOLE or measure.reports_cap)


def _sentence(measure: Measure, partitioned: bool) -> str:
    mine, other = ("NULL" if text is None else text for text in (measure.source, measure.target))
    where = f" ({measure.label})" if partitioned or measure.reports_cap else ""
    return f"{measure.name}{where}: {mine} in the source, {other} in the target"
