"""Whether the service lives, whether it can work, and its numbers."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from auditor.api import metrics
from auditor.api.behind import Given
from auditor.api.routing import SENTENCES, Scoped, needs
from auditor.errors import AuditorError
from auditor.store import queue

open_routes = APIRouter(tags=["service"])
routes = APIRouter(tags=["service"], route_class=Scoped)


State = Literal["ok", "failed", "none"]
"""Of a part: ``none`` where other processes do its work."""


class Health(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """Whether each part can work."""

    status: Literal["ready", "not ready"]
    store: State
    workers: State
    scheduler: State


@open_routes.get("/healthz", response_model=Health, responses={429: {"description": SENTENCES[429]}, 500: {"description": SENTENCES[500]}})
async def healthz() -> Health:
    """Whether the process lives: restart it if not. It answers even while every thread waits for a database."""
    return Health(status="ok")


@open_routes.get(
    "/readyz",
    response_model=Readiness,
    responses={
        429: {"description": SENTENCES[429]},
        500: {"description": SENTENCES[500]},
        503: {"model": Readiness, "description": "Something cannot work."},
    },
)
def readyz(request: Request, response: Response, given: Given) -> Readiness:
    """Whether requests can be answered: send none as long as not."""
    try:
        queue.waiting(given.store)
        store: State = "ok"
    except AuditorError:
        store = "failed"
    workers, scheduler = _state(given.workers), _state(given.ticker)
    ready = "failed" not in (store, workers, scheduler)
    response.status_code = 200 if ready else 503
    return Readiness(status="ready" if ready else "not ready", store=store, workers=workers, scheduler=scheduler)


def _state(part: Any) -> State:
    """Whether a part of this process does its work."""
    alive = getattr(part, "alive", None)
    return "none" if part is None else "ok" if alive is None or alive() else "failed"


DECLARED = needs("read")
DECLARED["responses"][200] = {
    "description": "The numbers, as Prometheus reads them.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


@routes.get("/metrics", response_class=Response, **DECLARED)
def numbers(request: Request) -> Response:
    """How each audit stands, and what this process counted."""
    found: metrics.Metrics = request.app.state.metrics
    return Response(found.text(), media_type=metrics.TYPE)
