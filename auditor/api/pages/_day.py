"""The daily report, as a page and as files."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from auditor.api.dependencies import App
from auditor.api.pages._layout import file_response, now, render_page, url
from auditor.api.pages._session import Reader
from auditor.api.reports import IsoDate
from auditor.report import html, render
from auditor.report.day import FIRST_DAY, check_day
from auditor.report.day import load_day as day_of

router = APIRouter()

LINKS = html.Links(audit=partial(url, "audits"), run=partial(url, "runs"))


@router.get("/day")
def day_page(request: Request, app: App, visitor: Reader, date: IsoDate | None = None) -> HTMLResponse:
    """Show the report of a day, by default of today."""
    today = now().date()
    wanted = date or today
    check_day(wanted, today)
    day = day_of(app.store, app.settings, wanted)
    later = wanted + dt.timedelta(days=1)
    earlier = wanted - dt.timedelta(days=1) if wanted > FIRST_DAY else None
    return render_page(
        request,
        "day.html",
        visitor=visitor,
        date=wanted,
        today=today,
        earlier=earlier,
        later=later if later <= today else None,
        body=html.day_fragment(day, LINKS),
    )


@router.get("/day/{date}.{format}")
def download_day(app: App, visitor: Reader, date: IsoDate, format: Literal["html", "markdown", "json", "text"]) -> Response:
    """Return the report of a day as a file."""
    check_day(date, now().date())
    return file_response(render.day(day_of(app.store, app.settings, date), format), f"audits-{date}", format)
