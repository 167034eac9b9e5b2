"""Repairs over HTTP: what people record that they did to mend a target. Nothing here writes into one."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from auditor.api import shapes
from auditor.api.behind import Given
from auditor.api.routing import LIMIT, PREFIX, Cursor, Idempotency, Limit, Page, RunId, Text, needs, paged, place, router, who
from auditor.service import repairs as use
from auditor.store import repairs
from auditor.store.repairs import Kind

routes = router("repairs")

KEYS = 1000
"""Keys that one repair may name; further ones are counted in its rows."""

KIND = "`patch`: rows were mended; `bootstrap`: the table was copied anew; `other`: what the note says."

RepairId = Annotated[str, Path(description="The repair's id.", pattern="^[0-9a-f]{32}$", examples=["3c5e7f90a1b2c3d4e5f60718293a4b5c"])]
KeyText = Annotated[str, Field(max_length=4000)]
EXAMPLE: Any = {"kind": "patch", "note": "copied the lost order again", "rows": 1, "keys": [{"id": "700"}]}


class RepairWanted(BaseModel):
    """What was done, outside of the auditor, to mend the target. It is kept as it is told; nothing is done to any table."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})

    kind: Kind = Field(description=KIND)
    note: Text = Field(min_length=1, max_length=1000, description="What was done, in a sentence.")
    rows: int | None = Field(None, ge=0, lt=2**53, description="How many rows were mended, where somebody counted them.")
    keys: list[dict[str, KeyText | None]] = Field(
        [],
        max_length=KEYS,
        description="Keys of rows that were mended, as the run's differences write them; what masked columns hold is not kept.",
    )


class Repair(BaseModel):
    """A repair as it was recorded."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"repair": "3c5e7f90a1b2c3d4e5f60718293a4b5c", "run": shapes.RUN, "audit": "orders", "state": "recorded", **EXAMPLE}
                | {"who": "ops", "at": "2026-03-01T07:10:00+00:00"}
            ]
        }
    )

    repair: str
    run: str = Field(description="The run after which the target was mended; it may be kept no longer.")
    audit: str
    kind: Kind = Field(description=KIND)
    state: Literal["recorded"] = Field(description="Somebody says so; what the target holds now, the audit's next run tells.")
    note: str
    rows: int | None
    keys: list[dict[str, str | None]]
    who: str = Field(description="The name of the token that recorded it.")
    at: dt.datetime = Field(description="When it was recorded.")


@routes.get("/runs/{run}/repairs", response_model=Page[Repair], **needs("read", 404))
def listed(given: Given, run: RunId, cursor: Cursor = None, limit: Limit = LIMIT) -> dict[str, Any]:
    """The repairs that were recorded for a run, the newest first. They outlive it: of a dropped run, write the whole id."""
    found = use.of_run(given.store, run, limit=limit + 1, before=place("repairs", cursor, str))
    return paged("repairs", [dataclasses.asdict(one) for one in found], limit, lambda one: str(one["repair"]))


RECORDED = needs("repair", 400, 404, 413)
RECORDED["responses"][201] = {"headers": {"Location": {"description": "The repair.", "schema": {"type": "string"}}}}


@routes.post("/runs/{run}/repairs", status_code=201, response_model=Repair, **RECORDED)
def record(
    request: Request, response: Response, given: Given, run: RunId, wanted: RepairWanted, idempotency: Idempotency = None
) -> dict[str, Any]:
    """Record what was done outside to mend the target after a run. The auditor writes nothing into it: it only keeps the record."""
    made = use.record(given.store, run, **wanted.model_dump(), who=who(request), idempotency=idempotency)
    response.headers["Location"] = f"{PREFIX}/repairs/{quote(made.repair, safe='')}"
    return dataclasses.asdict(made)


@routes.get("/repairs/{repair}", response_model=Repair, **needs("read", 404))
def one(given: Given, repair: RepairId) -> dict[str, Any]:
    """One repair."""
    return dataclasses.asdict(repairs.find(given.store, repair))
