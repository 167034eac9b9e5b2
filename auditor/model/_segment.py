"""A stretch of one table's events with their digest."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Segment:
    """The events of one table and schema from one place of the stream to another, both inclusive, and the file that holds them.

    Two writers of one stream cut it alike: a segment is known by its table and its last event, and equal if ``sha256`` is.
    """

    table: str
    """Database and table, with a point between."""
    first: int
    """Position of its first event."""
    first_row: int
    """The first event's row within its transaction."""
    last: int
    last_row: int
    rows: int
    bytes: int
    """Bytes of the text of its events, which is hashed; not those of its file."""
    schema_id: str
    sha256: str
    """SHA-256 of the text of its events, in 64 hexadecimal digits."""
    encoding: int
    """Version of that text: `auditor.pipeline.segments.event_text.VERSION`."""
    path: str
    """Of its file, relative to the folder of the segments."""
    began: dt.datetime
    """When the source committed its first event."""
    ended: dt.datetime
    """When the source committed its last event."""
    gtid: str | None = None
    """Global id of its last event's transaction; with ``last_row`` it names the same place on every server."""
    first_gtid: str | None = None
    """Global id of its first event's transaction; None if there is none, or an earlier release listed the segment."""
