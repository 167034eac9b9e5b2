"""Progress of a run as server-sent events."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from auditor.api.dependencies import App, AppState
from auditor.api.rate_limit import too_many_requests
from auditor.api.routing import RunId, caller_name, route_options, router
from auditor.api.runs import run_body
from auditor.errors import AuditorError
from auditor.history import runs
from auditor.waits import waits

routes = router("runs")

MAX_LISTENERS = 200
"""Streams that one process serves at once."""

MAX_LISTENERS_OF_TOKEN = 20
"""Streams that one process serves at once to one token, and its sessions."""

_listeners: dict[int, str] = {}
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
    stored = await run_in_threadpool(runs.get_run, app.store, run)
    if len(_listeners) >= MAX_LISTENERS:
        raise too_many_requests(10, "too many event streams are open")
    if list(_listeners.values()).count(caller_name(request)) >= MAX_LISTENERS_OF_TOKEN:
        raise too_many_requests(10, f"this token has {MAX_LISTENERS_OF_TOKEN} event streams open; close some")
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(_stream(request, app, stored.run, last), headers=headers, media_type="text/event-stream")


async def _stream(request: Request, app: AppState, run: str, last: str | None) -> AsyncIterator[str]:
    started = sent = time.monotonic()
    _listeners[id(request)] = caller_name(request)
    try:
        yield "retry: 2000\n\n"
        while time.monotonic() - started < waits().event_stream and not await request.is_disconnected():
            try:
                stored = await run_in_threadpool(runs.get_run, app.store, run)
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
            if time.monotonic() - sent >= waits().event_keepalive:
                yield ": keepalive\n\n"
                sent = time.monotonic()
            await asyncio.sleep(waits().event_poll)
    finally:
        _listeners.pop(id(request), None)
