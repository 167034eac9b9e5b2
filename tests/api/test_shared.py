"""Who asks at the same moment shares an answer, and nobody gets one that was begun before they asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from auditor.api.shared import Shared


class Slow:
    """An answer that is counted, and takes until it is let go."""

    def __init__(self) -> None:
        self.made = 0
        self.begun = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def __call__(self) -> int:
        self.made += 1
        number = self.made
        self.begun.release()
        assert self.let_go.acquire(timeout=30)
        return number

    async def has_begun(self) -> None:
        """Wait until it is being made."""
        assert await asyncio.to_thread(self.begun.acquire, timeout=30)


def asked(test: Callable[[Shared, Slow], Awaitable[None]]) -> None:
    shared, slow = Shared(), Slow()
    asyncio.run(test(shared, slow))  # type: ignore[arg-type]
    assert not shared._made and not shared._next


def test_those_who_ask_while_it_is_made_share_the_next() -> None:
    async def test(shared: Shared, slow: Slow) -> None:
        first = asyncio.create_task(shared.get("a", slow))
        await slow.has_begun()
        others = [asyncio.create_task(shared.get("a", slow)) for _ in range(50)]
        await asyncio.sleep(0)
        assert slow.made == 1
        slow.let_go.release(2)
        assert [await first, *[await one for one in others]] == [1, *[2] * 50]

    asked(test)


def test_other_questions_do_not_wait() -> None:
    async def test(shared: Shared, slow: Slow) -> None:
        first = asyncio.create_task(shared.get("a", slow))
        await slow.has_begun()
        assert await shared.get("b", lambda: "at once") == "at once"
        slow.let_go.release()
        assert await first == 1

    asked(test)


def test_who_goes_does_not_take_the_answer_along() -> None:
    async def test(shared: Shared, slow: Slow) -> None:
        goes, stays = (asyncio.create_task(shared.get("a", slow)) for _ in range(2))
        await slow.has_begun()
        goes.cancel()
        with pytest.raises(asyncio.CancelledError):
            await goes
        slow.let_go.release()
        assert await stays == 1

    asked(test)


def test_a_failure_is_everybodys_and_the_next_is_made_anew() -> None:
    def fails() -> str:
        raise ValueError("not now")

    async def test(shared: Shared, slow: Slow) -> None:
        both = await asyncio.gather(shared.get("a", fails), shared.get("a", fails), return_exceptions=True)
        assert [str(error) for error in both] == ["not now"] * 2
        slow.let_go.release()
        assert await shared.get("a", slow) == 1

    asked(test)
