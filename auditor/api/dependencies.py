"""The application's state, as a dependency of its routes: settings, store, workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from auditor.config import Settings
from auditor.service import audits
from auditor.store import Store

if TYPE_CHECKING:
    from auditor.service.pipeline_processes import PipelineProcesses
    from auditor.service.scheduler import Ticker
    from auditor.service.workers import Workers


Result = TypeVar("Result")


class SingleFlight:
    """Run one computation per key at a time. Requests that arrive while it runs share the next one.

    A result is therefore never older than its request, and many concurrent requests cost as much as a few: without this, a service
    that slows down for a moment accumulates work.
    """

    def __init__(self) -> None:
        # Keys include the event loop, because a loop can only await its own tasks.
        self.running: dict[Hashable, asyncio.Task[Any]] = {}
        """The computations that run, by key."""
        self.pending: dict[Hashable, asyncio.Task[Any]] = {}
        """Those that begin once the one of their key has ended."""

    async def get(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return or raise what ``compute`` returns or raises. It is called in a thread."""
        key = (asyncio.get_running_loop(), key)
        if key not in self.pending:
            self.pending[key] = asyncio.create_task(self._run(key, compute))
        return cast(Result, await asyncio.shield(self.pending[key]))  # others still wait for it when this request is cancelled

    async def _run(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        if previous := self.running.get(key):
            await asyncio.wait([previous])
        self.running[key] = self.pending.pop(key)
        try:
            return await run_in_threadpool(compute)
        finally:
            del self.running[key]


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
