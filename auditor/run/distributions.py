"""Compare how a column's values are distributed, under the method counts: rows by class, and by bucket of a histogram.

Little more crosses the network than the numbers that are compared; the SQL is in ``auditor.sql.distributions``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from auditor.compare import deviations
from auditor.config import Counts
from auditor.errors import ResultIncomplete
from auditor.model import SIDES, ColumnPlan, Measure, Plan, Side
from auditor.sql import distributions as sql
from auditor.summary import measures
from dialects import Session

Ask = Callable[[Callable[[Side, Session], Any]], dict[Side, Any]]
"""Runs work on both sides and returns what each returned, as ``Reader.ask`` does."""

CLASSES_PER_STATEMENT = 500
"""Classes that one statement names."""


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one class or bucket on both sides; ``name`` is for a person."""

    name: str
    rows: dict[Side, int]


@dataclass(frozen=True, slots=True)
class Classes:
    """The classes that were compared; ``total`` is how many each side has, if these are not all."""

    groups: tuple[Group, ...]
    total: dict[Side, int] | None = None


def compare_distributions(plan: Plan, counts: Counts, ask: Ask) -> tuple[Measure, ...]:
    """Return every class and every bucket of a histogram whose row counts differ.

    If not all classes of a column were compared, a measure ``COLUMN classes`` says so, whether or not anything differs.
    """
    by_name = {column.name.lower(): column for column in plan.columns}
    differing: list[Measure] = []
    for name in dict.fromkeys(counts.classes):
        column = by_name[name.lower()]
        classes = count_classes(plan, column, counts.most_classes, ask)
        differing += _deviations(column, "class", classes.groups, counts)
        if classes.total:
            label = f"only the {len(classes.groups):,} most frequent classes of the source were compared"
            total = {side: str(classes.total[side]) for side in SIDES}
            differing.append(deviations.measure(column, "class", f"{column.name} classes", total, counts, None, label))
    for histogram in counts.histogram:
        column = by_name[histogram.column.lower()]
        differing += _deviations(column, "histogram", count_buckets(plan, column, histogram.buckets, ask), counts)
    return tuple(differing)


def _deviations(column: ColumnPlan, what: str, groups: Iterable[Group], counts: Counts) -> list[Measure]:
    return [
        deviations.measure(
            column,
            what,
            f"{column.name} {what} {group.name}",
            {side: str(group.rows[side]) for side in SIDES},
            counts,
            None,
            deviations.WHOLE,
        )
        for group in groups
        if group.rows["source"] != group.rows["target"]
    ]


def count_classes(plan: Plan, column: ColumnPlan, most: int, ask: Ask) -> Classes:
    """Return the rows of each class; of the source's most frequent ones if a side has more than ``most`` classes."""
    top = ask(partial(_most_frequent, plan, column, most, None))
    total = {side: top[side][1] for side in SIDES}
    rows: dict[Side, dict[str | None, int]] = {side: top[side][0] for side in SIDES}
    if max(total.values()) <= most:
        every = dict.fromkeys([*rows["source"], *rows["target"]])
        return Classes(tuple(_group(column, number, name, rows) for number, name in enumerate(every, 1)))
    unseen = [name for name in rows["source"] if name not in rows["target"]] if total["target"] > most else []
    for start in range(0, len(unseen), CLASSES_PER_STATEMENT):
        names = unseen[start : start + CLASSES_PER_STATEMENT]
        rows["target"].update(ask(partial(_rows_of_classes, plan, column, names))["target"])
    return Classes(tuple(_group(column, number, name, rows) for number, name in enumerate(rows["source"], 1)), total)


def _group(column: ColumnPlan, number: int, name: str | None, rows: dict[Side, dict[str | None, int]]) -> Group:
    """Return a class by its name or, if the column is masked, by its rank."""
    shown = "NULL" if name is None else f"number {number}" if column.masked else repr(measures.readable(column, "min", name))
    return Group(shown, {side: rows[side].get(name, 0) for side in SIDES})


def _rows_of_classes(plan: Plan, column: ColumnPlan, names: Sequence[str | None], side: Side, session: Session) -> dict[str | None, int]:
    """Return the rows of these classes in the target; nothing for the source."""
    if side == "source":
        return {}
    return _most_frequent(plan, column, len(names), names, side, session)[0]


def _most_frequent(
    plan: Plan, column: ColumnPlan, most: int, only: Sequence[str | None] | None, side: Side, session: Session
) -> tuple[dict[str | None, int], int]:
    """Return the rows of the most frequent classes, of ``only`` these if they are given, and how many classes there are."""
    rows = session.query(sql.classes(plan, column, side, session.dialect, most, only))
    if rows and len(rows) < min(most, int(rows[0][2])):
        raise ResultIncomplete(f"the server sent {len(rows):,} of {min(most, int(rows[0][2])):,} classes of {column.name}")
    counts = [(None if text is None else text.decode() if isinstance(text, bytes) else str(text), int(count)) for text, count, _ in rows]
    return dict(sorted(counts, key=lambda item: (-item[1], item[0] or ""))), int(rows[0][2]) if rows else 0


def count_buckets(plan: Plan, column: ColumnPlan, buckets: int, ask: Ask) -> tuple[Group, ...]:
    """Return the rows of each bucket of equal width between the least and the greatest value of both sides.

    Values beyond all numbers are in the first or the last bucket; rows without a value in none.
    """
    bounds = ask(lambda side, session: session.query_row(sql.histogram_bounds(plan, column, side, session.dialect)))
    texts = [str(text) for side in SIDES for text in bounds[side] if text is not None]
    if not texts:
        return ()
    least, greatest = (pick(texts, key=measures.sort_key) for pick in (min, max))
    borders = sql.borders(column, least, greatest, buckets)
    counted = ask(lambda side, session: dict(session.query_whole(sql.histogram(plan, column, side, session.dialect, borders))))
    rows = {side: {int(number): int(count) for number, count in counted[side].items()} for side in SIDES}
    return tuple(
        Group(
            f"bucket {number + 1} of {len(borders.names)}" if column.masked else name, {side: rows[side].get(number, 0) for side in SIDES}
        )
        for number, name in enumerate(borders.names)
    )
