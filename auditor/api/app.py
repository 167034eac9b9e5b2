"""The service as one application: the API, the pages, and what stands before both."""

from __future__ import annotations

from collections.abc import Iterable
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
from auditor.api import audits, guards, health, live, problems, repairs, reports, routing, runs
from auditor.api.behind import Behind
from auditor.api.metrics import Metrics
from auditor.config import Settings
from auditor.errors import AuditorError
from auditor.schedule import Ticker
from auditor.service.queueing import Workers
from auditor.store import Store

OURS = ("/api", "/healthz", "/readyz", "/metrics")
"""Addresses that are none of the pages'."""

ABOUT = """Request audits and read what they found.

Every request but those for `/healthz`, `/readyz` and this document needs a token: `Authorization: Bearer aud_...`, of the scope that
`x-scope` names. The scopes `run` and `repair` include `read`; `define` includes `run`. A request that is not answered is told why
as problem details (RFC 9457), always in the one shape of the schema `Problem`. Audits are named, or
defined by the names of configured connections, tables and columns: callers pass no SQL, no hosts, no URLs and no paths.
The auditor writes into none of the tables that it compares, and offers neither patch nor bootstrap: a repair is the record of what somebody
did elsewhere to mend a target.
Lists are cut into pages: ask again with `cursor` set to the `next` of the page before, until it is null.
"""


def create_app(
    settings: Settings, store: Store, *, workers: Workers | None = None, ticker: Ticker | None = None, insecure: bool = False
) -> FastAPI:
    """The application; ``workers`` and ``ticker`` are those of its process, where it has any, and its readiness tells of them.

    With ``insecure`` nobody needs a token: `sessions.check_exposure` keeps that from being so by accident.
    """
    app = FastAPI(
        title="auditor",
        version=__version__,
        description=ABOUT,
        openapi_url=f"{routing.PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.behind = behind = Behind(settings, store, workers, ticker)
    app.state.insecure = insecure
    app.state.metrics = Metrics(behind)
    for routes in (health.open_routes, health.routes, audits.routes, runs.routes, live.routes, repairs.routes, reports.routes):
        app.include_router(routes)
    app.add_exception_handler(AuditorError, problems.refused)
    app.add_exception_handler(RequestValidationError, problems.invalid)
    app.add_exception_handler(HTTPException, _http)
    app.openapi = lambda: _documented(app)  # type: ignore[method-assign]
    app.router.default = _Elsewhere(_pages(settings, store, insecure))
    app.add_middleware(guards.Size, most=settings.service.max_body)
    app.add_middleware(guards.Rate, rate=settings.service.rate)
    app.add_middleware(guards.Slashes, prefix="/api/")
    app.add_middleware(guards.Shield)
    return app


def _pages(settings: Settings, store: Store, insecure: bool) -> ASGIApp | None:
    from auditor.api import pages

    return pages.create(settings, store, insecure=insecure)


class _Elsewhere:
    """What is none of the API's goes to the pages."""

    def __init__(self, pages: ASGIApp | None) -> None:
        self.pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if scope["type"] != "http" or self.pages is None or any(path == one or path.startswith(f"{one}/") for one in OURS):
            if scope["type"] == "http":
                raise HTTPException(404)
            return
        await self.pages(scope, receive, send)


def _http(request: Request, error: Exception) -> Response:
    """The framework's refusals; of a method it is told which others there are."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        error.headers = {"Allow": ", ".join(sorted(_methods(request.scope["path"])))}
    return problems.http(request, error)


def _methods(path: str) -> Iterable[str]:
    """The methods of all routes at a path; each route knows its own alone."""
    every = (health.open_routes, health.routes, audits.routes, runs.routes, live.routes, repairs.routes, reports.routes)
    at_path = (route for routes in every for route in routes.routes if isinstance(route, APIRoute) and route.path_regex.match(path))
    return {method for route in at_path for method in route.methods or ()} or {"GET"}


def _documented(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the one shape of what is not answered."""
    if app.openapi_schema:
        return app.openapi_schema
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    problem = problems.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {})
    schemas["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": "auditor token create"}}
    shape = {problems.TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for operations in made["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if status >= "400" and not response.get("content", {}).get("application/json", {}).get("schema", {}).get(
                    "$ref", ""
                ).endswith("Readiness"):
                    response["content"] = shape
    app.openapi_schema = made
    return made
