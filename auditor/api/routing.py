"""What the API's routes share: scopes, documented responses, parameters, pagination and ETags."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from auditor.api import authentication
from auditor.api.authentication import Visitor
from auditor.api.middleware import ENCODED_SLASH
from auditor.api_models.access import Scope

PREFIX = "/api/v1"
DEFAULT_LIMIT = 50
"""Items of a page, unless the request sets ``limit``."""

Item = TypeVar("Item")
Position = TypeVar("Position", str, int)


class ScopedRoute(APIRoute):
    """A route that authorizes the caller before it reads the request's parameters and body, and ignores no parameter."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that checks the scope which the route documents as ``x-scope``, then calls the route's own.

        A misspelt parameter would leave a list unfiltered, without a word.
        """
        handle = super().get_route_handler()
        scope: Scope = (self.openapi_extra or {})["x-scope"]
        known = _query_parameters(self.dependant)

        async def authorize_first(request: Request) -> Response:
            await run_in_threadpool(authentication.authorize, request, scope, request.headers.get(authentication.CSRF_HEADER))
            unknown = next((name for name in request.query_params if name not in known), None)
            if unknown is not None:
                takes = f"this request takes {', '.join(known)}" if known else "this request takes none"
                raise RequestValidationError([{"loc": ("query", unknown[:100]), "msg": f"no such parameter; {takes}"}])
            return await handle(request)

        return authorize_first


def _query_parameters(dependant: Dependant) -> list[str]:
    """Return the names of the query parameters that a route and what it depends on take."""
    return [parameter.alias for parameter in dependant.query_params] + [
        name for needed in dependant.dependencies for name in _query_parameters(needed)
    ]


def router(tag: str) -> APIRouter:
    """Return a router under PREFIX whose routes each name their scope with `route_options`."""
    return APIRouter(prefix=PREFIX, tags=[tag], route_class=ScopedRoute)


STATUS_DESCRIPTIONS = {
    304: "Nothing has changed since the response with this ETag.",
    400: "The body cannot be parsed.",
    401: "The token is missing or not valid.",
    403: "The token's scope does not allow this.",
    404: "There is no such audit, run, repair, patch or page.",
    409: "This conflicts with the current state of the audit, run or patch.",
    413: "The request is larger than `service: max_body` allows.",
    421: "The request names a host that is not this service.",
    422: "Part of the request is not valid.",
    429: "Too many requests, or too many runs are waiting.",
    500: "The service failed.",
    502: "A database could not be reached, or rejected the request.",
    503: "The store or a database is not available now.",
    504: "A database took too long.",
}


def route_options(scope: Scope, *statuses: int) -> dict[str, Any]:
    """Return keyword arguments of a route that requires a scope and may answer with these statuses.

    The statuses 401, 403, 421, 422, 429, 500 and 503 are always documented.
    """
    documented: dict[int | str, Any] = {}
    for status in sorted({401, 403, 421, 422, 429, 500, 503, *statuses}):
        documented[status] = {"description": STATUS_DESCRIPTIONS[status]}
    return {"openapi_extra": {"x-scope": scope, "security": [{"token": []}]}, "responses": documented}


def with_location(options: dict[str, Any], leads_to: Mapping[int, str]) -> dict[str, Any]:
    """Return the options of a route with the header Location documented: what it leads to, by the statuses that have it."""
    described = {
        status: {"headers": {"Location": {"description": what, "schema": {"type": "string"}}}} for status, what in leads_to.items()
    }
    responses = {status: {**options["responses"].get(status, {}), **header} for status, header in described.items()}
    return {**options, "responses": options["responses"] | responses}


PRINTABLE = "^[^\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ue000-\\uf8ff\\ufeff\\ufff9-\\uffff]*$"
"""Text without control characters, ends of lines, and characters that are invisible or change the direction of others."""

Text = Annotated[str, Field(pattern=PRINTABLE)]
"""Free text without control characters and lone surrogates."""


def _refuse_number(text: object) -> object:
    """Refuse a number, which pydantic would take as seconds since 1970. Raises ValueError."""
    if re.fullmatch(r"[+-]?[0-9_.]+(e[+-]?[0-9]+)?", str(text).strip(), re.IGNORECASE | re.ASCII):
        raise ValueError("write a moment with its zone, such as 2026-11-01T06:00:00Z")
    return text


Moment = Annotated[AwareDatetime, BeforeValidator(_refuse_number)]
"""A moment in ISO 8601 with its zone."""


def _visitor(request: Request) -> Visitor:
    visitor: Visitor = request.scope["auditor.visitor"]
    return visitor


def caller_name(request: Request) -> str:
    """Return the name of the token that authorized a request."""
    return _visitor(request).name


AuditName = Annotated[
    str,
    Path(description="The audit's name; write a slash in it as %2F.", max_length=255, examples=["orders"]),
    AfterValidator(lambda name: name.replace(ENCODED_SLASH, "/")),
]
NewAuditName = Annotated[
    str,
    Path(description="The audit's name: letters, digits, _ and -.", pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$", examples=["orders-adhoc"]),
]
RunId = Annotated[
    str,
    Path(
        description="The run's id, or a prefix of it that no other run has.",
        pattern="^[0-9a-f]{4,32}$",
        examples=["9f1c2d3e4a5b60718293a4b5c6d7e8f9"],
    ),
]
Cursor = Annotated[str | None, Query(description="The `next` of the previous page.", max_length=400, pattern="^[A-Za-z0-9_-]+$")]
Limit = Annotated[int, Query(description="Items of the page.", ge=1, le=1000)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="A repeated request with the same key returns what the first one created, and creates nothing.",
    ),
]
RequiredIdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Needed: a repeated request with the same key returns the result of the first and does nothing.",
    ),
]


MAX_SLOW_REQUESTS = 8
"""Requests of one process that may wait for a database, or compute for long, at the same time."""

slow_requests = threading.BoundedSemaphore(MAX_SLOW_REQUESTS)


@contextmanager
def slow_request() -> Iterator[None]:
    """Limit how many slow requests run at once, so that threads are left for the others.

    Raises HTTPException (503) if MAX_SLOW_REQUESTS are running.
    """
    if not slow_requests.acquire(blocking=False):
        raise HTTPException(503, "too many requests are waiting for databases; retry later")
    try:
        yield
    finally:
        slow_requests.release()


class Paginated(BaseModel, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next: str | None = Field(description="The cursor of the next page; null on the last one.", examples=["WyJydW5zIiwiOWYxYyJd"])


def make_cursor(kind: str, value: str | int) -> str:
    """Return the cursor of the page that follows ``value``, valid for lists of this kind only: base64url of a JSON array."""
    return base64.urlsafe_b64encode(json.dumps([kind, value]).encode()).decode().rstrip("=")


def parse_cursor(kind: str, text: str | None, type_: type[Position]) -> Position | None:
    """Return the position that a cursor of this kind holds; None for no cursor. Raises HTTPException (404) for any other text."""
    if text is None:
        return None
    try:
        decoded = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        decoded = None
    if not (isinstance(decoded, list) and len(decoded) == 2 and decoded[0] == kind and type(decoded[1]) is type_) or _is_out_of_range(
        decoded[1]
    ):
        raise HTTPException(404, "the cursor is not one of this list; pass the `next` of the previous page unchanged")
    value: Position = decoded[1]
    return value


def _is_out_of_range(value: str | int) -> bool:
    return not value.isprintable() if isinstance(value, str) else not 0 <= value < 2**53


def paginate(kind: str, listed: Sequence[Item], limit: int, position: Callable[[Item], str | int]) -> Paginated[Item]:
    """Return the first ``limit`` items as a page. ``listed`` holds one more if there is a next page.

    ``position`` returns what the next page's cursor says of the last item.
    """
    items = list(listed[:limit])
    return Paginated(items=items, next=make_cursor(kind, position(items[-1])) if len(listed) > limit else None)


def json_response(model: type[BaseModel], value: object) -> Response:
    """Return a response with ``value`` as JSON of this model.

    The calling thread serializes it; for a value that a route returns, the framework would occupy another thread.
    """
    return Response(model.model_validate(value).model_dump_json(), media_type="application/json")


def etag_response(request: Request, body: bytes, media_type: str) -> Response:
    """Return a response with an ETag, or 304 without a body if If-None-Match names that ETag."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, Cookie"}
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)
