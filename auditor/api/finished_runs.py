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
        since, found = self._poll()
        for one in found:
            before = self._seen.get(one.number)
            is_new = one.ended and (before is None or before.ended != one.ended) and (since is None or one.ended >= since)
            if is_new and (run := self._load(one)):
                yield run
            self._seen[one.number] = one
        self._last_poll = now
        self._newest = max((one.number for one in found), default=0)
        open_ = [one for one in found if one.is_open or one.number > self._newest - LATE_COMMITS]
        self._seen = {one.number: one for one in open_[-MAX_OPEN:]}

    def _poll(self) -> tuple[dt.datetime | None, list[Ending]]:
        """Return the runs that may have ended since, and for the first poll the time after which they must have ended."""
        if self._newest is not None:
            floor = self._newest - LATE_COMMITS
            found = runs.list_endings(self._store, floor, self._seen)
            # SQLite reuses numbers after all runs above them were deleted; then read all runs.
            if not self._newest or any(one.number > floor for one in found):
                return None, found
        return self._last_poll, runs.list_endings(self._store)

    def _load(self, one: Ending) -> StoredRun | None:
        try:
            return runs.get_run(self._store, one.run)
        except UnknownRun:  # deleted since the poll
            return None
