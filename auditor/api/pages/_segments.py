"""The pages of all segment audits and of one: both sides on a time line, their lag, what is wrong, and the runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api.authentication import Definer, Reader, Runner
from auditor.api.dependencies import App, AppState
from auditor.api.pages._layout import redirect, render_page, url
from auditor.history.audit_status import STATUSES
from auditor.model import RegisteredSegment
from auditor.service import audits, segment_audits
from auditor.service.segment_audits import TableComparison
from auditor.store import runs, segment_register

router = APIRouter()

DRAWN = 120
"""Segments of a side that the time line of a table shows, the newest."""

MOST_TABLES = 50
"""Tables of which the page shows time lines, those that differ or wait first."""

HISTORY = 20
"""Runs on the page."""

WIDTH, HEIGHT, GAP = 1000, 22, 10
"""Units of the drawing: its width, the height of a side, and the space between the two."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A segment in the drawing of a time line."""

    x: float
    y: int
    width: float
    verdict: str
    says: str
    """What it is, for a person who points at it."""

    @property
    def look(self) -> str:
        """The class that colours it."""
        return {"match": "match", "behind": "unknown"}.get(self.verdict, "mismatch")


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Both sides of a table over the stream's time."""

    comparison: TableComparison
    bars: Sequence[Bar]
    first: dt.datetime | None
    last: dt.datetime | None


@router.get("/segments")
def segments_page(request: Request, app: App, visitor: Reader) -> HTMLResponse:
    """Show all segment audits, those that need attention first."""
    overviews = [segment_audits.overview(app.configured, app.store, name) for name in app.configured.segments]
    rows = sorted(overviews, key=lambda overview: (STATUSES.index(overview.standing.status), overview.name))
    return render_page(request, "segments.html", visitor=visitor, rows=rows, next_due=segment_audits.next_due)


@router.get("/segments/{name}")
def segment_audit_page(request: Request, app: App, visitor: Reader, name: str) -> HTMLResponse:
    """Show a segment audit with the time lines of its tables."""
    shown = segment_audits.overview(app.configured, app.store, name)
    _, reasons, _ = segment_audits.conclude(app.configured, app.store, name)
    first = sorted(shown.tables, key=lambda comparison: (not comparison.findings, -max(comparison.lags), comparison.state.table))
    lines = [build_time_line(app, name, shown.sides, comparison) for comparison in first[:MOST_TABLES]]
    return render_page(
        request,
        "segment_audit.html",
        visitor=visitor,
        shown=shown,
        reasons=reasons,
        lines=lines,
        hidden=len(first) - len(lines),
        next_due=segment_audits.next_due(shown),
        place_range=segment_audits.place_range,
        history=runs.list_runs(app.store, audit=name, limit=HISTORY),
        size=(WIDTH, 2 * HEIGHT + GAP, HEIGHT),
    )


def build_time_line(app: AppState, audit: str, sides: Sequence[str], comparison: TableComparison) -> TimeLine:
    """Build the time line of a table from the newest segments of both sides."""
    listed = [segment_register.list_entries(app.store, audit, comparison.state.table, side, newest=True, limit=DRAWN) for side in sides]
    every = [entry for some in listed for entry in some]
    if not every:
        return TimeLine(comparison, (), None, None)
    since = max((some[-1].began for some in listed if len(some) == DRAWN), default=min(entry.began for entry in every))
    until = max(entry.ended for entry in every)
    span = max(1.0, (until - since).total_seconds())
    bars = [
        _bar(entry, number, sides[number], since, span)
        for number, some in enumerate(listed)
        for entry in reversed(some)
        if entry.ended >= since
    ]
    return TimeLine(comparison, bars, since, until)


def _bar(entry: RegisteredSegment, number: int, side: str, since: dt.datetime, span: float) -> Bar:
    x = max(0.0, (entry.began - since).total_seconds()) / span * WIDTH
    end = (entry.ended - since).total_seconds() / span * WIDTH
    says = f"{side}: {entry.verdict}, {entry.rows:,} events, {entry.began:%Y-%m-%d %H:%M:%S} to {entry.ended:%H:%M:%S}"
    return Bar(round(min(x, WIDTH - 3), 1), number * (HEIGHT + GAP), round(max(3.0, end - x - 1), 1), entry.verdict, says)


@router.post("/segments/{name}/run")
def run_segment_audit(app: App, visitor: Runner, name: str) -> RedirectResponse:
    """Request a run, and go to it."""
    enqueued = segment_audits.request_run(app.configured, app.store, name, requested_by=visitor.name)
    return redirect(url("runs", enqueued.run))


@router.post("/segments/{name}/pause")
def pause_segment_audit(app: App, visitor: Definer, name: str) -> RedirectResponse:
    """Stop scheduling a segment audit."""
    app.configured.segment_audit(name)
    audits.pause(app.configured, app.store, name, by=visitor.name)
    return redirect(url("segments", name))


@router.post("/segments/{name}/unpause")
def unpause_segment_audit(app: App, visitor: Definer, name: str) -> RedirectResponse:
    """Schedule a segment audit again."""
    app.configured.segment_audit(name)
    audits.unpause(app.configured, app.store, name, by=visitor.name)
    return redirect(url("segments", name))
