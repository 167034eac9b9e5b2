"""SQL to paste into consoles, and comparing the results that were saved there."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse, PlainTextResponse
from markupsafe import Markup

from auditor import service
from auditor.api import uploads
from auditor.api.behind import Given
from auditor.api.pages._frame import page
from auditor.api.pages._visitor import Reader
from auditor.errors import AuditorError
from auditor.model import SIDES, Method, Side
from auditor.report import html

router = APIRouter()


@router.get("/audits/{name:path}/sql")
def sql(request: Request, given: Given, visitor: Reader, name: str, method: Literal["", Method] = "") -> HTMLResponse:
    """Both sides' scripts; what keeps them from being written is told in their place."""
    settings = given.settings
    asked = service.audit(settings, name)
    scripts: dict[Side, str] = {}
    error = ""
    try:
        scripts = service.sql(settings, name, SIDES, method or None)
    except AuditorError as failed:
        error = str(failed)
    return page(request, "sql.html", visitor=visitor, name=name, asked=asked, method=method, scripts=scripts, error=error)


@router.get("/audits/{name:path}/sql/{side}.sql")
def script(given: Given, visitor: Reader, name: str, side: Side, method: Literal["", Method] = "") -> PlainTextResponse:
    """One side's script alone, to be copied."""
    found = service.sql(given.settings, name, (side,), method or None)[side]
    return PlainTextResponse(found, headers={"Cache-Control": "no-store"})


@router.get("/compare")
def compare(request: Request, given: Given, visitor: Reader) -> HTMLResponse:
    """The form that takes both results."""
    return page(request, "compare.html", visitor=visitor, names=service.expanded(given.settings), name="", found="", error="")


@router.post("/compare")
def compared(
    request: Request,
    given: Given,
    visitor: Reader,
    source: Annotated[UploadFile, File()],
    target: Annotated[UploadFile, File()],
    name: Annotated[str, Form()] = "",
) -> HTMLResponse:
    """The report of two results; nothing of it is kept."""
    found, error = Markup(), ""
    try:
        found = html.run_part(uploads.compared(given.settings, {"source": source, "target": target}, name))
    except AuditorError as failed:
        error = str(failed)
    names = service.expanded(given.settings)
    return page(
        request, "compare.html", visitor=visitor, names=names, name=name, found=found, error=error, status=422 if error else 200
    )  # fmt: skip
