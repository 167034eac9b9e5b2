"""Routes for repairs of targets: patches and bootstraps, and records of what was done elsewhere.

Patches are proposed, looked at, applied and undone: workers write them, no request does. Bootstraps are planned and followed; only the
command line begins one.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from auditor import service
from auditor.api.dependencies import App, AppState
from auditor.api.routing import (
    DEFAULT_LIMIT,
    PREFIX,
    AuditName,
    Cursor,
    IdempotencyKey,
    Limit,
    Paginated,
    RequiredIdempotencyKey,
    RunId,
    Text,
    caller_name,
    etag_response,
    paginate,
    parse_cursor,
    route_options,
    router,
    slow_request,
    with_location,
)
from auditor.api_models.bootstrap import Bootstrap, BootstrapPlan, CopiedRange
from auditor.api_models.repair import KIND_DESCRIPTION, REPAIR_EXAMPLE, Patch, PatchRow, Repair, RepairKind
from auditor.bootstrap import use_cases
from auditor.config import MAX_KEY, MIN_KEY, KeyRange
from auditor.model import DifferenceKind
from auditor.repair.keys import Selection
from auditor.repair.target_facts import Accepted
from auditor.service import patches
from auditor.service import repairs as repair_service
from auditor.store import bootstraps as stored_bootstraps
from auditor.store import patches as stored_patches
from auditor.store import repairs, runs

repair_routes = router("repairs")
patch_routes = router("patches")
bootstrap_routes = router("bootstraps")

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


@repair_routes.get("/runs/{run}/repairs", response_model=Paginated[Repair], **route_options("read", 404))
def list_repairs(app: App, run: RunId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[Repair]:
    """Return the repairs recorded for a run, newest first. They outlive the run; for a deleted run pass its full id."""
    listed = repair_service.list_repairs(app.store, run, limit=limit + 1, before=parse_cursor("repairs", cursor, str))
    return paginate("repairs", listed, limit, lambda repair: repair.repair)


RECORD_OPTIONS = with_location(route_options("repair", 400, 404, 413), {201: "The repair."})


@repair_routes.post("/runs/{run}/repairs", status_code=201, response_model=Repair, **RECORD_OPTIONS)
def record_repair(
    request: Request, response: Response, app: App, run: RunId, body: RepairRequest, idempotency: IdempotencyKey = None
) -> Repair:
    """Record what was done elsewhere to correct the target after a run. The auditor only stores the record."""
    recorded = repair_service.record(app.store, run, **body.model_dump(), who=caller_name(request), idempotency=idempotency)
    response.headers["Location"] = f"{PREFIX}/repairs/{quote(recorded.repair, safe='')}"
    return recorded


@repair_routes.get("/repairs/{repair}", response_model=Repair, **route_options("read", 404))
def get_repair(app: App, repair: RepairId) -> Repair:
    """Return one repair."""
    return repairs.get_repair(app.store, repair)


PatchId = Annotated[
    str,
    Path(description="The patch's id, or a prefix of it that no other patch has.", pattern="^[0-9a-f]{4,32}$", examples=["85527af373cd"]),
]


class PatchRequest(BaseModel):
    """Which of a run's confirmed differences are patched; by default its missing and changed rows."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"delete_extra": True}, {"only": "changed", "limit": 100}]})

    only: DifferenceKind | None = Field(None, description="Only rows of this kind.")
    keys: KeyRange | None = Field(None, description="Only these keys, both ends included, of a key of one integer column.")
    columns: list[Text] = Field([], max_length=1000, description="Only these columns, of changed rows alone.")
    column: Text = Field("", max_length=255, description="Only rows that the run found to differ in this column, all columns of them.")
    key: Text = Field("", max_length=1000, description="Only rows with this key, or with it in one of its columns.")
    limit: int | None = Field(None, ge=1, lt=2**31, strict=True, description="At most the first so many differences.")
    delete_extra: bool = Field(False, description="Also delete the rows that only the target has.")
    accept: list[Accepted] = Field([], max_length=4, description="What may happen although the patch then does more than it shows.")


class RowCount(BaseModel):
    """How many rows are to be changed, as the caller saw them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"rows": 3}]})

    rows: int = Field(
        ge=0, lt=2**31, strict=True, description="`rows` of the patch; for an undo the rows that it wrote. Any other number is refused."
    )


@patch_routes.post(
    "/runs/{run}/patches",
    status_code=201,
    response_model=Patch,
    **with_location(route_options("repair", 400, 404, 409, 413, 502, 504), {201: "The patch."}),
)
def propose_patch(
    request: Request, response: Response, app: App, run: RunId, body: PatchRequest, idempotency: IdempotencyKey = None
) -> Patch:
    """Propose a patch: read the rows of a run's differences again, and store what would make the target's equal the source's.

    Nothing is written to the target. More rows than `write: max_rows`, or `write: max_share` of the target's, are refused.
    """
    keys = body.keys.model_dump(by_alias=True) if body.keys else {}
    chosen = body.model_dump(include={"only", "limit", "delete_extra", "column", "key"})
    selection = Selection(**chosen, first=keys.get("from"), last=keys.get("to"), columns=tuple(body.columns))
    with slow_request():
        proposed = patches.propose(
            app.configured, app.store, run, selection, tuple(body.accept), who=caller_name(request), idempotency=idempotency
        )
    return _answer(app, response, proposed)


@patch_routes.get("/runs/{run}/patches", response_model=Paginated[Patch], **route_options("read", 404))
def list_patches(app: App, run: RunId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[Patch]:
    """Return the patches of a run, oldest first, undos among them; before these the patch after which the run itself looked again."""
    start, identity = parse_cursor("patches", cursor, int) or 0, runs.get_run(app.store, run).run
    before = stored_patches.find_patch_before(app.store, identity)
    listed = [*([before] if before else []), *stored_patches.list_patches(app.store, identity)][start : start + limit + 1]
    return paginate("patches", [patches.describe(app.store, patch) for patch in listed], limit, lambda _: start + limit)


@patch_routes.get("/patches/{patch}", response_model=Patch, **route_options("read", 304, 404))
def get_patch(request: Request, app: App, patch: PatchId) -> Response:
    """Return a patch with its progress; 304 if nothing has changed since the ETag of If-None-Match."""
    shown = patches.describe(app.store, stored_patches.get_patch(app.store, patch))
    return etag_response(request, shown.model_dump_json().encode(), "application/json")


@patch_routes.get("/patches/{patch}/rows", response_model=Paginated[PatchRow], **route_options("read", 404, 409))
def list_patch_rows(app: App, patch: PatchId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[PatchRow]:
    """Return a patch row by row: the plan, and once it was applied the journal."""
    start = parse_cursor("patch rows", cursor, int) or 0
    rows = patches.list_rows(app.store, stored_patches.get_patch(app.store, patch))[start : start + limit + 1]
    return paginate("patch rows", rows, limit, lambda _: start + limit)


@patch_routes.get("/patches/{patch}/sql", response_class=PlainTextResponse, **route_options("read", 404, 409))
def get_patch_sql(app: App, patch: PatchId) -> PlainTextResponse:
    """Return the SQL of a proposed patch, to paste into a console; 409 where a column is masked."""
    script = patches.get_script(app.store, stored_patches.get_patch(app.store, patch))
    return PlainTextResponse(script, headers={"Cache-Control": "no-store"})


WRITE_OPTIONS = with_location(route_options("apply", 400, 404, 409, 413), {202: "The patch."})


@patch_routes.post("/patches/{patch}/apply", status_code=202, response_model=Patch, **WRITE_OPTIONS)
def apply_patch(
    request: Request, response: Response, app: App, patch: PatchId, body: RowCount, idempotency: RequiredIdempotencyKey
) -> Patch:
    """Have a proposed patch applied by a worker, in small transactions, and the touched rows audited again.

    A row is written as it was proposed, or left if it would be changed otherwise by then.
    """
    wanted = patches.request_apply(app.configured, app.store, patch, rows=body.rows, who=caller_name(request), idempotency=idempotency)
    return _answer(app, response, wanted)


@patch_routes.post("/patches/{patch}/undo", status_code=202, response_model=Patch, **WRITE_OPTIONS)
def undo_patch(
    request: Request, response: Response, app: App, patch: PatchId, body: RowCount, idempotency: RequiredIdempotencyKey
) -> Patch:
    """Have the rows that a patch wrote written back by a worker; rows that were changed since are left. Returns the undo, a patch too."""
    wanted = patches.request_undo(app.store, patch, rows=body.rows, who=caller_name(request), idempotency=idempotency)
    return _answer(app, response, wanted)


def _answer(app: AppState, response: Response, patch: stored_patches.Patch) -> Patch:
    response.headers["Location"] = f"{PREFIX}/patches/{quote(patch.patch, safe='')}"
    return patches.describe(app.store, patch)


BootstrapId = Annotated[
    str,
    Path(description="The bootstrap's id, or a prefix that no other has.", pattern="^[0-9a-f]{4,32}$", examples=["5c198e4d7416"]),
]
FirstKey = Annotated[int | None, Query(alias="from", ge=MIN_KEY, le=MAX_KEY, description="The least key; by default no lower bound.")]
LastKey = Annotated[
    int | None, Query(alias="to", ge=MIN_KEY, le=MAX_KEY, description="The greatest key, inclusive; by default no upper bound.")
]
Partitions = Annotated[
    str, Query(max_length=2000, pattern=r"^(differing|[-0-9,. ]*)$", description="Partitions of the last run: `3,7..9`, or `differing`.")
]
Replica = Annotated[str, Query(alias="source", max_length=100, description="A connection to a replica of the source that matched lately.")]


@bootstrap_routes.get("/audits/{name}/bootstrap-plan", response_model=BootstrapPlan, **route_options("repair", 404, 409, 502, 504))
def plan_bootstrap(
    request: Request,
    app: App,
    name: AuditName,
    first: FirstKey = None,
    last: LastKey = None,
    partitions: Partitions = "",
    source: Replica = "",
) -> BootstrapPlan:
    """Plan a bootstrap of an audit's target, and write nothing. This connects to both databases, to the target as its writer."""
    service.audit(app.settings, name)
    keys = {**({} if first is None else {"from": first}), **({} if last is None else {"to": last})}
    followed = use_cases.Followed(who=caller_name(request))
    with slow_request():
        prepared = use_cases.prepare(app.configured, app.store, name, keys or None, source, partitions, followed, use_cases.PLANNED)
    return use_cases.show_plan(prepared, use_cases.command(name, keys, source, partitions))


@bootstrap_routes.get("/audits/{name}/bootstraps", response_model=Paginated[Bootstrap], **route_options("read", 404))
def list_bootstraps(app: App, name: AuditName, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[Bootstrap]:
    """Return the bootstraps of an audit, newest first."""
    service.audit(app.settings, name)
    start = parse_cursor("bootstraps", cursor, int) or 0
    listed = stored_bootstraps.list_bootstraps(app.store, audit=name)[::-1][start : start + limit + 1]
    return paginate("bootstraps", [use_cases.show(app.store, bootstrap) for bootstrap in listed], limit, lambda _: start + limit)


@bootstrap_routes.get("/bootstraps/{bootstrap}", response_model=Bootstrap, **route_options("read", 304, 404))
def get_bootstrap(request: Request, app: App, bootstrap: BootstrapId) -> Response:
    """Return a bootstrap with its progress; 304 if nothing has changed since the ETag of If-None-Match."""
    shown = use_cases.show(app.store, stored_bootstraps.get_bootstrap(app.store, bootstrap))
    return etag_response(request, shown.model_dump_json().encode(), "application/json")


@bootstrap_routes.get("/bootstraps/{bootstrap}/ranges", response_model=Paginated[CopiedRange], **route_options("read", 404))
def list_ranges(app: App, bootstrap: BootstrapId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[CopiedRange]:
    """Return the journal of a bootstrap: the ranges of keys that were copied, in order."""
    start = parse_cursor("bootstrap ranges", cursor, int) or 0
    ranges = use_cases.list_copied(app.store, stored_bootstraps.get_bootstrap(app.store, bootstrap))[start : start + limit + 1]
    return paginate("bootstrap ranges", ranges, limit, lambda _: start + limit)
