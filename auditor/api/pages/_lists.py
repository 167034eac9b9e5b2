"""The pages of all runs, of schedules, of the log of requests, and of the API, each of which the API answers as JSON, too."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from auditor.api.authentication import Definer, Reader
from auditor.api.dependencies import App
from auditor.api.pages._layout import now, render_page
from auditor.api.routing import PREFIX
from auditor.errors import ConfigError
from auditor.model import State, Verdict
from auditor.service import scheduler
from auditor.store import events, queue, runs

router = APIRouter()

PAGE_SIZE = 50
"""Rows of a list on a page."""

TIMES = 5
"""Times of each schedule that are shown."""

STATES = (runs.ACTIVE, *(state.value for state in State))
VERDICTS = tuple(verdict.value for verdict in Verdict)

Name = Annotated[str, Query(max_length=255)]


def _query(**values: Any) -> str:
    """Return the query of a URL with those of the values that are not empty."""
    return urlencode({name: value for name, value in values.items() if value})


@router.get("/runs")
def runs_page(
    request: Request,
    app: App,
    visitor: Reader,
    audit: Name = "",
    state: Name = "",
    verdict: Name = "",
    since: Name = "",
    until: Name = "",
    before: Name = "",
    requested: int = 0,
    left: int = 0,
) -> HTMLResponse:
    """Show runs, newest first; ``before`` is the last one of the previous page, ``requested`` and ``left`` how many were just requested."""
    listed = runs.list_runs(
        app.store,
        audit=audit.strip() or None,
        state=state if state in STATES else None,
        verdict=verdict if verdict in VERDICTS else None,
        since=_start_of(since),
        until=_start_of(until, 1),
        before=before or None,
        limit=PAGE_SIZE + 1,
        among=app.visible,
    )
    shown = listed[:PAGE_SIZE]
    filters = {"audit": audit, "state": state, "verdict": verdict, "since": since, "until": until}
    return render_page(
        request,
        "runs.html",
        visitor=visitor,
        revalidated=True,
        rows=shown,
        filters=filters,
        is_filtered=any(filters.values()),
        states=STATES,
        verdicts=VERDICTS,
        older=_query(**filters, before=shown[-1].run) if len(listed) > PAGE_SIZE else "",
        newest=_query(**filters) if before else None,
        waiting=queue.count_waiting(app.store),
        requested=requested,
        left=left,
        room=app.configured.service.queue,
    )


def _start_of(day: str, later: int = 0) -> dt.datetime | None:
    """Return when a day (UTC) starts that was entered, or so many days later; None without one. Raises ConfigError."""
    try:
        found = dt.date.fromisoformat(day) + dt.timedelta(days=later) if day else None
    except (ValueError, OverflowError):
        raise ConfigError(f"{day!r} is not a day; write YYYY-MM-DD, such as 2026-03-01") from None
    return dt.datetime.combine(found, dt.time(), dt.UTC) if found else None


@router.get("/schedules")
def schedules_page(
    request: Request, app: App, visitor: Reader, q: Name = "", page: Annotated[int, Query(ge=1, le=10_000)] = 1
) -> HTMLResponse:
    """Show when audits are due, those that are due next first."""
    at = now()
    every = scheduler.list_schedules(app.configured, app.store, at)
    selected = [entry for entry in every if all(word in entry.audit.lower() for word in q.lower().split())]
    listed = [entry.audit for entry in selected[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]]
    timed = {entry.audit: entry for entry in scheduler.list_schedules(app.configured, app.store, at, TIMES, listed)}
    last_page = max(1, -(-len(selected) // PAGE_SIZE))
    return render_page(
        request,
        "schedules.html",
        visitor=visitor,
        revalidated=True,
        rows=[timed[name] for name in listed],
        total=len(every),
        selected=len(selected),
        q=q,
        page=page,
        last_page=last_page,
        pages={number: _query(q=q, page=number) for number in (page - 1, page + 1)},
    )


@router.get("/events")
def events_page(
    request: Request, app: App, visitor: Definer, actor: Name = "", subject: Name = "", before: Annotated[int, Query(ge=0)] = 0
) -> HTMLResponse:
    """Show who requested what, newest first."""
    listed = events.list_events(
        app.store, limit=PAGE_SIZE + 1, before=before or None, actor=actor.strip() or None, subject=subject.strip() or None
    )
    shown = listed[:PAGE_SIZE]
    older = _query(actor=actor, subject=subject, before=shown[-1].number) if len(listed) > PAGE_SIZE else ""
    return render_page(
        request, "events.html", visitor=visitor, rows=shown, actor=actor, subject=subject, older=older, before=before, about=_about
    )


def _about(event: events.Event) -> str:
    """Return the details of an event on one line."""
    return "; ".join(f"{name}: {value}" for name, value in event.detail.items() if value not in (None, "", [], {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A request that the API answers."""

    method: str
    path: str
    summary: str
    description: str
    scope: str
    parameters: list[dict[str, Any]]
    body: str
    responses: dict[str, str]


@router.get("/docs")
def api_page(request: Request, app: App, visitor: Reader) -> HTMLResponse:
    """Show what the API answers, by subject."""
    document = request.app.state.describe_api()
    tags: dict[str, list[Operation]] = {}
    for path, operations in document.get("paths", {}).items():
        for method, operation in operations.items():
            tags.setdefault(next(iter(operation.get("tags", [])), "health"), []).append(_describe(method, path, operation))
    return render_page(
        request, "docs.html", visitor=visitor, revalidated=True, tags=tags, about=document.get("info", {}), openapi=f"{PREFIX}/openapi.json"
    )


def _describe(method: str, path: str, operation: dict[str, Any]) -> Operation:
    description = " ".join(operation.get("description", "").split())
    bodies = operation.get("requestBody", {}).get("content", {})
    return Operation(
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=description.removeprefix(operation["summary"]).lstrip(". "),
        scope=operation.get("x-scope", ""),
        parameters=[{**parameter, "type": _type_of(parameter.get("schema", {}))} for parameter in operation.get("parameters", [])],
        body=", ".join(f"{_type_of(content.get('schema', {}))} ({kind})" for kind, content in bodies.items()),
        responses={status: response.get("description", "") for status, response in operation["responses"].items()},
    )


def _type_of(schema: dict[str, Any]) -> str:
    """Return a schema's type in words: its name, or what its values are."""
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    if some := schema.get("anyOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(kind for one in some if (kind := _type_of(one)) != "null"))
    if values := schema.get("enum"):
        return ", ".join(map(str, values))
    if schema.get("type") == "array":
        return f"list of {_type_of(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("const") or schema.get("type", "any"))
