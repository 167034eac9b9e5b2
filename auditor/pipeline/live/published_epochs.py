"""Which epochs the tasks of a stream sum up: a note in the staging's folder, because tasks do not reach the store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.errors import StagingFailed
from auditor.history.stored_plan import load_plan
from auditor.model import LiveEpoch, Plan
from auditor.pipeline.folders import Folder

if TYPE_CHECKING:
    from auditor.store import Store

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
    ledger: bool = False
    """Whether merges keep a ledger, so that rows that are sent again count, too."""


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
            epochs.append(PublishedEpoch(epoch["id"], epoch["table"], epoch["where"], plan, epoch["ledger"]))
    return epochs


def publish(store: Store, pipeline: str, root: Folder) -> None:
    """Let the tasks that begin from now on sum up the epochs of a pipeline that have not ended.

    It reads again once it has written, so that of two processes that do this the later one writes what both know. Raises StoreError and
    StagingFailed.
    """
    try:
        written = root.read_note(NOTE) or "[]"
        while (wanted := _list(store, pipeline)) != written:
            root.put(NOTE, wanted.encode())
            written = wanted
    except OSError as error:
        raise StagingFailed(f"{root}/{NOTE} cannot be written: {error.strerror or error}") from error


def _list(store: Store, pipeline: str) -> str:
    from auditor.store import live_epochs  # which tasks do not load

    return json.dumps([_to_json(epoch) for epoch in live_epochs.list_epochs(store, pipeline=pipeline, lasting=True)])


def _to_json(epoch: LiveEpoch) -> dict[str, object]:
    return {"id": epoch.id, "table": epoch.table, "where": epoch.where, "plan": dict(epoch.plan), "ledger": epoch.ledger}
