"""Wait until the targets of a pipeline hold what a refresh wrote into the source's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.pipeline.binlog.place import Place
from auditor.store import Store, parts, pipelines
from auditor.store.refreshes import Refresh


@dataclass(slots=True)
class Arrival:
    """Whether the rows of refreshes that are done are in the targets; looked at again and again."""

    store: Store
    pipeline: str
    targets: Sequence[str]
    _needed: dict[str, int] = field(default_factory=dict)
    """Up to which position a target must hold a refresh's table."""

    def lacking(self, requests: Sequence[Refresh]) -> dict[str, list[str]]:
        """Return the tables that each target still lacks, and under '' those that are not staged yet. Raises StoreError."""
        offset, merges = pipelines.get_pipeline(self.store, self.pipeline).source_offset, pipelines.list_merges(self.store, self.pipeline)
        lacking: dict[str, list[str]] = {}
        for refresh in requests:
            if refresh.refresh not in self._needed:
                if not _is_staged(refresh.progress, offset):
                    lacking.setdefault("", []).append(refresh.table)
                    continue
                staged = parts.list_tables(self.store, self.pipeline).get(refresh.table)
                self._needed[refresh.refresh] = staged.staged_through if staged else 0
            for target in self.targets:
                merged = merges.get(target, {}).get(refresh.table)
                if (merged.position if merged else 0) < self._needed[refresh.refresh]:
                    lacking.setdefault(target, []).append(refresh.table)
        return lacking


def _is_staged(progress: Mapping[str, object], offset: Mapping[str, Any] | None) -> bool:
    """Return whether everything was staged up to the end of the log at the end of a refresh.

    Places in the logs of two servers have no common order: what ended in an epoch before a failover is staged if that server was read so
    far then. What was not comes through the new server, at a place that is not known, so that it never counts as staged.
    """
    end = progress.get("end")
    if not isinstance(end, list) or not offset or "." not in str(offset.get("file")):
        return False
    file, position, server, *epochs = end
    epoch = epochs[0] if epochs else offset.get("epoch", 0)
    here = [offset.get("server", ""), offset["file"], offset["position"]]
    read_server, read_file, read_position = (
        here if epoch == offset.get("epoch", 0) else offset.get("left", {}).get(str(epoch), ("?", "", 0))
    )
    if read_server not in ("", server):
        return False
    return Place(str(read_file), int(read_position)).order >= Place(str(file), int(position)).order
