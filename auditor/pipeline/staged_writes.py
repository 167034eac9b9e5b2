"""Which keys a pipeline's staged events wrote since a moment: where a run of an audit expects differences.

The manifest says which parts have such events. They are read if they are few: to choose how a table is read must cost little beside
reading it. What it says can be wrong without harm, because a run reads every part of the table whatever it expects.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.config import Audit, Settings, find_carriers
from auditor.errors import AuditorError
from auditor.history.handover import FindEvents
from auditor.quantities import plural

if TYPE_CHECKING:
    from auditor.model import Part
    from auditor.pipeline.folders import Folder
    from auditor.store import Store

MOST_EVENTS = 200_000
"""Events that are read to count them by key: about a second's work."""

MOST_BYTES = 64 << 20
"""Bytes of the parts that are read for it."""

MOST_PARTS = 1000
"""Parts that are read for it, each of which is a request where the staging is an object store."""

ROW_KINDS = ("insert", "update", "delete", "refresh")
"""Kinds of events that write a row; of the others none has a row's values."""

SLACK = dt.timedelta(seconds=1)
"""How much older an event may say that it is: MariaDB logs the second in which a statement began."""


def find_events(settings: Settings, store: Store, audit: Audit) -> FindEvents | None:
    """Return what finds the events of an audit's table; None if not exactly one pipeline carries it."""
    if audit.via or audit.shards or not settings.pipelines:
        return None
    carriers = find_carriers(audit.sources[0], audit.target, settings.pipelines, settings.connections)
    names = {(carrier.pipeline, f"{carrier.database}.{carrier.table}") for carrier in carriers}
    return StagedWrites(settings, store, *names.pop()) if len(names) == 1 else None


@dataclass(frozen=True, slots=True)
class StagedWrites:
    """The staged events of one table."""

    settings: Settings
    store: Store
    pipeline: str
    table: str
    """Database and table, with a point between."""

    def __call__(self, key: str, since: dt.datetime) -> list[int] | str:
        """Return the keys of the events since a moment, or why they are not known."""
        try:
            return self._keys(key, since - SLACK)
        except AuditorError as error:
            return f"the events of the pipeline {self.pipeline} cannot be read: {error}"

    def _keys(self, key: str, since: dt.datetime) -> list[int] | str:
        from auditor.pipeline.folders import folder_at  # which load what only pipelines need
        from auditor.store import parts, pipelines

        if pipelines.get_pipeline(self.store, self.pipeline).paused:
            return f"the pipeline {self.pipeline} is paused"
        if not parts.reaches_back(self.store, self.pipeline, self.table, since):
            return f"the pipeline {self.pipeline} holds no events of {self.table} from before {since:%Y-%m-%d %H:%M:%S} UTC"
        listed = parts.list_parts_since(self.store, self.pipeline, self.table, since, MOST_PARTS + 1)
        events, size = sum(part.rows for part in listed), sum(part.bytes for part in listed)
        if len(listed) > MOST_PARTS or events > MOST_EVENTS or size > MOST_BYTES:
            said = f"more than {plural(MOST_PARTS, 'part')}" if len(listed) > MOST_PARTS else plural(events, "event")
            return f"the pipeline {self.pipeline} staged {said} of {self.table} since, more than are read to count them"
        root = folder_at(self.settings.pipelines[self.pipeline].staging.path)
        places = {schema: self._place(schema, key) for schema in {part.schema_id for part in listed}}
        if None in places.values():
            return f"the key of the events of {self.table} is not the column {key} alone"
        keys: list[int] = []
        for part in listed:
            place = places[part.schema_id]
            assert place is not None, "each schema has a place of the key"
            keys += _keys_of(root, part, place, since)
        return keys

    def _place(self, schema_id: str, key: str) -> int | None:
        """Return the place of the key's only column in the rows of events; None if the events' key is another."""
        from auditor.store import parts

        body = parts.get_schema(self.store, self.pipeline, schema_id)
        if body is None or [name.lower() for name in body["key"]] != [key.lower()]:
            return None
        return [column["name"].lower() for column in body["columns"]].index(key.lower())


def _keys_of(root: Folder, part: Part, place: int, since: dt.datetime) -> list[int]:
    """Return the keys that events of a part have, of those since a moment: an event that changes the key has two."""
    from auditor.pipeline.staged_parts import read_part

    keys: list[int] = []
    for events in read_part(root, part, 0):
        columns = (events[name].to_pylist() for name in ("kind", "time", "before", "after"))
        for kind, time, before, after in zip(*columns, strict=True):
            if kind in ROW_KINDS and time >= since:
                keys += {int(image[place]) for image in (before, after) if image and image[place] is not None}
    return keys
