"""The measures in which two tables differ, which deviations an audit allows, and the verdict of the method counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from auditor import distribution, measuring
from auditor.compare.account import MASK
from auditor.compare.comparator import Aligned
from auditor.config import Counts
from auditor.distribution import Ask
from auditor.model import NULL_PARTITION, SIDES, ColumnPlan, Comparison, Measure, Plan, Side, Verdict

WHOLE = "the whole table"

TOLD = 5
"""Measures that the verdict's reasons name."""


def problems(columns: Sequence[ColumnPlan], counts: Counts) -> list[str]:
    """What of the settings does not fit the compared columns, a sentence each."""
    found: list[str] = []
    known = {column.name.lower(): column for column in columns}
    for name in counts.classes:
        if name.lower() not in known:
            found.append(f"counts: the column {name!r} of classes is not compared")
    for one in counts.histogram:
        column = known.get(one.column.lower())
        if column is None:
            found.append(f"counts: the column {one.column!r} of a histogram is not compared")
        elif measuring.family(column) not in distribution.FAMILIES:
            found.append(f"counts: a histogram needs numbers, dates or timestamps, and {column.name!r} is compared as {column.kind}")
    for name, limit in counts.allow.items():
        found += _misnamed(name, str(limit), known, counts)
    return found


def _misnamed(name: str, limit: str, known: Mapping[str, ColumnPlan], counts: Counts) -> list[str]:
    column, _, measure = name.strip().rpartition(" ")
    column = column.strip().lower()
    every = {measure for measures in measuring.NAMES.values() for measure in measures} | {"class", "histogram"}
    if name.strip() == "rows" or (column == "*" and measure in every):
        return []
    if column not in known:
        what = f"the column {column!r} is not compared" if column and measure in every else "write rows, 'column measure' or '* measure'"
        return [f"counts: allow names {name!r}: {what}"]
    there = [*measuring.measures(known[column]), *(["class"] if column in _lower(counts.classes) else [])]
    there += ["histogram"] if column in _lower(one.column for one in counts.histogram) else []
    if measure not in there:
        return [f"counts: allow names {name!r}: what is measured of {known[column].name!r} is {', '.join(there)}"]
    if limit.strip().endswith("%") and measure in measuring.FOLDED and measuring.family(known[column]) in ("moment", "clock"):
        return [f"counts: allow names {name!r}: a moment deviates by seconds, not by a percentage"]
    return []


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def deviations(plan: Plan, aligned: Aligned, counts: Counts) -> tuple[Measure, ...]:
    """Every measure of every partition in which the two sides differ.

    Of a partition that one side lacks its rows are told, and the other measures only where so many rows are allowed to differ.
    """
    found: list[Measure] = []
    for index in np.flatnonzero(aligned.unequal):
        number = int(aligned.partition[index])
        found += _of_partition(plan, aligned, int(index), None if number == NULL_PARTITION else number, counts)
    return tuple(found)


def _of_partition(plan: Plan, aligned: Aligned, index: int, partition: int | None, counts: Counts) -> list[Measure]:
    label = plan.label(partition)
    rows = {side: aligned.rows(side, index) for side in SIDES}
    found: list[Measure] = []
    if rows["source"] != rows["target"]:
        found.append(_measure(None, "rows", "rows", {side: str(rows[side]) for side in SIDES}, counts, partition, label))
        if not all(rows.values()) and not found[0].allowed:
            return found
    cells: dict[Side, Any] = {}
    for side in SIDES:
        at = int(aligned.at[side][index])
        cells[side] = aligned.sides[side].measures[at] if at >= 0 else None
    named = [(column, name) for column in plan.columns for name in measuring.measures(column)]
    for place, (column, name) in enumerate(named):
        texts = {side: None if cells[side] is None else cells[side][place] for side in SIDES}
        none = any(cell is None for cell in cells.values()) and name not in measuring.FOLDED
        if texts["source"] != texts["target"] and not (none and not any(measuring.amount(text) for text in texts.values())):
            found.append(_measure(column, name, f"{column.name} {name}", texts, counts, partition, label))
    return found


def extra(plan: Plan, counts: Counts, ask: Ask) -> tuple[Measure, ...]:
    """Every class and every bucket of a histogram whose rows differ.

    Where not all classes of a column were compared, a measure ``column classes`` says so, whether or not anything differs.
    """
    known = {column.name.lower(): column for column in plan.columns}
    found: list[Measure] = []
    for name in dict.fromkeys(counts.classes):
        column = known[name.lower()]
        classes = distribution.classes(plan, column, counts.most_classes, ask)
        found += _shares(column, "class", classes.shares, counts)
        if classes.total:
            label = f"only the {len(classes.shares):,} most frequent classes of the source were compared"
            total = {side: str(classes.total[side]) for side in SIDES}
            found.append(_measure(column, "class", f"{column.name} classes", total, counts, None, label))
    for one in counts.histogram:
        column = known[one.column.lower()]
        found += _shares(column, "histogram", distribution.histogram(plan, column, one.buckets, ask), counts)
    return tuple(found)


def _shares(column: ColumnPlan, what: str, shares: Iterable[distribution.Share], counts: Counts) -> list[Measure]:
    return [
        _measure(column, what, f"{column.name} {what} {share.name}", {side: str(share.rows[side]) for side in SIDES}, counts, None, WHOLE)
        for share in shares
        if share.rows["source"] != share.rows["target"]
    ]


def _measure(
    column: ColumnPlan | None,
    name: str,
    told: str,
    texts: Mapping[Side, str | None],
    counts: Counts,
    partition: int | None,
    label: str,
) -> Measure:
    """``column`` and ``name`` are what an allowance is looked up by, ``told`` is the name for a person."""
    adds = name not in measuring.FOLDED  # nothing to add up is 0; nothing to choose the least from is no value
    source, target = (measuring.amount("0" if texts[side] is None and adds else texts[side]) for side in SIDES)
    relative = None
    if source is not None and target is not None and not (column and measuring.family(column) in ("moment", "clock") and not adds):
        relative = abs(target - source) / abs(source) if source else Fraction(0) if target == source else None
    hidden = column is not None and column.masked and name in ("sum", *measuring.FOLDED)
    shown = [MASK if hidden and texts[s] is not None else measuring.readable(column, name, texts[s]) if column else texts[s] for s in SIDES]
    return Measure(
        partition=partition,
        label=label,
        name=told,
        source=shown[0],
        target=shown[1],
        deviation=None if hidden or relative is None else _float(relative),
        allowed=texts["source"] == texts["target"] or _allowed(_limit(column, name, counts), source, target, relative),
    )


def _float(value: Fraction) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _limit(column: ColumnPlan | None, name: str, counts: Counts) -> str | None:
    """The deviation that is allowed of a measure: what is said of its column, else of all."""
    written = {" ".join(key.split()).lower(): str(limit).strip() for key, limit in counts.allow.items()}
    if column is None:
        return written.get(name)
    return written.get(f"{' '.join(column.name.split()).lower()} {name}", written.get(f"* {name}"))


def _allowed(limit: str | None, source: Fraction | None, target: Fraction | None, relative: Fraction | None) -> bool:
    if limit is None or source is None or target is None:
        return False
    if limit.endswith("%"):
        return relative is not None and relative <= Fraction(limit[:-1].strip()) / 100
    return abs(target - source) <= Fraction(limit)


def verdict(comparison: Comparison, found: Sequence[Measure]) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict of the method counts, and its reasons; ``found`` are all deviations, of classes and histograms too.

    Where nothing was compared, or a threshold forgives the partitions that differ, the comparison's own verdict stands.
    """
    capped = tuple(f"{one.name.removesuffix(' classes')}: {one.label}" for one in found if _tells_of_a_cap(one))
    differing = [one for one in found if not one.allowed]
    forgiven = comparison.verdict is Verdict.MATCH and not any(is_of_whole(one) for one in differing)
    if not comparison.total or (differing and forgiven and comparison.unequal):
        return comparison.verdict, (*comparison.reasons, *capped)
    if differing:
        reasons = [f"{comparison.unequal:,} of {comparison.total:,} partitions differ"] if comparison.total > 1 else []
        reasons.append(f"{len(differing):,} measures differ" if len(differing) > 1 else "one measure differs")
        reasons += [_sentence(one, comparison.total > 1) for one in differing[:TOLD]]
        return Verdict.MISMATCH, (*reasons, *([f"and {len(differing) - TOLD:,} more"] if len(differing) > TOLD else []), *capped)
    deviating = [one for one in found if one.source != one.target or not _tells_of_a_cap(one)]
    if deviating:
        names = list(dict.fromkeys(one.name for one in deviating))
        told = ", ".join(names[:TOLD]) + (f" and {len(names) - TOLD:,} more" if len(names) > TOLD else "")
        return Verdict.MATCH, (f"what differs is within what the audit allows: {told}", *capped)
    return Verdict.MATCH, ("every measure is equal" + (f" in all {comparison.total:,} partitions" if comparison.total > 1 else ""), *capped)


def is_of_whole(one: Measure) -> bool:
    """Whether it is of a column's values over all partitions: a class, a bucket of a histogram."""
    return one.partition is None and (one.label == WHOLE or _tells_of_a_cap(one))


def _tells_of_a_cap(one: Measure) -> bool:
    return one.partition is None and one.name.endswith(" classes") and one.label.startswith("only ")


def _sentence(one: Measure, partitioned: bool) -> str:
    mine, other = ("NULL" if text is None else text for text in (one.source, one.target))
    where = f" ({one.label})" if partitioned or _tells_of_a_cap(one) else ""
    return f"{one.name}{where}: {mine} in the source, {other} in the target"
