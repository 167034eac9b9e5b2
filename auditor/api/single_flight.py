"""Share one computation among concurrent requests for the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from starlette.concurrency import run_in_threadpool

Result = TypeVar("Result")


class SingleFlight:
    """Run one computation per key at a time. Requests that arrive while it runs share the next one.

    A result is therefore never older than its request, and many concurrent requests cost as much as a few: without this, a service
    that slows down for a moment accumulates work.
    """

    def __init__(self) -> None:
        # Keys include the event loop, because a loop can only await its own tasks.
        self._running: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return or raise what ``compute`` returns or raises. It is called in a thread."""
        key = (asyncio.get_running_loop(), key)
        if key not in self._next:
            self._next[key] = asyncio.create_task(self._run(key, compute))
        return cast(Result, await asyncio.shield(self._next[key]))  # others still wait for it when this request is cancelled

    async def _run(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        if previous := self._running.get(key):
            await asyncio.wait([previous])
        self._running[key] = self._next.pop(key)
        try:
            return await run_in_threadpool(compute)
        finally:
            del self._running[key]
