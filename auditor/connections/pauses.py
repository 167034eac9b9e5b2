"""Give snapshots up that nobody reads in while a database is too busy.

An open snapshot makes a server keep every version of every row that is changed meanwhile. While one side waits for its database, for
an hour perhaps, the other side's snapshot lies idle, and its own too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from auditor.background import NEVER, Service
from auditor.connections.connection import Connection
from auditor.waits import waits

LOOKS = 20
"""Looks at the connections in ``snapshot_in_pause`` seconds."""


class PauseWatch:
    """Closes idle snapshots of a run, in a thread that lives while one of its statements is held back."""

    def __init__(self, connections: Callable[[], Iterable[Connection]], stopped: threading.Event) -> None:
        self._connections = connections
        self._stopped = stopped
        self._lock = threading.Lock()
        self._is_watching = False

    def begin(self) -> None:
        """Watch until no statement is held back."""
        with self._lock:
            if not self._is_watching:
                self._is_watching = True
                Service("pause", self._watch, waits().snapshot_in_pause / LOOKS, waits_first=True, stopping=self._stopped).start()

    def _watch(self) -> float | None:
        if self._longest_wait() >= waits().snapshot_in_pause:
            for connection in self._connections():
                connection.give_up_idle_snapshot(waits().snapshot_in_pause)
        return None if self._continues() else NEVER

    def _continues(self) -> bool:
        with self._lock:
            self._is_watching = any(connection.waiting_since is not None for connection in self._connections())
            return self._is_watching

    def _longest_wait(self) -> float:
        now = time.monotonic()
        return max((now - since for connection in self._connections() if (since := connection.waiting_since) is not None), default=0.0)
