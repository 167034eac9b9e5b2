"""Who is asking, and what they may do: a token in a header, or the session of somebody who logged in with one.

A session is a token of its own that ends after a working day, kept in the store as every token is: by its hash alone, so that any process
that serves finds it, and whoever reads the store cannot use it. It names the token it was made from by a digest, and is worth nothing
once that token has ended. It counts in its cookie and nowhere else, and what a form changes with it needs the session's CSRF token too.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import ipaddress
import secrets
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from auditor.api.limits import Limit, too_many
from auditor.config import Settings
from auditor.errors import ConfigError, Forbidden, Unauthorised
from auditor.store import Store, events, tokens
from auditor.store.tokens import Scope, Token

COOKIE = "auditor_session"
FIELD = "csrf"
"""The field of a form that holds the CSRF token."""

HEADER = "X-CSRF-Token"
LASTS = dt.timedelta(hours=12)

GUESSES = 20
"""Wrong secrets in a minute from one address; then no further ones are looked at."""

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_uses = ThreadPoolExecutor(1, "uses of tokens")
"""Writes down when tokens were used: a request need not wait for its turn to write."""

_guesses = Limit(GUESSES)
_callers: dict[int, Limit] = {}


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody with a token or a session, or ``everybody`` where the service asks for none."""

    name: str
    scope: Scope
    csrf: str = ""
    everybody: bool = False
    token: Token | None = None

    def may(self, scope: Scope) -> bool:
        """Whether the token allows this."""
        return self.everybody or (self.token is not None and self.token.allows(scope))


# who


def current(request: Request) -> Visitor | None:
    """Who is asking: by a bearer token, else by a session; None where there is neither. Raises Unauthorised for one that is not valid."""
    if "auditor.visitor" not in request.scope:
        request.scope["auditor.visitor"] = _visitor(request)
    return cast("Visitor | None", request.scope["auditor.visitor"])


def _visitor(request: Request) -> Visitor | None:
    store = _store(request)
    if request.app.state.insecure:
        return Visitor("everybody", "define", _derived(store.name, "everybody"), everybody=True)
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer" or not secret.strip():
            raise Unauthorised("write the token as: Authorization: Bearer aud_...")
        return _checked(request, lambda: _by_bearer(store, secret.strip()))
    cookie = request.cookies.get(COOKIE)
    return _checked(request, lambda: _by_cookie(store, cookie)) if cookie else None


def _checked(request: Request, check: Callable[[], Visitor]) -> Visitor:
    """Who it is, unless wrong secrets came from the same address too often."""
    address = address_of(request)
    if wait := _guesses.take(address, cost=0):
        raise too_many(wait, "too many wrong tokens came from this address; try again later")
    try:
        found = check()
    except Unauthorised:
        _guesses.take(address)
        raise
    if wait := _limit(request).take(found.name):
        raise too_many(wait, "this token has made too many requests; try again later")
    return found


def _by_bearer(store: Store, secret: str) -> Visitor:
    token = tokens.check(store, secret, _uses.submit)
    if token.is_session:
        raise Unauthorised("a session counts in its cookie only; use a token")
    return Visitor(token.name, token.scope, token=token)


def _by_cookie(store: Store, cookie: str) -> Visitor:
    session = tokens.check(store, cookie, _uses.submit)
    made_from = session.name.rpartition(" ")[2]
    now = dt.datetime.now(dt.UTC)
    for token in tokens.listed(store) if session.is_session else ():
        if _digest(token) == made_from and token.revoked is None and (token.expires is None or token.expires > now):
            return Visitor(token.name, session.scope, _derived(cookie, "csrf"), token=session)
    raise Unauthorised("the session has ended; log in again")


def _digest(token: Token) -> str:
    return hashlib.sha256(f"{token.made.isoformat()} {token.name}".encode()).hexdigest()[:32]


def _derived(secret: str, what: str) -> str:
    return hmac.new(secret.encode(), what.encode(), hashlib.sha256).hexdigest()


def address_of(request: Request) -> str:
    """Where a request came from, as far as the server knows."""
    return request.client.host if request.client else ""


def _store(request: Request) -> Store:
    return cast(Store, request.app.state.behind.store)


def _limit(request: Request) -> Limit:
    rate = request.app.state.behind.configured.service.rate
    return _callers.setdefault(rate, Limit(rate))


# coming in and leaving


def login(request: Request, answer: Response, secret: str) -> Visitor:
    """Begin a session in the answer's cookie. Raises Unauthorised, and Forbidden where the form was sent from elsewhere."""
    store = _store(request)
    _same_site(request)
    try:
        visitor = _checked(request, lambda: _by_bearer(store, secret))
    except Unauthorised:
        events.note(store, who=address_of(request), what="login refused", subject="")
        raise
    token = cast(Token, visitor.token)
    ends = min(dt.datetime.now(dt.UTC) + LASTS, token.expires or dt.datetime.max.replace(tzinfo=dt.UTC))
    cookie = tokens.create(store, name=f"{tokens.SESSION}{secrets.token_hex(8)} {_digest(token)}", scope=token.scope, expires=ends)
    events.note(store, who=token.name, what="login", subject=token.name)
    answer.set_cookie(COOKIE, cookie, httponly=True, samesite="lax", secure=request.url.scheme == "https", path="/")
    return Visitor(token.name, token.scope, _derived(cookie, "csrf"), token=token)


def logout(request: Request, answer: Response) -> None:
    """End the session."""
    visitor = current(request)
    if visitor and visitor.token and visitor.token.is_session:
        tokens.revoke(_store(request), visitor.token.name)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=request.url.scheme == "https")


# what they may do


def admit(request: Request, scope: Scope, sent: str | None = None) -> Visitor:
    """Who is asking, if they may: ``sent`` is the CSRF token that came with what changes something.

    Raises Unauthorised, and Forbidden for too small a scope or a request that was not sent from a page of ours.
    """
    visitor = current(request)
    if visitor is None:
        raise Unauthorised
    if not visitor.may(scope):
        raise Forbidden(f"the scope of this token is {visitor.scope}; this needs {scope}")
    if request.method not in SAFE and visitor.csrf:
        _same_site(request)
        if not visitor.everybody and not hmac.compare_digest((sent or "").encode(), visitor.csrf.encode()):
            raise Forbidden("this was not sent from a page of this service, or the page is too old; load it again")
    return visitor


def _same_site(request: Request) -> None:
    """What a browser says of where a request was sent from; programs say nothing."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    foreign = site not in ("same-origin", "none") if site else bool(origin) and urlsplit(origin or "").netloc != request.headers.get("Host")
    if foreign:
        raise Forbidden("this was sent from another site's page")


def require(scope: Scope) -> Callable[[Request], Coroutine[Any, Any, Visitor]]:
    """What a page depends on to be for those alone whose token has this scope; of a form it checks the CSRF token."""

    async def check(request: Request) -> Visitor:
        sent = request.headers.get(HEADER)
        if request.method not in SAFE and sent is None:
            if await run_in_threadpool(current, request) is None:  # nobody's form is read before we know them
                raise Unauthorised
            field = (await request.form()).get(FIELD)
            sent = field if isinstance(field, str) else None
        return await run_in_threadpool(admit, request, scope, sent)

    return check


Anybody = Annotated[Visitor | None, Depends(current)]
Reader = Annotated[Visitor, Depends(require("read"))]
Runner = Annotated[Visitor, Depends(require("run"))]
Definer = Annotated[Visitor, Depends(require("define"))]
Repairer = Annotated[Visitor, Depends(require("repair"))]


# being reached at all


def check_exposure(settings: Settings, store: Store, host: str | None = None, insecure: bool = False) -> None:
    """Raise ConfigError where others than this machine could reach a service into which nobody can log in, or anybody can."""
    host = settings.service.host if host is None else host
    if _is_loopback(host) or insecure:
        return
    if not tokens.any_valid(store):
        raise ConfigError(
            f"the service would listen on {host}, and there is no token: make one with auditor token create --scope run --name NAME, "
            "or listen on 127.0.0.1, or let anybody do anything with --insecure"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
