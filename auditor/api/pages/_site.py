"""The page About, static files and the colour scheme."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api.pages._labels import EXACT_METHOD
from auditor.api.pages._layout import THEME_COOKIE, THEMES, OptionalVisitor, local_path, read_asset, redirect, render_page

router = APIRouter()


@router.get("/about")
def about_page(request: Request, visitor: OptionalVisitor) -> HTMLResponse:
    """Explain the terms and the method."""
    return render_page(request, "about.html", visitor=visitor, exact=EXACT_METHOD)


YEAR = 365 * 86400
"""Seconds that a browser may cache a static file."""

ASSET_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
ASSETS = (
    "report.css",
    "pages.css",
    "pages.js",
    "icon.svg",
    "vendor/htmx.min.js",
    "vendor/htmx.LICENSE.txt",
    "vendor/uplot.min.js",
    "vendor/uplot.min.css",
    "vendor/uplot.LICENSE.txt",
)


@router.post("/theme")
def set_theme(
    request: Request, visitor: OptionalVisitor, theme: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "/"
) -> RedirectResponse:
    """Set the colour scheme: light, dark, or that of the system."""
    answer = redirect(local_path(back))
    if theme in THEMES:
        answer.set_cookie(THEME_COOKIE, theme, max_age=YEAR, samesite="lax", httponly=True, secure=request.url.scheme == "https")
    else:
        answer.delete_cookie(THEME_COOKIE)
    return answer


@router.get("/static/{name:path}")
def serve_asset(name: str) -> Response:
    """Return a static file. Its URL changes with its content, so it may be cached permanently."""
    if name not in ASSETS:
        return Response("there is no such file", 404, media_type="text/plain")
    kind = ASSET_TYPES[name.rpartition(".")[2]]
    return Response(read_asset(name), media_type=kind, headers={"Cache-Control": f"public, max-age={YEAR}, immutable"})
