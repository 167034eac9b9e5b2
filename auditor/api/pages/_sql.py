"""SQL to paste into consoles, and comparing the results that were saved there."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePath
from typing import Annotated, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import HTMLResponse

from auditor import service
from auditor.api.behind import Behind, Given
from auditor.api.pages._day import within
from auditor.api.pages._frame import page
from auditor.api.pages._visitor import Reader
from auditor.errors import AuditorError, ResultError
from auditor.model import SIDES, Method, Report, Side
from auditor.report import html

router = APIRouter()

ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".txt")


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
    found, error = "", ""
    try:
        found = within(html.run(_compared(given, {"source": source, "target": target}, name)))
    except AuditorError as failed:
        error = str(failed)
    names = service.expanded(given.settings)
    return page(
        request, "compare.html", visitor=visitor, names=names, name=name, found=found, error=error, status=422 if error else 200
    )  # fmt: skip


def _compared(given: Behind, uploads: dict[Side, UploadFile], name: str) -> Report:
    asked = service.audit(given.settings, name) if name else None
    with tempfile.TemporaryDirectory() as directory:
        files = {side: Path(directory) / f"the {side} file{_ending(upload)}" for side, upload in uploads.items()}
        for side, upload in uploads.items():
            files[side].write_bytes(upload.file.read())
        try:
            return service.compare_files(files["source"], files["target"], asked)
        except ResultError as error:
            raise ResultError(str(error).replace(f"{directory}/", "")) from None


def _ending(upload: UploadFile) -> str:
    ending = PurePath(upload.filename or "").suffix.lower()
    return ending if ending in ENDINGS else ".csv"
