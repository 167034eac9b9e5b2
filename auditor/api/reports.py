"""Reports over HTTP: of a run, of a day, and of two results that were saved in consoles."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal

from fastapi import File, Form, Query, Request, UploadFile
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import BeforeValidator

from auditor import keep
from auditor.api import uploads
from auditor.api.behind import Given
from auditor.api.routing import RunId, Text, needs, router, tagged
from auditor.errors import UnknownRun
from auditor.report import day as days
from auditor.report import rendered
from auditor.store import runs

routes = router("reports")

TYPES = {"json": "application/json", "html": "text/html", "markdown": "text/markdown", "text": "text/plain"}


def _date(text: object) -> object:
    if not isinstance(text, str) or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        raise ValueError("write a date such as 2026-03-01")
    return text


Day = Annotated[dt.date, BeforeValidator(_date), InPath(examples=["2026-03-01"])]
Format = Annotated[Literal["json", "html", "markdown", "text"] | None, Query(description="By Accept without it, else JSON.")]


def declared(*statuses: int) -> dict[str, Any]:
    """The declaration of a route that answers with a report."""
    made = needs("read", *statuses)
    schema = {"type": "object", "description": "A run as `docs/report.schema.json` describes it, or a day of them."}
    content: dict[str, Any] = {type_: {"schema": {"type": "string"}} for type_ in TYPES.values()}
    made["responses"][200] = {"description": "The report.", "content": content | {TYPES["json"]: {"schema": schema}}}
    return made


def wanted(request: Request, format: str | None) -> str:
    """The format that was asked for, by name or by media type."""
    accept = request.headers.get("Accept", "")
    return format or next((name for name, type_ in TYPES.items() if type_ in accept), "json")


def _answer(request: Request, body: str, format: str) -> Response:
    return tagged(request, body.encode("utf-8", "replace"), TYPES[format] + ("" if format == "json" else "; charset=utf-8"))


@routes.get("/runs/{run}/report", response_class=Response, **declared(304, 404))
def of_run(request: Request, given: Given, run: RunId, format: Format = None) -> Response:
    """The report of a run that has ended."""
    found = runs.find(given.store, run)
    report = keep.report(given.store, found.run)
    if report is None:
        raise UnknownRun(f"run {found.run} has not ended with a report")
    chosen = wanted(request, format)
    return _answer(request, rendered.run(report, keep.picture(given.store, found.run) if chosen == "html" else None, chosen), chosen)


@routes.get("/days/{day}/report", response_class=Response, **declared(304))
def of_day(request: Request, given: Given, day: Day, format: Format = None) -> Response:
    """The report of all audits on a day (UTC)."""
    day = min(max(day, dt.date(1970, 1, 1)), dt.datetime.now(dt.UTC).date())
    chosen = wanted(request, format)
    return _answer(request, rendered.day(days.day(given.store, given.settings, day), chosen), chosen)


@routes.post("/compare", response_class=Response, **declared(400, 404, 413))
def compare(
    request: Request,
    given: Given,
    source: Annotated[UploadFile, File(description="The source's result: CSV or TSV with its header, JSON, JSON lines.")],
    target: Annotated[UploadFile, File(description="The target's result.")],
    audit: Annotated[Text | None, Form(description="The audit whose threshold counts.", max_length=255)] = None,
    format: Format = None,
) -> Response:
    """Compare what both consoles printed; nothing of it is kept."""
    report = uploads.compared(given.settings, {"source": source, "target": target}, audit)
    chosen = wanted(request, format)
    return Response(rendered.run(report, None, chosen), media_type=TYPES[chosen])
