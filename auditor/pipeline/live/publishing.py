"""Write which epochs the tasks of a stream sum up."""

from __future__ import annotations

import json

from auditor.errors import StagingFailed
from auditor.model import LiveEpoch
from auditor.pipeline.folders import Folder
from auditor.pipeline.live.published import NOTE
from auditor.store import Store, live_epochs


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
    return json.dumps([_to_json(epoch) for epoch in live_epochs.list_epochs(store, pipeline=pipeline, lasting=True)])


def _to_json(epoch: LiveEpoch) -> dict[str, object]:
    return {"id": epoch.id, "table": epoch.table, "where": epoch.where, "plan": dict(epoch.plan)}
