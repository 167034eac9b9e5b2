"""Save what a scan reads while its connections read on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from auditor import telemetry
from auditor.model import Chunk, Side
from auditor.summary.arrays import Summaries

SaveChunk = Callable[[Side, Chunk, Summaries, float, int], None]
"""Saves the summaries of a chunk, with the seconds and attempts that reading it took."""


class BackgroundSaver:
    """Saves chunks in a thread of its own, one at a time, so that a server does not wait for the store's disk between two statements.

    A chunk is handed over once the one before is saved: so a process that is killed has lost at most one chunk per scan that it had read.
    An error is raised where the next chunk is handed over, or at the end of the block, which waits for what is not saved yet.
    """

    def __init__(self, save: SaveChunk) -> None:
        self._save = telemetry.with_current_context(save)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="save")
        self._lock = threading.Lock()
        self._last: Future[None] | None = None

    def __enter__(self) -> BackgroundSaver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._pool.shutdown()
        if self._last and not kind:
            self._last.result()

    def save(self, side: Side, chunk: Chunk, part: Summaries, seconds: float, attempts: int) -> None:
        """Save a chunk in the background. Raises the error of the chunk before."""
        with self._lock:
            if self._last:
                self._last.result()
            self._last = self._pool.submit(self._save, side, chunk, part, seconds, attempts)
