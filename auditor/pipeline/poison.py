"""Events that stop their table: where they are, and letting the table continue without them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence

from auditor.errors import ConfigError
from auditor.model import TableNote
from auditor.pipeline.events import Position, message_number, place_text
from auditor.store import Store, parts, pipelines, table_notes

log = logging.getLogger(__name__)


def report_poison(pipeline: str, notes: Iterable[TableNote]) -> None:
    """Log what stops tables."""
    for note in notes:
        if note.stops:
            extra = {"action": "table_stopped", "pipeline": pipeline, "table": note.table, "position": note.position, "target": note.target}
            log.error("%s: %s stops at %s: %s", pipeline, note.table, place_of(note), note.reason, extra=extra)


def place_of(note: TableNote, file: str = "") -> str:
    """Return where a note's first event is: ``FILE:POS:NUMBER``, or ``FILE:POS`` for all events of its table in the transaction.

    Of a message it is ``TOPIC:PARTITION:OFFSET``, or the message's number where only that is known.
    """
    if "place" in note.body:
        return str(note.body["place"])
    if message_number(note.position) is not None:
        return place_text(note.position)
    return place_text(note.position, file) + (f":{note.row}" if note.row >= 0 else "")


def skipped_line(events: int, place: str) -> str:
    """Return how many events were skipped where, for people."""
    return f"{events:,} event{'s were' if events != 1 else ' was'} skipped at {place}"


def log_file(store: Store, pipeline: str) -> str:
    """Return the name of a file of the source's log; '' if it is not known. Raises StoreError."""
    offset = pipelines.get_pipeline(store, pipeline).source_offset
    return str(offset.get("file", "")) if isinstance(offset, dict) else ""


def find_stopped(store: Store, pipeline: str, table: str, place: str) -> list[TableNote]:
    """Return what stops a table at an event, written as ``FILE:POS:NUMBER``, or in the transaction at ``FILE:POS``.

    That is one note, or one for each target that cannot hold the event, and those right after it with the same reason. Raises ConfigError
    if nothing stops it there, with what does, and StoreError.
    """
    names = sorted({note.table for note in table_notes.list_notes(store, pipeline)})
    chosen = [name for name in names if table in (name, name.partition(".")[2])]
    notes = [note for note in table_notes.list_notes(store, pipeline, chosen) if note.stops]
    wanted = re.fullmatch(r"(?:.*\.)?(\d+):(\d+)(?::(\d+))?", place)
    at_place = [note for note in notes if place_of(note) == place]
    if not wanted and not at_place and not any(message_number(note.position) is not None for note in notes):
        raise ConfigError(f"{place!r} is no event of a binary log; write it as status shows it: binlog.000012:4567:0")
    if wanted and not at_place:
        at_place = [note for note in notes if _is_at(note.position, int(wanted[1]), int(wanted[2])) and wanted[3] in (None, str(note.row))]
    if not at_place:
        file = log_file(store, pipeline)
        there = ", ".join(dict.fromkeys(f"{note.table} at {place_of(note, file)}" for note in notes)) or "nothing"
        raise ConfigError(f"nothing stops {table} at {place}; what stops it: {there}")
    return at_place + _following(store, pipeline, at_place[-1], notes)


def _following(store: Store, pipeline: str, note: TableNote, stops: Sequence[TableNote]) -> list[TableNote]:
    """Return what stops the table right after a note for the same reason, with no event between that was available."""
    following: list[TableNote] = []
    for stop in stops:
        if stop.table != note.table or stop.target or note.target or (stop.position, stop.row) <= (note.last, note.row):
            continue
        staged = parts.list_parts(store, pipeline, note.table, (following or [note])[-1].last, limit=1)
        if _cause(stop) != _cause(note) or (staged and staged[0].first < stop.position):
            break
        following.append(stop)
    return following


def _cause(note: TableNote) -> str:
    """Return why a note stops its table, without the row that does."""
    return str(note.body.get("cause", note.reason))


def _is_at(position: int, file: int, offset: int) -> bool:
    log_position = Position.unpack(position)
    return (log_position.file, log_position.offset) == (file, offset)
