"""SingleFlight: concurrent requests share a result, and no request gets one whose computation started before it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from auditor.api.dependencies import SingleFlight


class BlockingComputation:
    """A computation that counts its calls, and blocks until it is released."""

    def __init__(self) -> None:
        self.calls = 0
        self.started = threading.Semaphore(0)
        self.released = threading.Semaphore(0)

    def __call__(self) -> int:
        self.calls += 1
        number = self.calls
        self.started.release()
        assert self.released.acquire(timeout=30)
        return number

    async def wait_until_started(self) -> None:
        """Wait until a call has started."""
        assert await asyncio.to_thread(self.started.acquire, timeout=30)


def run_test(test: Callable[[SingleFlight, BlockingComputation], Awaitable[None]]) -> None:
    single_flight, computation = SingleFlight(), BlockingComputation()
    asyncio.run(test(single_flight, computation))  # type: ignore[arg-type]
    assert not single_flight.running and not single_flight.pending


def test_requests_during_a_computation_share_the_next_one() -> None:
    async def test(single_flight: SingleFlight, computation: BlockingComputation) -> None:
        first = asyncio.create_task(single_flight.get("a", computation))
        await computation.wait_until_started()
        others = [asyncio.create_task(single_flight.get("a", computation)) for _ in range(50)]
        await asyncio.sleep(0)
        assert computation.calls == 1
        computation.released.release(2)
        assert [await first, *[await one for one in others]] == [1, *[2] * 50]

    run_test(test)


def test_other_keys_do_not_wait() -> None:
    async def test(single_flight: SingleFlight, computation: BlockingComputation) -> None:
        first = asyncio.create_task(single_flight.get("a", computation))
        await computation.wait_until_started()
        assert await single_flight.get("b", lambda: "at once") == "at once"
        computation.released.release()
        assert await first == 1

    run_test(test)


def test_cancelled_request_does_not_cancel_the_computation() -> None:
    async def test(single_flight: SingleFlight, computation: BlockingComputation) -> None:
        cancelled, remaining = (asyncio.create_task(single_flight.get("a", computation)) for _ in range(2))
        await computation.wait_until_started()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        computation.released.release()
        assert await remaining == 1

    run_test(test)


def test_failure_is_shared_and_not_cached() -> None:
    def fails() -> str:
        raise ValueError("not now")

    async def test(single_flight: SingleFlight, computation: BlockingComputation) -> None:
        both = await asyncio.gather(single_flight.get("a", fails), single_flight.get("a", fails), return_exceptions=True)
        assert [str(error) for error in both] == ["not now"] * 2
        computation.released.release()
        assert await single_flight.get("a", computation) == 1

    run_test(test)
