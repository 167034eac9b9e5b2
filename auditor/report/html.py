"""The report of a run or a day as HTML: a self-contained file without scripts or external resources, or a fragment of a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, PrefixLoader, StrictUndefined
from markupsafe import Markup

from auditor import escaping
from auditor.history.audit_status import status_label
from auditor.masking import redact
from auditor.model import Differences, Measure, Report
from auditor.quantities import format_duration
from auditor.report import formatting, sparkline
from auditor.report.day import AuditEntry, Day
from auditor.report.heatmap import SHAPE_LABELS, build_heatmap
from auditor.report.sentences import build_sentences, lost_lines
from auditor.summary.codec import PartitionMap

MAX_ROWS = 100
"""Rows shown of each table in the report of a run."""

DAY_DIFFERENCES, DAY_PARTITIONS = 10, 5
"""Differences and partitions shown of each audit in the report of a day."""


@dataclass(frozen=True, slots=True)
class Links:
    """URLs for the links in a fragment: of an audit, by its name, and of a run, by its id."""

    audit: Callable[[str], str]
    run: Callable[[str], str]


def run(report: Report, partition_map: PartitionMap | None = None) -> str:
    """Return the report of a run as a complete file; with a partition map it includes a heat map of the whole table."""
    return _page(f"{report.audit}: {report.verdict.value}", run_fragment(report, partition_map))


def run_fragment(report: Report, partition_map: PartitionMap | None = None) -> Markup:
    """Return the report of a run as a fragment to include in a page."""
    report = redact(report)
    return _render(
        "run.html",
        heatmap=build_heatmap(partition_map, report.plan) if partition_map is not None else None,
        shape_labels=SHAPE_LABELS,
        explanations=formatting.EXPLANATIONS,
        max_rows=MAX_ROWS,
        **run_values(report),
    )


def run_values(report: Report) -> dict[str, object]:
    """Return what ``run_result.html`` draws of a report whose masked values were redacted."""
    sentences = build_sentences(report)
    return {
        "report": report,
        "sentences": sentences,
        "measures": disallowed_first(report.measures),
        "notes": [*sentences.notes, *sentences.details],
        "folds": False,
    }


def day(day: Day) -> str:
    """Return the report of a day as a complete file."""
    return _page(f"Audits on {day.date}", day_fragment(day))


def day_fragment(day: Day, links: Links | None = None) -> Markup:
    """Return the report of a day as a fragment to include in a page; without ``links`` it names commands instead."""
    return _render(
        "day.html",
        day=day,
        explanations=formatting.EXPLANATIONS,
        max_differences=DAY_DIFFERENCES,
        max_partitions=DAY_PARTITIONS,
        score=formatting.score,
        bounds=formatting.bounds,
        links=links,
        rows_listed=_rows_listed,
    )


def _render(template: str, **values: object) -> Markup:
    return Markup(environment().get_template(f"report/{template}").render(**values))  # the environment escapes every value


def _page(title: str, body: Markup) -> str:
    return environment().get_template("report/page.html").render(title=title, body=body)


def _rows_listed(differences: Differences) -> int:
    """Return how many rows the differences shown in the report of a day stand for."""
    spans = differences.ranges[:DAY_DIFFERENCES]
    return sum(span.rows for span in spans) + sum(row.row_count for row in formatting.examples(differences.named, DAY_DIFFERENCES))


def loader() -> PrefixLoader:
    """Return the loader of the report's templates: ``report/base.html`` and others."""
    return PrefixLoader({"report": PackageLoader("auditor", "report")})


@cache
def environment() -> Environment:
    """Return the environment of the report's templates, with filters that format words and numbers.

    Every value is made visible and escaped, unless it is Markup.
    """
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
        "duration": format_duration,
        "lost": lost_lines,
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
        "similarity": lambda partition: formatting.similarity(partition.similarity, partition.similarity_error),
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
    """Begin a sentence with a capital, unless it begins with the name of a table or column (``a.b``, ``a_b``, ``a: ...``)."""
    return text if re.match(r"\w*[._]\w|\w+:", text) else text[:1].upper() + text[1:]


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
