"""The page with SQL to paste into consoles, and the page that compares results saved from them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse, PlainTextResponse
from markupsafe import Markup

from auditor import service
from auditor.api import reports
from auditor.api.dependencies import App
from auditor.api.pages._layout import render_page
from auditor.api.routing import slow_request
from auditor.api.sessions import Reader
from auditor.errors import AuditorError
from auditor.model import SIDES, Method, Side
from auditor.report import html

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


@router.get("/compare")
def compare_form(request: Request, app: App, visitor: Reader) -> HTMLResponse:
    """Show the upload form."""
    return render_page(request, "compare.html", visitor=visitor, names=service.expand_legs(app.settings), name="", result="", error="")


@router.post("/compare")
def compare_files(
    request: Request,
    app: App,
    visitor: Reader,
    source: Annotated[UploadFile, File()],
    target: Annotated[UploadFile, File()],
    name: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """Show the report of two uploaded results. Nothing is stored."""
    result, error = Markup(), ""
    try:
        result = html.run_fragment(reports.compare_uploads(app.settings, {"source": source, "target": target}, name))
    except AuditorError as failed:
        error = str(failed)
    names = service.expand_legs(app.settings)
    return render_page(
        request, "compare.html", visitor=visitor, names=names, name=name, result=result, error=error, status=422 if error else 200
    )
