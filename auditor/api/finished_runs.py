"""Find runs that ended since the process started, each once, in whatever process they ran."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator

from auditor.errors import UnknownRun
from auditor.store import Store, runs
from auditor.store.runs import Ending, StoredRun

LATE_COMMITS = 100
"""Numbers below the newest that each poll reads again: a transaction with a lower number may be committed after one with a higher."""

MAX_OPEN = 1000
"""Open runs that are remembered between polls; beyond that the oldest are forgotten."""


class FinishedRuns:
    """Poll the store for runs that have ended. Each poll reads only new runs and those that had not ended finally.

    Times decide only where the first poll starts. Later they cannot be relied on: two runs may end at the same time, and a run whose
    process died is recorded as ended at its last heartbeat, long before another process detects it.
    """

    def __init__(self, store: Store, since: dt.datetime) -> None:
        self._store = store
        self._last_poll = since
        self._newest: int | None = None
        self._seen: dict[int, Ending] = {}

    def new(self) -> Generator[StoredRun]:
        """Yield the runs that ended since the last call. A run whose processing by the caller fails is yielded again. Raises StoreError."""
        now = dt.datetime.now(dt.UTC)
        since, endings = self._poll()
        for ending in endings:
            before = self._seen.get(ending.number)
            is_new = ending.ended and (before is None or before.ended != ending.ended) and (since is None or ending.ended >= since)
            if is_new and (run := self._load(ending)):
                yield run
            self._seen[ending.number] = ending
        self._last_poll = now
        self._newest = max((ending.number for ending in endings), default=0)
        open_ = [ending for ending in endings if ending.is_open or ending.number > self._newest - LATE_COMMITS]
        self._seen = {ending.number: ending for ending in open_[-MAX_OPEN:]}

    def _poll(self) -> tuple[dt.datetime | None, list[Ending]]:
        """Return the runs that may have ended since, and for the first poll the time after which they must have ended."""
        if self._newest is not None:
            floor = self._newest - LATE_COMMITS
            endings = runs.list_endings(self._store, floor, self._seen)
            # SQLite reuses numbers after all runs above them were deleted; then read all runs.
            if not self._newest or any(ending.number > floor for ending in endings):
                return None, endings
        return self._last_poll, runs.list_endings(self._store)

    def _load(self, ending: Ending) -> StoredRun | None:
        try:
            return runs.get_run(self._store, ending.run)
        except UnknownRun:  # deleted since the poll
            return None
