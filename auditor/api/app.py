"""The ASGI application: the API, the pages and the middleware in front of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from auditor import __version__
from auditor.api import audits, errors, health, incidents, middleware, repairs, reports, routing, runs
from auditor.api import pipelines as pipeline_routes
from auditor.api.dependencies import AppState
from auditor.api.metrics import Metrics
from auditor.config import Settings
from auditor.errors import AuditorError
from auditor.service.pipeline_processes import PipelineProcesses
from auditor.service.scheduler import Ticker
from auditor.service.workers import Workers
from auditor.store import Store

NON_PAGE_PATHS = ("/api", "/healthz", "/readyz", "/metrics")
"""Paths, with everything below them, that are not passed to the pages."""

ROUTERS = (
    health.open_routes,
    health.routes,
    audits.routes,
    runs.routes,
    incidents.routes,
    repairs.repair_routes,
    repairs.patch_routes,
    reports.routes,
    repairs.bootstrap_routes,
    pipeline_routes.routes,
    audits.segment_routes,
)

API_DESCRIPTION = """Request audits and read their results.

Every request except those for `/healthz`, `/readyz` and this document needs a token: `Authorization: Bearer aud_...`, with the scope
that `x-scope` names. Every scope includes `read`; `define`, `pipeline` and `repair` include `run`; `apply` includes `repair`.

Errors are problem details (RFC 9457) in the schema `Problem`.

Requests name configured audits, or define audits by the names of configured connections, tables and columns. They cannot contain SQL,
hosts, URLs or paths. The service reads the tables it compares, and writes into a target in one case alone: when a patch is applied or
undone, with the scope `apply`, through the connection that `write` of its settings names. What pipelines write, into their sources too,
is asked for with the scope `pipeline`. A patch is proposed first, from the confirmed
differences of a run; it says row by row what it would change, and is applied only as it was proposed. Tables are copied again
(bootstrapped) on the command line alone. A repair is a record of what was done, by a patch or elsewhere.

HEAD is answered wherever GET is, without the body.

Lists are paginated: pass `next` of a page as `cursor` to get the following one, until `next` is null.
"""


def create_app(
    settings: Settings,
    store: Store,
    *,
    workers: Workers | None = None,
    ticker: Ticker | None = None,
    pipelines: PipelineProcesses | None = None,
    insecure: bool = False,
) -> FastAPI:
    """Create the application.

    ``workers`` and ``ticker`` are those of this process, if it has any; `/readyz` reports their state. ``pipelines`` are the processes that
    it runs pipelines in. With ``insecure`` everybody
    reads and runs audits without a token; call `authentication.check_exposure` first so that such a service is not reachable by accident.
    """
    app = FastAPI(
        title="auditor",
        version=__version__,
        description=API_DESCRIPTION,
        openapi_url=f"{routing.PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.app_state = app_state = AppState(settings, store, workers, ticker, pipelines)
    app.state.insecure = insecure
    app.state.metrics = Metrics(app_state)
    for routes in ROUTERS:
        app.include_router(routes)
    app.add_exception_handler(AuditorError, errors.handle_auditor_error)
    app.add_exception_handler(RequestValidationError, errors.handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    app.router.default = _PagesFallback(_create_pages(settings, store, pipelines, insecure, lambda: _openapi(app)))
    app.add_middleware(middleware.CompressionMiddleware)
    app.add_middleware(middleware.HeadMiddleware)
    app.add_middleware(middleware.BodySizeMiddleware, max_bytes=settings.service.max_body)
    app.add_middleware(middleware.RateLimitMiddleware, rate=settings.service.requests_per_minute)
    app.add_middleware(middleware.EncodedSlashMiddleware, prefix="/api/")
    app.add_middleware(middleware.HostMiddleware, allowed=settings.service.host_names)
    app.add_middleware(middleware.RequestMiddleware)
    return app


def _create_pages(
    settings: Settings, store: Store, processes: PipelineProcesses | None, insecure: bool, describe_api: Callable[[], dict[str, Any]]
) -> ASGIApp | None:
    from auditor.api import pages

    return pages.create(settings, store, processes, insecure=insecure, describe_api=describe_api)


class _PagesFallback:
    """Pass requests that no API route matches to the pages; answer 404 below NON_PAGE_PATHS."""

    def __init__(self, pages: ASGIApp | None) -> None:
        self.pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on or reject one request."""
        path = scope["path"]
        if (
            scope["type"] != "http"
            or self.pages is None
            or any(path == prefix or path.startswith(f"{prefix}/") for prefix in NON_PAGE_PATHS)
        ):
            if scope["type"] == "http":
                raise HTTPException(404)
            return
        await self.pages(scope, receive, send)


def _handle_http_exception(request: Request, error: Exception) -> Response:
    """Return the framework's error as a problem; for 405 list the path's methods in Allow."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        error.headers = {"Allow": ", ".join(sorted(_allowed_methods(request.scope["path"])))}
    return errors.handle_http_exception(request, error)


def _allowed_methods(path: str) -> Iterable[str]:
    """Return the methods of all routes at a path. The framework considers the first matching route only."""
    at_path = (route for routes in ROUTERS for route in routes.routes if isinstance(route, APIRoute) and route.path_regex.match(path))
    methods = {method for route in at_path for method in route.methods or ()} or {"GET"}
    return methods | {"HEAD"} if "GET" in methods else methods


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document with `Problem` as the content of every error response."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    problem = errors.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {})
    schemas["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": "auditor token create"}}
    shape = {errors.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["summary"] = _first_sentence(operation.get("description", "")) or operation["summary"]
            for status, response in operation["responses"].items():
                schema = response.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
                if status >= "400" and not schema.endswith("Readiness"):  # /readyz answers 503 in its own schema
                    response["content"] = shape
    app.openapi_schema = document
    return document


def _first_sentence(text: str) -> str:
    """Return the first sentence of a route's documentation, without its point."""
    return " ".join(re.split(r"\.(?:\s|$)", text, maxsplit=1)[0].split())
