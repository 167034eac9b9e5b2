"""The page of one table of a pipeline's target: what it lags behind, its state with the way out, its refreshes, and its segments."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api.dependencies import App
from auditor.api.pages import _pipelines
from auditor.api.pages._lag_chart import SPANS, Span, begin, build_chart
from auditor.api.pages._layout import redirect, render_page, url
from auditor.api.pages._session import Operator, Reader
from auditor.errors import ConfigError
from auditor.pipeline.refresh import use_cases
from auditor.service import pipelines
from auditor.service.pipeline_status import check_table, list_lags
from auditor.store import refreshes, segments

router = APIRouter()

PAGE_SEGMENTS = 20
"""Segments on a page."""

MOST_REFRESHES = 5
"""Refreshes of the table that the page shows, the newest."""


# The names are in the query, because those of tables may contain slashes.
@router.get("/pipelines/{name}/table")
def table_page(
    request: Request, app: App, visitor: Reader, name: str, target: str, table: str, span: Span = "day", before: str = ""
) -> HTMLResponse:
    """Show a table of a target; ``before`` is the place of the last segment of the previous page."""
    row = _pipelines.build_row(app, name)
    shown = next((table_row for table_row in row.tables if (table_row.target, table_row.table) == (target, table)), None)
    if shown is None:
        check_table(app.store, name, table)
        raise ConfigError(f"pipeline {name!r} has no target {target!r}; its targets are {', '.join(sorted(row.pipeline.targets))}")
    history = list_lags(app.configured, app.store, name, table, begin(span))
    listed = segments.list_newest(app.store, name, table, _place(before), PAGE_SEGMENTS + 1)
    limit = row.status.targets[target].max_lag
    last = listed[PAGE_SEGMENTS - 1] if len(listed) > PAGE_SEGMENTS else None
    return render_page(
        request,
        "pipeline_table.html",
        visitor=visitor,
        row=row,
        shown=shown,
        look=_pipelines.look,
        stops=[stop for stop in row.status.stopped if stop.table == table and stop.target in (None, target)],
        skipped=[skip for skip in row.status.skipped if skip.table == table and skip.target in (None, target)],
        migrations=[made for made in row.status.migrations if (made.target, made.table) == (target, table)][::-1],
        others=[table_row for table_row in row.tables if table_row.table == table and table_row.target != target],
        limit=limit,
        refreshes=[refresh for refresh in refreshes.list_refreshes(app.store, name) if refresh.table == table][:MOST_REFRESHES],
        chart=build_chart(history.points_of(target), span, limit),
        spans=SPANS,
        segments=listed[:PAGE_SEGMENTS],
        before=before,
        older=f"{last.last}:{last.last_row}" if last else "",
    )


Bound = Annotated[str, Form(max_length=21)]


@router.post("/pipelines/{name}/refresh")
def refresh_table(
    app: App,
    visitor: Operator,
    name: str,
    target: Annotated[str, Form(max_length=255)],
    table: Annotated[str, Form(max_length=255)],
    first: Bound = "",
    last: Bound = "",
) -> RedirectResponse:
    """Ask for the existing rows of a table, or of a range of its keys, to be sent through the stream."""
    ends = _key(first), _key(last)
    use_cases.request(app.configured, app.store, name, table, first=ends[0], last=ends[1], by=visitor.name)
    return redirect(f"{_address(name, target, table)}#refreshes")


@router.post("/pipelines/{name}/skip")
def skip_events(
    app: App,
    visitor: Operator,
    name: str,
    target: Annotated[str, Form(max_length=255)],
    table: Annotated[str, Form(max_length=255)],
    position: Annotated[str, Form(max_length=255)],
    reason: Annotated[str, Form(max_length=1000)],
) -> RedirectResponse:
    """Let a stopped table go on without the events that stop it at a place."""
    pipelines.skip(app.configured, app.store, name, table, position, reason, by=visitor.name)
    return redirect(_address(name, target, table))


def _address(name: str, target: str, table: str) -> str:
    return f"{url('pipelines', name)}/table?{urlencode({'target': target, 'table': table})}"


def _key(text: str) -> int | None:
    """Return an integer key as people write it; None for no bound. Raises ConfigError."""
    plain = text.strip().replace(",", "")
    if plain and not re.fullmatch(r"-?[0-9]{1,20}", plain):
        raise ConfigError(f"{text!r} is no integer key; write digits, or leave the field empty for no bound")
    return int(plain) if plain else None


def _place(text: str) -> tuple[int, int] | None:
    """Return the position and row that an address holds; None without one. Raises ConfigError for text of another form."""
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,18}):([0-9]{1,18})", text)
    if not match:
        raise ConfigError(f"{text!r} is not the place of a segment; open the table's page without it")
    return int(match[1]), int(match[2])
