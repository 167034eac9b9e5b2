"""Login, logout, and the page of access tokens, whose columns are in ``templates/tokens.html``."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api import authentication
from auditor.api.authentication import Definer, Reader, Visitor
from auditor.api.dependencies import App, AppState
from auditor.api.errors import http_status
from auditor.api.pages._layout import OptionalVisitor, local_path, now, redirect, render_page
from auditor.api_models.access import Scope
from auditor.errors import ConfigError, Unauthorised
from auditor.service import tokens
from auditor.store.tokens import DESCRIPTIONS

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
        authentication.login(request, answer, token.strip())
    except Unauthorised as error:
        return render_page(request, "login.html", visitor=visitor, back=local_path(back), error=str(error), status=http_status(error))
    return answer


@router.post("/logout")
def logout(request: Request, visitor: Reader) -> RedirectResponse:
    """Log out."""
    answer = redirect("/login")
    authentication.logout(request, answer)
    return answer


SCOPE_DESCRIPTIONS = {scope: description.replace("`", "") for scope, description in DESCRIPTIONS.items()}
LIFETIMES = {"30": "30 days", "90": "90 days", "365": "a year", "": "no expiry"}


@router.get("/tokens")
def tokens_page(request: Request, app: App, visitor: Definer) -> HTMLResponse:
    """Show all tokens, the valid ones first."""
    return _render(request, app, visitor)


@router.post("/tokens")
def create_token(
    request: Request,
    app: App,
    visitor: Definer,
    name: Annotated[str, Form(max_length=100)],
    scope: Annotated[Scope, Form()],
    lasts: Annotated[Literal["30", "90", "365", ""], Form()] = "",
) -> HTMLResponse:
    """Create a token; only this response shows its secret."""
    expires = now() + dt.timedelta(days=int(lasts)) if lasts else None
    try:
        secret = tokens.create(app.store, name=name.strip(), scope=scope, expires=expires, by=visitor.name, creator=visitor.token)
    except ConfigError as error:
        return _render(request, app, visitor, error=str(error), status=http_status(error))
    return _render(request, app, visitor, secret=secret, created=name.strip())


@router.post("/tokens/revoke")
def revoke_token(app: App, visitor: Definer, name: Annotated[str, Form()]) -> RedirectResponse:
    """Revoke a token immediately."""
    tokens.revoke(app.store, name, by=visitor.name, holder=visitor.token)
    return redirect("/tokens")


def _render(
    request: Request, app: AppState, visitor: Visitor, *, secret: str = "", created: str = "", error: str = "", status: int = 200
) -> HTMLResponse:
    at = now()
    every = tokens.list_tokens(app.store)
    alive = [token for token in every if token.revoked is None and (token.expires is None or token.expires > at)]
    ended = [token for token in every if token not in alive]
    return render_page(
        request,
        "tokens.html",
        visitor=visitor,
        status=status,
        alive=alive,
        ended=ended,
        scopes=SCOPE_DESCRIPTIONS,
        mine=[scope for scope in SCOPE_DESCRIPTIONS if visitor.token and visitor.token.manages(scope)],
        lasts=LIFETIMES,
        secret=secret,
        created=created,
        error=error,
    )
