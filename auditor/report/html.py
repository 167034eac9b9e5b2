"""The report of a run or a day as HTML: a self-contained file without scripts or external resources, or a fragment of a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from auditor.model import Differences, Report
from auditor.report import formatting
from auditor.report.day import Day
from auditor.report.heatmap import SHAPE_LABELS, build_heatmap
from auditor.report.outline import outline
from auditor.report.redact import redact
from auditor.report.templates import disallowed_first, environment
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
    report_outline = outline(report)
    return {
        "report": report,
        "outline": report_outline,
        "measures": disallowed_first(report.measures),
        "notes": [*report_outline.notes, *report_outline.details],
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
