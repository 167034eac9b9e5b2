"""Routes for segment audits: what their two sides registered, and what is wrong between them.

They are run, paused and unpaused under /audits, like audits of tables, and their runs are under /runs.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from auditor.api.dependencies import App
from auditor.api.routing import DEFAULT_LIMIT, Cursor, Limit, Paginated, paginate, parse_cursor, route_options, router
from auditor.errors import ConfigError
from auditor.model import RegisteredSegment, SegmentVerdict
from auditor.service import segment_audits
from auditor.store import segment_register

routes = router("segments")

SegmentAuditName = Annotated[str, Path(description="The segment audit's name.", max_length=255, examples=["zones"])]


class SideOfTable(BaseModel):
    """What a side registered of a table."""

    segments: int
    events: int
    through: dt.datetime | None = Field(description="When the source committed the last event that the side registered.")
    lag_seconds: float = Field(description="Seconds since the other side has a segment that this one lacks; 0 if there is none.")


class SegmentFinding(BaseModel):
    """A stretch of a table's stream that two sides do not have alike."""

    kind: Literal["missing", "doubled", "altered", "cut otherwise"]
    side: str | None = Field(description="The side that lacks or doubled it; null where the two differ.")
    sentence: str = Field(description="What is wrong, with its positions.")


class ComparedTable(BaseModel):
    """What was compared of a table."""

    table: str
    matches: int = Field(description="Pairs of equal segments.")
    matched_events: int
    matched_through: dt.datetime | None = Field(description="When the source committed the last event before anything differs.")
    is_compared: bool = Field(description="Whether both sides have a segment that begins at the same place.")
    sides: dict[str, SideOfTable]
    findings: list[SegmentFinding]


class SegmentAuditStatus(BaseModel):
    """A segment audit: two writers of one change stream, compared segment by segment."""

    audit: str
    sides: list[str] = Field(description="Two pipelines; or one, and `anew` for its source's log, read anew.")
    max_lag: float = Field(description="Seconds for which a side may be awaited before the verdict is unknown.")
    lag_seconds: float = Field(description="Seconds since the slower side is awaited; 0 if none is.")
    status: Literal["mismatch", "unknown", "stale", "never", "running", "within_threshold", "match"]
    refused: str = Field(description="Why segments of the two sides are not comparable; empty if they are.")
    paused: bool
    run: str | None = Field(description="The run of the last verdict.")
    verified_through: dt.datetime | None
    tables: list[ComparedTable]


class RegisteredEntry(BaseModel):
    """A segment that a side registered, and the verdict on it."""

    table: str
    side: str
    verdict: SegmentVerdict = Field(description="By the first segment of the other side whose start is not before its own.")
    start: list[int] = Field(description="Place of its first event: position (or number of the global id), and row.")
    end: list[int]
    other: list[int] | None = Field(description="Where the other side's segment starts, or ends after an end mismatch.")
    rows: int
    schema_id: str
    sha256: str
    first: int = Field(description="Position of its first event in the log that its writer read.")
    last: int
    gtid: str | None
    began: dt.datetime
    ended: dt.datetime
    registered: dt.datetime | None


@routes.get("/segments", response_model=Paginated[SegmentAuditStatus], **route_options("read", 404))
def list_segment_audits(app: App, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[SegmentAuditStatus]:
    """List the segment audits by name with what their sides registered."""
    after = parse_cursor("segment audits", cursor, str)
    names = [name for name in sorted(app.configured.segments) if after is None or name > after][: limit + 1]
    found = [SegmentAuditStatus(**_status(app, name)) for name in names]
    return paginate("segment audits", found, limit, lambda one: one.audit)


@routes.get("/segments/{audit}", response_model=SegmentAuditStatus, **route_options("read", 404))
def get_segment_audit(app: App, audit: SegmentAuditName) -> dict[str, Any]:
    """Return what the sides of a segment audit registered, and what is wrong between them."""
    return _status(app, audit)


def _status(app: App, name: str) -> dict[str, Any]:
    return segment_audits.as_json(segment_audits.overview(app.configured, app.store, name))


@routes.get("/segments/{audit}/entries", response_model=Paginated[RegisteredEntry], **route_options("read", 404, 422))
def list_registered_segments(
    app: App,
    audit: SegmentAuditName,
    table: Annotated[str, Query(description="Database and table, with a point between.", max_length=255, examples=["shop.orders"])],
    side: Annotated[str, Query(description="One of the two sides.", max_length=255, examples=["shop"])],
    cursor: Cursor = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Paginated[RegisteredEntry]:
    """List the segments that a side registered of a table, in the order of the stream."""
    sides = app.configured.segment_audit(audit).sides
    if side not in sides:
        raise ConfigError(f"{side!r} is no side of {audit}; its sides are {' and '.join(sides)}")
    after = _place(parse_cursor("registered segments", cursor, str))
    found = segment_register.list_entries(app.store, audit, table, side, after=after, limit=limit + 1)
    entries = [_entry(one, side) for one in found]
    return paginate("registered segments", entries, limit, lambda one: f"{one.start[0]}:{one.start[1]}")


def _entry(one: RegisteredSegment, side: str) -> RegisteredEntry:
    names = ("table", "verdict", "rows", "schema_id", "sha256", "first", "last", "gtid", "began", "ended", "registered")
    places = {"start": list(one.start), "end": list(one.end), "other": list(one.matched) if one.matched else None}
    return RegisteredEntry(side=side, **places, **{name: getattr(one, name) for name in names})


def _place(cursor: str | None) -> tuple[int, int]:
    """Return the place that a cursor holds. Raises HTTPException (404) for text of another form."""
    if cursor is None:
        return segment_register.FIRST
    found = re.fullmatch(r"([0-9]{1,18}|[0-8][0-9]{18}):([0-9]{1,18})", cursor)
    if not found:
        raise HTTPException(404, "the cursor is not one of this list; pass the `next` of the previous page unchanged")
    return int(found[1]), int(found[2])
