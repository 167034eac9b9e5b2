"""Routes for pipelines: how they stand, their lag, segments and events, pausing and starting. They run in processes of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from auditor.api.dependencies import App
from auditor.api.middleware import too_many_requests
from auditor.api.routing import (
    DEFAULT_LIMIT,
    Cursor,
    Limit,
    Moment,
    Paginated,
    Text,
    caller_name,
    paginate,
    parse_cursor,
    route_options,
    router,
)
from auditor.api_models.pipeline import LagHistory, PipelinePause, PipelineStatus, Refresh, SchemaVersion, StoppedTable
from auditor.api_models.segment import SegmentEntry
from auditor.config import KeyRange
from auditor.durations import durations
from auditor.errors import AuditorError, name_of
from auditor.pipeline.refresh import use_cases
from auditor.service import event_lines, schema_versions
from auditor.service import pipelines as pipeline_service
from auditor.service.pipeline_status import list_lags, match_tables, status
from auditor.store import refreshes, segments

routes = router("pipelines")

PipelineName = Annotated[str, Path(description="The pipeline's name.", max_length=255, examples=["shop"])]


@routes.get("/pipelines", response_model=Paginated[PipelineStatus], **route_options("read", 404))
def list_pipelines(app: App, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[PipelineStatus]:
    """List the pipelines by name with how they stand, as their processes last reported."""
    after = parse_cursor("pipelines", cursor, str)
    names = [name for name in sorted(app.configured.pipelines) if after is None or name > after][: limit + 1]
    statuses = [status(app.configured, app.store, name, look=False) for name in names]
    return paginate("pipelines", statuses, limit, lambda pipeline_status: pipeline_status.pipeline)


@routes.get("/pipelines/{pipeline}", response_model=PipelineStatus, **route_options("read", 404))
def get_pipeline(
    app: App,
    pipeline: PipelineName,
    table: Annotated[
        str | None,
        Query(
            description="Only of this table, or of those that match a pattern; without a point in it, by their names in any database.",
            max_length=255,
            examples=["shop.*"],
        ),
    ] = None,
) -> PipelineStatus:
    """Return how a pipeline stands, as its process last reported, with all of its tables or some; sums of targets are of these alone."""
    tables = match_tables(app.configured, app.store, pipeline, [table]) if table is not None else None
    return status(app.configured, app.store, pipeline, look=False, tables=tables)


class RefreshRequest(BaseModel):
    """Which existing rows are sent through the stream: by default those of all tables."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"table": "orders"}, {"table": "orders", "key_list": [["17"], ["18"]]}]}
    )

    table: Text | None = Field(None, max_length=255, description="Only of this table, or of those that match a pattern.")
    keys: KeyRange | None = Field(None, description="Only these keys, both ends included, of a key that begins with an integer.")
    key_list: list[list[Text]] = Field([], max_length=use_cases.MOST_KEYS, description="Only these keys, as texts, column by column.")


@routes.post("/pipelines/{pipeline}/refreshes", status_code=202, response_model=list[Refresh], **route_options("pipeline", 400, 404))
def request_refreshes(request: Request, app: App, pipeline: PipelineName, body: RefreshRequest) -> list[Refresh]:
    """Ask for existing rows to be sent through a pipeline's stream, in order with the changes of others; its process carries that out.

    A request that equals one under way answers that one.
    """
    ends = body.keys
    requested = use_cases.request(
        app.configured,
        app.store,
        pipeline,
        body.table,
        first=ends.from_ if ends else None,
        last=ends.to if ends else None,
        keys=body.key_list,
        by=caller_name(request),
    )
    return [use_cases.show(refresh) for refresh in requested]


@routes.get("/pipelines/{pipeline}/refreshes", response_model=list[Refresh], **route_options("read", 404))
def list_refreshes(app: App, pipeline: PipelineName) -> list[Refresh]:
    """List the last hundred refreshes of a pipeline, newest first."""
    app.configured.pipeline(pipeline)
    return [use_cases.show(refresh) for refresh in refreshes.list_refreshes(app.store, pipeline)]


@routes.get("/pipelines/{pipeline}/lag", response_model=LagHistory, **route_options("read", 404))
def get_lag(
    app: App,
    pipeline: PipelineName,
    table: Annotated[
        str | None,
        Query(
            description="Database and table, with a point between; without it the pipeline and its targets as a whole.",
            max_length=255,
            examples=["shop.orders"],
        ),
    ] = None,
    since: Annotated[
        Moment | None, Query(description="By default a day ago; the history is kept for 30 days.", examples=["2026-11-01T12:00:00Z"])
    ] = None,
) -> LagHistory:
    """Return what a pipeline or a table of it lagged behind: a point for every 30 s of the last day, and the maxima of each hour before."""
    return list_lags(app.configured, app.store, pipeline, table, since)


@routes.get("/pipelines/{pipeline}/schemas", response_model=Paginated[SchemaVersion], **route_options("read", 404, 422))
def list_schemas(
    app: App,
    pipeline: PipelineName,
    table: Annotated[str, Query(description="The table, with its database.", max_length=255, examples=["shop.orders"])],
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Paginated[SchemaVersion]:
    """List the versions of a table in the order of the stream: its columns, the statements that changed them, and who holds which."""
    after = parse_cursor("schemas", cursor, int)
    versions = schema_versions.list_versions(app.configured, app.store, pipeline, table)
    chosen = [version for version in versions if after is None or version.position > after][: limit + 1]
    return paginate("schemas", chosen, limit, lambda version: version.position)


@routes.get("/pipelines/{pipeline}/segments", response_model=Paginated[SegmentEntry], **route_options("read", 404))
def list_segments(
    app: App,
    pipeline: PipelineName,
    table: Annotated[str, Query(description="Database and table, with a point between.", max_length=255, examples=["shop.orders"])],
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Paginated[SegmentEntry]:
    """List the segments of a table in the order of the stream."""
    app.configured.pipeline(pipeline)
    after = _place(parse_cursor("segments", cursor, str))
    listed = segments.list_segments(app.store, pipeline, table, after, limit + 1)
    entries = [SegmentEntry(**dataclasses.asdict(segment)) for segment in listed]
    return paginate("segments", entries, limit, lambda entry: f"{entry.last}:{entry.last_row}")


def _place(cursor: str | None) -> tuple[int, int]:
    """Return the position and row that a cursor holds. Raises HTTPException (404) for text of another form."""
    if cursor is None:
        return (0, -1)
    match = re.fullmatch(r"([0-9]{1,18}|[0-8][0-9]{18}):([0-9]{1,18})", cursor)
    if not match:
        raise HTTPException(404, "the cursor is not one of this list; pass the `next` of the previous page unchanged")
    return int(match[1]), int(match[2])


@routes.post("/pipelines/{pipeline}/pause", response_model=PipelinePause, **route_options("pipeline", 404))
def pause_pipeline(request: Request, app: App, pipeline: PipelineName) -> PipelinePause:
    """Let a pipeline's process stand still after the batch and the merges under way."""
    pipeline_service.set_paused(app.configured, app.store, pipeline, True, by=caller_name(request))
    return PipelinePause(pipeline=pipeline, paused=True)


@routes.post("/pipelines/{pipeline}/unpause", response_model=PipelinePause, **route_options("pipeline", 404))
def unpause_pipeline(request: Request, app: App, pipeline: PipelineName) -> PipelinePause:
    """Let a paused pipeline continue."""
    pipeline_service.set_paused(app.configured, app.store, pipeline, False, by=caller_name(request))
    return PipelinePause(pipeline=pipeline, paused=False)


class SkipRequest(BaseModel):
    """Which events a stopped table continues without, and why."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"table": "shop.orders", "position": "binlog.000012:4567:0", "reason": "rows of a test"}]},
    )

    table: Text = Field(max_length=255, description="The table that is stopped.")
    position: Text = Field(max_length=255, description="Where it is stopped: `place` of one of the pipeline's `stopped`.")
    reason: Text = Field(min_length=1, max_length=1000, description="Why the events may be left out; stored with who asked.")


@routes.post("/pipelines/{pipeline}/skips", status_code=201, response_model=list[StoppedTable], **route_options("pipeline", 400, 404))
def skip_events(request: Request, app: App, pipeline: PipelineName, body: SkipRequest) -> list[StoppedTable]:
    """Let a stopped table continue without the events that stop it at a place; audits of the table tell that they were skipped."""
    return pipeline_service.skip(app.configured, app.store, pipeline, body.table, body.position, body.reason, by=caller_name(request))


@routes.post("/pipelines/{pipeline}/start", response_model=PipelinePause, **route_options("pipeline", 404))
def start_pipeline(request: Request, app: App, pipeline: PipelineName) -> PipelinePause:
    """Let a pipeline that may be paused continue, and start its process of this service again at once, after the batch under way."""
    pipeline_service.start(app.configured, app.store, app.pipelines, pipeline, by=caller_name(request))
    return PipelinePause(pipeline=pipeline, paused=False)


MAX_READERS = 16
"""Streams of tables' events that one process serves at once; each reads staged files, a piece at a time, as fast as its client takes it."""

MAX_READERS_OF_TOKEN = 4
"""Those of one token, and its sessions."""

readers: dict[int, str] = {}
"""The name of the token of each open stream."""

LINES_AT_ONCE = 1000
"""Lines that are sent together."""

EVENTS_OPTIONS: dict[str, Any] = route_options("read", 404, 409)
EVENTS_OPTIONS["responses"][200] = {
    "description": "Lines of JSON, each as `TableEvent` of the Python client; an empty line while nothing happens. A failure on the way is"
    " a last line with `error`: its `type` and `detail`.",
    "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
}


@routes.get("/pipelines/{pipeline}/events", response_class=StreamingResponse, **EVENTS_OPTIONS)
async def stream_events(
    request: Request,
    app: App,
    pipeline: PipelineName,
    table: Annotated[str, Query(description="The table, with its database.", max_length=255, examples=["shop.orders"])],
    start: Annotated[
        Text,
        Query(
            alias="from",
            description="`earliest` kept, `latest` staged, `FILE:POS` of the source's log, or the `position` of an earlier line: what"
            " stands behind it is sent.",
            max_length=255,
            examples=["earliest"],
        ),
    ],
    follow: Annotated[
        bool, Query(description="Go on with what is staged later, for 15 minutes; then ask again behind the last line.")
    ] = False,
    limit: Annotated[int | None, Query(description="Lines that are sent at most.", ge=1)] = None,
) -> StreamingResponse:
    """Stream the events of a table in Debezium's form, in the order of the stream, from the staged parts that are kept."""
    opened = await run_in_threadpool(event_lines.open_lines, app.configured, app.store, pipeline, table, start)
    if len(readers) >= MAX_READERS:
        raise too_many_requests(10, "too many streams of events are open")
    if list(readers.values()).count(caller_name(request)) >= MAX_READERS_OF_TOKEN:
        raise too_many_requests(10, f"this token has {MAX_READERS_OF_TOKEN} streams of events open; close some")
    headers = {"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
    return StreamingResponse(_send_events(request, opened, follow, limit), headers=headers, media_type="application/x-ndjson")


async def _send_events(request: Request, opened: event_lines.EventLines, follow: bool, limit: int | None) -> AsyncIterator[bytes]:
    """Yield lines, of which the next are read once the client has taken those before."""
    began = sent = time.monotonic()
    readers[id(request)] = caller_name(request)
    try:
        while not await request.is_disconnected():
            pieces = opened.read()
            while (piece := await run_in_threadpool(next, pieces, None)) is not None:
                for first in range(0, len(piece), LINES_AT_ONCE):
                    lines = piece[first : first + LINES_AT_ONCE]
                    lines = lines if limit is None else lines[:limit]
                    yield b"".join(lines)
                    sent, limit = time.monotonic(), None if limit is None else limit - len(lines)
                    if limit == 0 or await request.is_disconnected():
                        return
            if not follow or time.monotonic() - began >= durations().event_stream:
                return
            if time.monotonic() - sent >= durations().event_keepalive:
                yield b"\n"
                sent = time.monotonic()
            await asyncio.sleep(durations().staged_poll)
    except AuditorError as error:  # the status was sent before it
        yield json.dumps({"error": {"type": name_of(error), "detail": str(error)}}).encode() + b"\n"
    finally:
        readers.pop(id(request), None)
