"""Routes for bootstraps: plan one, and follow those that the command line began. No request begins one."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

from fastapi import Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

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
from auditor.config import MAX_KEY, MIN_KEY
from auditor.service import bootstrap_status, bootstraps
from auditor.service.bootstrap_status import ShownBootstrap
from auditor.store import bootstraps as stored
from auditor.store.bootstraps import BootstrapStage, BootstrapState

routes = router("bootstraps")

BootstrapId = Annotated[
    str,
    Path(description="The bootstrap's id, or a prefix that no other has.", pattern="^[0-9a-f]{4,32}$", examples=["5c198e4d7416"]),
]
EXAMPLE = "5c198e4d74164a179226ccfc2ce27565"


class BootstrapPlan(BaseModel):
    """What a bootstrap would do now. Nothing was written."""

    audit: str
    text: str = Field(description="The plan as the command line prints it.")
    source: str = Field(description="The connection and table that is read.")
    target: str
    rows: int = Field(description="About how many rows are copied.")
    ranges: int = Field(description="In how many ranges.")
    bytes: int = Field(description="About how many bytes of text.")
    swap: Literal["in place", "by rename", "by commit"] = Field(description="How the copy is brought into the table.")
    why: str = Field(description="Why so.")
    effects: list[str] = Field(description="What a person should know of that.")
    command: str = Field(description="The command that does it.")


class CopyProgress(BaseModel):
    """How far a copy is. It is empty again where rows have to be copied anew."""

    ranges: int = Field(description="Ranges that were copied.")
    of_ranges: int
    rows: int = Field(description="Rows that were copied.")
    of_rows: int = Field(description="About how many there are.")
    bytes: int = Field(description="Bytes of text that were copied.")


class Bootstrap(BaseModel):
    """A bootstrap that was begun on the command line."""

    model_config = ConfigDict(
        from_attributes=True,
        json_schema_extra={
            "examples": [
                {
                    "bootstrap": EXAMPLE, "audit": "orders", "state": "done", "stage": "settled", "is_at_work": False,
                    "requested_by": "ada", "at": "2026-03-01T07:10:00+00:00", "source": "shop: orders", "keys": "",
                    "swap": "in place", "old": "orders_old_20260301_071000", "old_dropped": False, "why": "",
                    "progress": {"ranges": 5, "of_ranges": 5, "rows": 1000000, "of_rows": 1000000, "bytes": 29000000},
                    "after_run": "81900d7987874d3f9c1a5b6c7d8e9f00",
                }
            ]
        },
    )  # fmt: skip

    bootstrap: str = Field(description="The bootstrap's id.")
    audit: str
    state: BootstrapState = Field(
        description="`running`; `stopped` or `failed`, from where the same command goes on; `done`; `dropped` if its copy was dropped."
    )
    stage: BootstrapStage = Field(
        description="`copying`; `swapping` once the copy was equal to its snapshot; `swapped` into the table; `settled`: audited again."
    )
    is_at_work: bool = Field(description="Whether a process works on it. One that runs and is not at work was killed.")
    requested_by: str
    at: dt.datetime
    source: str = Field(description="The connection and table that is read.")
    keys: str = Field(description="The ranges of keys that are copied, both ends included; empty for the whole table.")
    swap: Literal["in place", "by rename", "by commit"]
    old: str = Field(description="The table of the replaced rows; of a Delta table `the version before`.")
    old_dropped: bool
    why: str = Field(description="The error that stopped it.")
    progress: CopyProgress
    after_run: str | None = Field(description="The run that audited the copied rows again.")


class CopiedRange(BaseModel):
    """A range of keys that was copied, as the journal has it."""

    number: int
    first: int | None = Field(description="Its least key; null for no bound.")
    end: int | None = Field(description="The end of its keys, exclusive; null for no bound.")
    rows: int
    bytes: int
    sha256: str = Field(description="The digest of its lines of text.")
    snapshot: str = Field(description="The snapshot that it was read in; ranges of one snapshot are of one moment.")


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
    followed = bootstraps.Followed(who=caller_name(request))
    with slow_request():
        prepared = bootstraps.prepare(app.configured, app.store, name, keys or None, source, partitions, followed, bootstraps.PLANNED)
    plan = prepared.plan
    values: dict[str, Any] = {key: getattr(plan, key) for key in ("audit", "rows", "swap", "why")}
    return BootstrapPlan(
        **values,
        source=plan.labels["source"],
        target=plan.labels["target"],
        text=bootstraps.describe_plan(prepared),
        ranges=len(plan.ranges),
        bytes=plan.rows * plan.line_bytes,
        effects=list(plan.effects),
        command=bootstraps.command(name, keys, source, partitions),
    )


@routes.get("/audits/{name}/bootstraps", response_model=Paginated[Bootstrap], **route_options("read", 404))
def list_bootstraps(app: App, name: AuditName, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[Bootstrap]:
    """Return the bootstraps of an audit, newest first."""
    service.audit(app.settings, name)
    start = parse_cursor("bootstraps", cursor, int) or 0
    found = stored.list_bootstraps(app.store, audit=name)[::-1][start : start + limit + 1]
    return paginate("bootstraps", [_shown(bootstrap_status.show(app.store, one)) for one in found], limit, lambda _: start + limit)


@routes.get("/bootstraps/{bootstrap}", response_model=Bootstrap, **route_options("read", 304, 404))
def get_bootstrap(request: Request, app: App, bootstrap: BootstrapId) -> Response:
    """Return a bootstrap with its progress; 304 if nothing has changed since the ETag of If-None-Match."""
    found = _shown(bootstrap_status.show(app.store, stored.get_bootstrap(app.store, bootstrap)))
    return etag_response(request, found.model_dump_json().encode(), "application/json")


@routes.get("/bootstraps/{bootstrap}/ranges", response_model=Paginated[CopiedRange], **route_options("read", 404))
def list_ranges(app: App, bootstrap: BootstrapId, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[CopiedRange]:
    """Return the journal of a bootstrap: the ranges of keys that were copied, in order."""
    start = parse_cursor("bootstrap ranges", cursor, int) or 0
    found = bootstrap_status.list_copied(app.store, stored.get_bootstrap(app.store, bootstrap))[start : start + limit + 1]
    return paginate("bootstrap ranges", [CopiedRange.model_validate(one) for one in found], limit, lambda _: start + limit)


def _shown(found: ShownBootstrap) -> Bootstrap:
    names = ("ranges", "of_ranges", "rows", "of_rows", "bytes")
    values = {name: getattr(found, name) for name in Bootstrap.model_fields if name != "progress"}
    return Bootstrap(**values, progress=CopyProgress(**{name: getattr(found, name) for name in names}))
