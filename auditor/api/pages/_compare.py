"""The page that compares results saved from consoles."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from auditor import service
from auditor.api import uploads
from auditor.api.dependencies import App
from auditor.api.pages._layout import render_page
from auditor.api.pages._session import Reader
from auditor.errors import AuditorError
from auditor.report import html

router = APIRouter()


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
        result = html.run_fragment(uploads.compare_uploads(app.settings, {"source": source, "target": target}, name))
    except AuditorError as failed:
        error = str(failed)
    names = service.expand_legs(app.settings)
    return render_page(
        request, "compare.html", visitor=visitor, names=names, name=name, result=result, error=error, status=422 if error else 200
    )  # fmt: skip
