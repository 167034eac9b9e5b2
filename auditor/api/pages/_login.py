"""Login and logout."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api import sessions
from auditor.api.errors import http_status
from auditor.api.pages._layout import local_path, redirect, render_page
from auditor.api.pages._session import OptionalVisitor, Reader
from auditor.errors import Unauthorised

router = APIRouter()


@router.get("/login")
def login_form(request: Request, visitor: OptionalVisitor, back: str = "/") -> HTMLResponse:
    """Show the login form."""
    return render_page(request, "login.html", visitor=visitor, back=local_path(back), error="")


@router.post("/login")
def login(request: Request, visitor: OptionalVisitor, token: Annotated[str, Form()], back: Annotated[str, Form()] = "/") -> Response:
    """Log in with a token."""
    answer = redirect(local_path(back))
    try:
        sessions.login(request, answer, token.strip())
    except Unauthorised as error:
        return render_page(request, "login.html", visitor=visitor, back=local_path(back), error=str(error), status=http_status(error))
    return answer


@router.post("/logout")
def logout(request: Request, visitor: Reader) -> RedirectResponse:
    """Log out."""
    answer = redirect("/login")
    sessions.logout(request, answer)
    return answer
