"""Routes for runs: state, also as server-sent events; partitions, differences, trace and evidence; ad-hoc runs, cancel, resume.

And the log of events. What sums a run up, its report in each format, is in `reports`.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from auditor.api.audits import AdHocRunRequest
from auditor.api.dependencies import App, AppState
from auditor.api.middleware import too_many_requests
from auditor.api.routing import (
    DEFAULT_LIMIT,
    PREFIX,
    Cursor,
    IdempotencyKey,
    Limit,
    Moment,
    Paginated,
    RunId,
    Text,
    caller_name,
    etag_response,
    paginate,
    parse_cursor,
    route_options,
    router,
    slow_request,
    with_location,
)
from auditor.api_models.access import Event
from auditor.api_models.run import Difference, Partition, PartitionState, Run
from auditor.api_models.trace import Trace
from auditor.durations import durations
from auditor.errors import AuditorError
from auditor.history import records
from auditor.model import DifferenceKind, Settling, State, Verdict
from auditor.model.evidence import EvidenceFile
from auditor.service import evidence, stored_differences, stored_runs, workers
from auditor.service.trace import Asked, trace
from auditor.store import events, runs

routes = router("runs")

MOST_TRACED = 100
"""Rows that one request traces at most."""

JSON = "application/json"
CSV = "text/csv"
NDJSON = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"

AuditFilter = Annotated[Text | None, Query(description="Only runs of this audit.", max_length=255)]
StateFilter = Annotated[State | None, Query(description="Only runs in this state.")]


@routes.get("/runs", response_model=Paginated[Run], **route_options("read", 404))
def list_runs(
    app: App,
    audit: AuditFilter = None,
    state: StateFilter = None,
    verdict: Annotated[Verdict | None, Query(description="Only runs that are done and ended in this verdict.")] = None,
    since: Annotated[Moment | None, Query(description="Only runs that started then or later.", examples=["2026-03-01T00:00:00Z"])] = None,
    until: Annotated[Moment | None, Query(description="Only runs that started earlier.", examples=["2026-03-02T00:00:00Z"])] = None,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Paginated[Run]:
    """Return all stored runs, newest first."""
    before = parse_cursor("runs", cursor, str)
    listed = records.list_runs(
        app.store,
        audit=audit,
        state=state,
        verdict=verdict,
        since=since,
        until=until,
        limit=limit + 1,
        before=before,
        among=app.visible,
    )
    return paginate("runs", listed, limit, lambda stored: stored.run)


AD_HOC_OPTIONS = with_location(route_options("define", 400, 404, 409, 413, 502, 504), {202: "The run."})


@routes.post("/runs", status_code=202, response_model=Run, **AD_HOC_OPTIONS)
def request_ad_hoc(request: Request, response: Response, app: App, body: AdHocRunRequest, idempotency: IdempotencyKey = None) -> Run:
    """Request one run of an audit that this request defines; it is planned first.

    The audit is named after the run, stored with it, and not in the list of audits. To run it again, define it under a name.
    """
    definition = body.model_dump(exclude_unset=True, exclude={"reason"}, exclude_none=True)
    with slow_request():
        requested = workers.request_ad_hoc(
            app.configured, app.store, definition, reason=body.reason, requested_by=caller_name(request), idempotency=idempotency
        )
    response.headers["Location"] = f"{PREFIX}/runs/{quote(requested.run, safe='')}"
    return records.get_run(app.store, requested.run)


def run_body(run: Run) -> bytes:
    """Return a run as JSON; equal runs yield equal bytes."""
    return run.to_json().encode()


@routes.get("/runs/{run}", response_model=Run, **route_options("read", 304, 404))
def get_run(request: Request, app: App, run: RunId) -> Response:
    """Return the progress and result of a run; 304 if nothing has changed since the ETag of If-None-Match."""
    return etag_response(request, run_body(records.get_run(app.store, run)), JSON)


@routes.get("/runs/{run}/partitions", response_model=Paginated[Partition], **route_options("read", 404))
def list_partitions(
    app: App,
    run: RunId,
    state: Annotated[PartitionState | None, Query(description="Only partitions in this state.")] = None,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Paginated[Partition]:
    """Return the state of every partition of the table after the run, ascending."""
    start = parse_cursor("partitions", cursor, int) or 0
    page = list(islice(records.iterate_partitions(app.store, run, state, start), limit + 1))
    return paginate("partitions", [partition for _, partition in page], limit, lambda _: page[limit - 1][0] + 1)


def file_response(lines: Iterator[str], media_type: str, name: str) -> StreamingResponse:
    """Return lines as a download of this name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept, Authorization, Cookie"}
    return StreamingResponse(lines, headers=headers, media_type=media_type)


BINARY = {"schema": {"type": "string", "format": "binary"}}
FILE_RESPONSES = {200: {"content": {CSV: {"schema": {"type": "string"}}, NDJSON: {"schema": {"type": "string"}}, PARQUET: BINARY}}}


def with_files(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a route with CSV, NDJSON and Parquet documented as responses."""
    return {**options, "responses": options["responses"] | FILE_RESPONSES}


@routes.get("/runs/{run}/differences", response_model=Paginated[Difference], **with_files(route_options("read", 404)))
def list_differences(
    request: Request,
    app: App,
    run: RunId,
    kind: Annotated[DifferenceKind | None, Query(description="Only differences of this kind.")] = None,
    state: Annotated[Settling | None, Query(description="Only differences in this state.")] = None,
    column: Annotated[
        Text, Query(description="Only rows that differ in this column; those of which no column was read are left out.", max_length=255)
    ] = "",
    key: Annotated[
        Text, Query(description="Only rows with this key, or with it in one of its columns, and ranges that have it.", max_length=1000)
    ] = "",
    order: Annotated[
        stored_differences.Order, Query(description="`key`, `-key`: by key, ascending or descending. Default: as the run found them.")
    ] = "number",
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
    format: Annotated[
        Literal["json", "csv", "ndjson", "parquet"] | None,
        Query(description="`csv`, `ndjson`, `parquet`: all as a file. Default: by Accept."),
    ] = None,
) -> Any:
    """Return the stored differences of a run, filtered and sorted: a page of them, or all as CSV, NDJSON or Parquet."""
    after = parse_cursor("differences", cursor, int) or 0
    identity = runs.get_run(app.store, run).run
    selection = stored_differences.select(app.store, identity, kind, state, column=column, key=key, order=order)
    accept = request.headers.get("Accept", "")
    if format == "csv" or (format is None and CSV in accept):
        return file_response(stored_differences.as_csv(app.store, selection), f"{CSV}; charset=utf-8", f"differences-{identity[:12]}.csv")
    if format == "ndjson" or (format is None and NDJSON in accept):
        return file_response(stored_differences.as_ndjson(app.store, selection), NDJSON, f"differences-{identity[:12]}.ndjson")
    if format == "parquet" or (format is None and PARQUET in accept):
        headers = {"Content-Disposition": f'attachment; filename="differences-{identity[:12]}.parquet"', "Vary": "Accept"}
        with slow_request():
            return Response(stored_differences.as_parquet(app.store, selection), headers=headers, media_type=PARQUET)
    page = stored_differences.list_page(app.store, selection, after, limit + 1)
    return paginate("differences", page, limit, lambda difference: difference.number)


@routes.get("/runs/{run}/trace", response_model=Trace, **route_options("run", 404, 409, 502, 504))
def trace_run(
    app: App,
    run: RunId,
    key: Annotated[
        list[Text],
        Query(max_length=MOST_TRACED, description="Rows to trace, by keys as differences have them; of several columns JSON lists."),
    ] = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=MOST_TRACED, description="Differences that are traced at most, if no key is given.")] = 20,
    hops: Annotated[bool, Query(description="Audit each hop as a whole, too, if no key is given: that reads whole tables.")] = False,
) -> Trace:
    """Say at which hop rows of a run were lost. This reads both sides, the staged files or the topic, and perhaps the source's log."""
    with slow_request():
        return trace(app.configured, app.store, run, Asked(tuple(key), limit, hops))


@routes.get("/runs/{run}/evidence", response_model=EvidenceFile, **route_options("read", 404, 409))
def get_evidence(app: App, run: RunId) -> Response:
    """Return the signed evidence of a run, as `auditor evidence` writes it; 409 if the stored run or its chain was changed since."""
    data = evidence.intact_file(app.configured, app.store, run)
    return Response(data, media_type=JSON, headers={"Content-Disposition": f'attachment; filename="evidence-{run[:12]}.json"'})


@routes.post("/runs/{run}/cancel", status_code=202, response_model=Run, **route_options("run", 404))
def cancel_run(request: Request, app: App, run: RunId) -> Run:
    """Request that a run be cancelled, in whatever process it runs. A run that has ended is returned unchanged."""
    return records.as_run(stored_runs.cancel(app.store, run, by=caller_name(request)))


@routes.post("/runs/{run}/resume", status_code=202, response_model=Run, **route_options("run", 404, 409))
def resume_run(request: Request, response: Response, app: App, run: RunId) -> Run:
    """Put a run that ended early back into the queue. It continues from its last checkpoint."""
    stored = workers.request_resume(app.configured, app.store, run, requested_by=caller_name(request))
    response.headers["Location"] = f"{PREFIX}/runs/{quote(stored.run, safe='')}"
    return records.as_run(stored)


@routes.get("/events", response_model=Paginated[Event], **route_options("define", 404))
def list_events(
    app: App,
    actor: Annotated[Text | None, Query(description="Only what this token, user or address did.", max_length=255)] = None,
    subject: Annotated[Text | None, Query(description="Only what was done to this audit, run or token.", max_length=255)] = None,
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Paginated[Event]:
    """Return the log of requests that changed something, newest first."""
    before = parse_cursor("events", cursor, int)
    listed = events.list_events(app.store, limit=limit + 1, before=before, actor=actor, subject=subject)
    return paginate("events", [_event(event) for event in listed], limit, lambda event: event.number)


def _event(event: events.Event) -> Event:
    return Event(number=event.number, at=event.at, actor=event.actor, action=event.action, subject=event.subject, detail=event.detail)


MAX_LISTENERS = 200
"""Streams that one process serves at once."""

MAX_LISTENERS_OF_TOKEN = 20
"""Streams that one process serves at once to one token, and its sessions."""

listeners: dict[int, str] = {}
"""The name of the token of each open stream."""

EVENT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "One event. Lines that begin with a colon, and `retry` alone, are not events.",
    "required": ["event", "data"],
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9a-f]{32}$", "description": "To be sent as Last-Event-ID."},
        "event": {"type": "string", "enum": ["run", "end"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"anyOf": [{"$ref": "#/components/schemas/Run"}, {"type": "object", "maxProperties": 0}]},
            "description": "The run as JSON; of `end`, an empty object.",
        },
        "retry": {"type": "integer", "description": "Milliseconds before a client connects again."},
    },
}
"""Tools for OpenAPI 3.1 take the schema of text/event-stream for that of each event; 3.2 calls it itemSchema."""

EVENTS_OPTIONS = route_options("read", 404)
EVENTS_OPTIONS["responses"][200] = {
    "description": "`run` with the run as in GET /runs/{run}, whenever it has changed; `end` once it has ended.",
    "content": {"text/event-stream": {"schema": EVENT_SCHEMA}},
}


@routes.get("/runs/{run}/events", response_class=StreamingResponse, **EVENTS_OPTIONS)
async def stream_run(
    request: Request,
    app: App,
    run: RunId,
    last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=64, description="The `id` of the last event received.")] = None,
) -> StreamingResponse:
    """Stream the run whenever it changes, until it has ended."""
    stored = await run_in_threadpool(records.get_run, app.store, run)
    if len(listeners) >= MAX_LISTENERS:
        raise too_many_requests(10, "too many event streams are open")
    if list(listeners.values()).count(caller_name(request)) >= MAX_LISTENERS_OF_TOKEN:
        raise too_many_requests(10, f"this token has {MAX_LISTENERS_OF_TOKEN} event streams open; close some")
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(_stream(request, app, stored.run, last), headers=headers, media_type="text/event-stream")


async def _stream(request: Request, app: AppState, run: str, last: str | None) -> AsyncIterator[str]:
    started = sent = time.monotonic()
    listeners[id(request)] = caller_name(request)
    try:
        yield "retry: 2000\n\n"
        while time.monotonic() - started < durations().event_stream and not await request.is_disconnected():
            try:
                stored = await run_in_threadpool(records.get_run, app.store, run)
            except AuditorError:  # the store failed or the run was deleted: the client reconnects and gets the error
                return
            body = run_body(stored)
            tag = hashlib.sha256(body).hexdigest()[:32]
            if tag != last:
                yield f"id: {tag}\nevent: run\ndata: {body.decode()}\n\n"
                last, sent = tag, time.monotonic()
            if stored.ended is not None:
                yield f"id: {tag}\nevent: end\ndata: {{}}\n\n"
                return
            if time.monotonic() - sent >= durations().event_keepalive:
                yield ": keepalive\n\n"
                sent = time.monotonic()
            await asyncio.sleep(durations().event_poll)
    finally:
        listeners.pop(id(request), None)
