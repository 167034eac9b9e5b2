"""Routes for bootstraps: plan one, and follow those that the command line began. No request begins one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query, Request, Response

from auditor import service
from auditor.api.dependencies import App
from auditor.api.routing import (
    DEFAULT_LIMIT,
    AuditName,
    Cursor,
    Limit,
    Paginated,
    caller_name,
    etag_response,
    paginate,
    parse_cursor,
    route_options,
    router,
    slow_request,
)
from auditor.bootstrap import use_cases
from auditor.config import MAX_KEY, MIN_KEY
from auditor.shapes.bootstrap import Bootstrap, BootstrapPlan, CopiedRange
from auditor.store import bootstraps as stored

routes = router("bootstraps")

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


@routes.get("/audits/{name}/bootstrap-plan", response_model=BootstrapPlan, **route_options("repair", 404, 409, 502, 504))
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


@routes.get("/audits/{name}/bootstraps", response_model=Paginated[Bootstrap], **route_options("read", 404))
def list_bootstraps(app: App, name: AuditName, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[Bootstrap]:
    """Return the bootstraps of an audit, newest first."""
    service.audit(app.settings, name)
    start = parse_cursor("bootstraps", cursor, int) or 0
    listed = stored.list_bootstraps(app.store, audit=name)[::-1][start : start + limit + 1]
    return paginate("bootstraps", [use_cases.show(app.store, bootstrap) for bootstrap in listed], limit, lambda _: start + limit)


@routes.get("/bootstraps/{bootstrap}", response_model=Bootstrap, **route_options("read", 304, 404))
def get_bootstrap(request: Request, app: App, bootstrap: BootstrapId) -> Response:
    """Return a bootstrap with its progress; 304 if nothing has changed since the ETag of If-None-Match."""
    shown = use_cases.show(app.store, stored.get_bootstrap(app.store, bootstrap))
    return etag_response(request, shown.model_dump_json().encode(), "application/json")


@routes.get("/bootstraps/{bootstrap}/ranges", response_model=Paginated[CopiedRange], **route_options("read", 404))
def list_ranges(app: App, bootstrap: BootstrapId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[CopiedRange]:
    """Return the journal of a bootstrap: the ranges of keys that were copied, in order."""
    start = parse_cursor("bootstrap ranges", cursor, int) or 0
    ranges = use_cases.list_copied(app.store, stored.get_bootstrap(app.store, bootstrap))[start : start + limit + 1]
    return paginate("bootstrap ranges", ranges, limit, lambda _: start + limit)
