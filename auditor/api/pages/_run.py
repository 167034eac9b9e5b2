"""The page of a run: its progress, then its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from auditor.api.authentication import Reader, Runner
from auditor.api.dependencies import App, AppState
from auditor.api.pages import _patch
from auditor.api.pages._layout import file_response, redirect, render_page, url
from auditor.api.reports import get_report
from auditor.api.routing import slow_request
from auditor.api_models.run import Difference
from auditor.history import records
from auditor.masking import redact
from auditor.model import SIDES, Side, Verdict
from auditor.report import html, render
from auditor.report.heatmap import build_heatmap
from auditor.service import stored_differences, stored_runs, trace, workers
from auditor.store import Store, queue, runs
from auditor.store.runs import StoredRun

router = APIRouter()

MAX_ITEMS = 50
"""Largest number of partitions and of measures shown."""


@router.get("/runs/{run}")
def run_page(
    request: Request,
    app: App,
    visitor: Reader,
    run: str,
    kind: Kind = "",
    state: DifferenceState = "",
    after: int = 0,
    patch: str = "",
    row: int = 0,
) -> HTMLResponse:
    """Show the run; ``after`` is the last difference of the previous page, ``patch`` the patch to show, ``row`` its row before."""
    values = _template_values(app, run, kind, state, after)
    patching = values["report"] and _patch.build_view(app, values["run"], values["report"], patch, row)
    return render_page(request, "run.html", visitor=visitor, patching=patching, **values)


@router.get("/runs/{run}/trace")
def trace_page(request: Request, app: App, visitor: Runner, run: str, key: str = "", hops: bool = False) -> HTMLResponse:
    """Trace a row of the run, or its first differences, and show at which hop each was lost; each hop may be audited as a whole, too."""
    stored = runs.get_run(app.store, run)
    with slow_request():
        found = trace.trace(app.configured, app.store, stored.run, trace.Asked((key,) if key else (), PAGE_SIZE, hops))
    values: dict[str, Any] = {"counted": trace.count_outcomes(found), "hops": trace.HOP_NAMES, "outcomes": trace.OUTCOMES}
    return render_page(request, "trace.html", visitor=visitor, run=stored, trace=found, **values)


@router.get("/runs/{run}/live")
def live_run(request: Request, app: App, visitor: Reader, run: str) -> HTMLResponse:
    """Return the part of the page that changes while the run goes on."""
    values = _template_values(app, run, "", "", 0)
    patching = values["report"] and _patch.build_view(app, values["run"], values["report"], "", 0)
    return render_page(request, "run_body.html", visitor=visitor, **{**values, "watched": True, "patching": patching})


@router.get("/runs/{run}/differences.{format}")
def download_differences(
    app: App, visitor: Reader, run: str, format: Literal["csv", "ndjson"], kind: Kind = "", state: DifferenceState = ""
) -> StreamingResponse:
    """Return all stored differences as a file."""
    stored = runs.get_run(app.store, run)
    as_lines = {"csv": stored_differences.as_csv, "ndjson": stored_differences.as_ndjson}[format]
    lines = as_lines(app.store, select(app.store, stored.run, kind, state))
    type_ = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}[format]
    headers = {"Content-Disposition": f'attachment; filename="differences-{stored.run[:12]}.{format}"', "Cache-Control": "no-store"}
    return StreamingResponse(lines, media_type=type_, headers=headers)


@router.get("/runs/{run}/report.{format}")
def download_report(app: App, visitor: Reader, run: str, format: Literal["html", "markdown", "json", "text"]) -> Response:
    """Return the run's report as a self-contained file."""
    stored = runs.get_run(app.store, run)
    report = get_report(app.store, stored.run)
    body = render.run(report, records.load_partition_map(app.store, stored.run) if format == "html" else None, format)
    return file_response(body, f"run-{stored.run[:12]}", format)


@router.post("/runs/{run}/cancel")
def cancel_run(app: App, visitor: Runner, run: str) -> RedirectResponse:
    """Request that the run be cancelled."""
    return redirect(url("runs", stored_runs.cancel(app.store, run, by=visitor.name).run))


@router.post("/runs/{run}/resume")
def resume_run(app: App, visitor: Runner, run: str) -> RedirectResponse:
    """Request that the run be resumed from its last checkpoint."""
    return redirect(url("runs", workers.request_resume(app.configured, app.store, run, requested_by=visitor.name).run))


def _template_values(app: AppState, run: str, kind: Kind, state: DifferenceState, after: int) -> dict[str, Any]:
    stored = runs.get_run(app.store, run)
    base: dict[str, Any] = {"run": stored, "kind": kind, "state": state, "after": after, "watched": False}
    if stored.ended is None:
        return {**base, "report": None, "sides": _side_progress(stored), "waiting": queue.count_waiting(app.store)}
    full = records.load_report(app.store, stored.run, max_differences=0)
    if full is None:
        return {**base, "report": None}
    report = redact(full)
    picture = records.load_partition_map(app.store, stored.run)
    return {
        **base,
        **html.run_values(report),
        "explanations": {},
        "max_rows": MAX_ITEMS,
        "heat": build_heatmap(picture, report.plan) if picture is not None else None,
        "named": list_page(app.store, stored.run, kind, state, after) if report.differences is not None else None,
        "is_traceable": report.verdict == Verdict.MISMATCH and stored_runs.is_traceable(app.settings, stored.audit),
    }


class SideView(TypedDict):
    """Progress of one side for the template. ``waits`` says whether ``doing`` is what the side waits for."""

    side: Side
    doing: str
    done: int
    total: int
    statements: int
    running: int
    waits: bool


def _side_progress(stored: StoredRun) -> list[SideView]:
    """Return each side's progress as of its last heartbeat."""
    sides: list[SideView] = []
    for side in SIDES:
        now = stored.progress.get(side, {})
        doing = str(now.get("doing", ""))
        sides.append(
            {
                "side": side,
                "doing": doing.removeprefix("waits").removeprefix(":").strip(),
                "done": now.get("done", 0),
                "total": now.get("total", 0),
                "statements": now.get("statements", 0),
                "running": now.get("running", 0),
                "waits": doing.startswith("waits"),
            }
        )
    return sides


PAGE_SIZE = 50
"""Differences on a page."""

Kind = Literal["", "missing", "extra", "changed"]
DifferenceState = Literal["", "confirmed", "unsettled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencePage:
    """Differences in order: of ranges and of single rows.

    ``first`` and ``last`` are the numbers of the first and last, 0 if there are none. ``next`` is the number after which the next page
    starts, None on the last page.
    """

    ranges: Sequence[Mapping[str, Any]]
    named: Sequence[Difference]
    first: int
    last: int
    next: int | None


def list_page(store: Store, run: str, kind: Kind, state: DifferenceState, after: int) -> DifferencePage:
    """Return a page of the stored differences of a run. Raises NoReport if it has none, or one that names none."""
    listed = stored_differences.list_page(store, select(store, run, kind, state), after, PAGE_SIZE + 1)
    shown = listed[:PAGE_SIZE]
    return DifferencePage(
        ranges=[{**dict(difference), **dict(difference.range)} for difference in shown if difference.range],
        named=[difference for difference in shown if not difference.range],
        first=shown[0].number if shown else 0,
        last=shown[-1].number if shown else 0,
        next=shown[-1].number if len(listed) > PAGE_SIZE else None,
    )


def select(store: Store, run: str, kind: Kind, state: DifferenceState) -> stored_differences.Selection:
    """Select differences of a run; an empty ``kind`` or ``state`` selects all."""
    return stored_differences.select(store, run, kind or None, state or None)
