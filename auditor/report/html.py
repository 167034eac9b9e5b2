"""A run, or a day, as one HTML file that needs nothing else: no script, no other file, no network."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from auditor.model import Differences, Measure, Report
from auditor.packed import Picture
from auditor.report import plain, trend
from auditor.report.day import Day, Entry, not_compared
from auditor.report.heat import SAYS, heat
from auditor.report.shown import shown

SHOWN = 100
"""Rows of each table of a run's page."""

SAMPLE, FEW = 10, 5
"""Differences, and partitions, that the report of a day shows of an audit."""


def run(found: Report, picture: Picture | None = None) -> str:
    """The page of one run; ``picture`` is that of its whole table, where one was kept."""
    found = shown(found)
    return (
        _environment()
        .get_template("run.html")
        .render(
            report=found,
            heat=heat(picture, found.plan) if picture is not None else None,
            says=SAYS,
            means=plain.MEANS,
            most=SHOWN,
            measures=_by_weight(found.measures),
            not_compared=list(not_compared(found)),
            notes=[*plain.notes(found), *(found.plan.notes if found.plan else ())],
            snapshot=plain.snapshot(found),
        )
    )


def day(found: Day) -> str:
    """The page of one day."""
    return (
        _environment()
        .get_template("day.html")
        .render(day=found, means=plain.MEANS, sample=SAMPLE, few=FEW, score=plain.score, bounds=plain.bounds)
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("auditor", "report"), autoescape=True, undefined=StrictUndefined, finalize=_finalized, trim_blocks=False
    )
    made.filters |= {
        "ago": plain.ago,
        "apart": plain.apart,
        "by_weight": _by_weight,
        "counted": plain.counted,
        "deviation": plain.deviation,
        "first_up": lambda text: text[:1].upper() + text[1:],
        "has_score": plain.has_score,
        "key": plain.key,
        "line": _line,
        "moment": plain.moment,
        "number": lambda number: f"{number:,}",
        "percent": plain.percent,
        "rounded": plain.rounded,
        "rows": plain.rows,
        "sentence": plain.sentence,
        "shown_rows": _shown_rows,
        "small": _small,
        "threshold": plain.threshold,
        "value": plain.value,
    }
    return made


def _finalized(value: Any) -> Any:
    """Whatever a template shows is harmless, whether or not the template thought of it."""
    return plain.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _by_weight(found: Iterable[Measure]) -> list[Measure]:
    """Measures that decided the verdict first."""
    return sorted(found, key=lambda one: one.allowed)


def _shown_rows(found: Differences) -> int:
    """How many rows the differences stand for that the report of a day shows."""
    spans = found.ranges[:SAMPLE]
    return sum(one.rows for one in spans) + len(found.named[:SAMPLE])


def _line(entry: Entry, day: Day) -> trend.Line | None:
    return trend.line(entry.trend, day.first, day.at)


def _small(drawing: Markup) -> Markup:
    """A drawing of our own in a line of text."""
    return Markup(re.sub("<svg ", '<svg width="10" height="10" ', drawing, count=1))
