"""The one shape in which every request that cannot be answered is told so: problem details, as RFC 9457 has them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from auditor import telemetry
from auditor.errors import AuditorError, StoreError, UnknownRun

TYPE = "application/problem+json"

TITLES = {
    400: "The request could not be read",
    401: "A token is needed",
    403: "The token does not allow this",
    404: "There is no such thing",
    405: "This address takes other methods",
    409: "Not as things are now",
    413: "The request is too large",
    415: "The request is of a kind that is not read",
    422: "The request asks for something that cannot be",
    429: "Too many requests",
    500: "The service failed",
    502: "A database refused",
    503: "The service cannot answer now",
    504: "A database took too long",
}

NAMES = {
    400: "Unreadable",
    401: "Unauthorised",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "TooLarge",
    429: "TooMany",
}

LATER = frozenset({429, 503})
"""Answers that say when to try again."""


class Mistake(BaseModel):
    """One thing that is wrong with a request."""

    where: str = Field(description="What it is about: `body.k`, `query.limit`, `path.run`, `header.Idempotency-Key`.")
    detail: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """Why a request was not answered."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:auditor:problem:UnknownAudit",
                    "title": "There is no such thing",
                    "status": 404,
                    "detail": "there is no audit 'order'; did you mean 'orders'? (audits here: orders)",
                    "instance": "urn:auditor:request:5f0c4e8d2b1a4c3f",
                    "retryable": False,
                    "errors": [],
                }
            ]
        }
    )

    type: str = Field(description="The kind of the problem, `urn:auditor:problem:` and its name.")
    title: str = Field(description="The same sentence for every problem of this status.")
    status: int = Field(description="The status of the answer.", ge=400, le=599)
    detail: str = Field(description="What is wrong in this case, for a person.")
    instance: str = Field(description="The request; the service's log names it too.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    errors: list[Mistake] = Field(description="What is wrong with the request's parts; empty where it is not about them.")


def answer(
    scope: Mapping[str, Any],
    status: int,
    detail: str,
    *,
    name: str = "",
    retryable: bool = False,
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] = {},
) -> Response:
    """A problem as an answer."""
    body = {
        "type": f"urn:auditor:problem:{name or NAMES.get(status, 'Failed')}",
        "title": TITLES.get(status, "The request was not answered"),
        "status": status,
        "detail": detail,
        "instance": f"urn:auditor:request:{scope.get('auditor.request', '')}",
        "retryable": retryable or status in LATER,
        "errors": list(errors),
    }
    more = {"Cache-Control": "no-store", **headers}
    if status in LATER:
        more.setdefault("Retry-After", "10")
    if status == 401:
        more["WWW-Authenticate"] = 'Bearer realm="auditor"'
    # Escapes stand for what UTF-8 has not, such as half a surrogate pair that a request held.
    return Response(json.dumps(body, ensure_ascii=True), status, more, TYPE)


def refused(request: Request, error: Exception) -> Response:
    """The answer to an error of the tree."""
    assert isinstance(error, AuditorError)
    name, status = type(error).__name__, error.http_status
    telemetry.count("errors", error=name)
    detail = str(error)
    if isinstance(error, StoreError) and status == 503:  # it names files and servers, which the log may and callers may not know
        import logging

        logging.getLogger(__name__).warning("the store failed: %s", error, extra={"action": "store_failed"})
        detail = "what is kept cannot be read or written now"
    if isinstance(error, UnknownRun):
        detail = detail.replace("; see: auditor runs", "")
    return answer(request.scope, status, detail, name=name, retryable=error.retryable)


def invalid(request: Request, error: Exception) -> Response:
    """The answer to a request whose parts are not as documented; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    told = [{"where": ".".join(map(str, one["loc"])), "detail": _sentence(one)} for one in error.errors()]
    detail = "; ".join(f"{one['where']}: {one['detail']}" for one in told[:5])
    return answer(request.scope, 422, detail, name="Invalid", errors=told[:50])


def _sentence(one: Mapping[str, Any]) -> str:
    return re.sub(r"^(Value|Assertion) error, ", "", str(one["msg"]))


def http(request: Request, error: Exception) -> Response:
    """The answer to what the framework refuses."""
    assert isinstance(error, HTTPException)
    details: dict[Any, str] = {
        "Not Found": "nothing stands at this address",
        405: "this address takes other methods; see Allow",
        400: "the body could not be read",
    }
    detail = details.get(error.status_code) or details.get(error.detail) or str(error.detail)
    return answer(request.scope, error.status_code, detail, headers=dict(error.headers or {}))
