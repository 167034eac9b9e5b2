"""The runs that ended since a process began, each told once, by whatever process of the store it was carried out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator

from auditor.errors import UnknownRun
from auditor.store import Store, runs
from auditor.store.runs import Ending, StoredRun

LATE = 100
"""Runs below the newest that are looked at again: a transaction that took a lower number may be committed after one with a higher."""

OPEN = 1000
"""Runs that may still end, beyond which the oldest are not waited for."""


class Endings:
    """What each look finds new: only runs that were not there before, or had not ended for good, are looked at again.

    Moments decide nothing but where the first look begins: two runs may end in the same one, and a run whose process is gone ends
    at its last sign of life, which is long past when somebody finds it.
    """

    def __init__(self, store: Store, since: dt.datetime) -> None:
        self._store = store
        self._looked = since
        self._newest: int | None = None
        self._seen: dict[int, Ending] = {}

    def new(self) -> Generator[StoredRun]:
        """The runs that ended since the look before. One that its reader fails on is told again. Raises StoreError."""
        now = dt.datetime.now(dt.UTC)
        since, found = self._look()
        for one in found:
            before = self._seen.get(one.number)
            news = one.ended and (before is None or before.ended != one.ended) and (since is None or one.ended >= since)
            if news and (run := self._read(one)):
                yield run
            self._seen[one.number] = one
        self._looked = now
        self._newest = max((one.number for one in found), default=0)
        open_ = [one for one in found if one.is_open or one.number > self._newest - LATE]
        self._seen = {one.number: one for one in open_[-OPEN:]}

    def _look(self) -> tuple[dt.datetime | None, list[Ending]]:
        """What may be new; of the first look, with the moment that it has to have ended since."""
        if self._newest is not None:
            floor = self._newest - LATE
            found = runs.endings(self._store, floor, self._seen)
            # SQLite gives numbers again once all runs above them were deleted: then all is looked at anew.
            if not self._newest or any(one.number > floor for one in found):
                return None, found
        return self._looked, runs.endings(self._store)

    def _read(self, one: Ending) -> StoredRun | None:
        try:
            return runs.find(self._store, one.run)
        except UnknownRun:  # it was deleted meanwhile
            return None
