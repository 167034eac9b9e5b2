"""Render a run or a day in one of the report formats."""

from __future__ import annotations

import io

from rich.console import RenderableType

from auditor.api_models import ApiModel
from auditor.escaping import json_text
from auditor.model import Report
from auditor.report import day_text, html, markdown, text
from auditor.report import json as as_json
from auditor.report.console import VisibleConsole
from auditor.report.day import Day
from auditor.summary.codec import PartitionMap

WIDTH = 150
"""Columns of text that is written to a file."""

FORMATS = ("text", "html", "markdown", "json")


def run(report: Report, partition_map: PartitionMap | None, format: str) -> str:
    """Render the report of a run; ``format`` is one of FORMATS. Only HTML shows the partition map."""
    match format:
        case "html":
            return html.run(report, partition_map)
        case "markdown":
            return markdown.report(report)
        case "json":
            return _dump_json(as_json.report(report))
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
        case _:
            return plain_text(day_text.text(day))


def plain_text(renderable: RenderableType) -> str:
    """Render what a terminal WIDTH columns wide would show, without colours or trailing blanks."""
    file = io.StringIO()
    VisibleConsole(file=file, width=WIDTH, color_system=None, force_terminal=False).print(renderable)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _dump_json(value: ApiModel) -> str:
    return json_text(value, indent=2) + "\n"
