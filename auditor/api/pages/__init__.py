"""The pages: HTML rendered on the server, updated by htmx, and usable without scripts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from auditor.api.dependencies import AppState
from auditor.api.errors import http_status
from auditor.api.pages import _audit, _connections, _day, _layout, _lists, _overview, _patch, _pipelines, _run, _segments, _tokens
from auditor.api.pages._layout import render_page, url, visitor_or_none
from auditor.config import Settings
from auditor.door_words import in_pages
from auditor.errors import AuditorError, Forbidden, StoreError, Unauthorised, name_of
from auditor.service.pipeline_processes import PipelineProcesses
from auditor.store import Store

log = logging.getLogger(__name__)

TITLES = {
    401: "Log in first",
    403: "Not allowed",
    404: "Page not found",
    405: "Method not allowed",
    413: "Too large",
    422: "Invalid request",
    429: "Too many requests",
    503: "Not available now",
}

SUGGESTIONS = {
    403: "Log in with a token whose scope allows it. The operator of this service can create one.",
    404: "It may have been renamed, or deleted when its retention period ended.",
    413: "Save fewer columns or partitions, or raise service: max_body in auditor.yaml.",
}


def create(
    settings: Settings,
    store: Store,
    processes: PipelineProcesses | None = None,
    *,
    insecure: bool = False,
    describe_api: Callable[[], dict[str, Any]] = dict,
) -> FastAPI:
    """Create the pages as an application, for all paths that the API does not handle. ``insecure`` disables authentication.

    ``describe_api`` returns the OpenAPI document that the page of the API is drawn from.
    """
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.app_state = AppState(settings, store, pipelines=processes)
    app.state.insecure = insecure
    app.state.describe_api = describe_api
    for module in (_tokens, _layout, _overview, _day, _lists, _connections, _audit, _run, _patch, _pipelines, _segments):
        app.include_router(module.router)
    app.add_exception_handler(AuditorError, _handle_auditor_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(Exception, _handle_unexpected)
    return app


def _handle_auditor_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, AuditorError)
    if isinstance(error, Unauthorised):
        return _to_login(request)
    status = http_status(error)
    if isinstance(error, StoreError) and status == 503:  # its text names files and servers
        log.warning("the store failed: %s", error, extra={"action": "store_failed"})
        return _error_page(request, status, TITLES[status], "The store is not available now.", retryable=True)
    title = "Not allowed" if isinstance(error, Forbidden) else TITLES.get(status, "Request failed")
    return _error_page(
        request, status, title, in_pages(str(error)), retryable=error.retryable and request.method == "GET", name=name_of(error)
    )


def _to_login(request: Request) -> Response:
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "") if request.method == "GET" else "/"
    location = f"/login?back={url(back)[1:]}"
    if request.headers.get("HX-Request"):
        return Response(status_code=401, headers={"HX-Redirect": "/login"})
    return RedirectResponse(location, 303)


def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: "There is no page at this address.", 405: "This address does not support the request's method."}
    status = error.status_code
    return _error_page(request, status, TITLES.get(status, "Request failed"), messages.get(status, str(error.detail)))


def _handle_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    invalid = [f"{problem['loc'][-1]}: {problem['msg']}" for problem in error.errors()]
    return _error_page(request, 422, TITLES[422], "; ".join(invalid))


def _handle_unexpected(request: Request, error: Exception) -> Response:
    log.error("a page failed", exc_info=error, extra={"action": "page_failed"})
    return _error_page(request, 500, "Internal error", "This is a fault of the auditor. Its log has the details.", retryable=True)


def _error_page(request: Request, status: int, title: str, message: str, *, retryable: bool = False, name: str = "") -> Response:
    values: dict[str, Any] = {"title": title, "message": message, "retryable": retryable, "name": name, "status_code": status}
    try:
        visitor_or_none(request)
    except (AuditorError, HTTPException):  # the reason is what this page reports
        request.scope["auditor.visitor"] = None
    return render_page(request, "error.html", status=status, suggestion=SUGGESTIONS.get(status, ""), **values)
