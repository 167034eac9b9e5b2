"""Routes for health, readiness and metrics."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from auditor.api import metrics
from auditor.api.dependencies import App
from auditor.api.routing import STATUS_DESCRIPTIONS, ScopedRoute, route_options
from auditor.errors import AuditorError
from auditor.store import queue

open_routes = APIRouter(tags=["service"])
routes = APIRouter(tags=["service"], route_class=ScopedRoute)


ComponentState = Literal["ok", "failed", "none"]
"""``none``: this process has no such component; others do its work."""


class Health(BaseModel):
    """The process responds."""

    status: Literal["ok"]


class Readiness(BaseModel):
    """Whether each component works."""

    status: Literal["ready", "not ready"]
    store: ComponentState
    workers: ComponentState
    scheduler: ComponentState


@open_routes.get(
    "/healthz",
    response_model=Health,
    responses={429: {"description": STATUS_DESCRIPTIONS[429]}, 500: {"description": STATUS_DESCRIPTIONS[500]}},
)
async def healthz() -> Health:
    """Liveness: restart the process if this fails. It responds even while all threads wait for databases."""
    return Health(status="ok")


@open_routes.get(
    "/readyz",
    response_model=Readiness,
    responses={
        429: {"description": STATUS_DESCRIPTIONS[429]},
        500: {"description": STATUS_DESCRIPTIONS[500]},
        503: {"model": Readiness, "description": "A component does not work."},
    },
)
def readyz(request: Request, response: Response, app: App) -> Readiness:
    """Readiness: send no requests while this fails."""
    try:
        queue.count_waiting(app.store)
        store: ComponentState = "ok"
    except AuditorError:
        store = "failed"
    workers, scheduler = _component_state(app.workers), _component_state(app.ticker)
    is_ready = "failed" not in (store, workers, scheduler)
    response.status_code = 200 if is_ready else 503
    return Readiness(status="ready" if is_ready else "not ready", store=store, workers=workers, scheduler=scheduler)


def _component_state(part: Any) -> ComponentState:
    """Return whether a component of this process is alive."""
    alive = getattr(part, "alive", None)
    return "none" if part is None else "ok" if alive is None or alive() else "failed"


METRICS_OPTIONS = route_options("read")
METRICS_OPTIONS["responses"][200] = {
    "description": "Metrics in the text format of Prometheus.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}


@routes.get("/metrics", response_class=Response, **METRICS_OPTIONS)
def get_metrics(request: Request) -> Response:
    """Return metrics: the standing of each audit, and counters of this process."""
    collector: metrics.Metrics = request.app.state.metrics
    return Response(collector.text(), media_type=metrics.CONTENT_TYPE)
