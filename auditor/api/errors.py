"""Error responses: problem details (RFC 9457), https://www.rfc-editor.org/rfc/rfc9457."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from auditor import telemetry
from auditor.door_words import in_requests
from auditor.errors import (
    AlreadyRunning,
    AuditorError,
    BadUrl,
    BootstrapFailed,
    BootstrapRefused,
    BrokerError,
    ColumnsChanged,
    ConfigError,
    DatabaseBusy,
    EngineError,
    EvidenceBroken,
    Forbidden,
    HeartbeatUnusable,
    IncarnationsDiffer,
    LeaseTaken,
    LockTimeout,
    MayOnlyRead,
    MergeFailed,
    MessageRefused,
    NoEvidence,
    NoIncident,
    NoReport,
    NoSuchObject,
    NotifyError,
    NotOurTable,
    NotResumable,
    NotStaged,
    PartsGone,
    PatchFailed,
    PatchRefused,
    PipelineFailed,
    PlanError,
    QueueFull,
    RebuildRefused,
    RefreshRefused,
    RegistryRefused,
    RegistryUnreachable,
    ResultError,
    RunLost,
    ScanRefused,
    SchemaChanged,
    SegmentFailed,
    ServerSilent,
    StagingFailed,
    StatementTimeout,
    StoreError,
    TableStopped,
    TraceRefused,
    Unauthorised,
    UnknownAudit,
    UnknownBootstrap,
    UnknownConnection,
    UnknownDay,
    UnknownPatch,
    UnknownPipeline,
    UnknownRepair,
    UnknownRun,
    name_of,
)

MEDIA_TYPE = "application/problem+json"

STATUS_BY_ERROR: Mapping[type[AuditorError], int] = {
    AuditorError: 500,
    EngineError: 502,
    BrokerError: 502,
    ServerSilent: 504,
    StatementTimeout: 504,
    LockTimeout: 504,
    NoSuchObject: 422,
    BadUrl: 422,
    ConfigError: 422,
    MayOnlyRead: 409,
    UnknownAudit: 404,
    UnknownDay: 404,
    UnknownPipeline: 404,
    PlanError: 422,
    SchemaChanged: 409,
    ScanRefused: 409,
    ColumnsChanged: 409,
    HeartbeatUnusable: 409,
    StagingFailed: 503,
    SegmentFailed: 503,
    PartsGone: 409,
    NotStaged: 409,
    RebuildRefused: 409,
    TraceRefused: 409,
    IncarnationsDiffer: 409,
    TableStopped: 409,
    PatchRefused: 409,
    PatchFailed: 409,
    BootstrapRefused: 409,
    BootstrapFailed: 409,
    RefreshRefused: 409,
    PipelineFailed: 500,
    MergeFailed: 409,
    MessageRefused: 422,
    RegistryRefused: 409,
    RegistryUnreachable: 503,
    ResultError: 422,
    EvidenceBroken: 409,
    NoEvidence: 404,
    NoReport: 404,
    NoIncident: 409,
    DatabaseBusy: 503,
    StoreError: 503,
    UnknownRun: 404,
    RunLost: 409,
    UnknownRepair: 404,
    UnknownPatch: 404,
    UnknownBootstrap: 404,
    UnknownConnection: 404,
    AlreadyRunning: 409,
    LeaseTaken: 409,
    NotResumable: 409,
    QueueFull: 429,
    Forbidden: 403,
    Unauthorised: 401,
    NotifyError: 502,
    NotOurTable: 409,
}
"""The HTTP status of each error class; a class that is not listed has its parent's."""

TITLES = {
    400: "The request cannot be parsed",
    401: "Authentication is required",
    403: "The token's scope does not allow this",
    404: "Not found",
    405: "Method not allowed",
    408: "The request took too long",
    409: "Conflict with the current state",
    413: "The request is too large",
    415: "Unsupported media type",
    421: "Another host was meant",
    422: "The request is not valid",
    429: "Too many requests",
    500: "The service failed",
    502: "A database request failed",
    503: "The service is not available now",
    504: "A database timed out",
}

PROBLEM_TYPES = {
    400: "BadRequest",
    401: "Unauthorised",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTooSlow",
    413: "RequestTooLarge",
    421: "WrongHost",
    429: "TooManyRequests",
    503: "Unavailable",
}
"""Last part of a problem's ``type`` by status, for problems without an error class."""

RETRY_LATER = frozenset({429, 503})
"""Statuses whose responses carry Retry-After."""


class InvalidField(BaseModel):
    """A part of a request that is not valid."""

    location: str = Field(description="Where it is: `body.k`, `query.limit`, `path.run`, `header.Idempotency-Key`.")
    detail: str = Field(description="What is wrong with it.")


class Problem(BaseModel):
    """Why a request failed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:auditor:problem:UnknownAudit",
                    "title": "Not found",
                    "status": 404,
                    "detail": "there is no audit 'order'; did you mean 'orders'? (audits here: orders)",
                    "instance": "urn:auditor:request:5f0c4e8d2b1a4c3f",
                    "retryable": False,
                    "errors": [],
                }
            ]
        }
    )

    type: str = Field(description="`urn:auditor:problem:` followed by the name of the problem.")
    title: str = Field(description="A summary, the same for all problems of this status.")
    status: int = Field(description="The HTTP status.", ge=400, le=599)
    detail: str = Field(description="What is wrong in this case, for people.")
    instance: str = Field(description="The id of the request, as in the service's log.")
    retryable: bool = Field(description="Whether the same request may succeed later.")
    errors: list[InvalidField] = Field(description="The parts of the request that are not valid; empty for other problems.")


def problem_response(
    scope: Mapping[str, Any],
    status: int,
    detail: str,
    *,
    name: str = "",
    retryable: bool = False,
    errors: Sequence[Mapping[str, str]] = (),
    headers: Mapping[str, str] = {},
) -> Response:
    """Return a problem as a response.

    ``name`` is the last part of its ``type``, by default the one that belongs to the status.
    """
    body = {
        "type": f"urn:auditor:problem:{name or PROBLEM_TYPES.get(status, 'InternalError')}",
        "title": TITLES.get(status, "The request failed"),
        "status": status,
        "detail": detail,
        "instance": f"urn:auditor:request:{scope.get('auditor.request', '')}",
        "retryable": retryable or status in RETRY_LATER,
        "errors": list(errors),
    }
    more = {"Cache-Control": "no-store", **headers}
    if status in RETRY_LATER:
        more.setdefault("Retry-After", "10")
    if status == 401:
        more["WWW-Authenticate"] = 'Bearer realm="auditor"'
    # ASCII only: the detail may quote a lone surrogate from the request, which UTF-8 cannot encode.
    return Response(json.dumps(body, ensure_ascii=True), status, more, MEDIA_TYPE)


def http_status(error: AuditorError) -> int:
    """Return the HTTP status of an answer to ``error``: its class's, or that of the nearest listed parent."""
    return next(STATUS_BY_ERROR[cls] for cls in type(error).__mro__ if cls in STATUS_BY_ERROR)


def handle_auditor_error(request: Request, error: Exception) -> Response:
    """Return an error of `auditor.errors` as a problem whose name is that of its class."""
    assert isinstance(error, AuditorError)
    name, status = name_of(error), http_status(error)
    telemetry.increment_counter("errors", error=name)
    detail = in_requests(str(error))
    if isinstance(error, StoreError) and status == 503:  # its text names files and servers: for the log, not for callers
        logging.getLogger(__name__).warning("the store failed: %s", error, extra={"action": "store_failed"})
        detail = "the store is not available now; retry later"
    return problem_response(request.scope, status, detail, name=name, retryable=error.retryable)


def handle_invalid_request(request: Request, error: Exception) -> Response:
    """Return a failed validation as a problem. The invalid values are not repeated."""
    assert isinstance(error, RequestValidationError)
    invalid = [{"location": ".".join(map(str, problem["loc"])), "detail": _message(problem)} for problem in error.errors()]
    detail = "; ".join(f"{problem['location']}: {problem['detail']}" for problem in invalid[:5])
    return problem_response(request.scope, 422, detail, name="InvalidRequest", errors=invalid[:50])


def _message(problem: Mapping[str, Any]) -> str:
    return re.sub(r"^(Value|Assertion) error, ", "", str(problem["msg"]))


def handle_http_exception(request: Request, error: Exception) -> Response:
    """Return an error of the framework as a problem."""
    assert isinstance(error, HTTPException)
    details: dict[Any, str] = {
        "Not Found": "there is no resource at this path",
        405: "this path does not support the method; see Allow",
        400: "the body cannot be parsed",
    }
    detail = details.get(error.status_code) or details.get(error.detail) or str(error.detail)
    return problem_response(request.scope, error.status_code, detail, headers=dict(error.headers or {}))
