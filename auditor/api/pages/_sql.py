"""The page with SQL to paste into consoles."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse

from auditor import service
from auditor.api.dependencies import App
from auditor.api.pages._layout import render_page
from auditor.api.pages._session import Reader
from auditor.api.routing import slow_request
from auditor.errors import AuditorError
from auditor.model import SIDES, Method, Side

router = APIRouter()


@router.get("/audits/{name:path}/sql")
def sql_page(request: Request, app: App, visitor: Reader, name: str, method: Literal["", Method] = "") -> HTMLResponse:
    """Show both sides' scripts, or the error that prevents their generation."""
    settings = app.settings
    definition = service.audit(settings, name)
    scripts: dict[Side, str] = {}
    error = ""
    try:
        with slow_request():
            scripts = service.sql(settings, name, SIDES, method or None)
    except AuditorError as failed:
        error = str(failed)
    return render_page(request, "sql.html", visitor=visitor, name=name, definition=definition, method=method, scripts=scripts, error=error)


@router.get("/audits/{name:path}/sql/{side}.sql")
def download_script(app: App, visitor: Reader, name: str, side: Side, method: Literal["", Method] = "") -> PlainTextResponse:
    """Return the script of one side as plain text."""
    with slow_request():
        script = service.sql(app.settings, name, (side,), method or None)[side]
    return PlainTextResponse(script, headers={"Cache-Control": "no-store"})
