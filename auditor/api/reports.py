"""Routes for reports: of a run, of a day, of costs, and of two results saved from consoles; and for connections, with a check of one.

The partitions and differences of a run, row by row, are in `runs`.
"""

from __future__ import annotations

import datetime as dt
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal

from fastapi import File, Form, Query, Request, UploadFile
from fastapi import Path as InPath
from fastapi.responses import Response
from pydantic import BeforeValidator

from auditor import service
from auditor.api.dependencies import App
from auditor.api.routing import (
    DEFAULT_LIMIT,
    Cursor,
    Limit,
    Paginated,
    RunId,
    Text,
    etag_response,
    paginate,
    parse_cursor,
    route_options,
    router,
    slow_request,
)
from auditor.api_models import ApiModel
from auditor.api_models.connection import ConnectionCheck, ConnectionSummary
from auditor.api_models.cost import CostKey, Costs
from auditor.api_models.report import DayReport, RunReport
from auditor.config import Settings
from auditor.errors import NoReport, ResultError
from auditor.history import records
from auditor.model import Report, Side
from auditor.report import day as days
from auditor.report import render
from auditor.service import connections, costs
from auditor.store import Store, runs

routes = router("reports")

MEDIA_TYPES = {"json": "application/json", "html": "text/html", "markdown": "text/markdown", "text": "text/plain"}


def _check_date(text: object) -> object:
    if not isinstance(text, str) or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        raise ValueError("not a date; write YYYY-MM-DD, such as 2026-03-01")
    return text


IsoDate = Annotated[dt.date, BeforeValidator(_check_date)]
"""A date as YYYY-MM-DD, and in no other way."""

Day = Annotated[IsoDate, InPath(examples=["2026-03-01"])]
Format = Annotated[Literal["json", "html", "markdown", "text"] | None, Query(description="By default decided by Accept, else JSON.")]


def report_options(model: type[ApiModel], *statuses: int) -> dict[str, Any]:
    """Return the options of a route that returns a report: of this model as JSON, else as text."""
    options = route_options("read", *statuses)
    texts = {type_: {"schema": {"type": "string"}} for format, type_ in MEDIA_TYPES.items() if format != "json"}
    options["responses"][200] = {"description": "The report.", "model": model, "content": texts}
    return options


def choose_format(request: Request, format: str | None) -> str:
    """Return the requested format: ``format``, else the first that Accept names, else json."""
    accept = request.headers.get("Accept", "")
    return format or next((name for name, type_ in MEDIA_TYPES.items() if type_ in accept), "json")


def _report_response(request: Request, body: str, format: str) -> Response:
    return etag_response(request, body.encode("utf-8", "replace"), MEDIA_TYPES[format] + ("" if format == "json" else "; charset=utf-8"))


def get_report(store: Store, run: str) -> Report:
    """Return the report of a run by its complete id. Raises NoReport for one without."""
    report = records.load_report(store, run)
    if report is None:
        raise NoReport(f"run {run} has no report; it has not ended, or failed before it had a result")
    return report


@routes.get("/runs/{run}/report", response_class=Response, **report_options(RunReport, 304, 404))
def get_run_report(request: Request, app: App, run: RunId, format: Format = None) -> Response:
    """Return the report of a run that has ended."""
    stored = runs.get_run(app.store, run)
    report = get_report(app.store, stored.run)
    chosen = choose_format(request, format)
    return _report_response(
        request, render.run(report, records.load_partition_map(app.store, stored.run) if chosen == "html" else None, chosen), chosen
    )


@routes.get("/days/{day}/report", response_class=Response, **report_options(DayReport, 304, 404))
def get_day_report(request: Request, app: App, day: Day, format: Format = None) -> Response:
    """Return the report of all audits on a day (UTC)."""
    days.check_day(day)
    chosen = choose_format(request, format)
    return _report_response(request, render.day(days.load_day(app.store, app.settings, day, among=app.visible), chosen), chosen)


@routes.get("/costs", response_model=Costs, **route_options("read", 400))
def get_costs(
    app: App,
    since: Annotated[IsoDate | None, Query(description="The first day (UTC); by default `days` days.", examples=["2026-03-01"])] = None,
    days: Annotated[int | None, Query(description="Days up to today, today among them; 7 by default.", ge=1, le=3660)] = None,
    by: Annotated[CostKey | None, Query(description="Add up by this alone; by default by day and audit.")] = None,
) -> Costs:
    """Return what audits cost, and what is used of the budgets of the day."""
    return costs.list_costs(app.settings, app.store, first=since, days=days, by=by, among=app.visible)


ConnectionName = Annotated[Text, InPath(description="The connection's name.", max_length=255, examples=["shop"])]


@routes.get("/connections", response_model=Paginated[ConnectionSummary], **route_options("read", 404))
def list_connections(app: App, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[ConnectionSummary]:
    """Return the configured connections and their limits, without where they lead, in the order of their names."""
    after = parse_cursor("connections", cursor, str) or ""
    listed = [connection for connection in connections.list_connections(app.configured, app.store) if connection.name > after]
    return paginate("connections", listed, limit, lambda connection: connection.name)


@routes.post("/connections/{connection}/check", response_model=ConnectionCheck, **route_options("run", 404))
def check_connection(app: App, connection: ConnectionName) -> ConnectionCheck:
    """Connect to a database, and say whether it answers, what its server is, and how many tables its user sees."""
    with slow_request():
        return connections.check_connection(app.configured, app.store, connection)


@routes.post("/compare", response_class=Response, **report_options(RunReport, 400, 404, 413))
def compare_results(
    request: Request,
    app: App,
    source: Annotated[UploadFile, File(description="The source's result: CSV or TSV with a header, JSON or NDJSON.")],
    target: Annotated[UploadFile, File(description="The target's result.")],
    audit: Annotated[Text | None, Form(description="Apply the threshold of this audit.", max_length=255)] = None,
    format: Format = None,
) -> Response:
    """Compare two results saved from consoles. Nothing is stored."""
    report = compare_uploads(app.settings, {"source": source, "target": target}, audit)
    chosen = choose_format(request, format)
    return Response(render.run(report, None, chosen), media_type=MEDIA_TYPES[chosen])


SUFFIXES = (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
"""Suffixes that decide how a file is read. Parquet is left to the command line: small files can decompress to more than fits in memory."""

BLOCK = 1 << 20
"""Bytes that are copied at a time."""


def compare_uploads(settings: Settings, uploads: Mapping[Side, UploadFile], audit: str | None) -> Report:
    """Return the report of two results with the threshold of ``audit``, if given. Nothing is stored.

    Raises UnknownAudit, ResultError, and HTTPException (503) if too many slow requests are running.
    """
    threshold = service.audit(settings, audit) if audit else None
    with slow_request(), tempfile.TemporaryDirectory(prefix="auditor-") as directory:
        files = {side: Path(directory, f"{side}{_suffix(side, upload)}") for side, upload in uploads.items()}
        for side, upload in uploads.items():
            with files[side].open("wb") as file:
                while block := upload.file.read(BLOCK):
                    file.write(block)
        try:
            return service.compare_files(files["source"], files["target"], threshold)
        except ResultError as error:
            message = str(error)
            for side, path in files.items():
                message = message.replace(str(path), f"the {side}'s file")
            raise ResultError(message) from None


def _suffix(side: Side, upload: UploadFile) -> str:
    """Return the suffix of the uploaded file's name if it is in SUFFIXES, else .csv. Nothing else of the name is used."""
    suffix = PurePath(upload.filename or "").suffix.lower()
    if suffix == ".parquet":
        raise ResultError(f"the {side}'s file is Parquet, which is not accepted here; upload CSV or JSON, or use: auditor compare")
    return suffix if suffix in SUFFIXES else ".csv"
