"""Runs over HTTP: how far they are, what they found, ending them and going on with them."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse

from auditor import keep, service
from auditor.api import differences as kept
from auditor.api import shapes
from auditor.api.audits import AdHocWanted
from auditor.api.behind import Given
from auditor.api.routing import (
    LIMIT,
    PREFIX,
    Cursor,
    Idempotency,
    Limit,
    Page,
    RunId,
    Text,
    long,
    needs,
    paged,
    place,
    router,
    tagged,
    who,
)
from auditor.errors import UnknownRun
from auditor.model import NULL_PARTITION, Plan, State
from auditor.packed import STATES, Picture
from auditor.service import queueing
from auditor.store import events, runs
from auditor.store.runs import StoredRun

routes = router("runs")

JSON = "application/json"
CSV = "text/csv"
NDJSON = "application/x-ndjson"

AuditFilter = Annotated[Text | None, Query(description="Of this audit only.", max_length=255)]
StateFilter = Annotated[State | None, Query(description="In this state only.")]


@routes.get("/runs", response_model=Page[shapes.Run], **needs("read", 404))
def listed(
    given: Given, audit: AuditFilter = None, state: StateFilter = None, cursor: Cursor = None, limit: Limit = LIMIT
) -> dict[str, Any]:
    """All runs that are kept, the newest first."""
    found = runs.listed(given.store, audit=audit, state=state, limit=limit + 1, before=place("runs", cursor, str))
    return paged("runs", [shapes.run(one) for one in found], limit, lambda one: str(one["run"]))


AD_HOC = needs("define", 400, 404, 409, 413, 502, 504)
AD_HOC["responses"][202] = {"headers": {"Location": {"description": "The run.", "schema": {"type": "string"}}}}


@routes.post("/runs", status_code=202, response_model=shapes.Run, **AD_HOC)
def request_ad_hoc(
    request: Request, response: Response, given: Given, wanted: AdHocWanted, idempotency: Idempotency = None
) -> dict[str, Any]:
    """Request one run of an audit that is defined here and kept with this run alone, after planning it.

    Its audit is named after the run and is in no list; to have it again, keep the same definition under a name.
    """
    definition = wanted.model_dump(exclude_unset=True, exclude={"reason"}, exclude_none=True)
    with long():
        found = queueing.request_ad_hoc(
            given.configured, given.store, definition, reason=wanted.reason, requested_by=who(request), idempotency=idempotency
        )
    response.headers["Location"] = f"{PREFIX}/runs/{quote(found.run, safe='')}"
    return shapes.run(runs.find(given.store, found.run))


def body_of(one: StoredRun) -> bytes:
    """A run as JSON, the same bytes as long as it is the same."""
    return shapes.Run.model_validate(shapes.run(one)).model_dump_json().encode()


@routes.get("/runs/{run}", response_model=shapes.Run, **needs("read", 304, 404))
def one(request: Request, given: Given, run: RunId) -> Any:
    """How far a run is, and what it found; with If-None-Match it answers only once something changed."""
    return tagged(request, body_of(runs.find(given.store, run)), JSON)


@routes.get("/runs/{run}/partitions", response_model=Page[shapes.Partition], **needs("read", 404))
def partitions(
    given: Given,
    run: RunId,
    state: Annotated[Literal[STATES] | None, Query(description="What became of them.")] = None,  # type: ignore[valid-type]
    cursor: Cursor = None,
    limit: Limit = LIMIT,
) -> dict[str, Any]:
    """The partitions of the whole table as the run found them, ascending."""
    at = place("partitions", cursor, int) or 0
    found = runs.find(given.store, run)
    picture, report = keep.picture(given.store, found.run), keep.report(given.store, found.run, most=0)
    if picture is None or report is None or report.plan is None:
        raise UnknownRun(f"run {found.run} has compared no partitions{'' if found.ended else ' yet'}")
    wanted = range(at, len(picture)) if state is None else (i for i in range(at, len(picture)) if picture.state[i] == STATES.index(state))
    places = [i for i, _ in zip(wanted, range(limit + 1), strict=False)]
    items = [_partition(picture, i, report.plan) for i in places]
    return paged("partitions", items, limit, lambda _: places[limit - 1] + 1)


def _partition(picture: Picture, i: int, plan: Plan) -> dict[str, Any]:
    identity = None if (number := int(picture.partition[i])) == NULL_PARTITION else number
    hidden, similarity = plan.hides_ranges, float(picture.similarity[i])
    keys = [
        None if hidden or any(c.masked for c in plan.key_columns) or key is None else str(key)
        for key in (picture.least[i], picture.greatest[i])
    ]
    return {
        "partition": None if hidden else identity,
        "label": plan.label(identity),
        "state": STATES[picture.state[i]],
        "similarity": None if math.isnan(similarity) else similarity,
        "rows": {side: int(counts[i]) for side, counts in picture.rows.items()},
        "least": keys[0],
        "greatest": keys[1],
    }


def file(lines: Any, media_type: str, name: str) -> StreamingResponse:
    """Lines as a file to be kept."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Vary": "Accept, Authorization, Cookie"}
    return StreamingResponse(lines, headers=headers, media_type=media_type)


FILES = {200: {"content": {CSV: {"schema": {"type": "string"}}, NDJSON: {"schema": {"type": "string"}}}}}


def with_files(declared: dict[str, Any]) -> dict[str, Any]:
    """The declaration of a route that also answers with files."""
    return {**declared, "responses": declared["responses"] | FILES}


@routes.get("/runs/{run}/differences", response_model=Page[shapes.DifferenceLine], **with_files(needs("read", 404)))
def differences(
    request: Request,
    given: Given,
    run: RunId,
    kind: Annotated[kept.Kind | None, Query(description="Of this kind only.")] = None,
    state: Annotated[kept.Settled | None, Query(description="Believed, or still moving when it was last looked at.")] = None,
    cursor: Cursor = None,
    limit: Limit = LIMIT,
    format: Annotated[Literal["json", "csv", "ndjson"] | None, Query(description="A file of all of them; else by Accept.")] = None,
) -> Any:
    """The differences that the run kept by their keys: a page of them, or all as CSV or as a JSON value on each line."""
    after = place("differences", cursor, int) or 0
    identity = runs.find(given.store, run).run
    asked = kept.of(given.store, identity, kind, state)
    accept = request.headers.get("Accept", "")
    if format == "csv" or (format is None and CSV in accept):
        return file(kept.as_csv(given.store, asked), f"{CSV}; charset=utf-8", f"differences-{identity[:12]}.csv")
    if format == "ndjson" or (format is None and NDJSON in accept):
        return file(kept.ndjson(given.store, asked), NDJSON, f"differences-{identity[:12]}.ndjson")
    found = kept.page(given.store, asked, after, limit + 1)
    return paged("differences", found, limit, lambda item: int(item["number"]))


@routes.post("/runs/{run}/cancel", status_code=202, response_model=shapes.Run, **needs("run", 404))
def cancel(request: Request, given: Given, run: RunId) -> dict[str, Any]:
    """Ask a run to end, in whatever process it is; one that has ended stays as it is."""
    return shapes.run(service.cancel(given.store, run, by=who(request)))


@routes.post("/runs/{run}/resume", status_code=202, response_model=shapes.Run, **needs("run", 404, 409))
def resume(request: Request, response: Response, given: Given, run: RunId) -> dict[str, Any]:
    """Let a run that ended early wait for its turn to go on from what it had read."""
    found = queueing.request_resume(given.configured, given.store, run, requested_by=who(request))
    response.headers["Location"] = f"{PREFIX}/runs/{quote(found.run, safe='')}"
    return shapes.run(found)


@routes.get("/events", response_model=Page[shapes.Event], **needs("define", 404))
def noted(given: Given, cursor: Cursor = None, limit: Limit = LIMIT) -> dict[str, Any]:
    """Who requested, cancelled, defined, paused and repaired what, the latest first."""
    found = events.listed(given.store, limit=limit + 1, before=place("events", cursor, int))
    return paged("events", [_event(one) for one in found], limit, lambda one: int(one["number"]))


def _event(one: events.Event) -> dict[str, Any]:
    detail = json.loads(json.dumps(one.detail))
    return {"number": one.number, "at": one.at, "who": one.who, "what": one.what, "subject": one.subject, "detail": detail}
