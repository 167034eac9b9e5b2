"""The page of the connections: their engines and limits, and whether their databases answer."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from auditor.api.authentication import Reader, Runner
from auditor.api.dependencies import App, AppState
from auditor.api.pages._layout import render_page
from auditor.api.routing import slow_request
from auditor.api_models.connection import ConnectionCheck
from auditor.service import connections

router = APIRouter()


@router.get("/connections")
def connections_page(request: Request, app: App, visitor: Reader) -> HTMLResponse:
    """Show the configured connections; none is opened for that."""
    return _render(request, app, None)


@router.post("/connections/{name:path}/check")
def check_connection(request: Request, app: App, visitor: Runner, name: str) -> HTMLResponse:
    """Connect to a database, and show what it answered."""
    with slow_request():
        checked = connections.check_connection(app.configured, app.store, name)
    return _render(request, app, checked)


def _render(request: Request, app: AppState, checked: ConnectionCheck | None) -> HTMLResponse:
    rows = connections.list_connections(app.configured, app.store)
    return render_page(request, "connections.html", rows=rows, checked=checked)
