"""What the routes share: who may use them, how they are documented, how long lists are cut into pages."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Generic, TypeVar

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import Response

from auditor.api import sessions
from auditor.api.guards import SLASH
from auditor.api.sessions import Visitor
from auditor.store.tokens import Scope

PREFIX = "/api/v1"
LIMIT = 50
"""Items of a page, if nobody asks for more or less."""

Item = TypeVar("Item")
Where = TypeVar("Where", str, int)


class Scoped(APIRoute):
    """A route that knows who is asking before it reads anything else of the request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler behind its scope, which its documentation names."""
        handle = super().get_route_handler()
        scope: Scope = (self.openapi_extra or {})["x-scope"]

        async def admitted(request: Request) -> Response:
            await run_in_threadpool(sessions.admit, request, scope, request.headers.get(sessions.HEADER))
            return await handle(request)

        return admitted


def router(tag: str) -> APIRouter:
    """A router whose routes each name their scope with `needs`."""
    return APIRouter(prefix=PREFIX, tags=[tag], route_class=Scoped)


SENTENCES = {
    304: "Nothing has changed since the answer with this ETag.",
    400: "The body cannot be read.",
    401: "There is no token, or it is not valid.",
    403: "The token's scope does not allow this.",
    404: "There is no such audit, run, repair or page.",
    409: "Not as things are now.",
    413: "The request is larger than `service: max_body` allows.",
    422: "Something in the request is not as documented, or cannot be.",
    429: "Too many requests, or too many runs wait.",
    500: "The service failed.",
    502: "A database could not be reached, or refused.",
    503: "The store, or a database, cannot answer now.",
    504: "A database took too long.",
}


def needs(scope: Scope, *statuses: int) -> dict[str, Any]:
    """How a route is declared that needs a scope and may answer with these statuses beyond those that all may."""
    documented: dict[int | str, Any] = {}
    for status in sorted({401, 403, 422, 429, 500, 503, *statuses}):
        documented[status] = {"description": SENTENCES[status]}
    return {"openapi_extra": {"x-scope": scope, "security": [{"token": []}]}, "responses": documented}


def _text(value: str) -> str:
    if not value.isprintable():
        raise ValueError("write printable characters only")
    return value


Text = Annotated[str, AfterValidator(_text)]
"""A text of a person: no control characters, and no half of a surrogate pair."""


def _visitor(request: Request) -> Visitor:
    found: Visitor = request.scope["auditor.visitor"]
    return found


def who(request: Request) -> str:
    """The name under which a request is noted."""
    return _visitor(request).name


Name = Annotated[
    str,
    Path(description="The audit's name; write a slash in it as %2F.", max_length=255, examples=["orders"]),
    AfterValidator(lambda name: name.replace(SLASH, "/")),
]
NewName = Annotated[
    str,
    Path(description="The audit's name: letters, digits, _ and -.", pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$", examples=["orders-adhoc"]),
]
RunId = Annotated[
    str,
    Path(
        description="The run's id, or as much of its beginning as no other has.",
        pattern="^[0-9a-f]{4,32}$",
        examples=["9f1c2d3e4a5b60718293a4b5c6d7e8f9"],
    ),
]
Cursor = Annotated[str | None, Query(description="The `next` of the page before.", max_length=400, pattern="^[A-Za-z0-9_-]+$")]
Limit = Annotated[int, Query(description="Items of the page.", ge=1, le=1000)]
Idempotency = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="The same key asks for the same again, and makes no second one.",
    ),
]


AT_ONCE = 8
"""Requests of one process that may wait for a database, or compute for long, at the same moment."""

_few = threading.BoundedSemaphore(AT_ONCE)


@contextmanager
def long() -> Iterator[None]:
    """Do what may take long, unless enough of that is being done: the other requests need threads too. Raises HTTPException."""
    if not _few.acquire(blocking=False):
        raise HTTPException(503, "enough requests wait for databases already; try again later")
    try:
        yield
    finally:
        _few.release()


class Page(BaseModel, Generic[Item]):
    """Some items of a list."""

    items: list[Item]
    next: str | None = Field(description="The cursor of the next page; null on the last one.", examples=["WyJydW5zIiwiOWYxYyJd"])


def cursor(kind: str, value: str | int) -> str:
    """What leads to the next page of this kind of list."""
    return base64.urlsafe_b64encode(json.dumps([kind, value]).encode()).decode().rstrip("=")


def place(kind: str, given: str | None, type_: type[Where]) -> Where | None:
    """Where a page of this kind begins; None for the first. Raises HTTPException for what is no cursor of such a list."""
    if given is None:
        return None
    try:
        found = json.loads(base64.b64decode(given + "=" * (-len(given) % 4), altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, RecursionError):
        found = None
    if not (isinstance(found, list) and len(found) == 2 and found[0] == kind and type(found[1]) is type_) or _wild(found[1]):
        raise HTTPException(404, "the cursor is none of this list's; take it from the page before as it is")
    value: Where = found[1]
    return value


def _wild(value: str | int) -> bool:
    return not value.isprintable() if isinstance(value, str) else not 0 <= value < 2**53


def paged(kind: str, found: Sequence[Item], limit: int, last: Callable[[Item], str | int]) -> dict[str, Any]:
    """A page of what was found, of which there is one more than ``limit`` where a further page is."""
    items = list(found[:limit])
    return {"items": items, "next": cursor(kind, last(items[-1])) if len(found) > limit else None}


def sent(shape: type[BaseModel], value: Any) -> Response:
    """An answer of this shape, which is made in the thread that calls this: the framework would take up another one for it."""
    return Response(shape.model_validate(value).model_dump_json(), media_type="application/json")


def tagged(request: Request, body: bytes, media_type: str) -> Response:
    """An answer with its ETag, or none where the caller has it already."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Accept, Authorization, Cookie"}
    known = [one.strip().removeprefix("W/") for one in request.headers.get("If-None-Match", "").split(",")]
    if tag in known or "*" in known:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)
