"""The page of all audits, those that need attention first, and the daily report, as a page and as files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from auditor.api.authentication import Reader
from auditor.api.dependencies import App
from auditor.api.pages._layout import file_response, now, render_page, url
from auditor.api.reports import IsoDate
from auditor.history.audit_status import STATUSES, Standing
from auditor.report import formatting, html, render, sparkline
from auditor.report.day import FIRST_DAY, TREND_DAYS, check_day
from auditor.report.day import load_day as day_of
from auditor.service import audits
from auditor.service.audits import Overview

router = APIRouter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table of audits: the audit's status, and the score and the trend of its verdicts."""

    audit: Overview
    standing: Standing
    why: str
    score: str
    score_name: str
    bounds: str
    line: sparkline.Line | None

    @property
    def ended(self) -> dt.datetime | None:
        """When the run of the last verdict ended."""
        return self.standing.run.ended if self.standing.run else None


@router.get("/")
def overview_page(request: Request, app: App, visitor: Reader, q: str = "") -> HTMLResponse:
    """Show all audits, or those that match all words of ``q``."""
    every = [build_row(overview) for overview in audits.overview(app.configured, app.store)]
    every.sort(key=lambda row: (STATUSES.index(row.standing.status), row.audit.name))
    counts = {status: sum(row.standing.status == status for row in every) for status in STATUSES}
    return render_page(request, "overview.html", visitor=visitor, rows=_filter(every, q), total=len(every), counts=counts, q=q)


def build_row(overview: Overview) -> Row:
    """Build an audit's row; the score of a rolling audit is that of the part that was read last."""
    standing, at = overview.standing, now()
    run = standing.run if standing.run and formatting.has_score(standing.run) else None
    of_part = ", of the last part" if run and "rolling" in run.definition else ""
    return Row(
        audit=overview,
        standing=standing,
        why=_why(standing),
        score=formatting.rounded(run.score) if run and run.score is not None else "",
        score_name=formatting.score_name(run) if run else "",
        bounds=f"{_bounds(run.lower, run.upper)}{of_part}" if run else "",
        line=sparkline.line(overview.trend, at - dt.timedelta(days=TREND_DAYS), at),
    )


def _why(standing: Standing) -> str:
    """Return what differs, and for what is allowed or too old also why; empty for a match."""
    if standing.status == "match":
        return ""
    first, last = standing.reasons[:1], standing.reasons[-1:]
    return "; ".join(dict.fromkeys(standing.reasons[:2] if standing.status in ("mismatch", "unknown") else [*first, *last]))


def _bounds(lower: float | None, upper: float | None) -> str:
    if lower is None or upper is None:
        return ""
    return "exact" if lower == upper else f"{formatting.rounded(lower)} to {formatting.rounded(upper)}"


def _filter(rows: Sequence[Row], q: str) -> list[Row]:
    words = q.lower().split()
    return [row for row in rows if all(word in _search_text(row) for word in words)]


def _search_text(row: Row) -> str:
    paused = "paused" if row.audit.paused else ""
    return " ".join((row.audit.name, row.audit.source, row.audit.target, row.standing.label, paused)).lower()


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
