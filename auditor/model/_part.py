"""What one batch of a change stream staged of one table."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A file with the events of one table and schema from one position to another, both inclusive."""

    table: str
    """Database and table, with a point between."""
    first: int
    last: int
    rows: int
    bytes: int
    schema_id: str
    path: str
    """Relative to the folder of the staging."""
    time: dt.datetime
    """When the source committed its last event."""
    checksum: str = ""
    """SHA-256 of its file, in hexadecimal digits; empty for a part that was staged before there were checksums."""
