"""Who may come in: the tokens, making one, taking one back."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from auditor.api.behind import Behind, Given
from auditor.api.pages._frame import back_to, now, page
from auditor.api.pages._visitor import Definer, Visitor
from auditor.errors import ConfigError, Forbidden
from auditor.service import tokens
from auditor.store.tokens import Scope
from auditor.store.tokens import listed as every_token

router = APIRouter()

SCOPES: dict[Scope, str] = {
    "read": "see everything",
    "run": "also start, cancel and resume",
    "define": "also keep and pause audits, make tokens",
    "repair": "read, run, and record repairs",
}
LASTS = {"30": "30 days", "90": "90 days", "365": "a year", "": "for ever"}


@router.get("/tokens")
def listed(request: Request, given: Given, visitor: Definer) -> HTMLResponse:
    """Every token, the living ones first."""
    return _page(request, given, visitor)


@router.post("/tokens")
def create(
    request: Request,
    given: Given,
    visitor: Definer,
    name: Annotated[str, Form(max_length=100)],
    scope: Annotated[Scope, Form()],
    lasts: Annotated[Literal["30", "90", "365", ""], Form()] = "",
) -> HTMLResponse:
    """Make a token; this one answer holds its secret."""
    if not visitor.may(scope):
        raise Forbidden(f"a token of the scope {visitor.scope} cannot make one of the scope {scope}")
    expires = now() + dt.timedelta(days=int(lasts)) if lasts else None
    try:
        secret = tokens.create(given.store, name=name.strip(), scope=scope, expires=expires, by=visitor.name)
    except ConfigError as error:
        return _page(request, given, visitor, error=str(error), status=error.http_status)
    return _page(request, given, visitor, secret=secret, made=name.strip())


@router.post("/tokens/revoke")
def revoke(given: Given, visitor: Definer, name: Annotated[str, Form()]) -> RedirectResponse:
    """Take a token back, from this moment on."""
    tokens.revoke(given.store, name, by=visitor.name)
    return back_to("/tokens")


def _page(
    request: Request, given: Behind, visitor: Visitor, *, secret: str = "", made: str = "", error: str = "", status: int = 200
) -> HTMLResponse:
    at = now()
    every = [one for one in every_token(given.store) if not one.is_session]
    alive = [one for one in every if one.revoked is None and (one.expires is None or one.expires > at)]
    ended = [one for one in every if one not in alive]
    return page(
        request, "tokens.html", visitor=visitor, status=status, alive=alive, ended=ended, scopes=SCOPES,
        mine=[scope for scope in SCOPES if visitor.may(scope)], lasts=LASTS, secret=secret,
        made=made, error=error,
    )  # fmt: skip
