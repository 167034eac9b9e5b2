"""Check an audit's ``counts`` settings against the columns that are compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from auditor.config import Counts
from auditor.model import ColumnPlan
from auditor.summary import measures


def problems(columns: Sequence[ColumnPlan], counts: Counts) -> list[str]:
    """Return the problems of the settings, one sentence each."""
    sentences: list[str] = []
    known = {column.name.lower(): column for column in columns}
    for name in counts.classes:
        if name.lower() not in known:
            sentences.append(f"counts: the column {name!r} of classes is not compared; include it, or remove it from classes")
    for histogram in counts.histogram:
        column = known.get(histogram.column.lower())
        if column is None:
            sentences.append(f"counts: the column {histogram.column!r} of a histogram is not compared; include it, or remove the histogram")
        elif measures.family(column) not in measures.HISTOGRAMS:
            sentences.append(f"counts: a histogram needs numbers, dates or timestamps, and {column.name!r} is compared as {column.kind}")
    for name, limit in counts.allow.items():
        sentences += _allow_problems(name, str(limit), known, counts)
    return sentences


def _allow_problems(name: str, limit: str, known: Mapping[str, ColumnPlan], counts: Counts) -> list[str]:
    column, _, measure = name.strip().rpartition(" ")
    column = column.strip().lower()
    every = {measure for names in measures.MEASURES.values() for measure in names} | {"class", "histogram"}
    if name.strip() == "rows" or (column == "*" and measure in every):
        return []
    if column not in known:
        what = f"the column {column!r} is not compared" if column and measure in every else "write rows, 'column measure' or '* measure'"
        return [f"counts: allow names {name!r}: {what}"]
    there = [*measures.column_measures(known[column]), *(["class"] if column in _lower(counts.classes) else [])]
    there += ["histogram"] if column in _lower(histogram.column for histogram in counts.histogram) else []
    if measure not in there:
        return [f"counts: allow names {name!r}: the measures of {known[column].name!r} are {', '.join(there)}"]
    if limit.strip().endswith("%") and measure in measures.EXTREMES and measures.family(known[column]) in ("moment", "clock"):
        return [f"counts: allow names {name!r}: times deviate by seconds, not by a percentage; write seconds"]
    return []


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
