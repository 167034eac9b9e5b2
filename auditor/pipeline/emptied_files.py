"""Files whose parts were copied into others: they stay for a while, because a reader may still look for the parts there.

What is left by a process that ends meanwhile is in no manifest, and is swept when the pipeline starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from auditor.durations import durations
from auditor.errors import StagingFailed
from auditor.pipeline.folders import Folder
from auditor.store import Store, parts


@dataclass(slots=True)
class EmptiedFiles:
    """The files of a pipeline that are to be deleted once nobody reads them."""

    store: Store
    name: str
    root: Folder
    clock: Callable[[], float] = time.monotonic
    _since: dict[str, float] = field(default_factory=dict)

    def add(self, paths: Iterable[str]) -> None:
        """Let files be deleted later."""
        self._since |= dict.fromkeys(paths, self.clock())

    def delete(self) -> None:
        """Delete those that had no part for long enough. Raises StagingFailed and StoreError; the next call tries it again."""
        due = {path for path, since in self._since.items() if self.clock() >= since + durations().part_reader}
        if not due:
            return
        try:
            self.root.delete(sorted(due - parts.find_listed(self.store, self.name, due)))
        except OSError as error:
            raise StagingFailed(f"parts below {self.root} cannot be deleted: {error.strerror or error}") from error
        for path in due:
            del self._since[path]
