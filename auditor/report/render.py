"""Render a run or a day in one of the report formats."""

from __future__ import annotations

from auditor.api_models import ApiModel
from auditor.escaping import json_text
from auditor.model import Report
from auditor.report import day_text, html, junit, markdown, text
from auditor.report import json as as_json
from auditor.report.console import plain_text
from auditor.report.day import Day
from auditor.summary.codec import PartitionMap

__all__ = ["FORMATS", "day", "plain_text", "run"]

FORMATS = ("text", "html", "markdown", "json", "junit")


def run(report: Report, partition_map: PartitionMap | None, format: str) -> str:
    """Render the report of a run; ``format`` is one of FORMATS. Only HTML shows the partition map."""
    match format:
        case "html":
            return html.run(report, partition_map)
        case "markdown":
            return markdown.report(report)
        case "json":
            return _dump_json(as_json.report(report))
        case "junit":
            return junit.runs([report])
        case _:
            return plain_text(text.report(report, verbose=True))


def day(day: Day, format: str) -> str:
    """Render the report of a day; ``format`` is one of FORMATS."""
    match format:
        case "html":
            return html.day(day)
        case "markdown":
            return day_text.markdown(day)
        case "json":
            return _dump_json(day_text.json(day))
        case "junit":
            return junit.day(day)
        case _:
            return plain_text(day_text.text(day))


def _dump_json(value: ApiModel) -> str:
    return json_text(value, indent=2) + "\n"
