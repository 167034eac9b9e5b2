"""Segments of two writers of one stream as they are registered, and the verdict on each."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Literal, get_args

SegmentVerdict = Literal["match", "start mismatch", "end mismatch", "content mismatch", "behind", "doubled"]
"""What became of a segment's comparison with the first one of the other side whose start is not before its own: they are equal; the other
one starts later, ends elsewhere, or has other events; there is none yet; or the segment was not compared, because it overlaps one that
its own side had registered before."""

SEGMENT_VERDICTS: tuple[SegmentVerdict, ...] = get_args(SegmentVerdict)

FindingKind = Literal["missing", "doubled", "altered", "cut otherwise"]
"""A side lacks segments that the other one has; registered one that overlaps one of its own; has other events in one; or the same stretch
of the stream is cut at other places, or lacks events at its ends."""

Place = tuple[int, int]
"""Where an event stands: by the position in the log, or by the number of its global id; and its row within the transaction."""

ComparedBy = Literal["position", "gtid"]
"""What places are of: positions, where both sides read one server, or numbers of global ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSegment:
    """A segment that a writer registered; ``start`` and ``end`` are the places of its first and last event."""

    table: str
    start: Place
    end: Place
    rows: int
    schema_id: str
    sha256: str
    encoding: int
    """Version of the text that was hashed."""
    first: int
    """Position of its first event in the log that its writer read."""
    last: int
    gtid: str | None
    """Global id of its last event's transaction."""
    began: dt.datetime
    """When the source committed its first event."""
    ended: dt.datetime
    registered: dt.datetime | None = None
    """When it was registered, by the store's clock; None before."""
    verdict: SegmentVerdict = "behind"
    matched: Place | None = None
    """Where the other side's segment starts; ends, after an end mismatch. Of a doubled segment, where the one that it overlaps starts."""
    overlap: int = 0
    """0, or the number of a doubled segment among those with its start."""

    @property
    def content(self) -> tuple[object, ...]:
        """What two segments of equal bounds are compared by."""
        return self.rows, self.schema_id, self.sha256, self.encoding


def compare_segment(segment: RegisteredSegment, other: RegisteredSegment | None) -> tuple[SegmentVerdict, Place | None]:
    """Return the verdict on a segment, by the first one of the other side whose start is not before its own, and that one's place."""
    if other is None:
        return "behind", None
    if other.start != segment.start:
        return "start mismatch", other.start
    if other.end != segment.end:
        return "end mismatch", other.end
    return "match" if segment.content == other.content else "content mismatch", other.start
