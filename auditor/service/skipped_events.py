"""What an audit's report says of the pipeline that fills its target: its source, events that were skipped, and what stops the table."""

from __future__ import annotations

from auditor.config import Audit, Settings, find_carriers
from auditor.pipeline.poison import log_file, place_of, skipped_line
from auditor.store import Store, pipelines, table_notes


def notes_on(settings: Settings, store: Store, audit: Audit) -> tuple[str, ...]:
    """Return sentences on each stretch of events of the audited table that never reached the target, and on the pipelines' sources.

    Raises StoreError.
    """
    return tuple(dict.fromkeys(line for carrier in _carried(settings, audit) for line in _lines(store, *carrier)))


def _carried(settings: Settings, audit: Audit) -> list[tuple[str, str, str]]:
    """Return the pipelines and targets that bring the audit's source, or a shard of it, to its target, with the source's table."""
    return [
        (carrier.pipeline, carrier.target, f"{carrier.database}.{carrier.table}")
        for source in audit.sources
        for carrier in find_carriers(source, audit.target, settings.pipelines, settings.connections)
    ]


def _lines(store: Store, name: str, target: str, table: str) -> list[str]:
    lines = [f"pipeline {name}: {note}" for note in pipelines.get_pipeline(store, name).progress.notes]
    for note in table_notes.list_notes(store, name):
        if note.reason and note.target in ("", target) and note.table == table:
            place = place_of(note, log_file(store, name))
            if note.skip:
                lines.append(f"pipeline {name}: {skipped_line(note.events, place)} by {note.skip.by}: {note.skip.reason}")
            else:
                lines.append(f"pipeline {name}: the target stands still at {place}: {note.reason}")
    return lines
