"""Routes for pipelines: how they stand, what they lag behind, their segments, pausing and starting. They run in processes of their own."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from auditor.api.dependencies import App
from auditor.api.routing import DEFAULT_LIMIT, Cursor, Limit, Paginated, Text, caller_name, paginate, parse_cursor, route_options, router
from auditor.config import KeyRange
from auditor.pipeline.poison import log_file
from auditor.service import pipeline_bootstraps
from auditor.service import pipelines as pipeline_service
from auditor.service.pipeline_lags import list_lags
from auditor.service.pipeline_status import describe_stop, status
from auditor.store import refreshes, segments
from auditor.store.lags import Point
from auditor.store.refreshes import Refresh

routes = router("pipelines")

PipelineName = Annotated[str, Path(description="The pipeline's name.", max_length=255, examples=["shop"])]


class StagedTable(BaseModel):
    """What the staging's folder holds of a table."""

    parts: int
    events: int
    bytes: int


class TargetTable(BaseModel):
    """What a target holds and lacks of a table."""

    position: int = Field(description="Up to which position the target holds the table; 0 for none.")
    through: dt.datetime | None = Field(description="When the source committed the last event that it holds.")
    events: int = Field(description="Events merged since the pipeline began.")
    state: Literal["waiting", "merged", "delayed", "stopped"] = Field(
        description="`waiting`: nothing was merged yet; `delayed`: it is retried; `stopped`: it needs a person."
    )
    reason: str = Field(description="Why it is delayed or stopped; empty if it is not.")
    pending_events: int
    pending_bytes: int
    lag_seconds: float = Field(description="Age of the oldest part that it lacks, in seconds.")


class TargetStatus(BaseModel):
    """What a target holds and lacks."""

    pending_events: int
    pending_bytes: int
    lag_seconds: float | None
    max_lag: float = Field(description="Seconds by which a table may lag behind staging before the channels are told.")
    tables: dict[str, TargetTable]


class StoppedTable(BaseModel):
    """Events that stop a table, or did so until somebody skipped them."""

    table: str
    place: str = Field(
        description="The event that stops the table: file and position of its transaction's end, and its number in that.",
        examples=["binlog.000012:4567:0"],
    )
    through: str = Field(description="The same of the last of these events.")
    events: int = Field(description="How many: rows where these could be told apart, else events of the log, which hold several.")
    time: dt.datetime = Field(description="When the source committed the first one.")
    stage: Literal["decoding", "staging", "merge", "statement"]
    target: str | None = Field(description="The target that cannot hold them; null if none can have them.")
    reason: str
    skipped_by: str | None = None
    skipped_at: dt.datetime | None = None
    skip_reason: str | None = None


class Migration(BaseModel):
    """How a target's table was brought from one schema to the next, or why it was not."""

    target: str
    table: str
    place: str = Field(description="File and position of the source's log up to which the target held the table under the old schema.")
    state: Literal["planned", "applied", "refused"]
    statements: list[str]
    said: list[str] = Field(description="What a person should know of it.")
    reason: str = Field(description="Why it is refused, and what to do; empty if it is not.")
    at: dt.datetime | None
    ended: dt.datetime | None


class Heartbeat(BaseModel):
    """A heartbeat that came with the stream."""

    database: str = Field(description="The database of the source whose `auditor_heartbeat` it was written into.", examples=["shop"])
    serial: int = Field(examples=[4711])
    at: dt.datetime = Field(description="When it was written, by the source's clock.")
    age_seconds: float = Field(description="Seconds since then, by the service's clock.", examples=[4.2])


class LiveSummaries(BaseModel):
    """What the pipeline keeps of an audit's source: its newest live summaries."""

    audit: str = Field(examples=["orders"])
    table: str = Field(description="The source's table.", examples=["shop.orders"])
    target: str = Field(description="The target that holds the sums.", examples=["warehouse"])
    state: Literal["wanted", "scanning", "kept", "ended"] = Field(
        description="`wanted`: a run has asked for them; `scanning`: it reads the source; `kept`: audits compare with it; `ended`: no more."
    )
    since: dt.datetime | None = Field(description="The source's clock at the scan with which they began; null until then.")
    since_place: str = Field(description="File and position of the source's log there; empty until then.")
    proved: dt.datetime | None = Field(description="The source's clock at the last scan that they equal.")
    proved_place: str = Field(description="File and position of the source's log there; empty without one.")
    ended: dt.datetime | None = Field(description="When they ended; null while they last.")
    reason: str = Field(description="Why they ended; empty while they last.")


class PipelineStatus(BaseModel):
    """How a pipeline stands."""

    pipeline: str
    running: bool = Field(description="Whether a process reported within the last 30 s.")
    paused: bool
    paused_by: str = Field(description="Who paused it; empty if it is not paused, or nobody said.")
    paused_at: dt.datetime | None
    reason: str = Field(description="Why staging is stopped or retried; empty while it goes on.")
    staged_through: int | None = Field(description="Position of the last staged event.")
    staged_time: dt.datetime | None = Field(description="When the source committed it.")
    staged_at: dt.datetime | None = Field(description="When it was staged.")
    events: int = Field(description="Events staged since the pipeline began.")
    heartbeat: Heartbeat | None = Field(description="The last heartbeat that the stream carried; null if none was seen.")
    lag_seconds: float | None = Field(description="Seconds since the source's log ended where staging stands.")
    lag_bytes: int | None = Field(description="Bytes of the log behind that place.")
    max_lag: float = Field(description="Seconds by which staging may lag behind before the channels are told: `max_lag` of the pipeline.")
    log_end: str | None = Field(description="Where the source's log ended at the last look.")
    log_expires: float | None = Field(description="Seconds after which the source deletes its log; null: never, or not known.")
    seen_at: dt.datetime | None = Field(description="When its process last looked at source and staging.")
    began: dt.datetime | None = Field(description="When that process began.")
    free_bytes: int | None = Field(description="Free bytes on the staging's disk.")
    batch: dict[str, float] = Field(description="Events, bytes and seconds of the last batch that had events.")
    warnings: list[str]
    notes: list[str] = Field(description="What is to be known of the source's server, a sentence each.")
    tables: dict[str, StagedTable]
    stopped: list[StoppedTable] = Field(description="What stops tables.")
    skipped: list[StoppedTable] = Field(description="What somebody let tables go on without.")
    migrations: list[Migration] = Field(description="The newest migrations of targets.")
    live_summaries: list[LiveSummaries] = Field(description="The newest live summaries of each audit, by its name.")
    targets: dict[str, TargetStatus]


class PipelinePause(BaseModel):
    """Whether a pipeline stands still by request."""

    pipeline: str
    paused: bool


class LagPoint(BaseModel):
    """What something lagged behind from a moment on, for a span of seconds; of a span of an hour the maxima."""

    at: dt.datetime
    span: int = Field(description="Seconds: 30 within the last day, 3600 before.", examples=[30])
    seconds: float | None = Field(description="Null if it was not known.", examples=[1.5])
    bytes: int | None = Field(description="Bytes of the source's log that were not staged, or of parts that the target lacked.")
    rate: float = Field(description="Events a second that were staged, or merged.", examples=[120.0])


class LagSeries(BaseModel):
    """The lag of a pipeline, of a target of it, or of a table in a target."""

    target: str | None = Field(description="Null for the pipeline itself: how far staging lags behind the source.", examples=["wh"])
    table: str | None = Field(description="Null for all tables together.", examples=["shop.orders"])
    points: list[LagPoint] = Field(description="In the order of time. While no process of the pipeline runs, there is none.")


class LagHistory(BaseModel):
    """What a pipeline, its targets, or a table in each of these lagged behind."""

    pipeline: str = Field(examples=["shop"])
    series: list[LagSeries]


class SegmentEntry(BaseModel):
    """A segment of a table's events, known by its table and last event; equal segments have equal digests."""

    model_config = ConfigDict(from_attributes=True)

    table: str
    first: int = Field(description="Position of its first event.")
    first_row: int = Field(description="Row of the first event within its transaction.")
    last: int
    last_row: int
    rows: int
    bytes: int = Field(description="Bytes of the text that is hashed.")
    schema_id: str
    sha256: str
    encoding: int = Field(description="Version of the text that is hashed.")
    path: str = Field(description="Of its file, relative to the folder of the segments.")
    began: dt.datetime
    ended: dt.datetime
    gtid: str | None


@routes.get("/pipelines", response_model=Paginated[PipelineStatus], **route_options("read", 404))
def list_pipelines(app: App, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[PipelineStatus]:
    """List the pipelines by name with how they stand, as their processes last reported."""
    after = parse_cursor("pipelines", cursor, str)
    names = [name for name in sorted(app.configured.pipelines) if after is None or name > after][: limit + 1]
    found = [PipelineStatus(**status(app.configured, app.store, name, look=False)) for name in names]
    return paginate("pipelines", found, limit, lambda one: one.pipeline)


@routes.get("/pipelines/{pipeline}", response_model=PipelineStatus, **route_options("read", 404))
def get_pipeline(app: App, pipeline: PipelineName) -> dict[str, Any]:
    """Return how a pipeline stands, as its process last reported."""
    return status(app.configured, app.store, pipeline, look=False)


class BootstrapRequest(BaseModel):
    """Which existing rows are sent through the stream: by default those of all tables."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"table": "orders"}, {"table": "orders", "key_list": [["17"], ["18"]]}]}
    )

    table: Text | None = Field(None, max_length=255, description="Only of this table, or of those that match a pattern.")
    keys: KeyRange | None = Field(None, description="Only these keys, both ends included, of a key that begins with an integer.")
    key_list: list[list[Text]] = Field(
        [], max_length=pipeline_bootstraps.MOST_KEYS, description="Only these keys, as texts, column by column."
    )


class BootstrapEntry(BaseModel):
    """A bootstrap of a table of a pipeline."""

    refresh: str
    pipeline: str
    table: str
    ranges: int = Field(description="Ranges of keys that were asked for; with no keys either, the whole table.")
    keys: int = Field(description="Single keys that were asked for.")
    state: Literal["requested", "running", "done", "failed"] = Field(
        description="`done`: all rows are in the source's log; targets hold them once they have merged it."
    )
    who: str
    at: dt.datetime
    ended: dt.datetime | None
    rows: int = Field(description="Rows that were written into the source's log.")
    chunks: int
    seconds: float
    longest: float = Field(description="Seconds for which rows were locked at most.")
    reason: str = Field(description="Why it waits or failed; empty if it does not.")


def _bootstrap_entry(one: Refresh) -> BootstrapEntry:
    about = {
        "refresh": one.refresh,
        "pipeline": one.pipeline,
        "table": one.table,
        "state": one.state,
        "who": one.requested_by,
        "at": one.at,
    }
    counts = {name: one.progress.get(name, 0) for name in ("rows", "chunks", "seconds", "longest")}
    numbers = {"ranges": len(one.scope.ranges), "keys": len(one.scope.keys)}
    return BootstrapEntry(**about, **numbers, **counts, ended=one.ended, reason=one.reason)


@routes.post("/pipelines/{pipeline}/bootstrap", status_code=202, response_model=list[BootstrapEntry], **route_options("pipeline", 404, 422))
def bootstrap_pipeline(request: Request, app: App, pipeline: PipelineName, body: BootstrapRequest) -> list[BootstrapEntry]:
    """Ask for existing rows to be sent through a pipeline's stream, in order with the changes of others; its process carries that out.

    A request that equals one under way answers that one.
    """
    ends = body.keys
    found = pipeline_bootstraps.request(
        app.configured,
        app.store,
        pipeline,
        body.table,
        first=ends.from_ if ends else None,
        last=ends.to if ends else None,
        keys=body.key_list,
        by=caller_name(request),
    )
    return [_bootstrap_entry(one) for one in found]


@routes.get("/pipelines/{pipeline}/bootstraps", response_model=list[BootstrapEntry], **route_options("read", 404))
def list_bootstraps(app: App, pipeline: PipelineName) -> list[BootstrapEntry]:
    """List the last hundred bootstraps of a pipeline, newest first."""
    app.configured.pipeline(pipeline)
    return [_bootstrap_entry(one) for one in refreshes.list_refreshes(app.store, pipeline)]


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
        AwareDatetime | None, Query(description="By default a day ago; the history is kept for 30 days.", examples=["2026-11-01T12:00:00Z"])
    ] = None,
) -> LagHistory:
    """Return what a pipeline or a table of it lagged behind: a point for every 30 s of the last day, and the maxima of each hour before."""
    found = list_lags(app.configured, app.store, pipeline, table, since)
    series = [
        LagSeries(target=place and place[0], table=(place and place[1]) or None, points=[_lag_point(one) for one in points])
        for place, points in found.items()
    ]
    return LagHistory(pipeline=pipeline, series=series)


def _lag_point(one: Point) -> LagPoint:
    return LagPoint(at=one.at, span=one.span, **one.lag._asdict())


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
    found = segments.list_segments(app.store, pipeline, table, after, limit + 1)
    entries = [SegmentEntry(**dataclasses.asdict(one)) for one in found]
    return paginate("segments", entries, limit, lambda one: f"{one.last}:{one.last_row}")


def _place(cursor: str | None) -> tuple[int, int]:
    """Return the position and row that a cursor holds. Raises HTTPException (404) for text of another form."""
    if cursor is None:
        return (0, -1)
    found = re.fullmatch(r"([0-9]{1,18}|[0-8][0-9]{18}):([0-9]{1,18})", cursor)
    if not found:
        raise HTTPException(404, "the cursor is not one of this list; pass the `next` of the previous page unchanged")
    return int(found[1]), int(found[2])


@routes.post("/pipelines/{pipeline}/pause", response_model=PipelinePause, **route_options("pipeline", 404))
def pause_pipeline(request: Request, app: App, pipeline: PipelineName) -> PipelinePause:
    """Let a pipeline's process stand still after the batch and the merges under way."""
    pipeline_service.set_paused(app.configured, app.store, pipeline, True, by=caller_name(request))
    return PipelinePause(pipeline=pipeline, paused=True)


@routes.post("/pipelines/{pipeline}/unpause", response_model=PipelinePause, **route_options("pipeline", 404))
def unpause_pipeline(request: Request, app: App, pipeline: PipelineName) -> PipelinePause:
    """Let a paused pipeline go on."""
    pipeline_service.set_paused(app.configured, app.store, pipeline, False, by=caller_name(request))
    return PipelinePause(pipeline=pipeline, paused=False)


class SkipRequest(BaseModel):
    """Which events a stopped table goes on without, and why."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"table": "shop.orders", "position": "binlog.000012:4567:0", "reason": "rows of a test"}]},
    )

    table: Text = Field(max_length=255, description="The table that is stopped.")
    position: Text = Field(max_length=255, description="Where it is stopped: `place` of one of the pipeline's `stopped`.")
    reason: Text = Field(min_length=1, max_length=1000, description="Why the events may be left out; stored with who asked.")


@routes.post("/pipelines/{pipeline}/skips", status_code=201, response_model=list[StoppedTable], **route_options("pipeline", 404, 422))
def skip_events(request: Request, app: App, pipeline: PipelineName, body: SkipRequest) -> list[dict[str, Any]]:
    """Let a stopped table go on without the events that stop it at a place; audits of the table tell that they were skipped."""
    about = (pipeline, body.table, body.position, body.reason)
    found = pipeline_service.skip(app.configured, app.store, *about, by=caller_name(request))
    return [describe_stop(note, log_file(app.store, pipeline)) for note in found]


@routes.post("/pipelines/{pipeline}/start", response_model=PipelinePause, **route_options("pipeline", 404))
def start_pipeline(request: Request, app: App, pipeline: PipelineName) -> PipelinePause:
    """Let a pipeline that may be paused go on, and start its process of this service again at once, after the batch under way."""
    pipeline_service.start(app.configured, app.store, app.pipelines, pipeline, by=caller_name(request))
    return PipelinePause(pipeline=pipeline, paused=False)
