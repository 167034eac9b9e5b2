"""Routes for incidents: list them, acknowledge or mute one, withdraw that; and what changed between two runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field

from auditor.api import audit_access
from auditor.api.dependencies import App
from auditor.api.routing import (
    DEFAULT_LIMIT,
    AuditName,
    Cursor,
    Limit,
    Moment,
    Paginated,
    RunId,
    Text,
    caller_name,
    paginate,
    parse_cursor,
    route_options,
    router,
)
from auditor.api_models.incident import Covered, DifferenceChanges, Incident
from auditor.errors import NoReport
from auditor.service import difference_changes
from auditor.service import incidents as incident_service
from auditor.store import incidents, runs

routes = router("incidents")


class AcknowledgementRequest(BaseModel):
    """An acknowledgement of an audit's open incident; it replaces an earlier one."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"why": "a backfill is running", "until": "2026-11-02T06:00:00Z", "differences": "known"}]},
    )

    why: Text = Field(min_length=1, max_length=500, description="The reason, for others to read.")
    muted: bool = Field(False, strict=True, description="Whether nobody is notified about the incident while this holds.")
    until: Moment | None = Field(None, description="When it ends. Null: with the incident.")
    differences: Covered = Field("all", description="`known`: it ends, too, with the first run that finds a new differing row.")


AuditFilter = Annotated[Text | None, Query(description="Only incidents of this audit.", max_length=255)]


@routes.get("/incidents", response_model=Paginated[Incident], **route_options("read", 404))
def list_incidents(app: App, audit: AuditFilter = None, cursor: Cursor = None, limit: Limit = DEFAULT_LIMIT) -> Paginated[Incident]:
    """Return all incidents, open and closed, newest first."""
    listed = incidents.list_incidents(
        app.store, audit=audit, limit=limit + 1, before=parse_cursor("incidents", cursor, int), among=app.visible
    )
    return paginate("incidents", listed, limit, lambda incident: incident.number)


@routes.put("/audits/{name}/acknowledgement", response_model=Incident, **route_options("run", 400, 404, 409, 413))
def acknowledge(request: Request, app: App, name: AuditName, body: AcknowledgementRequest) -> Incident:
    """Acknowledge or mute the audit's open incident: who did so, why, until when, and for which differences is stored."""
    return incident_service.acknowledge(app.configured, app.store, name, by=caller_name(request), **body.model_dump())


@routes.delete("/audits/{name}/acknowledgement", response_model=Incident, **route_options("run", 404, 409))
def withdraw(request: Request, app: App, name: AuditName) -> Incident:
    """Withdraw the acknowledgement of the audit's open incident."""
    return incident_service.withdraw(app.configured, app.store, name, by=caller_name(request))


@routes.get("/runs/{run}/changes", response_model=DifferenceChanges, **route_options("read", 404, 422))
def get_changes(
    app: App,
    run: RunId,
    since: Annotated[
        str | None, Query(description="An earlier run of the same audit. By default its last done one.", pattern="^[0-9a-f]{4,32}$")
    ] = None,
    shown: Annotated[int, Query(description="Rows of each kind to return.", ge=0, le=1000)] = difference_changes.SHOWN,
) -> DifferenceChanges:
    """Say which differing rows of a run are new, which are gone, and which are the same as in an earlier run."""
    identity = runs.get_run(app.store, run).run
    if since is not None:
        audit_access.check(app.store, "GET", "/runs/{run}", {"run": since}, app.patterns)
        return difference_changes.compare_runs(app.store, since, identity, shown)
    changes = difference_changes.compare_with_previous(app.store, identity, shown)
    if changes is None:
        raise NoReport(f"run {identity} has no done run before it that it could be compared with; name one with since=RUN")
    return changes
