"""The daily report, in the frame and as files."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from auditor.api.behind import Given
from auditor.api.pages._frame import file, now, page, url
from auditor.api.pages._visitor import Reader
from auditor.report import html, rendered
from auditor.report.day import day as day_of

router = APIRouter()

LINKS = html.Links(audit=partial(url, "audits"), run=partial(url, "runs"))


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
        body=html.day_part(found, LINKS),
    )


@router.get("/day/{date}.{format}")
def as_file(given: Given, visitor: Reader, date: dt.date, format: Literal["html", "markdown", "json", "text"]) -> Response:
    """The report of a day as a file."""
    return file(rendered.day(day_of(given.store, given.settings, date), format), f"audits-{date}", format)
