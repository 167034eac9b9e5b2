"""Aligned reading: both sides at one position of the log, for an audit with ``align``.

`find_holds` is what a run asks, `stream_hold` asks the pipeline to hold a target's table.

Outside stay the table of holds (`auditor.store.holds`), the loader that answers (`auditor.pipeline.merge.table_holds`), and the run's own
half: `auditor.run.alignment` the order and the source's snapshot, `dialects.log_places` what a session states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from auditor.config import Audit, Settings, find_carriers, why_not_aligned
from auditor.model import Side
from auditor.run.alignment import TableHold
from auditor.run.topics import TopicReader

if TYPE_CHECKING:
    from auditor.store import Store


def find_holds(settings: Settings, store: Store, audit: Audit, topics: TopicReader | None = None) -> Mapping[Side, TableHold] | str:
    """Return how the pipelines of an audit's table, or of each shard, are asked to hold it, or why they cannot be.

    ``topics`` reads the target, if that is a topic.
    """
    if not audit.align:
        return ""
    if why := why_not_aligned(audit, settings.pipelines, settings.connections):
        return why
    from auditor.pipeline.aligned.stream_hold import StreamHold, TopicHold  # which load what only pipelines need

    holds: dict[Side, TableHold] = {}
    for side, read in audit.places.items():
        if side != "target":
            [carrier] = find_carriers(read, audit.target, settings.pipelines, settings.connections)
            table = f"{carrier.database}.{carrier.output}"
            about = settings, store, carrier.pipeline, carrier.target, table, carrier.place
            holds[side] = StreamHold(*about) if topics is None else TopicHold(*about, topics=topics)
    return holds
