"""The templates of the reports: what they show is harmless, and their words and numbers are those of every report."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from auditor.model import Measure
from auditor.report import plain, trend
from auditor.report.day import Day, Entry


@cache
def environment() -> Environment:
    """What templates of reports are rendered in. Whatever a template shows is escaped, and made visible, unless it is markup."""
    made = Environment(
        loader=PackageLoader("auditor", "report"), autoescape=True, undefined=StrictUndefined, finalize=_finalized, trim_blocks=False
    )
    made.filters |= {
        "ago": plain.ago,
        "apart": plain.apart,
        "by_weight": by_weight,
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
        "small": _small,
        "threshold": plain.threshold,
        "value": plain.value,
    }
    return made


def by_weight(found: Iterable[Measure]) -> list[Measure]:
    """Measures that decided the verdict first."""
    return sorted(found, key=lambda one: one.allowed)


def _finalized(value: Any) -> Any:
    """Whatever a template shows is harmless, whether or not the template thought of it."""
    return plain.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _line(entry: Entry, day: Day) -> trend.Line | None:
    return trend.line(entry.trend, day.first, day.at)


def _small(drawing: Markup) -> Markup:
    """A drawing of our own in a line of text."""
    return Markup(re.sub("<svg ", '<svg width="10" height="10" ', drawing, count=1))
