"""Holds the sums that are kept of a table's files against full scans, at the versions of a random history of the table."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import numpy as np

from auditor.config import Audit, ConnectionSettings
from auditor.connections.reader import Reader
from auditor.model import FilesRead, Side
from auditor.planning import build, introspect
from auditor.run.cross_checks import CrossChecks
from auditor.run.file_summaries import FileSummaries
from auditor.run.scan import scan_side
from auditor.store import Store
from auditor.store.file_sums import KeptFileSums

WAYS: list[dict[str, Any]] = [
    {},
    {"partition": {"strategy": "hash", "buckets": 7}},
    {"method": "signature", "where": "id < 300"},
    {"bits": 120, "t": 5, "salt": "same"},
]
"""Settings of audits that decide how rows are summed."""


class History(Protocol):
    """A table that changes at random."""

    chance: random.Random
    versions: list[Any]
    oldest: int
    """The place of the first version whose files are all there."""

    def create(self) -> None:
        """Make the table."""

    def change(self) -> str:
        """Make the next version, and return by what."""

    def vacuum(self) -> None:
        """Delete the files that the newest version does not have."""

    def names(self, place: int) -> Collection[str]:
        """Return the names of the columns of a version."""


def assert_as_scanned(
    url: str, store: Store, versions: Mapping[Side, int], name: str = "t", rows: Mapping[Side, int] | None = None, **more: Any
) -> dict[Side, FilesRead]:
    """Compare the sums of both sides' files with a scan of the version, and with the rows that there are; return what was read."""
    sides = {side: {"connection": "lake", "table": name, "version": version} for side, version in versions.items()}
    audit = Audit.model_validate({**sides, "key": ["id"], "files": "kept", **more})
    files = FileSummaries(audit, KeptFileSums(store, "history"))
    names: dict[Side, str] = {"source": "lake", "target": "lake"}
    with Reader("history", names, {"lake": ConnectionSettings(url=url)}, patient=False).open() as reader:
        files.recall(reader)
        tables = introspect.describe_tables(reader, audit)
        draft = build.draft_plan("history", audit, reader, tables, None, None)
        reader.begin_snapshots()
        plan = files.make_plan(reader, tables, draft, CrossChecks(reader))
        for side in names:
            kept, scanned = files.summaries(plan, side), scan_side(reader, plan, side)
            assert len(scanned) or not len(kept)
            for what in ("partition", "rows", "hashed", "words", "syndromes"):
                assert np.array_equal(getattr(kept, what), getattr(scanned, what)), (side, versions, what)
            if rows is not None and not audit.where:
                assert int(kept.rows.sum()) == rows[side], (side, versions)
    return files.read


def follow(history: History, count: int, compare: Callable[[int, int], Mapping[Side, FilesRead]]) -> tuple[int, int]:
    """Compare so many versions, each beside a random older one, by their places in the history; return files there were and were read."""
    history.create()
    there = seen = 0
    for _ in range(count):
        history.change()
        if history.chance.random() < 0.05:
            history.vacuum()
        newest = len(history.versions) - 1
        older = history.chance.randrange(history.oldest, newest + 1)
        if set(history.names(older)) != set(history.names(newest)):
            older = newest  # other columns are compared, and no audit is of both
        found = compare(older, newest)
        there += sum(side.files for side in found.values())
        seen += sum(side.read for side in found.values())
    return there, seen
