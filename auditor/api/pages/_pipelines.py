"""The pages of pipelines: of all, of one, and of one table of its target, with charts of what they lag behind."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api.authentication import Operator, Reader
from auditor.api.dependencies import App, AppState
from auditor.api.pages._layout import now, redirect, render_page, url
from auditor.api_models.pipeline import LagPoint, PipelineProblem, PipelineStatus
from auditor.config import Pipeline
from auditor.errors import ConfigError
from auditor.pipeline.incarnation import show
from auditor.pipeline.refresh import use_cases
from auditor.quantities import format_duration, format_size
from auditor.service import pipeline_problems, pipelines, schema_versions
from auditor.service.pipeline_status import check_table, condense, list_lags, status
from auditor.service.table_states import FEW_TABLES, TableRow, group_rows, list_rows
from auditor.store import pipelines as states
from auditor.store import refreshes, segments

router = APIRouter()

PAGE_TABLES = 50
"""Tables of targets on a page; the filter and the next pages have the others."""

MOST_PROBLEMS = 20
"""Problems that a page lists, the gravest; those that tables of a target share count as one."""

PipelineState = Literal["running", "paused", "down", "failing", "stopped", "lagging", "never"]

LOOKS: Mapping[PipelineState, tuple[str, str]] = {
    "down": ("mismatch", "not running"),
    "failing": ("mismatch", "staging fails"),
    "stopped": ("mismatch", "tables stopped"),
    "lagging": ("unknown", "lags"),
    "paused": ("stale", "paused"),
    "never": ("never", "never ran"),
    "running": ("match", "running"),
}
"""The mark and the words of a pipeline's state, the gravest first."""

TABLE_LOOKS: Mapping[str, tuple[str, str]] = {
    "merged": ("match", "merged"),
    "waiting": ("never", "waiting"),
    "delayed": ("unknown", "delayed"),
    "lagging": ("unknown", "lags"),
}
"""The mark and the words of a table's state while it continues automatically."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A pipeline with its state, its status, and its tables."""

    name: str
    pipeline: Pipeline
    state: PipelineState
    status: PipelineStatus
    tables: Sequence[TableRow]
    problems: Sequence[PipelineProblem]
    """Those that a service saw, the gravest first."""

    @property
    def held_up(self) -> int:
        """The number of tables that do not go on by themselves."""
        return sum(row.state not in TABLE_LOOKS for row in self.tables)


def build_row(app: AppState, name: str, tables: Collection[str] | None = None) -> Row:
    """Build the row of a pipeline, with ``tables`` of these alone. Raises UnknownPipeline and StoreError."""
    pipeline_status = status(app.configured, app.store, name, look=False, tables=tables)
    return Row(
        name=name,
        pipeline=app.configured.pipeline(name),
        state=_state(pipeline_status),
        status=pipeline_status,
        tables=list_rows(pipeline_status),
        problems=pipeline_problems.gravest_first(states.list_problems(app.store, name)),
    )


def _state(pipeline_status: PipelineStatus) -> PipelineState:
    if pipeline_status.paused:
        return "paused"
    if pipeline_status.seen_at is None:
        return "never"
    kinds = {key.kind for key in pipeline_problems.find_problems(pipeline_status)}
    return next((kind for kind in ("down", "failing", "stopped", "lagging") if kind in kinds), "running")


def look(state: str) -> tuple[str, str]:
    """Return the mark and the words of a table's state; one that does not continue automatically needs a person."""
    return TABLE_LOOKS.get(state, ("mismatch", state))


@router.get("/pipelines")
def pipelines_page(request: Request, app: App, visitor: Reader) -> HTMLResponse:
    """Show all pipelines, those that need attention first."""
    grave = list(LOOKS)
    rows = sorted((build_row(app, name) for name in app.configured.pipelines), key=lambda row: (grave.index(row.state), row.name))
    return render_page(request, "pipelines.html", visitor=visitor, rows=rows, looks=LOOKS)


@dataclass(frozen=True, slots=True)
class Listing:
    """Those of a pipeline's tables that a page lists: by the words of a filter, and by a group that was chosen."""

    words: str
    target: str
    state: str
    rows: Sequence[TableRow]
    number: int
    """The number of the page, from 1."""
    matching: int

    @property
    def first(self) -> int:
        """The number of the first row, from 1."""
        return (self.number - 1) * PAGE_TABLES + 1

    @property
    def has_next(self) -> bool:
        """Whether there is a page behind this one."""
        return self.number * PAGE_TABLES < self.matching

    def query(self, number: int) -> str:
        """Return the query of another page of the same tables."""
        chosen = {"q": self.words, "target": self.target, "state": self.state}
        return urlencode({name: value for name, value in chosen.items() if value} | {"page": number})


def _list_tables(rows: Sequence[TableRow], words: str, target: str, state: str, number: int) -> Listing:
    wanted = words.lower().split()
    matching = [
        row
        for row in rows
        if target in ("", row.target)
        and state in ("", row.state)
        and all(word in f"{row.table} {row.target} {row.state}".lower() for word in wanted)
    ]
    number = max(1, min(number, -(-len(matching) // PAGE_TABLES)))
    return Listing(words, target, state, matching[(number - 1) * PAGE_TABLES : number * PAGE_TABLES], number, len(matching))


@router.get("/pipelines/{name}")
def pipeline_page(
    request: Request,
    app: App,
    visitor: Reader,
    name: str,
    q: str = "",
    target: str = "",
    state: str = "",
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    span: Span = "day",
) -> HTMLResponse:
    """Show a pipeline with a page of its tables that match all words of ``q``, and are of a target and state if these are given."""
    row = build_row(app, name)
    stored = states.get_pipeline(app.store, name)
    history = list_lags(app.configured, app.store, name, since=begin(span))
    are_many = len({table_row.table for table_row in row.tables}) > FEW_TABLES
    return render_page(
        request,
        "pipeline.html",
        visitor=visitor,
        row=row,
        look=look,
        looks=LOOKS,
        place=_log_place(stored.source_offset),
        groups=group_rows(row.tables) if are_many else [],
        listing=_list_tables(row.tables, q, target, state, page),
        problems=pipeline_problems.share_problems(row.problems),
        most=MOST_PROBLEMS,
        chart=build_chart(history.points_of(None), span, row.pipeline.max_lag),
        spans=SPANS,
        runs_here=app.pipelines is not None and name in app.pipelines.names,
    )


def _log_place(offset: Any) -> str:
    """Return the file and position of the source's log, or the number of the message, where staging stands."""
    return show(offset) if isinstance(offset, dict) and {"file", "position"} <= offset.keys() else ""


@router.post("/pipelines/{name}/pause")
def pause_pipeline(app: App, visitor: Operator, name: str) -> RedirectResponse:
    """Let a pipeline stand still after the batch under way."""
    pipelines.set_paused(app.configured, app.store, name, True, by=visitor.name)
    return redirect(url("pipelines", name))


@router.post("/pipelines/{name}/unpause")
def unpause_pipeline(app: App, visitor: Operator, name: str) -> RedirectResponse:
    """Let a paused pipeline go on."""
    pipelines.set_paused(app.configured, app.store, name, False, by=visitor.name)
    return redirect(url("pipelines", name))


@router.post("/pipelines/{name}/start")
def start_pipeline(app: App, visitor: Operator, name: str) -> RedirectResponse:
    """Let a pipeline go on, and start its process of this service again."""
    pipelines.start(app.configured, app.store, app.pipelines, name, by=visitor.name)
    return redirect(url("pipelines", name))


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
    row = build_row(app, name, [table])
    shown = next((table_row for table_row in row.tables if (table_row.target, table_row.table) == (target, table)), None)
    if shown is None:
        check_table(app.store, name, table)
        raise ConfigError(f"pipeline {name!r} has no target {target!r}; its targets are {', '.join(sorted(row.pipeline.targets))}")
    history = list_lags(app.configured, app.store, name, table, begin(span))
    listed = segments.list_newest(app.store, name, table, _segment_place(before), PAGE_SEGMENTS + 1)
    limit = row.status.targets[target].max_lag
    last = listed[PAGE_SEGMENTS - 1] if len(listed) > PAGE_SEGMENTS else None
    return render_page(
        request,
        "table_in_target.html",
        visitor=visitor,
        row=row,
        shown=shown,
        look=look,
        stops=[stop for stop in row.status.stopped if stop.table == table and stop.target in (None, target)],
        skipped=[skip for skip in row.status.skipped if skip.table == table and skip.target in (None, target)],
        versions=schema_versions.list_versions(app.configured, app.store, name, table)[::-1],
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


def _segment_place(text: str) -> tuple[int, int] | None:
    """Return the position and row that an address holds; None without one. Raises ConfigError for text of another form."""
    if not text:
        return None
    match = re.fullmatch(r"([0-9]{1,18}):([0-9]{1,18})", text)
    if not match:
        raise ConfigError(f"{text!r} is not the place of a segment; open the table's page without it")
    return int(match[1]), int(match[2])


Span = Literal["hour", "day", "week", "month"]
SPANS: tuple[Span, ...] = get_args(Span)
LENGTHS: dict[Span, dt.timedelta] = {
    "hour": dt.timedelta(hours=1),
    "day": dt.timedelta(days=1),
    "week": dt.timedelta(days=7),
    "month": dt.timedelta(days=30),
}

MOST_POINTS = 360
"""Points of a chart at most."""

LISTED = 24
"""Rows of the table of the same numbers at most."""


@dataclass(frozen=True, slots=True)
class LagChart:
    """What a page shows of a history; ``series`` is the chart's data as JSON, empty for fewer than two points."""

    span: Span
    series: str
    listed: Sequence[LagPoint]
    """The maxima of a few stretches, newest first."""


def begin(span: Span, at: dt.datetime | None = None) -> dt.datetime:
    """Return when a chart begins."""
    return (at or now()) - LENGTHS[span]


def build_chart(points: Sequence[LagPoint], span: Span, limit: float) -> LagChart:
    """Build the chart of a history that begins as `begin` says; ``limit`` is the lag in seconds from which channels are told."""
    until = now()
    since = begin(span, until)
    drawn = list(_with_gaps(condense(points, since, until, MOST_POINTS)))
    values = {
        "from": since.timestamp(),
        "to": until.timestamp(),
        "limit": limit,
        "at": [at for at, _ in drawn],
        "seconds": [None if point is None else point.seconds for _, point in drawn],
        "says": ["" if point is None else _says(point) for _, point in drawn],
    }
    known = [point for _, point in drawn if point is not None and point.seconds is not None]
    listed = condense(points, since, until, LISTED)[::-1]
    return LagChart(span, json.dumps(values) if len(known) > 1 else "", listed)


def _with_gaps(points: Sequence[LagPoint]) -> Iterator[tuple[float, LagPoint | None]]:
    """Yield the time and point of each, with None in between where nothing was reported for longer than a point speaks for."""
    end = None
    for point in points:
        if end is not None and point.at.timestamp() > end:
            yield end, None
        yield point.at.timestamp(), point
        end = point.at.timestamp() + 2.5 * point.span


def _says(point: LagPoint) -> str:
    behind = "not known how far behind" if point.seconds is None else f"{format_duration(point.seconds)} behind"
    return ", ".join([behind, *([format_size(point.bytes)] if point.bytes is not None else []), f"{point.rate:,.1f} events a second"])
