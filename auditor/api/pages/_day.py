"""The page of a day: how each audit stood at its end, those that need attention first; and the daily report as files."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from auditor.api.authentication import Reader
from auditor.api.dependencies import App
from auditor.api.pages._layout import file_response, now, render_page
from auditor.api.pages._overview import AskedView, table_values
from auditor.api.reports import IsoDate
from auditor.report import render
from auditor.report.day import FIRST_DAY, check_day
from auditor.report.day import load_day as day_of
from auditor.service import audits, definitions

router = APIRouter()


@router.get("/day")
def day_page(request: Request, app: App, visitor: Reader, view: AskedView, date: IsoDate | None = None) -> HTMLResponse:
    """Show how the audits of a view stood on a day, by default today."""
    today = now().date()
    wanted = date or today
    check_day(wanted, today)
    listed = audits.overview_of_day(app.configured, app.store, wanted, app.visible)
    settings = app.settings
    via = [name for name, audit in settings.audits.items() if audit.via] if wanted == today else []
    later = wanted + dt.timedelta(days=1)
    return render_page(
        request,
        "day.html",
        visitor=visitor,
        revalidated=True,
        date=wanted,
        today=today,
        earlier=wanted - dt.timedelta(days=1) if wanted > FIRST_DAY else None,
        later=later if later <= today else None,
        combined={name: definitions.combined(settings, app.store, name) for name in via},
        attention=sum(audit.configured and audit.needs_attention for audit in listed),
        **table_values(app, replace(view, date=wanted.isoformat()), listed, wanted),
    )


@router.get("/day/{date}.{format}")
def download_day(app: App, visitor: Reader, date: IsoDate, format: Literal["html", "markdown", "json", "text"]) -> Response:
    """Return the report of a day as a file."""
    check_day(date, now().date())
    return file_response(render.day(day_of(app.store, app.settings, date, among=app.visible), format), f"audits-{date}", format)
