"""The application's state, as a dependency of its routes: settings, store, workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends, Request

from auditor.api.single_flight import SingleFlight
from auditor.config import Settings
from auditor.service import audits
from auditor.store import Store

if TYPE_CHECKING:
    from auditor.service.pipeline_processes import PipelineProcesses
    from auditor.service.scheduler import Ticker
    from auditor.service.workers import Workers


@dataclass(frozen=True, slots=True)
class AppState:
    """What the service was started with. ``workers``, ``ticker`` and ``pipelines`` are None if they run in other processes."""

    configured: Settings
    store: Store
    workers: Workers | None = None
    ticker: Ticker | None = None
    pipelines: PipelineProcesses | None = None
    single_flight: SingleFlight = field(default_factory=SingleFlight)

    @property
    def settings(self) -> Settings:
        """The settings together with the audits that were defined over HTTP."""
        return audits.with_defined_audits(self.configured, self.store)


async def get_app_state(request: Request) -> AppState:
    """Return the state of the application. It is async because it does not block, so the framework needs no thread for it."""
    return cast(AppState, request.app.state.app_state)


App = Annotated[AppState, Depends(get_app_state)]
