"""The pages of all pipelines and of one: state, lag, targets and tables, and forms to pause and start it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api.dependencies import App, AppState
from auditor.api.pages._lag_chart import SPANS, Span, begin, build_chart
from auditor.api.pages._layout import redirect, render_page, url
from auditor.api.pages._session import Operator, Reader
from auditor.config import Pipeline
from auditor.service import pipeline_problems, pipelines
from auditor.service.pipeline_status import list_lags, status
from auditor.shapes.pipeline import PipelineProblem, PipelineStatus, TableStatus
from auditor.store import pipelines as states
from auditor.store import problems

router = APIRouter()

MOST_TABLES = 200
"""Tables that a page lists at most; the filter finds the others."""

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
class TableRow:
    """A table of a target, with its status."""

    target: str
    table: str
    state: str
    values: TableStatus


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


def build_row(app: AppState, name: str) -> Row:
    """Build the row of a pipeline. Raises UnknownPipeline and StoreError."""
    pipeline_status = status(app.configured, app.store, name, look=False)
    tables = [
        TableRow(target=target, table=table, state=_table_state(values, target_status.max_lag), values=values)
        for target, target_status in pipeline_status.targets.items()
        for table, values in target_status.tables.items()
    ]
    tables.sort(key=lambda row: (row.state in TABLE_LOOKS, row.state != "lagging", -row.values.lag_seconds, row.table, row.target))
    known = pipeline_problems.gravest_first(problems.list_problems(app.store, name))
    return Row(
        name=name,
        pipeline=app.configured.pipeline(name),
        state=_state(pipeline_status),
        status=pipeline_status,
        tables=tables,
        problems=known,
    )


def _state(pipeline_status: PipelineStatus) -> PipelineState:
    if pipeline_status.paused:
        return "paused"
    if pipeline_status.seen_at is None:
        return "never"
    kinds = {key.kind for key in pipeline_problems.find_problems(pipeline_status)}
    return next((kind for kind in ("down", "failing", "stopped", "lagging") if kind in kinds), "running")


def _table_state(table: TableStatus, limit: float) -> str:
    return "lagging" if table.state != "stopped" and table.lag_seconds > limit else table.state


def look(state: str) -> tuple[str, str]:
    """Return the mark and the words of a table's state; one that does not continue automatically needs a person."""
    return TABLE_LOOKS.get(state, ("mismatch", state))


@router.get("/pipelines")
def pipelines_page(request: Request, app: App, visitor: Reader) -> HTMLResponse:
    """Show all pipelines, those that need attention first."""
    grave = list(LOOKS)
    rows = sorted((build_row(app, name) for name in app.configured.pipelines), key=lambda row: (grave.index(row.state), row.name))
    return render_page(request, "pipelines.html", visitor=visitor, rows=rows, looks=LOOKS)


@router.get("/pipelines/{name}")
def pipeline_page(request: Request, app: App, visitor: Reader, name: str, q: str = "", span: Span = "day") -> HTMLResponse:
    """Show a pipeline with those of its tables that match all words of ``q``."""
    row = build_row(app, name)
    stored = states.get_pipeline(app.store, name)
    words = q.lower().split()
    matching = [
        table_row
        for table_row in row.tables
        if all(word in f"{table_row.table} {table_row.target} {table_row.state}".lower() for word in words)
    ]
    history = list_lags(app.configured, app.store, name, since=begin(span))
    return render_page(
        request,
        "pipeline.html",
        visitor=visitor,
        row=row,
        look=look,
        looks=LOOKS,
        place=_place(stored.source_offset),
        tables=matching[:MOST_TABLES],
        matching=len(matching),
        most=MOST_TABLES,
        q=q,
        chart=build_chart(history.points_of(None), span, row.pipeline.max_lag),
        spans=SPANS,
        runs_here=app.pipelines is not None and name in app.pipelines.names,
    )


def _place(offset: Any) -> str:
    """Return the file and position of the source's log where staging stands."""
    return f"{offset['file']}:{offset['position']}" if isinstance(offset, dict) and {"file", "position"} <= offset.keys() else ""


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
