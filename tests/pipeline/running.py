"""A pipeline that runs in a thread of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from auditor.pipeline.run import Run

PATIENCE = 240
"""Seconds after which a run counts as stuck: Spark alone takes half a minute to start on a busy machine."""


class Running:
    """A run in a thread, which is stopped at the end of the block."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.error: Exception | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.run.run()
        except Exception as error:
            self.error = error

    def __enter__(self) -> Running:
        self.thread.start()
        return self

    def until(self, reached: Callable[[], bool], every: float = 0.05) -> None:
        """Look for a condition every so many seconds until it holds; fail if the run ends before."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            assert self.thread.is_alive() and time.monotonic() < deadline, self.error
            time.sleep(every)

    def __exit__(self, *_: object) -> None:
        self.run.stop.set()
        self.thread.join(PATIENCE)
