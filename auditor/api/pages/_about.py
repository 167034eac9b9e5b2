"""The page About."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from auditor.api.pages._labels import EXACT_METHOD
from auditor.api.pages._layout import render_page
from auditor.api.pages._session import OptionalVisitor

router = APIRouter()


@router.get("/about")
def about_page(request: Request, visitor: OptionalVisitor) -> HTMLResponse:
    """Explain the terms and the method."""
    return render_page(request, "about.html", visitor=visitor, exact=EXACT_METHOD)
