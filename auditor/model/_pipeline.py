"""What a pipeline records of its stream: staged parts, segments, notes on tables, and epochs of live summaries."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

SegmentVerdict = Literal["match", "start mismatch", "end mismatch", "content mismatch", "not comparable", "behind", "doubled"]
"""What became of a segment's comparison with the first one of the other side whose start is not before its own: they are equal; the other
one starts later, ends elsewhere, or has other events; their digests are of other versions of the events' text; there is none yet; or the
segment was not compared, because it overlaps one that its own side had registered before."""

SEGMENT_VERDICTS: tuple[SegmentVerdict, ...] = get_args(SegmentVerdict)

FindingKind = Literal["missing", "doubled", "altered", "cut otherwise"]
"""A side lacks segments that the other one has; registered one that overlaps one of its own; has other events in one; or the same stretch
of the stream is cut at other places, or lacks events at its ends."""

StoredSums = bytes
"""What `auditor.summary.bucket_sums.SegmentSums` stores of a segment's digests by bucket; empty if it has none."""

Place = tuple[int, int]
"""Where an event stands: by the position in the log, or by the number of its global id; and its row within the transaction."""

ComparedBy = Literal["position", "gtid", "offset"]
"""What places are of: positions, where both sides read one server or what one pipeline published, numbers of global ids, or offsets."""

NoteKind = Literal["poison", "change"]
"""``poison``: events that could not be decoded, staged or merged. ``change``: a statement that changed the table itself."""

EpochState = Literal["wanted", "scanning", "kept", "ended"]
"""``wanted``: the pipeline shall sum up what comes. ``scanning``: the source is read as of the epoch's place, behind which everything is
summed up already. ``kept``: base and sums are there. ``ended``: they are no longer, and ``reason`` says why."""

HEARTBEAT_TABLE = "auditor_heartbeat"
"""The table, in the database of the connection by which it is written."""

HEARTBEAT_COLUMN = "beat_at"
"""Its column with the time of the last heartbeat, in UTC."""


@dataclass(frozen=True, slots=True)
class Part:
    """The events of one table and schema from one position to another, both inclusive: some blocks of a file of staged events."""

    table: str
    """Database and table, with a point between."""
    first: int
    last: int
    rows: int
    bytes: int
    schema_id: str
    path: str
    """The file's, relative to the folder of the staging; parts of several tables share one."""
    time: dt.datetime
    """When the source committed its last event."""
    checksum: str = ""
    """SHA-256 of its blocks, in hexadecimal digits."""
    blocks: tuple[tuple[int, int], ...] = ()
    """Where its record batches are in the file: offset and bytes of each."""
    previous: int = 0
    """Up to where the table was staged before it, which a target has to hold first; 0 for nothing."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The events of one table and schema from one place of the stream to another, both inclusive, and where they are kept.

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
    """Bytes of the text of its events, in the version that decides where segments end; not those of its file."""
    schema_id: str
    sha256: str
    """SHA-256 of the text of its events, in 64 hexadecimal digits."""
    encoding: int
    """Version of that text, the newest one that its writer makes: `auditor.pipeline.segments.event_text.TEXTS`."""
    path: str
    """Of its file, relative to the folder of the staging, or to that of the archive."""
    began: dt.datetime
    """When the source committed its first event."""
    ended: dt.datetime
    """When the source committed its last event."""
    gtid: str | None = None
    """Global id of its last event's transaction; with ``last_row`` it names the same place on every server."""
    first_gtid: str | None = None
    """Global id of its first event's transaction; None if there is none, or an earlier release listed the segment."""
    blocks: tuple[tuple[int, int], ...] = ()
    """Where its record batches are in a file of all tables: offset and bytes of each; none in an archive, where the file is its own."""
    older: Mapping[int, str] = field(default_factory=dict)
    """The same digest of the text in earlier versions, which another writer needs that makes no newer ones."""
    buckets: StoredSums = b""
    """Digests of its events by bucket of a column's value."""


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
    """Version of the text that was hashed, the newest one."""
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
    older: Mapping[int, str] = field(default_factory=dict)
    """Digests of the text in earlier versions."""
    buckets: StoredSums = b""
    """Digests by bucket; empty also where they were not asked for when the register was read."""

    def equals(self, other: RegisteredSegment) -> bool | None:
        """Return whether both have the same events, by the newest version of the text that both hashed; None if there is none."""
        if (self.rows, self.schema_id) != (other.rows, other.schema_id):
            return False
        mine, its = ({**one.older, one.encoding: one.sha256} for one in (self, other))
        common = mine.keys() & its.keys()
        return mine[max(common)] == its[max(common)] if common else None


def compare_segment(segment: RegisteredSegment, other: RegisteredSegment | None) -> tuple[SegmentVerdict, Place | None]:
    """Return the verdict on a segment, by the first one of the other side whose start is not before its own, and that one's place."""
    if other is None:
        return "behind", None
    if other.start != segment.start:
        return "start mismatch", other.start
    if other.end != segment.end:
        return "end mismatch", other.end
    verdicts: dict[bool | None, SegmentVerdict] = {True: "match", False: "content mismatch", None: "not comparable"}
    return verdicts[segment.equals(other)], other.start


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """How many events with one value of a column differ between the two sides of a segment audit."""

    value: str | None
    """The text of events, cut if it is long; None for NULL; of a masked column `auditor.masking.MASK`, which stands for all its values."""
    lacking: tuple[int, int]
    """Events that each side lacks and the other one has."""
    altered: int = 0
    """Events that both have, with other texts."""


@dataclass(frozen=True, slots=True)
class ValueDifferences:
    """Whose events differ in a stretch that two sides do not have alike."""

    by: str
    """The source's column with the values; '' if the settings name none."""
    values: tuple[ValueDifference, ...] = ()
    """Those with most events that differ, in this order."""
    more: int = 0
    """How many values more have events that differ."""
    refused: str = ""
    """Why the values are not known; empty if they are."""
    lacking: tuple[str, ...] = ()
    """Why a side may lack messages of a topic that the other one has."""
    unexplained: str = ""
    """Why that is not known; empty if it is."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Who let a stopped table go on without some events, when and why."""

    by: str
    at: dt.datetime
    reason: str


@dataclass(frozen=True, slots=True)
class TableNote:
    """Something that happened to a table between two transactions of the stream, given by their positions, both inclusive."""

    table: str
    """Database and table, with a point between."""
    kind: NoteKind
    position: int
    last: int
    events: int
    """Of poison, how many events cannot be had: rows where these could be told apart, else events of the log, which hold several."""
    time: dt.datetime
    """When the source committed it."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Of poison its ``stage`` (decoding, staging, merge) and ``reason``, its ``cause`` where the reason names a row as well, and, of an
    event that a target cannot hold, how many events ``of`` its table the transaction has; of a change its ``ops``, as
    `auditor.pipeline.table_ops` says."""
    target: str = ""
    """The target that cannot hold the events; '' if no target can have them."""
    row: int = -1
    """Of poison, the number that its first event has in the transaction at ``position``; -1 for all of the table's events there."""
    skip: Skip | None = None
    """Why it no longer stops its table; None if it does, or never did."""

    @property
    def reason(self) -> str:
        """Why the table stops here; '' for a change that does not stop it."""
        return str(self.body.get("reason", ""))

    @property
    def stops(self) -> bool:
        """Whether the table does not go on behind this."""
        return bool(self.reason) and self.skip is None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEpoch:
    """The time in which the stream keeps one audit's summaries of its source under one plan, salt and layout."""

    id: str
    """16 hexadecimal digits."""
    audit: str
    """Name of the audit."""
    pipeline: str
    """Name of the pipeline that carries the audit's table."""
    target: str
    """The pipeline's name of the target that the audit reads, in which the sums are."""
    table: str
    """The table as the stream calls it, ``database.table``."""
    fingerprint: str
    """What two plans have in common whose summaries are of the same rows, columns and texts: `auditor.run.live.plans.fingerprint`."""
    layout: str
    """How a key becomes a partition and a position in it: ``range 3072`` is floor(key / 3072), of every whole number; ``hash 1024`` the
    bucket of the key's number. Both are defined for every key, also for keys that did not exist when the epoch began."""
    plan: Mapping[str, Any]
    """The plan as JSON, as runs store theirs; its salt and its partitioning are those of the epoch."""
    where: str
    """The audit's filter in the portable language; '' for all rows."""
    state: EpochState
    position: int = 0
    """P, where the base was scanned, as a position of the stream; 0 until the source's snapshot is open."""
    log_place: str = ""
    """P as the source says it, ``FILE:POS``."""
    begun_at: dt.datetime | None = None
    """The source's clock at P."""
    proved_position: int = 0
    """Where the sums were last equal to a scan of the source, or were made so; at first P."""
    proved_log_place: str = ""
    proved_at: dt.datetime | None = None
    """The source's clock there."""
    ended: dt.datetime | None = None
    """When it ended, by the store's clock; None while it lasts."""
    reason: str = ""
    """Why it ended, as a sentence; '' while it lasts."""
    ledger: bool = False
    """Whether merges also keep what they did to the target's rows, each by itself."""
    ledger_ended: str = ""
    """Why merges no longer do, as a clause; '' while they do."""

    @property
    def salt(self) -> str:
        """The salt of the row texts, which is kept through the epoch."""
        return str(self.plan.get("salt", ""))
