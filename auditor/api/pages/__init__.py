"""The pages: rendered here, made lively by htmx, and of use without any script."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from auditor.api.behind import Behind
from auditor.api.pages import _audit, _day, _entry, _overview, _run, _sql, _tokens
from auditor.api.pages._frame import page, url
from auditor.api.pages._visitor import visitor_or_none
from auditor.config import Settings
from auditor.errors import AuditorError, Forbidden, StoreError, Unauthorised
from auditor.store import Store

log = logging.getLogger(__name__)

TITLES = {401: "Log in first", 403: "Not allowed", 404: "There is no such page", 405: "Not like this", 413: "Too large",
          422: "This cannot be done", 429: "Too much at once", 503: "Not now"}  # fmt: skip

NEXT = {
    403: "Log in with a token whose scope allows it; whoever runs this service can make one.",
    404: "It may have been renamed, or dropped after the time that runs are kept.",
    413: "Save fewer columns or partitions, or raise service: max_body.",
}


def create(settings: Settings, store: Store, *, insecure: bool = False) -> FastAPI:
    """The pages as an application, to be mounted at / below everything else; ``insecure`` lets anybody in."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.behind = Behind(settings, store)
    app.state.insecure = insecure
    # Before the audits' own page, whose name may hold slashes.
    for module in (_entry, _overview, _sql, _audit, _run, _day, _tokens):
        app.include_router(module.router)
    app.add_exception_handler(AuditorError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _broken)
    return app


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AuditorError)
    if isinstance(error, Unauthorised):
        return _to_login(request)
    status = error.http_status
    if isinstance(error, StoreError) and status == 503:  # it names files and servers
        log.warning("the store failed: %s", error, extra={"action": "store_failed"})
        return _told(request, status, TITLES[status], "What is kept cannot be read or written now.", retryable=True)
    title = "Not allowed" if isinstance(error, Forbidden) else TITLES.get(status, "That did not work")
    return _told(request, status, title, str(error), retryable=error.retryable and request.method == "GET", name=type(error).__name__)


def _to_login(request: Request) -> Response:
    back = request.url.path + (f"?{request.url.query}" if request.url.query else "") if request.method == "GET" else "/"
    place = f"/login?back={url(back)[1:]}"
    if request.headers.get("HX-Request"):
        return Response(status_code=401, headers={"HX-Redirect": "/login"})
    return RedirectResponse(place, 303)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    sentences = {404: "Nothing stands at this address.", 405: "This address takes other requests only."}
    status = error.status_code
    return _told(request, status, TITLES.get(status, "That did not work"), sentences.get(status, str(error.detail)))


def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    told = [f"{one['loc'][-1]}: {one['msg']}" for one in error.errors()]
    return _told(request, 422, TITLES[422], "; ".join(told))


def _broken(request: Request, error: Exception) -> Response:
    log.error("a page broke", exc_info=error, extra={"action": "page_broke"})
    return _told(request, 500, "Something broke", "This is a fault of the auditor, and not yours; its log has the details.", retryable=True)


def _told(request: Request, status: int, title: str, sentence: str, *, retryable: bool = False, name: str = "") -> Response:
    values: dict[str, Any] = {"title": title, "sentence": sentence, "retryable": retryable, "name": name, "status_code": status}
    try:
        visitor_or_none(request)
    except (AuditorError, HTTPException):  # what keeps us from knowing them is what is being told
        request.scope["auditor.visitor"] = None
    return page(request, "error.html", status=status, next=NEXT.get(status, ""), **values)
