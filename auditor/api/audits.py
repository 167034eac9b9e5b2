"""Routes for audits: list, plan, SQL, request runs, define, pause; and for segment audits: what their two sides registered.

Segment audits are run, paused and unpaused under /audits, like audits of tables, and their runs are under /runs.
"""

from __future__ import annotations

import datetime as dt
import re
from contextlib import nullcontext
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Body, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from auditor import service
from auditor.api.dependencies import App, AppState
from auditor.api.errors import problem_response
from auditor.api.routing import (
    DEFAULT_LIMIT,
    PREFIX,
    AuditName,
    Cursor,
    IdempotencyKey,
    Limit,
    Moment,
    NewAuditName,
    Paginated,
    Text,
    caller_name,
    json_response,
    paginate,
    parse_cursor,
    route_options,
    router,
    slow_request,
    with_location,
)
from auditor.api_models.audit import Audit, AuditDetails, ConsoleScripts, PauseState, Plan, ScheduledAudit, Verification
from auditor.api_models.bisection import Bisection
from auditor.api_models.run import Run
from auditor.api_models.segment import RegisteredEntry, SegmentAuditStatus
from auditor.config import KeyRange, TimeRange
from auditor.history import records
from auditor.model import SIDES, Method, Side
from auditor.report import json as as_json
from auditor.service import audits as audit_service
from auditor.service import bisection, scheduler, segment_audits, verification, workers
from auditor.store import segment_register

routes = router("audits")


RUN_EXAMPLE: Any = {"method": "exact", "t": 5, "keys": {"from": 1000, "to": 2000}, "reason": "after the backfill"}


class RunRequest(BaseModel):
    """Settings of one run that differ from its audit's. All are optional.

    With `keys` or `times` the run compares only that slice of the table, on both sides. A run with other settings than its audit's is a
    one-off run: it changes nothing of the audit's status, and nobody is notified of it.
    """

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [RUN_EXAMPLE, {"times": {"from": "2026-11-01", "to": "2026-12-01"}}]}
    )

    method: Method | None = None
    k: int | None = Field(None, ge=1, le=256, strict=True, description="Minhashes per partition.")
    t: int | None = Field(None, ge=1, le=16, strict=True, description="Differences per partition that the method exact can name.")
    threshold: float | None = Field(None, ge=0, le=1, strict=True, description="The score below which the verdict is a mismatch.")
    keys: KeyRange | None = Field(None, description="Only rows with these keys, both ends included; the key must be one integer column.")
    times: TimeRange | None = Field(
        None, description="Compare only rows with `from` <= time < `to`, in the column that the audit is partitioned or settled by."
    )
    reason: Text = Field("", max_length=500, description="Why the run is requested; stored with it.")


class TableReference(BaseModel):
    """A table of a configured connection."""

    model_config = ConfigDict(extra="forbid")

    connection: Text = Field(min_length=1, max_length=255, examples=["shop"])
    table: Text = Field(
        min_length=1,
        max_length=255,
        pattern=r"^[^/\\;]+$",
        description="The table's name, with its schema if needed; not a path and not SQL.",
        examples=["public.orders"],
    )


class ColumnSelection(BaseModel):
    """The columns to compare."""

    model_config = ConfigDict(extra="forbid")

    include: list[Text] = Field([], max_length=1000, description="Compare only these; empty for all columns of the source.")
    exclude: list[Text] = Field([], max_length=1000, description="Do not compare these.")


AUDIT_EXAMPLE: Any = {
    "source": {"connection": "shop", "table": "orders"},
    "target": {"connection": "warehouse", "table": "public.orders"},
    "key": ["id"],
    "method": "exact",
}


class AuditDefinition(BaseModel):
    """The definition of an audit between tables of two configured connections."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [AUDIT_EXAMPLE]},
    )

    source: TableReference
    target: TableReference
    key: list[Text] = Field([], max_length=32, description="The columns that identify a row; empty for the source's primary key.")
    columns: ColumnSelection | None = None
    method: Literal[Method, "auto"] = "exact"
    k: int | None = Field(None, ge=1, le=256, strict=True)
    t: int | None = Field(None, ge=1, le=16, strict=True)
    threshold: float | None = Field(None, ge=0, le=1, strict=True)


class AdHocRunRequest(AuditDefinition):
    """The definition of an audit that is run once."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{**AUDIT_EXAMPLE, "columns": {"exclude": ["note"]}, "reason": "a new replica"}]}
    )

    reason: Text = Field("", max_length=500, description="Why the run is requested; stored with it.")


class StandingAuditDefinition(AuditDefinition):
    """The definition of an audit that stays, and of which channels are notified."""

    owner: Text | None = Field(
        None, min_length=1, max_length=255, description="Who answers for it: channels with `owners` hear of the audits of these alone."
    )


class NamedAuditDefinition(StandingAuditDefinition):
    """The definition of an audit, with its name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "orders-adhoc", **AUDIT_EXAMPLE}]})

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$", description="Letters, digits, _ and -.")


@routes.get("/audits", response_model=Paginated[Audit], **route_options("read", 404))
async def list_audits(app: App, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Response:
    """Return all audits in the order of their names, each with its latest run."""
    after = parse_cursor("audits", cursor, str) or ""
    return await app.single_flight.get(("audits", after, limit, app.patterns), lambda: _list_response(app, after, limit))


def _list_response(app: AppState, after: str, limit: int) -> Response:
    items = audit_service.list_audits(app.configured, app.store, after, limit + 1)
    return json_response(Paginated[Audit], paginate("audits", items, limit, lambda audit: audit.name))


@routes.get("/audits/{name}", response_model=AuditDetails, **route_options("read", 404))
def get_audit(app: App, name: AuditName) -> Response:
    """Return one audit."""
    return json_response(AuditDetails, audit_service.get_audit(app.configured, app.store, name))


@routes.get("/audits/{name}/plan", response_model=Plan, **route_options("read", 404, 409, 502, 504))
def get_plan(app: App, name: AuditName) -> Plan:
    """Plan the audit and return the plan. This connects to both databases."""
    settings = app.settings
    audit = service.audit(settings, name)
    with slow_request():
        return as_json.plan(service.make_plan(settings, name, audit, app.store))


SQL_OPTIONS = route_options("read", 404, 409, 502, 504)
SQL_OPTIONS["responses"][200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}


@routes.get("/audits/{name}/sql", response_model=ConsoleScripts, **SQL_OPTIONS)
def get_sql(
    request: Request,
    app: App,
    name: AuditName,
    side: Annotated[Side | None, Query(description="Return the script of this side only.")] = None,
    method: Annotated[Method | None, Query(description="Use this method instead of the audit's.")] = None,
    format: Annotated[Literal["json", "text"] | None, Query(description="`text`: the scripts alone. Default: by Accept.")] = None,
) -> Any:
    """Return the SQL to paste into the consoles of both databases. This connects to them to plan the audit."""
    settings = app.settings
    service.audit(settings, name)
    with slow_request():
        scripts = service.sql(settings, name, (side,) if side else SIDES, method)
    if format == "text" or (format is None and request.headers.get("Accept", "").startswith("text/plain")):
        return PlainTextResponse("\n".join(scripts.values()))
    return ConsoleScripts(**scripts)


@routes.get("/audits/{name}/bisection", response_model=Bisection, **route_options("read", 404, 502, 504))
def get_bisection(app: App, name: AuditName) -> Bisection:
    """Say at which merge the audit's target and its source parted, and who parted them. This connects to the target to read its ledger."""
    service.audit(app.settings, name)
    with slow_request():
        return bisection.bisect(app.settings, app.store, name)


@routes.get("/audits/{name}/verification", response_model=Verification, **route_options("read", 404))
def get_verification(
    app: App,
    name: AuditName,
    through: Annotated[Moment, Query(description="Up to when everything must have been seen equal.", examples=["2026-11-01T06:00:00Z"])],
) -> Verification:
    """Say whether the audit, of tables or of segments, has verified everything up to a moment, or found a mismatch since."""
    return verification.verification(app.configured, app.store, name, through)


@routes.get("/audits/{name}/runs", response_model=Paginated[Run], **route_options("read", 404))
def list_audit_runs(app: App, name: AuditName, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Response:
    """Return the audit's runs, newest first."""
    service.audit(app.settings, name)
    listed = records.list_runs(app.store, audit=name, limit=limit + 1, before=parse_cursor("runs", cursor, str))
    page = paginate("runs", listed, limit, lambda run: run.run)
    return json_response(Paginated[Run], page)


REQUEST_OPTIONS = with_location(
    route_options("run", 400, 404, 409, 413), {202: "The run.", 409: "The run that is already waiting or running."}
)


@routes.post("/audits/{name}/runs", status_code=202, response_model=Run, **REQUEST_OPTIONS)
def request_run(
    request: Request,
    response: Response,
    app: App,
    name: AuditName,
    body: Annotated[RunRequest | None, Body()] = None,
    idempotency: IdempotencyKey = None,
) -> Any:
    """Request a run. It waits in the queue until a worker is free.

    With `keys` or `times`, this connects to both databases first, to refuse a slice that the tables do not allow.
    """
    overrides = (body or RunRequest()).model_dump(exclude_none=True, by_alias=True)
    reason = overrides.pop("reason")
    by = caller_name(request)
    with slow_request() if {"keys", "times"} & overrides.keys() else nullcontext():
        requested = workers.request_run(
            app.configured, app.store, name, overrides=overrides, reason=reason, requested_by=by, idempotency=idempotency
        )
    location = f"{PREFIX}/runs/{quote(requested.run, safe='')}"
    if requested.how in ("pending", "running"):
        doing = "waiting" if requested.how == "pending" else "running"
        detail = f"run {requested.run} of this audit is already {doing}; wait for it or cancel it"
        return problem_response(request.scope, 409, detail, name="AlreadyRunning", headers={"Location": location})
    response.headers["Location"] = location
    return records.get_run(app.store, requested.run)


@routes.post("/audits", status_code=201, response_model=AuditDetails, **route_options("define", 400, 404, 409, 413, 502, 504))
def create_audit(request: Request, response: Response, app: App, body: NamedAuditDefinition) -> AuditDetails:
    """Store a new audit under its name, after planning it against both databases."""
    response.headers["Location"] = f"{PREFIX}/audits/{quote(body.name, safe='')}"
    return _define(request, app, body.name, body)


@routes.put("/audits/{name}", response_model=AuditDetails, **route_options("define", 400, 404, 409, 413, 502, 504))
def replace_audit(
    request: Request,
    app: App,
    name: NewAuditName,
    body: StandingAuditDefinition,
) -> AuditDetails:
    """Store an audit under this name, replacing one that was defined over HTTP. Configured audits cannot be replaced."""
    return _define(request, app, name, body)


def _define(request: Request, app: App, name: str, body: AuditDefinition) -> AuditDetails:
    definition = body.model_dump(exclude_unset=True, exclude={"name"}, exclude_none=True)
    with slow_request():
        audit_service.define(app.configured, app.store, name, definition, caller_name(request))
    return audit_service.get_audit(app.configured, app.store, name)


@routes.delete("/audits/{name}", status_code=204, **route_options("define", 404, 409))
def delete_audit(request: Request, app: App, name: AuditName) -> None:
    """Delete an audit that was defined over HTTP. Its runs are kept."""
    audit_service.drop(app.store, name, caller_name(request))


@routes.post("/audits/{name}/pause", response_model=PauseState, **route_options("define", 404))
def pause_audit(request: Request, app: App, name: AuditName) -> PauseState:
    """Stop the schedule from running this audit."""
    audit_service.pause(app.configured, app.store, name, by=caller_name(request))
    return PauseState(name=name, paused=True)


@routes.post("/audits/{name}/unpause", response_model=PauseState, **route_options("define", 404))
def unpause_audit(request: Request, app: App, name: AuditName) -> PauseState:
    """Let the schedule run this audit again."""
    audit_service.unpause(app.configured, app.store, name, by=caller_name(request))
    return PauseState(name=name, paused=False)


@routes.get("/schedules", response_model=Paginated[ScheduledAudit], **route_options("read", 404))
def list_schedules(
    app: App,
    times: Annotated[int, Query(ge=1, le=20, description="How many of the next times of each audit.")] = 1,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Paginated[ScheduledAudit]:
    """Return when scheduled audits are due, in the order of their names."""
    after = parse_cursor("schedules", cursor, str) or ""
    every = scheduler.list_schedules(app.configured, app.store, dt.datetime.now(dt.UTC), times)
    listed = sorted((entry for entry in every if entry.audit > after), key=lambda entry: entry.audit)
    return paginate("schedules", listed, limit, lambda entry: entry.audit)


segment_routes = router("segments")

SegmentAuditName = Annotated[str, Path(description="The segment audit's name.", max_length=255, examples=["zones"])]


@segment_routes.get("/segments", response_model=Paginated[SegmentAuditStatus], **route_options("read", 404))
def list_segment_audits(app: App, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[SegmentAuditStatus]:
    """List the segment audits by name with what their sides registered."""
    after = parse_cursor("segment audits", cursor, str)
    names = [name for name in sorted(app.configured.segments) if after is None or name > after][: limit + 1]
    statuses = [segment_audits.status(app.configured, app.store, name) for name in names]
    return paginate("segment audits", statuses, limit, lambda audit_status: audit_status.audit)


@segment_routes.get("/segments/{audit}", response_model=SegmentAuditStatus, **route_options("read", 404))
def get_segment_audit(app: App, audit: SegmentAuditName) -> SegmentAuditStatus:
    """Return what the sides of a segment audit registered, and what is wrong between them."""
    return segment_audits.status(app.configured, app.store, audit)


@segment_routes.get("/segments/{audit}/entries", response_model=Paginated[RegisteredEntry], **route_options("read", 404, 422))
def list_registered_segments(
    app: App,
    audit: SegmentAuditName,
    table: Annotated[str, Query(description="Database and table, with a point between.", max_length=255, examples=["shop.orders"])],
    side: Annotated[str, Query(description="One of the two sides.", max_length=255, examples=["shop"])],
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Paginated[RegisteredEntry]:
    """List the segments that a side registered of a table, in the order of the stream."""
    after = _registered_place(parse_cursor("registered segments", cursor, str))
    entries = segment_audits.list_registered(app.configured, app.store, audit, table, side, after=after, limit=limit + 1)
    return paginate("registered segments", entries, limit, lambda segment: f"{segment.start[0]}:{segment.start[1]}")


def _registered_place(cursor: str | None) -> tuple[int, int]:
    """Return the place that a cursor holds. Raises HTTPException (404) for text of another form."""
    if cursor is None:
        return segment_register.FIRST
    match = re.fullmatch(r"([0-9]{1,18}|[0-8][0-9]{18}):([0-9]{1,18})", cursor)
    if not match:
        raise HTTPException(404, "the cursor is not one of this list; pass the `next` of the previous page unchanged")
    return int(match[1]), int(match[2])
