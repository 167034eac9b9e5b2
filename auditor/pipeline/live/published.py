"""Which epochs the tasks of a stream sum up: a note in the staging's folder, because tasks do not reach the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from auditor.errors import StagingFailed
from auditor.history.stored_plan import load_plan
from auditor.model import Plan
from auditor.pipeline.folders import Folder

NOTE = "live.json"
"""The note's name in the staging's folder, which only the pipeline's user can read: it holds salts."""


@dataclass(frozen=True, slots=True)
class PublishedEpoch:
    """An epoch as tasks know it."""

    id: str
    table: str
    where: str
    """The audit's filter in the portable language; '' for all rows."""
    plan: Plan


def published(root: Folder) -> Sequence[PublishedEpoch]:
    """Return the epochs that are to be summed up. Raises StagingFailed."""
    try:
        text = root.read_note(NOTE)
    except OSError as error:
        raise StagingFailed(f"{root}/{NOTE} cannot be read: {error.strerror or error}") from error
    epochs = []
    for epoch in json.loads(text or "[]"):
        plan = load_plan(json.dumps(epoch["plan"]).encode())
        if plan is not None:  # else it is of another version: its parts have no sums, and the epoch ends
            epochs.append(PublishedEpoch(epoch["id"], epoch["table"], epoch["where"], plan))
    return epochs
