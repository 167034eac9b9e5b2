"""Authentication and authorization: bearer tokens for programs, and cookie sessions for people who logged in with a token, or whom a
proxy authenticated.

A session is a token of its own that expires after SESSION_LIFETIME. The store holds only its hash, like that of every token, so all
processes accept it and nobody who reads the store can use it. The session records the token that it was created from, and ends
when that token is revoked or expires. It is accepted only in its cookie, and requests that change something also need its CSRF token.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, cast
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from auditor.api import audit_access
from auditor.api.middleware import PEER, RateLimit, too_many_requests
from auditor.api_models.access import Scope
from auditor.config import Auth, Settings
from auditor.errors import ConfigError, Forbidden, Unauthorised
from auditor.store import Store, events, salt, tokens
from auditor.store.tokens import Token

COOKIE = "auditor_session"
CSRF_FIELD = "csrf"
"""The form field that holds the CSRF token."""

CSRF_HEADER = "X-CSRF-Token"
SESSION_LIFETIME = dt.timedelta(hours=12)

MAX_WRONG_TOKENS = 20
"""Wrong tokens per minute with one prefix from one address, after which tokens with this prefix get 429 there."""

PREFIX_LENGTH = 12
"""Characters of a token's prefix, of which 8 are random: other callers behind the same proxy have other ones, and are not locked out.

Guessing tokens of other prefixes is bounded by the rate limit of the address, and by their 256 random bits.
"""

REFUSALS_SUMMED = dt.timedelta(hours=1)
"""For how long refused logins are counted in one event."""

MAX_USER = 200
"""Characters of a user's name."""

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_usage_writer = ThreadPoolExecutor(1, "token-usage")
"""Stores when tokens were last used, so that requests do not wait for that write."""

wrong_tokens = RateLimit(MAX_WRONG_TOKENS)
token_limits: dict[int, RateLimit] = {}


@dataclass(frozen=True, slots=True)
class Visitor:
    """The caller of a request: the token's name and scope. ``anonymous`` if the service was started without authentication."""

    name: str
    scope: Scope
    csrf: str = ""
    anonymous: bool = False
    token: Token | None = None
    audits: tuple[str, ...] = ()
    """Patterns of the audits that the caller is limited to; empty for all."""

    def may(self, scope: Scope) -> bool:
        """Return whether the caller has this scope. Without authentication people read and run; nobody defines or writes anything."""
        return scope in tokens.GRANTED_BY[self.scope]


# authentication


def current_visitor(request: Request) -> Visitor | None:
    """Return the caller, by bearer token or else by session; None without either. Raises Unauthorised if it is not valid."""
    if "auditor.visitor" not in request.scope:
        request.scope["auditor.visitor"] = _authenticate(request)
    return cast("Visitor | None", request.scope["auditor.visitor"])


def _authenticate(request: Request) -> Visitor | None:
    store = _store(request)
    if request.app.state.insecure:
        return Visitor("everybody", "run", _hmac(store.name, "everybody"), anonymous=True)
    _check_proxy(request)
    kind, _, secret = request.headers.get("Authorization", "").partition(" ")
    if kind:
        if kind.lower() != "bearer" or not secret.strip():
            raise Unauthorised("the Authorization header is not valid; write: Authorization: Bearer aud_...")
        return _check_limits(request, secret.strip(), _bearer_visitor)
    if (visitor := _proxy_visitor(request)) is not None:
        return visitor
    cookie = request.cookies.get(COOKIE)
    return _check_limits(request, cookie, _session_visitor) if cookie else None


def _check_limits(request: Request, secret: str, check: Callable[[Store, str], Visitor]) -> Visitor:
    """Return the result of ``check`` for a secret, within the limits of wrong tokens per prefix and address, and of requests per token."""
    guesser = f"{client_address(request)} {secret[:PREFIX_LENGTH]}"
    if wait := wrong_tokens.take(guesser, cost=0):
        raise too_many_requests(wait, "too many wrong tokens like this one from this address; retry later")
    try:
        visitor = check(_store(request), secret)
    except Unauthorised:
        wrong_tokens.take(guesser)
        raise
    if wait := _token_limit(request).take(visitor.name):
        raise too_many_requests(wait, "too many requests with this token; retry later")
    return visitor


def _bearer_visitor(store: Store, secret: str) -> Visitor:
    token = tokens.verify_token(store, secret, _usage_writer.submit)
    if token.is_session:
        raise Unauthorised("a session is not accepted as a bearer token; use a token")
    return Visitor(token.name, token.scope, token=token, audits=token.audits)


def _session_visitor(store: Store, cookie: str) -> Visitor:
    session = tokens.verify_token(store, cookie, _usage_writer.submit)
    if not session.is_session or session.created_by is None:
        raise Unauthorised("the session has ended; log in again")
    return Visitor(session.creator, session.scope, _hmac(cookie, "csrf"), token=session, audits=session.audits)


def _check_proxy(request: Request) -> None:
    """Raise Forbidden for a header of the proxy in a request that did not come from it, or that has it more than once.

    Only the address of the connection itself counts: what X-Forwarded-For says, anybody could have written.
    """
    auth = _auth(request)
    if auth is None:
        return
    names = [name for name in (auth.proxy_header, auth.groups_header) if name]
    sent = {name: request.headers.getlist(name) for name in names}
    if not any(sent.values()):
        return
    peer = request.scope.get("state", {}).get(PEER, "")
    if not _is_within(peer, auth.from_):
        raise Forbidden(
            f"the header {next(name for name, values in sent.items() if values)} is taken from the proxy alone, and this request came from"
            f" {peer or 'an unknown address'}; service: auth: from says which addresses are the proxy's"
        )
    if doubled := next((name for name, values in sent.items() if len(values) > 1), None):
        raise Forbidden(f"the request has the header {doubled} more than once; let the proxy remove those that clients send")


def _proxy_visitor(request: Request) -> Visitor | None:
    """Return who the authenticating proxy says that the caller is; None if it names nobody. Raises Forbidden for one without a group."""
    auth = _auth(request)
    name = request.headers.get(auth.proxy_header, "").strip() if auth else ""
    if auth is None or not name:
        return None
    if not name.isprintable() or len(name) > MAX_USER:
        raise Unauthorised(f"the header {auth.proxy_header} holds no name of 1 to {MAX_USER} printable characters")
    named = request.headers.get(auth.groups_header, "").split(",") if auth.groups_header else []
    group = auth.find_group({text.strip() for text in named})
    if group is None:
        raise Forbidden(f"{name} is in no group that service: auth: groups names")
    if wait := _token_limit(request).take(f"proxy {name}"):
        raise too_many_requests(wait, "too many requests of this user; retry later")
    csrf = _hmac(salt.get_salt(_store(request)).hex(), f"csrf {name}")
    at = dt.datetime.now(dt.UTC)
    # In the place of a token, as without one a caller would count as the command line, which manages all tokens.
    token = Token(name, group.scope, at, None, None, at, tokens.OF_PROXY, audits=group.audits)
    return Visitor(name, group.scope, csrf, token=token, audits=group.audits)


def _auth(request: Request) -> Auth | None:
    return cast("Auth | None", request.app.state.app_state.unlimited.service.auth)


def _is_within(address: str, networks: Sequence[str]) -> bool:
    try:
        peer = ipaddress.ip_address(address)
    except ValueError:
        return False
    peer = getattr(peer, "ipv4_mapped", None) or peer
    return any(peer in ipaddress.ip_network(network) for network in networks)


def _hmac(secret: str, what: str) -> str:
    return hmac.new(secret.encode(), what.encode(), hashlib.sha256).hexdigest()


def client_address(request: Request) -> str:
    """Return the client's address as the server reports it; empty if it is unknown."""
    return request.client.host if request.client else ""


def _store(request: Request) -> Store:
    return cast(Store, request.app.state.app_state.store)


def _token_limit(request: Request) -> RateLimit:
    rate = request.app.state.app_state.unlimited.service.requests_per_minute
    return token_limits.setdefault(rate, RateLimit(rate))


# login and logout


def login(request: Request, response: Response, secret: str) -> Visitor:
    """Create a session and set its cookie. Raises Unauthorised, and Forbidden if the form was sent from another site."""
    store = _store(request)
    _check_same_site(request)
    try:
        visitor = _check_limits(request, secret, _bearer_visitor)
    except Unauthorised:
        events.count_event(store, actor=client_address(request), action="login refused", within=REFUSALS_SUMMED)
        raise
    token = cast(Token, visitor.token)
    cookie = tokens.create_session(store, token, dt.datetime.now(dt.UTC) + SESSION_LIFETIME)
    events.record_event(store, actor=token.name, action="login", subject=token.name)
    response.set_cookie(COOKIE, cookie, httponly=True, samesite="lax", secure=request.url.scheme == "https", path="/")
    return Visitor(token.name, token.scope, _hmac(cookie, "csrf"), token=token, audits=token.audits)


def logout(request: Request, response: Response) -> None:
    """Revoke the session and delete its cookie."""
    visitor = current_visitor(request)
    if visitor and visitor.token and visitor.token.is_session:
        tokens.revoke_token(_store(request), visitor.token.name)
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=request.url.scheme == "https")


# authorization


def authorize(request: Request, scope: Scope, csrf: str | None = None) -> Visitor:
    """Return the caller if it has this scope, and may see what the route is about.

    ``csrf`` is the CSRF token of the request, needed to change something with a session.

    Raises Unauthorised, and Forbidden if the scope is insufficient or the request was not sent from a page of this service.
    """
    visitor = current_visitor(request)
    if visitor is None:
        raise Unauthorised
    if not visitor.may(scope):
        if visitor.anonymous:
            raise Forbidden(
                f"this needs a token with the scope {scope}, and the service was started without tokens, which permits reading and running"
                f" alone; create one with auditor token create --scope {scope} --name NAME, and start it without --insecure"
            )
        caller = "user" if visitor.token and visitor.token.number == tokens.OF_PROXY else "token"
        raise Forbidden(f"this {caller} has the scope {visitor.scope}; this needs {scope}")
    if visitor.audits:
        route = getattr(request.scope.get("route"), "path", "")
        audit_access.check(_store(request), request.method, route, request.path_params, visitor.audits)
    if request.method not in SAFE_METHODS and visitor.csrf:
        _check_same_site(request)
        if not visitor.anonymous and not hmac.compare_digest((csrf or "").encode(), visitor.csrf.encode()):
            raise Forbidden("the CSRF token is missing or outdated; reload the page and send the form again")
    return visitor


def _check_same_site(request: Request) -> None:
    """Raise Forbidden if the browser says that the request comes from another site. Programs send neither header."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    cross_site = (
        site not in ("same-origin", "none") if site else bool(origin) and urlsplit(origin or "").netloc != request.headers.get("Host")
    )
    if cross_site:
        raise Forbidden("the request was sent from a page of another site; use a page of this service")


def require_scope(scope: Scope) -> Callable[[Request], Coroutine[Any, Any, Visitor]]:
    """Return a dependency for pages that authorizes the caller for this scope and checks the CSRF token of forms."""

    async def check(request: Request) -> Visitor:
        csrf = request.headers.get(CSRF_HEADER)
        if request.method not in SAFE_METHODS and csrf is None:
            if await run_in_threadpool(current_visitor, request) is None:  # before the form is read
                raise Unauthorised
            field = (await request.form()).get(CSRF_FIELD)
            csrf = field if isinstance(field, str) else None
        return await run_in_threadpool(authorize, request, scope, csrf)

    return check


Reader = Annotated[Visitor, Depends(require_scope("read"))]
Runner = Annotated[Visitor, Depends(require_scope("run"))]
Definer = Annotated[Visitor, Depends(require_scope("define"))]
Operator = Annotated[Visitor, Depends(require_scope("pipeline"))]
Repairer = Annotated[Visitor, Depends(require_scope("repair"))]
Applier = Annotated[Visitor, Depends(require_scope("apply"))]


# exposure


def check_exposure(settings: Settings, store: Store, host: str | None = None, insecure: bool = False) -> None:
    """Raise ConfigError if the service would be reachable from other machines without a valid token or ``insecure``."""
    host = settings.service.host if host is None else host
    if _is_loopback(host) or insecure or settings.service.auth:
        return
    if not tokens.has_valid_token(store):
        raise ConfigError(
            f"the service would listen on {host} without any token; create one with auditor token create --scope run --name NAME, "
            "or listen on 127.0.0.1, or disable authentication with --insecure"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
