"""One run: how far it is, then what it found."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse, StreamingResponse

from auditor import keep, service
from auditor.api import differences as kept
from auditor.api.behind import Behind, Given
from auditor.api.pages import _differences
from auditor.api.pages._differences import Kind, Settled
from auditor.api.pages._frame import back_to, file, page, url
from auditor.api.pages._visitor import Reader, Runner
from auditor.errors import UnknownRun
from auditor.model import SIDES
from auditor.report import plain, rendered
from auditor.report.day import not_compared
from auditor.report.heat import heat
from auditor.report.shown import shown
from auditor.service import queueing
from auditor.store import queue, runs
from auditor.store.runs import StoredRun

router = APIRouter()

FEW = 50
"""Partitions and measures that the page shows."""


@router.get("/runs/{run}")
def run(request: Request, given: Given, visitor: Reader, run: str, kind: Kind = "", state: Settled = "", after: int = 0) -> HTMLResponse:
    """The run's page, at a page of its differences."""
    return page(request, "run.html", visitor=visitor, **_told(given, run, kind, state, after))


@router.get("/runs/{run}/live")
def live(request: Request, given: Given, visitor: Reader, run: str) -> HTMLResponse:
    """What of the page changes while the run goes on."""
    return page(request, "run_body.html", visitor=visitor, **{**_told(given, run, "", "", 0), "watched": True})


@router.get("/runs/{run}/differences.{format}")
def download(
    given: Given, visitor: Reader, run: str, format: Literal["csv", "ndjson"], kind: Kind = "", state: Settled = ""
) -> StreamingResponse:
    """All differences that were kept, as a file."""
    one = runs.find(given.store, run)
    lines = {"csv": kept.as_csv, "ndjson": kept.ndjson}[format](given.store, _differences.asked(given.store, one.run, kind, state))
    type_ = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}[format]
    headers = {"Content-Disposition": f'attachment; filename="differences-{one.run[:12]}.{format}"', "Cache-Control": "no-store"}
    return StreamingResponse(lines, media_type=type_, headers=headers)


@router.get("/runs/{run}/report.{format}")
def report(given: Given, visitor: Reader, run: str, format: Literal["html", "markdown", "json", "text"]) -> Response:
    """The run's report as a file that needs nothing else."""
    one = runs.find(given.store, run)
    found = keep.report(given.store, one.run)
    if found is None:
        raise UnknownRun(f"run {one.run} has not ended with a report")
    body = rendered.run(found, keep.picture(given.store, one.run) if format == "html" else None, format)
    return file(body, f"run-{one.run[:12]}", format)


@router.post("/runs/{run}/cancel")
def cancel(given: Given, visitor: Runner, run: str) -> RedirectResponse:
    """Ask the run to end."""
    return back_to(url("runs", service.cancel(given.store, run, by=visitor.name).run))


@router.post("/runs/{run}/resume")
def resume(given: Given, visitor: Runner, run: str) -> RedirectResponse:
    """Let the run go on from what it had read."""
    return back_to(url("runs", queueing.request_resume(given.configured, given.store, run, requested_by=visitor.name).run))


def _told(given: Behind, run: str, kind: Kind, state: Settled, after: int) -> dict[str, Any]:
    one = runs.find(given.store, run)
    base: dict[str, Any] = {"one": one, "kind": kind, "state": state, "after": after, "few": FEW, "watched": False}
    if one.ended is None:
        return {**base, "report": None, "sides": _sides(one), "waiting": queue.waiting(given.store)}
    whole = keep.report(given.store, one.run, most=0)
    if whole is None:
        return {**base, "report": None}
    found = shown(whole)
    picture = keep.picture(given.store, one.run)
    return {
        **base,
        "report": found,
        "heat": heat(picture, found.plan) if picture is not None else None,
        "named": _differences.listed(given.store, one.run, kind, state, after) if found.differences else None,
        "not_compared": list(not_compared(found)),
        "notes": [*plain.notes(found), *(found.plan.notes if found.plan else ())],
        "snapshot": plain.snapshot(found),
    }


def _sides(one: StoredRun) -> list[dict[str, Any]]:
    """How far each side is, as its last sign of life said."""
    nothing = {"doing": "", "done": 0, "total": 0, "statements": 0, "running": 0}
    found = [{"side": side, **nothing, **one.progress.get(side, {})} for side in SIDES]
    for side in found:
        side["waits"] = side["doing"].startswith("waits")
        side["doing"] = side["doing"].removeprefix("waits").removeprefix(":").strip()
    return found
