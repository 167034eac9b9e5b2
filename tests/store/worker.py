"""Processes that use a store for tests: ``python -m tests.store.worker WHAT URL ARGUMENT...``.

Each opens the store, prints ``ready``, starts after a line on its standard input, and ends when that is closed.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.programs.forking import Forked

ROOT = Path(__file__).parents[2]


class Worker:
    """A worker process, as seen by the test."""

    def __init__(self, what: str, url: str, *arguments: str) -> None:
        self.process = Forked("tests.store.worker", [what, url, *arguments], ROOT)

    def read_line(self) -> str:
        """Return its next line; '' after its end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Let it start."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it, like a crash."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Close its input and wait for its end."""
        self.process.communicate(timeout=60)


def _print(text: str) -> None:
    print(text, flush=True)


def _wait_for_go() -> None:
    _print("ready")
    sys.stdin.readline()


def start_run(url: str, audit: str, run: str) -> None:
    """Start one run, and stay alive."""
    from auditor.errors import AlreadyRunning
    from auditor.store import open_store, run_lifecycle

    store = open_store(url)
    _wait_for_go()
    try:
        run_lifecycle.start_run(store, run=run, audit=audit, definition={"a": 1}, method="exact")
        _print("won")
    except AlreadyRunning as refusal:
        _print(f"lost: {refusal}")
    sys.stdin.readline()


def claim_ticks(url: str, audit: str, ticks: str, threads: str) -> None:
    """Claim ticks in several threads concurrently, and print those that were won."""
    import datetime as dt

    from auditor.store import open_store, queue
    from tests.store.samples import T0

    store = open_store(url)
    won: list[int] = []
    barrier = threading.Barrier(int(threads))

    def one() -> None:
        barrier.wait()
        won.extend(tick for tick in range(int(ticks)) if queue.claim_tick(store, audit, T0 + dt.timedelta(minutes=tick), "thread"))

    _wait_for_go()
    every = [threading.Thread(target=one) for _ in range(int(threads))]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    _print(" ".join(map(str, sorted(won))))


def run_repeatedly(url: str, audit: str) -> None:
    """Write runs with a plan, chunks and many differences, one after another, until killed."""
    from dataclasses import replace

    from auditor.store import open_store, run_lifecycle, runs
    from tests.store.samples import DONE, make_chunk, start_run

    store = open_store(url)
    many = [runs.StoredDifference(kind="missing", key={"id": str(number)}) for number in range(300)]
    _wait_for_go()
    while True:
        run = start_run(store, audit)
        _print(run)
        run_lifecycle.save_plan(store, run, plan=b"plan", schema={})
        for first in range(8):
            run_lifecycle.save_chunk(store, run, make_chunk(first, first + 1, payload=payload(first)))
            run_lifecycle.record_heartbeat(store, run, {"chunks": first})
        run_lifecycle.finish_run(store, run, replace(DONE, report=payload(1), partition_map=payload(2), differences=many))


def payload(seed: int) -> bytes:
    """Return bytes that reveal a partially written chunk."""
    return hashlib.sha256(str(seed).encode()).digest() * 2_000


def open_new_store(url: str) -> None:
    """Open a new store."""
    from auditor.store import open_store

    _wait_for_go()
    open_store(url).close()
    _print("open")


def crash(url: str, statements: str) -> None:
    """Kill this process after so many of the statements that create a store's tables and indexes."""
    from alembic import op

    from auditor.store import open_store

    left = int(statements)

    def counted(create: Callable[..., Any]) -> Callable[..., Any]:
        def kill_or_create(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return create(*arguments, **options)

        return kill_or_create

    op.create_table, op.create_index = counted(op.create_table), counted(op.create_index)
    _wait_for_go()
    open_store(url)
    _print("survived")


if __name__ == "__main__":
    known: dict[str, Callable[..., None]] = {
        "begin": start_run,
        "claim": claim_ticks,
        "live": run_repeatedly,
        "opening": open_new_store,
        "crash": crash,
    }
    known[sys.argv[1]](*sys.argv[2:])
