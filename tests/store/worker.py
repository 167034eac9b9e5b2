"""Processes that use a store while the tests watch: ``python -m tests.store.worker WHAT URL ARGUMENT...``.

Each opens the store, says ``ready``, and begins when it is told to. With its input closed it ends.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Worker:
    """Such a process, from outside."""

    def __init__(self, what: str, url: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.store.worker", what, url, *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def said(self) -> str:
        """Its next line; "" at its end."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self) -> None:
        """Let it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Wait for its end."""
        self.process.communicate(timeout=60)


def _say(text: str) -> None:
    print(text, flush=True)


def _wait() -> None:
    _say("ready")
    sys.stdin.readline()


def begin(url: str, audit: str, run: str) -> None:
    """Begin one run, and stay alive."""
    from auditor.errors import AlreadyRunning
    from auditor.store import open_store, runs

    store = open_store(url)
    _wait()
    try:
        runs.begin(store, run=run, audit=audit, definition={"a": 1}, method="exact")
        _say("won")
    except AlreadyRunning as refusal:
        _say(f"lost: {refusal}")
    sys.stdin.readline()


def claim(url: str, audit: str, ticks: str, threads: str) -> None:
    """Claim ticks in several threads at once, and tell those that were won."""
    import datetime as dt

    from auditor.store import claims, open_store
    from tests.store.samples import T0

    store = open_store(url)
    won: list[int] = []
    barrier = threading.Barrier(int(threads))

    def one() -> None:
        barrier.wait()
        won.extend(tick for tick in range(int(ticks)) if claims.claim(store, audit, T0 + dt.timedelta(minutes=tick), "thread"))

    _wait()
    every = [threading.Thread(target=one) for _ in range(int(threads))]
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    _say(" ".join(map(str, sorted(won))))


def live(url: str, audit: str) -> None:
    """Run after run, each with a plan, chunks, and many differences, until the end comes from outside."""
    from dataclasses import replace

    from auditor.store import chunks, open_store, runs
    from tests.store.samples import DONE, begun, chunk

    store = open_store(url)
    many = [runs.Kept(kind="missing", key={"id": str(number)}) for number in range(300)]
    _wait()
    while True:
        run = begun(store, audit)
        _say(run)
        runs.pin(store, run, plan=b"plan", schema={})
        for first in range(8):
            chunks.save(store, run, chunk(first, first + 1, payload=payload(first)))
            runs.beat(store, run, {"chunks": first})
        runs.finish(store, run, replace(DONE, report=payload(1), picture=payload(2), differences=many))


def payload(seed: int) -> bytes:
    """Bytes by which half a chunk would be seen."""
    return hashlib.sha256(str(seed).encode()).digest() * 2_000


def opening(url: str) -> None:
    """Open a new store."""
    from auditor.store import open_store

    _wait()
    open_store(url).close()
    _say("open")


def crash(url: str, tables: str) -> None:
    """Die in the middle of making a store's tables."""
    from alembic import op

    from auditor.store import open_store

    left, create = int(tables), op.create_table

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return create(*arguments, **options)

    op.create_table = counted
    _wait()
    open_store(url)
    _say("survived")


if __name__ == "__main__":
    known: dict[str, Callable[..., None]] = {"begin": begin, "claim": claim, "live": live, "opening": opening, "crash": crash}
    known[sys.argv[1]](*sys.argv[2:])
