"""The application's state, as a dependency of its routes: settings, store, workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from auditor.api import audit_access
from auditor.config import LimitedSettings, Settings
from auditor.service import audits
from auditor.store import Store, runs

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

    unlimited: Settings
    """The whole configuration, also where the caller is limited to some of its audits."""
    store: Store
    workers: Workers | None = None
    ticker: Ticker | None = None
    pipelines: PipelineProcesses | None = None
    single_flight: SingleFlight = field(default_factory=SingleFlight)
    scope: Mapping[str, Any] | None = None
    """The request that the state is used for, by which the caller is known; None outside of requests."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of audits that the caller is limited to; empty for all."""
        visitor = self.scope.get("auditor.visitor") if self.scope is not None else None
        return visitor.audits if visitor is not None else ()

    @property
    def configured(self) -> Settings:
        """The configuration, for a limited caller without the audits of others."""
        return LimitedSettings.of(self.unlimited, patterns) if (patterns := self.patterns) else self.unlimited

    @property
    def visible(self) -> tuple[str, ...] | None:
        """The names of all stored audits that a limited caller may see; None for one that sees all."""
        if not (patterns := self.patterns):
            return None
        return tuple(name for name in runs.list_audits(self.store) if audit_access.matches(name, patterns))

    @property
    def settings(self) -> Settings:
        """The settings together with the audits that were defined over HTTP."""
        return audits.with_defined_audits(self.configured, self.store)


async def get_app_state(request: Request) -> AppState:
    """Return the state of the application. It is async because it does not block, so the framework needs no thread for it."""
    return replace(cast(AppState, request.app.state.app_state), scope=request.scope)


App = Annotated[AppState, Depends(get_app_state)]
