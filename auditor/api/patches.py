"""Routes for patches: propose one, look at it, have it applied or undone. Workers write it; no request does."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path, Request, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, ConfigDict, Field

from auditor.api.dependencies import App, AppState
from auditor.api.routing import (
    DEFAULT_LIMIT,
    PREFIX,
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
)
from auditor.config import KeyRange
from auditor.model import DifferenceKind
from auditor.repair.facts import Accepted
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.service import patches as requests
from auditor.shapes.repair import Patch, PatchRow
from auditor.store import patches as stored_patches
from auditor.store import runs

routes = router("patches")

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
    limit: int | None = Field(None, ge=1, lt=2**31, strict=True, description="At most the first so many differences.")
    delete_extra: bool = Field(False, description="Also delete the rows that only the target has.")
    accept: list[Accepted] = Field([], max_length=4, description="What may happen although the patch then does more than it shows.")


class RowCount(BaseModel):
    """How many rows are to be changed, as the caller saw them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"rows": 3}]})

    rows: int = Field(
        ge=0, lt=2**31, strict=True, description="`rows` of the patch; for an undo the rows that it wrote. Any other number is refused."
    )


def _located(options: dict[str, Any], status: int) -> dict[str, Any]:
    options["responses"][status] = {"headers": {"Location": {"description": "The patch.", "schema": {"type": "string"}}}}
    return options


@routes.post(
    "/runs/{run}/patches",
    status_code=201,
    response_model=Patch,
    **_located(route_options("repair", 400, 404, 409, 413, 502, 504), 201),
)
def propose_patch(
    request: Request, response: Response, app: App, run: RunId, body: PatchRequest, idempotency: IdempotencyKey = None
) -> Patch:
    """Propose a patch: read the rows of a run's differences again, and store what would make the target's equal the source's.

    Nothing is written to the target. More rows than `write: max_rows` are refused.
    """
    keys = body.keys.model_dump(by_alias=True) if body.keys else {}
    chosen = body.model_dump(include={"only", "limit", "delete_extra"})
    selection = Selection(**chosen, first=keys.get("from"), last=keys.get("to"), columns=tuple(body.columns))
    with slow_request():
        proposed = requests.propose(
            app.configured, app.store, run, selection, tuple(body.accept), who=caller_name(request), idempotency=idempotency
        )
    return _answer(app, response, proposed)


@routes.get("/runs/{run}/patches", response_model=Paginated[Patch], **route_options("read", 404))
def list_patches(app: App, run: RunId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[Patch]:
    """Return the patches of a run, oldest first, undos among them; before these the patch after which the run itself looked again."""
    start, identity = parse_cursor("patches", cursor, int) or 0, runs.get_run(app.store, run).run
    before = stored_patches.find_patch_before(app.store, identity)
    listed = [*([before] if before else []), *stored_patches.list_patches(app.store, identity)][start : start + limit + 1]
    return paginate("patches", [patches.describe(app.store, patch) for patch in listed], limit, lambda _: start + limit)


@routes.get("/patches/{patch}", response_model=Patch, **route_options("read", 304, 404))
def get_patch(request: Request, app: App, patch: PatchId) -> Response:
    """Return a patch with its progress; 304 if nothing has changed since the ETag of If-None-Match."""
    shown = patches.describe(app.store, stored_patches.get_patch(app.store, patch))
    return etag_response(request, shown.model_dump_json().encode(), "application/json")


@routes.get("/patches/{patch}/rows", response_model=Paginated[PatchRow], **route_options("read", 404, 409))
def list_patch_rows(app: App, patch: PatchId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[PatchRow]:
    """Return a patch row by row: the plan, and once it was applied the journal."""
    start = parse_cursor("patch rows", cursor, int) or 0
    rows = patches.list_rows(app.store, stored_patches.get_patch(app.store, patch))[start : start + limit + 1]
    return paginate("patch rows", rows, limit, lambda _: start + limit)


@routes.get("/patches/{patch}/sql", response_class=PlainTextResponse, **route_options("read", 404, 409))
def get_patch_sql(app: App, patch: PatchId) -> PlainTextResponse:
    """Return the SQL of a proposed patch, to paste into a console; 409 where a column is masked."""
    script = patches.get_script(app.store, stored_patches.get_patch(app.store, patch))
    return PlainTextResponse(script, headers={"Cache-Control": "no-store"})


@routes.post("/patches/{patch}/apply", status_code=202, response_model=Patch, **_located(route_options("apply", 400, 404, 409, 413), 202))
def apply_patch(
    request: Request, response: Response, app: App, patch: PatchId, body: RowCount, idempotency: RequiredIdempotencyKey
) -> Patch:
    """Have a proposed patch applied by a worker, in small transactions, and the touched rows audited again.

    A row is written as it was proposed, or left if it would be changed otherwise by then.
    """
    wanted = requests.request_apply(app.configured, app.store, patch, rows=body.rows, who=caller_name(request), idempotency=idempotency)
    return _answer(app, response, wanted)


@routes.post("/patches/{patch}/undo", status_code=202, response_model=Patch, **_located(route_options("apply", 400, 404, 409, 413), 202))
def undo_patch(
    request: Request, response: Response, app: App, patch: PatchId, body: RowCount, idempotency: RequiredIdempotencyKey
) -> Patch:
    """Have the rows that a patch wrote written back by a worker; rows that were changed since are left. Returns the undo, a patch too."""
    wanted = requests.request_undo(app.store, patch, rows=body.rows, who=caller_name(request), idempotency=idempotency)
    return _answer(app, response, wanted)


def _answer(app: AppState, response: Response, patch: stored_patches.Patch) -> Patch:
    response.headers["Location"] = f"{PREFIX}/patches/{quote(patch.patch, safe='')}"
    return patches.describe(app.store, patch)
