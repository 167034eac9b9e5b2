"""Routes for segment audits: what their two sides registered, and what is wrong between them.

They are run, paused and unpaused under /audits, like audits of tables, and their runs are under /runs.
"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path, Query
from starlette.exceptions import HTTPException

from auditor.api.dependencies import App
from auditor.api.routing import DEFAULT_LIMIT, Cursor, Limit, Paginated, paginate, parse_cursor, route_options, router
from auditor.service import segment_audits
from auditor.shapes.segment import RegisteredEntry, SegmentAuditStatus
from auditor.store import segment_register

routes = router("segments")

SegmentAuditName = Annotated[str, Path(description="The segment audit's name.", max_length=255, examples=["zones"])]


@routes.get("/segments", response_model=Paginated[SegmentAuditStatus], **route_options("read", 404))
def list_segment_audits(app: App, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[SegmentAuditStatus]:
    """List the segment audits by name with what their sides registered."""
    after = parse_cursor("segment audits", cursor, str)
    names = [name for name in sorted(app.configured.segments) if after is None or name > after][: limit + 1]
    statuses = [segment_audits.status(app.configured, app.store, name) for name in names]
    return paginate("segment audits", statuses, limit, lambda audit_status: audit_status.audit)


@routes.get("/segments/{audit}", response_model=SegmentAuditStatus, **route_options("read", 404))
def get_segment_audit(app: App, audit: SegmentAuditName) -> SegmentAuditStatus:
    """Return what the sides of a segment audit registered, and what is wrong between them."""
    return segment_audits.status(app.configured, app.store, audit)


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
    after = _place(parse_cursor("registered segments", cursor, str))
    entries = segment_audits.list_registered(app.configured, app.store, audit, table, side, after=after, limit=limit + 1)
    return paginate("registered segments", entries, limit, lambda segment: f"{segment.start[0]}:{segment.start[1]}")


def _place(cursor: str | None) -> tuple[int, int]:
    """Return the place that a cursor holds. Raises HTTPException (404) for text of another form."""
    if cursor is None:
        return segment_register.FIRST
    match = re.fullmatch(r"([0-9]{1,18}|[0-8][0-9]{18}):([0-9]{1,18})", cursor)
    if not match:
        raise HTTPException(404, "the cursor is not one of this list; pass the `next` of the previous page unchanged")
    return int(match[1]), int(match[2])
