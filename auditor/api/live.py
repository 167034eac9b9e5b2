"""How far a run is, told as it goes on: server-sent events."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Header, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from auditor.api.behind import Behind, Given
from auditor.api.limits import too_many
from auditor.api.routing import RunId, needs, router
from auditor.api.runs import body_of
from auditor.errors import AuditorError
from auditor.store import runs

routes = router("runs")

PERIOD = 0.5
"""Seconds between two looks at the run."""

SILENCE = 15.0
"""Seconds after which a line is sent that means nothing, so that nobody between takes the connection for dead."""

LONGEST = 900.0
"""Seconds after which a listener has to ask again, which browsers do by themselves."""

MOST = 200
"""Listeners of one process at once."""

_listening: set[int] = set()

DECLARED = needs("read", 404)
DECLARED["responses"][200] = {
    "description": "Events: `run`, whose data is the run as GET /runs/{run} tells it, whenever it changed; `end` once it has ended.",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


@routes.get("/runs/{run}/events", response_class=StreamingResponse, **DECLARED)
async def follow(
    request: Request,
    given: Given,
    run: RunId,
    last: Annotated[str | None, Header(alias="Last-Event-ID", max_length=64, description="The `id` of the last event that came.")] = None,
) -> StreamingResponse:
    """Tell how far the run is whenever that changes, until it has ended."""
    found = await run_in_threadpool(runs.find, given.store, run)
    if len(_listening) >= MOST:
        raise too_many(10, "too many listen to runs already")
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(_told(request, given, found.run, last), headers=headers, media_type="text/event-stream")


async def _told(request: Request, given: Behind, run: str, last: str | None) -> AsyncIterator[str]:
    began = spoke = time.monotonic()
    _listening.add(id(request))
    try:
        yield "retry: 2000\n\n"
        while time.monotonic() - began < LONGEST and not await request.is_disconnected():
            try:
                found = await run_in_threadpool(runs.find, given.store, run)
            except AuditorError:  # the store fails, or the run was dropped: who still listens asks again, and is told
                return
            body = body_of(found)
            tag = hashlib.sha256(body).hexdigest()[:32]
            if tag != last:
                yield f"id: {tag}\nevent: run\ndata: {body.decode()}\n\n"
                last, spoke = tag, time.monotonic()
            if found.ended is not None:
                yield f"id: {tag}\nevent: end\ndata: {{}}\n\n"
                return
            if time.monotonic() - spoke >= SILENCE:
                yield ": still here\n\n"
                spoke = time.monotonic()
            await asyncio.sleep(PERIOD)
    finally:
        _listening.discard(id(request))
