"""Routes for repairs: records of what was done to correct a target. Nothing here writes to one; see ``patches``."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from auditor.api.dependencies import App
from auditor.api.routing import (
    DEFAULT_LIMIT,
    PREFIX,
    Cursor,
    IdempotencyKey,
    Limit,
    Paginated,
    RunId,
    Text,
    caller_name,
    paginate,
    parse_cursor,
    route_options,
    router,
)
from auditor.service import repairs as repair_service
from auditor.shapes.repair import KIND_DESCRIPTION, REPAIR_EXAMPLE, Repair, RepairKind
from auditor.store import repairs

routes = router("repairs")

MAX_KEYS = 1000
"""Keys that one repair may list; `rows` counts all."""

RepairId = Annotated[str, Path(description="The repair's id.", pattern="^[0-9a-f]{32}$", examples=["3c5e7f90a1b2c3d4e5f60718293a4b5c"])]
KeyText = Annotated[str, Field(max_length=4000)]


class RepairRequest(BaseModel):
    """What was done outside the auditor to correct the target. It is stored as given; no table is changed."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [REPAIR_EXAMPLE]})

    kind: RepairKind = Field(description=KIND_DESCRIPTION)
    note: Text = Field(min_length=1, max_length=1000, description="What was done, in a sentence.")
    rows: int | None = Field(None, ge=0, lt=2**53, strict=True, description="How many rows were corrected, if counted.")
    keys: list[dict[str, KeyText | None]] = Field(
        [],
        max_length=MAX_KEYS,
        description="Keys of corrected rows, written as in the run's differences. Values of masked columns are not stored.",
    )


@routes.get("/runs/{run}/repairs", response_model=Paginated[Repair], **route_options("read", 404))
def list_repairs(app: App, run: RunId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[Repair]:
    """Return the repairs recorded for a run, newest first. They outlive the run; for a deleted run pass its full id."""
    listed = repair_service.list_repairs(app.store, run, limit=limit + 1, before=parse_cursor("repairs", cursor, str))
    return paginate("repairs", listed, limit, lambda repair: repair.repair)


RECORD_OPTIONS = route_options("repair", 400, 404, 413)
RECORD_OPTIONS["responses"][201] = {"headers": {"Location": {"description": "The repair.", "schema": {"type": "string"}}}}


@routes.post("/runs/{run}/repairs", status_code=201, response_model=Repair, **RECORD_OPTIONS)
def record_repair(
    request: Request, response: Response, app: App, run: RunId, body: RepairRequest, idempotency: IdempotencyKey = None
) -> Repair:
    """Record what was done elsewhere to correct the target after a run. The auditor only stores the record."""
    recorded = repair_service.record(app.store, run, **body.model_dump(), who=caller_name(request), idempotency=idempotency)
    response.headers["Location"] = f"{PREFIX}/repairs/{quote(recorded.repair, safe='')}"
    return recorded


@routes.get("/repairs/{repair}", response_model=Repair, **route_options("read", 404))
def get_repair(app: App, repair: RepairId) -> Repair:
    """Return one repair."""
    return repairs.get_repair(app.store, repair)
