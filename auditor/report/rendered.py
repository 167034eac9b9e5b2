"""A run, or a day, in the format that was asked for."""

from __future__ import annotations

import io
import json
from typing import Any

from rich.console import Console, RenderableType

from auditor.model import Report
from auditor.packed import Picture
from auditor.report import daily, html, markdown, text
from auditor.report import json as as_json
from auditor.report.day import Day

WIDTH = 150
"""Columns of text that is written to a file."""

FORMATS = ("text", "html", "markdown", "json")


def run(found: Report, picture: Picture | None, format: str) -> str:
    """One run, as one of FORMATS."""
    match format:
        case "html":
            return html.run(found, picture)
        case "markdown":
            return markdown.report(found)
        case "json":
            return _json(as_json.report(found))
        case _:
            return printed(text.report(found, verbose=True))


def day(found: Day, format: str) -> str:
    """All audits of a day, as one of FORMATS."""
    match format:
        case "html":
            return html.day(found)
        case "markdown":
            return daily.markdown(found)
        case "json":
            return _json(daily.json(found))
        case _:
            return printed(daily.text(found))


def printed(found: RenderableType) -> str:
    """What a terminal would show, without colours."""
    file = io.StringIO()
    Console(file=file, width=WIDTH, highlight=False, color_system=None, force_terminal=False).print(found)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
