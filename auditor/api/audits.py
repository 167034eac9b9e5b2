"""Audits over HTTP: listing them, their plans and SQL, requesting runs, defining and pausing them."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Body, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from auditor import service
from auditor.api import shapes
from auditor.api.behind import Behind, Given
from auditor.api.problems import answer
from auditor.api.routing import (
    LIMIT,
    PREFIX,
    Cursor,
    Idempotency,
    Limit,
    Name,
    NewName,
    Page,
    Text,
    long,
    needs,
    paged,
    place,
    router,
    sent,
    who,
)
from auditor.config import KeyRange, TimeRange
from auditor.errors import UnknownAudit
from auditor.model import SIDES, Method, Side
from auditor.report import json as as_json
from auditor.service import audits as use
from auditor.service import queueing
from auditor.store import runs

routes = router("audits")


EXAMPLE_RUN: Any = {"method": "exact", "t": 5, "keys": {"from": 1000, "to": 2000}, "reason": "after the backfill"}


class RunWanted(BaseModel):
    """What of a run is to be otherwise than its audit has it. Nothing of it has to be written.

    With `keys` or `times` the run looks at that section of the table alone, on both sides, and all that it finds is about it: how
    the audit stands, and up to when it is verified, stay as they were.
    """

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [EXAMPLE_RUN, {"times": {"from": "2026-11-01", "to": "2026-12-01"}}]}
    )

    method: Method | None = None
    k: int | None = Field(None, ge=1, le=256, description="Minhashes.")
    t: int | None = Field(None, ge=1, le=16, description="Differences that the method exact names in one partition.")
    threshold: float | None = Field(None, ge=0, le=1, description="The score below which the verdict is a mismatch.")
    keys: KeyRange | None = Field(None, description="Only rows with these keys, both ends included; the key has to be one whole number.")
    times: TimeRange | None = Field(
        None, description="Only rows from one time on and before another, in the column that the audit is partitioned or settled by."
    )
    reason: Text = Field("", max_length=500, description="Why, kept with the run.")


class TableWanted(BaseModel):
    """A table of a configured connection."""

    model_config = ConfigDict(extra="forbid")

    connection: Text = Field(min_length=1, max_length=255, examples=["shop"])
    table: Text = Field(
        min_length=1,
        max_length=255,
        pattern=r"^[^/\\;]+$",
        description="Its name, with its schema: no path, no SQL.",
        examples=["public.orders"],
    )


class ColumnsWanted(BaseModel):
    """Which columns are compared; all of the source's without this."""

    model_config = ConfigDict(extra="forbid")

    include: list[Text] = Field([], max_length=1000)
    exclude: list[Text] = Field([], max_length=1000)


EXAMPLE: Any = {
    "source": {"connection": "shop", "table": "orders"},
    "target": {"connection": "warehouse", "table": "public.orders"},
    "key": ["id"],
    "method": "exact",
}


class AuditWanted(BaseModel):
    """An audit between two configured connections."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [EXAMPLE]},
    )

    source: TableWanted
    target: TableWanted
    key: list[Text] = Field([], max_length=32, description="The columns that identify a row; the source's primary key without this.")
    columns: ColumnsWanted | None = None
    method: Literal[Method, "auto"] = "exact"
    k: int | None = Field(None, ge=1, le=256)
    t: int | None = Field(None, ge=1, le=16)
    threshold: float | None = Field(None, ge=0, le=1)


class AdHocWanted(AuditWanted):
    """An audit that is run once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{**EXAMPLE, "columns": {"exclude": ["note"]}, "reason": "a new replica"}]})

    reason: Text = Field("", max_length=500, description="Why, kept with the run.")


class NamedAuditWanted(AuditWanted):
    """An audit with its name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "orders-adhoc", **EXAMPLE}]})

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$", description="Letters, digits, _ and -.")


class Scripts(BaseModel):
    """What to paste into each side's console."""

    source: str | None = None
    target: str | None = None


@routes.get("/audits", response_model=Page[shapes.AuditLine], **needs("read", 404))
async def listed(given: Given, cursor: Cursor = None, limit: Limit = LIMIT) -> Response:
    """All audits, by name, each with its latest run."""
    after = place("audits", cursor, str) or ""
    return await given.shared.get(("audits", after, limit), lambda: _listed(given, after, limit))


def _listed(given: Behind, after: str, limit: int) -> Response:
    found = sorted((one for one in use.overview(given.configured, given.store, trends=False) if one.name > after), key=lambda one: one.name)
    return sent(Page[shapes.AuditLine], paged("audits", [shapes.line(one) for one in found], limit, lambda one: str(one["name"])))


@routes.get("/audits/{name}", response_model=shapes.AuditWhole, **needs("read", 404))
def one(given: Given, name: Name) -> Response:
    """One audit."""
    return sent(shapes.AuditWhole, _whole(given, name))


def _whole(given: Behind, name: str) -> dict[str, Any]:
    settings = given.settings
    audit = service.audit(settings, name)
    found = next(iter(use.overview(given.configured, given.store, name)), None)
    if found is None:  # by way of a dump: its legs are what runs
        raise UnknownAudit(f"{name!r} goes by way of a dump; see its legs: {', '.join(service.expanded(settings, [name]))}")
    return {**shapes.line(found), "trend": found.trend, "definition": service.definition(audit)}


@routes.get("/audits/{name}/plan", response_model=dict[str, Any], **needs("read", 404, 409, 502, 504))
def plan(given: Given, name: Name) -> dict[str, Any]:
    """How the audit would run, as both databases are now: this connects to them."""
    settings = given.settings
    audit = service.audit(settings, name)
    with long():
        return as_json.plan(service.planned(settings, name, audit))


SCRIPTS = needs("read", 404, 409, 502, 504)
SCRIPTS["responses"][200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}


@routes.get("/audits/{name}/sql", response_model=Scripts, **SCRIPTS)
def sql(
    request: Request,
    given: Given,
    name: Name,
    side: Annotated[Side | None, Query(description="One side only.")] = None,
    method: Annotated[Method | None, Query(description="Another method than the audit's.")] = None,
    format: Annotated[Literal["json", "text"] | None, Query(description="`text` for the script alone; else by Accept.")] = None,
) -> Any:
    """What to paste into the engines' own consoles: this connects to them, to plan the audit."""
    settings = given.settings
    service.audit(settings, name)
    with long():
        found = service.sql(settings, name, (side,) if side else SIDES, method)
    if format == "text" or (format is None and request.headers.get("Accept", "").startswith("text/plain")):
        return PlainTextResponse("\n".join(found.values()))
    return found


@routes.get("/audits/{name}/runs", response_model=Page[shapes.Run], **needs("read", 404))
def history(given: Given, name: Name, cursor: Cursor = None, limit: Limit = LIMIT) -> Response:
    """The audit's runs, the newest first."""
    service.audit(given.settings, name)
    found = runs.listed(given.store, audit=name, limit=limit + 1, before=place("runs", cursor, str))
    return sent(Page[shapes.Run], paged("runs", [shapes.run(one) for one in found], limit, lambda one: str(one["run"])))


ACCEPTED: dict[int | str, Any] = {
    202: {"headers": {"Location": {"description": "The run.", "schema": {"type": "string"}}}},
    409: {"headers": {"Location": {"description": "The run that waits or goes on already.", "schema": {"type": "string"}}}},
}


def with_location(declared: dict[str, Any]) -> dict[str, Any]:
    """The declaration of a route whose answers lead to a run."""
    told = {status: {**declared["responses"].get(status, {}), **more} for status, more in ACCEPTED.items() if status in (202, 409)}
    return {**declared, "responses": declared["responses"] | told}


@routes.post("/audits/{name}/runs", status_code=202, response_model=shapes.Run, **with_location(needs("run", 400, 404, 409, 413)))
def request_run(
    request: Request,
    response: Response,
    given: Given,
    name: Name,
    wanted: Annotated[RunWanted | None, Body()] = None,
    idempotency: Idempotency = None,
) -> Any:
    """Request a run, which waits for its turn."""
    asked = (wanted or RunWanted()).model_dump(exclude_none=True, by_alias=True)
    reason = asked.pop("reason")
    by = who(request)
    found = queueing.request_run(
        given.configured, given.store, name, overrides=asked, reason=reason, requested_by=by, idempotency=idempotency
    )
    location = f"{PREFIX}/runs/{quote(found.run, safe='')}"
    if found.how in ("pending", "running"):
        sentence = f"run {found.run} of this audit {'waits' if found.how == 'pending' else 'goes on'} already"
        return answer(request.scope, 409, sentence, name="AlreadyRunning", headers={"Location": location})
    response.headers["Location"] = location
    return shapes.run(runs.find(given.store, found.run))


@routes.post("/audits", status_code=201, response_model=shapes.AuditWhole, **needs("define", 400, 404, 409, 413, 502, 504))
def define_named(request: Request, response: Response, given: Given, wanted: NamedAuditWanted) -> dict[str, Any]:
    """Keep a new audit under its name, after planning it."""
    response.headers["Location"] = f"{PREFIX}/audits/{quote(wanted.name, safe='')}"
    return _defined(request, given, wanted.name, wanted)


@routes.put("/audits/{name}", response_model=shapes.AuditWhole, **needs("define", 400, 404, 409, 413, 502, 504))
def define(
    request: Request,
    given: Given,
    name: NewName,
    wanted: AuditWanted,
) -> dict[str, Any]:
    """Keep an audit under this name, in place of one that was defined over HTTP; configured ones are left alone."""
    return _defined(request, given, name, wanted)


def _defined(request: Request, given: Given, name: str, wanted: AuditWanted) -> dict[str, Any]:
    definition = wanted.model_dump(exclude_unset=True, exclude={"name"}, exclude_none=True)
    with long():
        use.define(given.configured, given.store, name, definition, who(request))
    return _whole(given, name)


@routes.delete("/audits/{name}", status_code=204, **needs("define", 404, 409))
def drop(request: Request, given: Given, name: Name) -> None:
    """Forget an audit that was defined over HTTP; its runs stay."""
    use.drop(given.store, name, who(request))


class Paused(BaseModel):
    """Whether an audit's schedule passes it by."""

    name: str
    paused: bool


@routes.post("/audits/{name}/pause", response_model=Paused, **needs("define", 404))
def pause(request: Request, given: Given, name: Name) -> Paused:
    """Let the schedule pass this audit by."""
    use.pause(given.configured, given.store, name, by=who(request))
    return Paused(name=name, paused=True)


@routes.post("/audits/{name}/unpause", response_model=Paused, **needs("define", 404))
def unpause(request: Request, given: Given, name: Name) -> Paused:
    """Let the schedule run this audit again."""
    use.unpause(given.configured, given.store, name, by=who(request))
    return Paused(name=name, paused=False)
