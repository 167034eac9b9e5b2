"""Positions of a stream as people write them: ``FILE:POS`` of the source's log, or a time in UTC."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator

from auditor.errors import ConfigError, NotStaged
from auditor.model import Part
from auditor.pipeline.events import Position, message_position, place_text
from auditor.pipeline.folders import Folder
from auditor.pipeline.poison import log_file
from auditor.pipeline.staged_parts import read_part
from auditor.store import Store, parts, pipelines, table_notes

_PLACE = re.compile(r"(?:(\d{1,3})/)?(?:[^/]*\.)?(\d{1,8}):(\d{1,10})")

_MESSAGE = re.compile(r"message (\d{1,18})")

CLOCK_SET_BACK = dt.timedelta(hours=1)
"""By how much times of commits may go back from one transaction of the log to a later one, as after a correction of the source's clock."""

PARTS_AT_ONCE = 1000
"""Parts that one query of the store returns."""


def place_texts(store: Store, pipeline: str) -> Callable[[int], str]:
    """Return what makes a text of a position that `parse_position` reads: ``FILE:POS``, or ``message NUMBER`` of a message of topics.

    ``EPOCH/`` stands before it in the log of a server that was read before a failover. Raises StoreError.
    """
    file, epoch = log_file(store, pipeline), _epoch(store, pipeline)

    def text(position: int) -> str:
        there = Position.unpack(position).epoch
        return place_text(position, file) if there == epoch else f"{there}/{place_text(position, file)}"

    return text


def place_in_stream(store: Store, pipeline: str, position: int) -> str:
    """Return that text of one position. Raises StoreError."""
    return place_texts(store, pipeline)(position)


def parse_position(store: Store, pipeline: str, text: str) -> int:
    """Return the position of a stream that ``FILE:POS`` names, where the number of the log's file is enough, or ``message NUMBER``.

    A place is of the server that is read now; ``EPOCH/FILE:POS`` of one that was read before a failover. Raises ConfigError for other
    text, and StoreError.
    """
    if message := _MESSAGE.fullmatch(text):
        return _of_message(text, int(message[1]))
    match = _PLACE.fullmatch(text)
    if not match:
        raise ConfigError(f"{text!r} is no position of a stream; write it as status shows it: binlog.000012:4567, or 'message 4567'")
    epoch = int(match[1]) if match[1] else _epoch(store, pipeline)
    try:
        return Position(epoch, int(match[2]), int(match[3])).pack()
    except OverflowError as error:
        raise ConfigError(f"{text!r} is no position of a stream: {error}") from error


def _of_message(text: str, number: int) -> int:
    try:
        return message_position(number)
    except OverflowError as error:
        raise ConfigError(f"{text!r} is no position of a stream: {error}") from error


def is_place(text: str) -> bool:
    """Return whether a text is meant as ``FILE:POS``, or a message, and not as a time."""
    return (_PLACE.fullmatch(text) or _MESSAGE.fullmatch(text)) is not None


def parse_time(text: str) -> dt.datetime:
    """Return a time in ISO 8601, in UTC unless it has an offset. Raises ConfigError."""
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"{text!r} is neither a position nor a time; write FILE:POS, as binlog.000012:4567, or a time in UTC, as 2026-11-01T12:00:00"
        ) from error
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)


def staged_through(store: Store, pipeline: str) -> int:
    """Return the position up to which everything of the source's log was staged; 0 if nothing was. Raises StoreError."""
    state = pipelines.get_pipeline(store, pipeline)
    offset, reached = state.source_offset, state.staged_through or 0
    if isinstance(offset, dict) and re.search(r"\.\d+$", str(offset.get("file"))):
        number = int(str(offset["file"]).rpartition(".")[2])
        reached = max(reached, Position(int(offset.get("epoch", 0)), number, int(offset["position"])).pack())
    return reached


def position_at(store: Store, pipeline: str, root: Folder, table: str, time: dt.datetime) -> int:
    """Return the position behind which the first transaction of a table stands that was committed later than a time.

    Without one it is the end of what was staged. Raises NotStaged while an earlier transaction may still be to come, StoreError, and
    StagingFailed.
    """
    newest = pipelines.get_pipeline(store, pipeline).staged_time
    if newest is None or newest <= time:
        until = newest.isoformat() if newest else "nothing yet"
        raise NotStaged(
            f"pipeline {pipeline}: transactions up to {time.isoformat()} may still be to come: it has staged those committed up to {until};"
            " try again once a later one was staged, of any table, or write a position"
        )
    found = [note.position for note in table_notes.list_notes(store, pipeline, [table]) if not note.target and note.time > time]
    if (event := _first_later(store, pipeline, root, table, time)) is not None:
        found.append(event)
    return min(found) - 1 if found else staged_through(store, pipeline)


def _first_later(store: Store, pipeline: str, root: Folder, table: str, time: dt.datetime) -> int | None:
    """Return the position of the first event of a table that is later than a time; None if there is none."""
    since = parts.list_parts_since(store, pipeline, table, time - CLOCK_SET_BACK, 1)
    for part in iterate_parts(store, pipeline, table, since[0].first - 1) if since else ():
        for batch in read_part(root, part, 0):
            for position, committed in zip(batch["position"].to_pylist(), batch["time"].to_pylist(), strict=True):
                if committed > time:
                    return int(position)
    return None


def iterate_parts(store: Store, pipeline: str, table: str, after: int) -> Iterator[Part]:
    """Yield the parts of a table that have events behind a position, in order, as they are listed when they are asked for.

    Raises StoreError.
    """
    while found := parts.list_parts(store, pipeline, table, after, PARTS_AT_ONCE):
        yield from found
        after = found[-1].last


def _epoch(store: Store, pipeline: str) -> int:
    """Return the epoch of the server that is read now."""
    offset = pipelines.get_pipeline(store, pipeline).source_offset
    return int(offset.get("epoch", 0)) if isinstance(offset, dict) else 0
