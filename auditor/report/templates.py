"""The Jinja environment of the HTML reports: escaping, and the filters that format words and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup

from auditor import escaping
from auditor.history.status import status_label
from auditor.model import Measure
from auditor.report import formatting, live, sparkline
from auditor.report.day import AuditEntry, Day


def loader() -> PrefixLoader:
    """Return the loader of the report templates: ``report/base.html`` and others."""
    return PrefixLoader({"report": PackageLoader("auditor", "report")})


@cache
def environment() -> Environment:
    """Return the environment of the report templates. Every value is made visible and escaped, unless it is Markup."""
    environment = Environment(
        loader=loader(),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_visible,
        trim_blocks=False,
    )
    environment.filters |= {
        "capitalized": capitalized,
        "counts_by_kind": formatting.counts_by_kind,
        "deviation": formatting.deviation,
        "disallowed_first": disallowed_first,
        "duration": formatting.duration,
        "lost": live.lost,
        "has_score": formatting.has_score,
        "one_off": formatting.one_off,
        "score_name": formatting.score_name,
        "key": formatting.key,
        "moment": formatting.moment,
        "not_counted": formatting.not_counted,
        "more": formatting.more,
        "number": lambda number: f"{number:,}",
        "percent": formatting.percent,
        "rounded": formatting.rounded,
        "rows": formatting.rows,
        "sentence": formatting.sentence,
        "shell_word": escaping.shell_word,
        "small": _small,
        "sparkline": _sparkline,
        "status_label": status_label,
        "threshold": formatting.threshold,
        "value": formatting.value,
        "with_examples": formatting.with_examples,
    }
    environment.globals["sides_to_show"] = formatting.sides
    return environment


def capitalized(text: str) -> str:
    """Begin a sentence with a capital, unless it begins with the name of a table or column, which has another meaning then."""
    return text if re.match(r"\w*[._]\w", text) else text[:1].upper() + text[1:]


def disallowed_first(measures: Iterable[Measure]) -> list[Measure]:
    """Sort the measures that decided the verdict before those that the audit allows."""
    return sorted(measures, key=lambda measure: measure.allowed)


def _make_visible(value: Any) -> Any:
    """Make every value that a template shows visible, even if the template does not ask for it."""
    return formatting.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _sparkline(entry: AuditEntry, day: Day) -> sparkline.Line | None:
    return sparkline.line(entry.trend, day.first, day.at)


def _small(svg: Markup) -> Markup:
    """Size one of our own drawings for a line of text."""
    return Markup(re.sub("<svg ", '<svg width="10" height="10" ', svg, count=1))
