"""One answer for all who ask the same at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from starlette.concurrency import run_in_threadpool

Answer = TypeVar("Answer")


class Shared:
    """Makes one answer at a time to each question. Who asks meanwhile gets the next one, and shares it with all who wait for it.

    So an answer is never older than its question, and many who ask at once cost as much as a few: without this, a service that fell
    behind for a moment would have more to do than before, not less.
    """

    def __init__(self) -> None:
        # By the loop too: a loop waits for its own tasks alone.
        self._made: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, question: Hashable, answer: Callable[[], Answer]) -> Answer:
        """What ``answer`` returns or raises, which is called in a thread."""
        asked = (asyncio.get_running_loop(), question)
        if asked not in self._next:
            self._next[asked] = asyncio.create_task(self._make(asked, answer))
        return cast(Answer, await asyncio.shield(self._next[asked]))  # others wait for it still when one of them goes

    async def _make(self, asked: Hashable, answer: Callable[[], Answer]) -> Answer:
        if before := self._made.get(asked):
            await asyncio.wait([before])
        self._made[asked] = self._next.pop(asked)
        try:
            return await run_in_threadpool(answer)
        finally:
            del self._made[asked]
