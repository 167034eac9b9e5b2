"""The daily report, in the frame and as files."""

from __future__ import annotations

import datetime as dt
import re
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response
from markupsafe import Markup

from auditor.api.behind import Given
from auditor.api.pages._frame import now, page, url
from auditor.api.pages._visitor import Reader
from auditor.report import html, rendered
from auditor.report.day import day as day_of

router = APIRouter()

TYPES = {"html": "text/html", "markdown": "text/markdown", "json": "application/json", "text": "text/plain"}


@router.get("/day")
def today(request: Request, given: Given, visitor: Reader, date: dt.date | None = None) -> HTMLResponse:
    """The report of a day, or of today."""
    today = now().date()
    wanted = min(date or today, today)
    found = day_of(given.store, given.settings, wanted)
    later = wanted + dt.timedelta(days=1)
    earlier = wanted - dt.timedelta(days=1) if wanted > dt.date(1970, 1, 2) else None
    return page(
        request,
        "day.html",
        visitor=visitor,
        date=wanted,
        today=today,
        earlier=earlier,
        later=later if later <= today else None,
        body=_linked(within(html.day(found))),
    )


@router.get("/day/{date}.{format}")
def file(given: Given, visitor: Reader, date: dt.date, format: Literal["html", "markdown", "json", "text"]) -> Response:
    """The report of a day as a file."""
    body = rendered.day(day_of(given.store, given.settings, date), format)
    ending = {"markdown": "md", "text": "txt"}.get(format, format)
    headers = {"Content-Disposition": f'attachment; filename="audits-{date}.{ending}"', "Cache-Control": "no-store"}
    return Response(body, media_type=f"{TYPES[format]}; charset=utf-8", headers=headers)


def within(whole: str) -> Markup:
    """What stands in a report's page, to stand in the frame; its style is the frame's too."""
    found = re.search(r"<body>(.*)</body>", whole, re.DOTALL)
    assert found
    return Markup(found.group(1))  # escaped where the report was made


def _linked(body: Markup) -> Markup:
    """The report with links where it names audits, and commands that show runs."""

    def audit(found: re.Match[str]) -> str:
        start, name, end = found.groups()
        return f'{start}<a href="{url("audits", Markup(name).unescape())}"><bdi>{name}</bdi></a>{end}'

    named = re.sub(r"(<h3>|<td data-name=\"audit\"><b>)<bdi>([^<]+)</bdi>(</h3>|</b>)", audit, body)
    return Markup(re.sub(r"<code>auditor show (\w+)</code>", r'<a href="/runs/\1">its run</a>', named))
