"""The page of a run: its progress, then its result."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Literal, TypedDict

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from auditor.api import audit_access
from auditor.api.authentication import Reader, Runner
from auditor.api.dependencies import App, AppState
from auditor.api.pages import _patch
from auditor.api.pages._differences import PAGE_SIZE, AskedFilter, Filter, list_shown, mark
from auditor.api.pages._layout import file_response, redirect, render_page, url
from auditor.api.reports import get_report
from auditor.api.routing import slow_request
from auditor.history import records
from auditor.masking import redact
from auditor.model import PERMISSIONS, SIDES, Side, State, Verdict
from auditor.report import html, render
from auditor.report.heatmap import build_heatmap
from auditor.service import difference_changes, stored_differences, stored_runs, trace, workers
from auditor.store import queue, runs
from auditor.store.runs import StoredRun

router = APIRouter()

OTHER_RUNS = 20
"""Runs that a run can be compared with by a choice on its page."""

CHANGES_SHOWN = 50
"""Rows of each kind that the comparison of two runs shows."""

MAX_ITEMS = 50
"""Largest number of partitions and of measures shown."""


@router.get("/runs/{run}")
def run_page(request: Request, app: App, visitor: Reader, run: str, asked: AskedFilter, patch: str = "", row: int = 0) -> HTMLResponse:
    """Show the run; ``asked`` filters and sorts its differences, ``patch`` is the patch to show, ``row`` its row before."""
    with slow_request() if asked.order != "number" or asked.column or asked.key else nullcontext():  # they look through all of them
        values = _template_values(app, run, asked)
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
    values = _template_values(app, run, Filter())
    patching = values["report"] and _patch.build_view(app, values["run"], values["report"], "", 0)
    return render_page(request, "run_body.html", visitor=visitor, **{**values, "watched": True, "patching": patching})


@router.get("/runs/{run}/changes")
def changes_page(request: Request, app: App, visitor: Reader, run: str, since: str = "", other: str = "") -> HTMLResponse:
    """Show which differing rows are new, gone or the same since another run of the audit: ``other``, if it is named, or ``since``."""
    since = other.strip() or since
    audit_access.check(app.store, "GET", "/runs/{run}", {"run": since}, app.patterns)
    with slow_request():
        changes = difference_changes.compare_runs(app.store, since, run, CHANGES_SHOWN)
    later, earlier = runs.get_run(app.store, changes.later), runs.get_run(app.store, changes.earlier)
    others = _other_runs(app, later)
    return render_page(
        request,
        "changes.html",
        visitor=visitor,
        changes=changes,
        later=later,
        earlier=earlier,
        others=others if any(run.run == earlier.run for run in others) else [earlier, *others],
        mark=mark,
    )


FILE_TYPES = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}


@router.get("/runs/{run}/differences.{format}")
def download_differences(app: App, visitor: Reader, run: str, format: Literal["csv", "ndjson", "parquet"], asked: AskedFilter) -> Response:
    """Return the stored differences that a filter selects as a file."""
    stored = runs.get_run(app.store, run)
    selection = asked.select(app.store, stored.run)
    headers = {"Content-Disposition": f'attachment; filename="differences-{stored.run[:12]}.{format}"', "Cache-Control": "no-store"}
    if format == "parquet":
        with slow_request():
            return Response(stored_differences.as_parquet(app.store, selection), media_type=FILE_TYPES[format], headers=headers)
    as_lines = {"csv": stored_differences.as_csv, "ndjson": stored_differences.as_ndjson}[format]
    return StreamingResponse(as_lines(app.store, selection), media_type=FILE_TYPES[format], headers=headers)


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


@router.post("/runs/{run}/again")
def run_again(app: App, visitor: Runner, run: str) -> RedirectResponse:
    """Request a run of the audit with the same settings as this one, without its permissions."""
    stored = runs.get_run(app.store, run)
    overrides = {name: value for name, value in stored.overrides.items() if name not in PERMISSIONS}
    reason = f"again, after run {stored.run[:12]}"
    requested = workers.request_run(app.configured, app.store, stored.audit, overrides=overrides, reason=reason, requested_by=visitor.name)
    return redirect(url("runs", requested.run))


def _other_runs(app: AppState, stored: StoredRun) -> list[StoredRun]:
    """Return the newest runs of a run's audit with its own settings that ended in a verdict, without this one."""
    listed = runs.list_runs(app.store, audit=stored.audit, state=State.DONE, limit=OTHER_RUNS + 1, own_only=True)
    return [run for run in listed if run.run != stored.run][:OTHER_RUNS]


def _template_values(app: AppState, run: str, asked: Filter) -> dict[str, Any]:
    stored = runs.get_run(app.store, run)
    base: dict[str, Any] = {"run": stored, "asked": asked, "watched": False, "mark": mark}
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
        "folds": True,
        "named": list_shown(app.store, stored.run, asked) if report.differences is not None else None,
        "others": _other_runs(app, stored) if report.differences is not None and not stored.is_ad_hoc else [],
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
