"""Coming in and leaving, the colours, and what all this is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api import sessions
from auditor.api.pages._frame import THEME, THEMES, asset, back_to, local, page
from auditor.api.pages._visitor import Anybody, Reader
from auditor.api.pages._words import EXACT
from auditor.errors import Unauthorised

router = APIRouter()

YEAR = 365 * 86400
TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "txt": "text/plain"}
FILES = (
    "report.css", "pages.css", "pages.js", "icon.svg", "vendor/htmx.min.js", "vendor/htmx.LICENSE.txt", "vendor/uplot.min.js",
    "vendor/uplot.min.css", "vendor/uplot.LICENSE.txt",
)  # fmt: skip


@router.get("/login")
def login_form(request: Request, visitor: Anybody, back: str = "/") -> HTMLResponse:
    """Where a token is asked for."""
    return page(request, "login.html", visitor=visitor, back=local(back), error="")


@router.post("/login")
def login(request: Request, visitor: Anybody, token: Annotated[str, Form()], back: Annotated[str, Form()] = "/") -> Response:
    """Come in with a token."""
    answer = back_to(local(back))
    try:
        sessions.login(request, answer, token.strip())
    except Unauthorised as error:
        return page(request, "login.html", visitor=visitor, back=local(back), error=str(error), status=error.http_status)
    return answer


@router.post("/logout")
def logout(request: Request, visitor: Reader) -> RedirectResponse:
    """Leave."""
    answer = back_to("/login")
    sessions.logout(request, answer)
    return answer


@router.post("/theme")
def theme(request: Request, visitor: Anybody, theme: Annotated[str, Form()] = "", back: Annotated[str, Form()] = "/") -> RedirectResponse:
    """Light, dark, or as the system has it."""
    answer = back_to(local(back))
    if theme in THEMES:
        answer.set_cookie(THEME, theme, max_age=YEAR, samesite="lax", httponly=True, secure=request.url.scheme == "https")
    else:
        answer.delete_cookie(THEME)
    return answer


@router.get("/about")
def about(request: Request, visitor: Anybody) -> HTMLResponse:
    """What the words mean, and how it works."""
    return page(request, "about.html", visitor=visitor, exact=EXACT)


@router.get("/static/{name:path}")
def static(name: str) -> Response:
    """A file of ours; its address changes with its content, so it may be kept."""
    if name not in FILES:
        return Response("there is no such file", 404, media_type="text/plain")
    kind = TYPES[name.rpartition(".")[2]]
    return Response(asset(name), media_type=kind, headers={"Cache-Control": f"public, max-age={YEAR}, immutable"})
