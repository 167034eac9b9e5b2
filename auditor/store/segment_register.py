"""Registers of segment audits: what two writers of one stream cut, compared in the transaction in which it is registered.

Each segment is compared with the first one of the other side whose start is not before its own, whichever side came first: who registers
one judges it, and again those of the other side of which it is the first now. Both lock the register first, so that none is missed, and
what is registered again changes nothing. A verdict depends on the segments alone, not on the order in which the sides came.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Integer, Row, Select, Table, and_, delete, func, insert, or_, select, update

from auditor.errors import ConfigError
from auditor.escaping import shell_word
from auditor.model import ComparedBy, RegisteredSegment, SegmentVerdict, compare_segment
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, big_integer, long_binary, metadata, short_text

segment_registers = Table(
    "auditor_segment_registers",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("sides", Json(), nullable=False),
    Column("compared_by", short_text(16), nullable=False),
    Column("sequence", short_text()),
    Column("refused", Words(), nullable=False),
    Column("versions", Json()),
)
"""The registers of segment audits: the names of their two sides, whether these are compared by position, global id or offset, the sequence
that the numbers of the global ids belong to, or what positions and offsets of topics do, why segments are not comparable ('' if they are),
and which versions of the events' text the writer of each side makes. Who enters a segment locks its register."""

registered_segments = Table(
    "auditor_registered_segments",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("side", Integer(), primary_key=True, autoincrement=False),
    Column("start_at", big_integer(), primary_key=True, autoincrement=False),
    Column("start_row", big_integer(), primary_key=True, autoincrement=False),
    Column("overlap", Integer(), primary_key=True, autoincrement=False),
    Column("end_at", big_integer(), nullable=False),
    Column("end_row", big_integer(), nullable=False),
    Column("row_count", big_integer(), nullable=False),
    Column("schema_id", short_text(64), nullable=False),
    Column("sha256", short_text(64), nullable=False),
    Column("encoding", Integer(), nullable=False),
    Column("first_position", big_integer(), nullable=False),
    Column("last_position", big_integer(), nullable=False),
    Column("gtid", Words()),
    Column("began", Moment(), nullable=False),
    Column("ended", Moment(), nullable=False),
    Column("registered", Moment(), nullable=False),
    Column("verdict", short_text(16), nullable=False),
    Column("matched_position", big_integer()),
    Column("matched_row", big_integer()),
    Column("older", Json()),
    Column("buckets", long_binary()),
)
"""The segments of both sides of segment audits, each with the verdict on it and the place of what it was compared with."""

segment_values = Table(
    "auditor_segment_values",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("finding", short_text(64), primary_key=True),
    Column("body", Json(), nullable=False),
)
"""Whose events differ in the findings of segment audits, as the last run read it from their files, by the digest of each finding."""

Place = tuple[int, int]

FIRST: Place = (-1, -1)
"""A place before all others."""

_WITHOUT_BUCKETS = [column for column in registered_segments.c if column is not registered_segments.c.buckets]
"""What is read of segments whose digests by bucket, some kilobytes each, are not needed."""

_START = (registered_segments.c.start_at, registered_segments.c.start_row)


@dataclass(frozen=True, slots=True)
class Register:
    """The register of a segment audit."""

    audit: str
    sides: tuple[str, str]
    by: ComparedBy


def open_register(store: Store, register: Register) -> None:
    """Create a register, unless there is one. Raises ConfigError if that has other sides, or compares otherwise; and StoreError."""

    def work(connection: Connection) -> Row[Any]:
        header = connection.execute(_header(register.audit)).one_or_none()
        if header is None:
            values = {"audit": register.audit, "sides": list(register.sides), "compared_by": register.by, "refused": ""}
            connection.execute(insert(segment_registers).values(values))
            header = connection.execute(_header(register.audit)).one()
        return header

    header = store.write(work)
    if set(header.sides) != set(register.sides) or header.compared_by != register.by:
        raise ConfigError(
            f"the register of {register.audit} compares {' with '.join(header.sides)} by {header.compared_by}, and its settings"
            f" {' with '.join(register.sides)} by {register.by}; forget it with: auditor segments reset {shell_word(register.audit)}"
        )


def enter(connection: Connection, audit: str, side: str, entries: Iterable[RegisteredSegment]) -> int:
    """Register segments of one side within a transaction, judge them, and return how many of them are new.

    Does nothing for a register that was not opened, that refuses segments, or that has no such side.
    """
    header = connection.execute(_header(audit).with_for_update()).one_or_none()
    if header is None or header.refused or side not in header.sides:
        return 0
    at = database_time(connection)
    number = header.sides.index(side)
    return sum([_enter(connection, _Side(audit, entry.table, number), replace(entry, registered=at)) for entry in entries])


def refuse(connection: Connection, audit: str, sentence: str) -> None:
    """Record why segments of a register are not comparable; from then on it takes no more."""
    connection.execute(update(segment_registers).where(segment_registers.c.audit == audit).values(refused=sentence))


def take_sequence(connection: Connection, audit: str, sequence: str) -> str:
    """Return the sequence that the register's places belong to; ``sequence``, if there was none. '' without a register."""
    header = connection.execute(_header(audit).with_for_update()).one_or_none()
    if header is None:
        return ""
    if header.sequence is None:
        connection.execute(update(segment_registers).where(segment_registers.c.audit == audit).values(sequence=sequence))
    return header.sequence or sequence


def find_gtid(connection: Connection, audit: str, table: str) -> str | None:
    """Return the global id of a segment that either side registered of a table; None if there is none."""
    of_table = and_(registered_segments.c.audit == audit, registered_segments.c.table_name == table)
    return connection.execute(select(registered_segments.c.gtid).where(of_table).limit(1)).scalar_one_or_none()


def announce(store: Store, audit: str, side: str, versions: Iterable[int]) -> None:
    """Record which versions of the events' text a side's writer makes. Raises StoreError."""

    def work(connection: Connection) -> None:
        header = connection.execute(_header(audit).with_for_update()).one_or_none()
        if header is not None and (header.versions or {}).get(side) != sorted(versions):
            said = {**(header.versions or {}), side: sorted(versions)}
            connection.execute(update(segment_registers).where(segment_registers.c.audit == audit).values(versions=said))

    store.write(work)


def needed_versions(store: Store, audit: str, side: str) -> list[list[int] | None]:
    """Return the versions of the events' text that the other side's writer makes, and those of its segments that wait for this side.

    None for a writer that has not said which it makes. Raises StoreError.
    """
    with store.reading() as connection:
        header = connection.execute(_header(audit)).one_or_none()
        if header is None or side not in header.sides:
            return []
        number = 1 - header.sides.index(side)
        columns = registered_segments.c
        waiting = and_(columns.audit == audit, columns.side == number, columns.verdict == "behind")
        encodings = connection.execute(select(columns.encoding).where(waiting).distinct()).scalars().all()
    return [(header.versions or {}).get(header.sides[number]), *([encoding] for encoding in encodings)]


def replace_segments(
    connection: Connection, audit: str, side: str, table: str, first: Place, last: Place, entries: Sequence[RegisteredSegment]
) -> None:
    """Register segments of a side instead of those that start from one place to another, both inclusive."""
    header = connection.execute(_header(audit).with_for_update()).one()
    own = _Side(audit, table, header.sides.index(side))
    within = and_(own.every, _not_before(first), ~_after(last))
    connection.execute(delete(registered_segments).where(within))
    _judge(connection, own.other, _start_before(connection, own, first), last)
    at = database_time(connection)
    for entry in entries:
        _enter(connection, own, replace(entry, registered=at))


@dataclass(frozen=True, slots=True)
class _Side:
    """The segments of one side of a table in a register."""

    audit: str
    table: str
    number: int

    @property
    def other(self) -> _Side:
        """The other side of the table."""
        return _Side(self.audit, self.table, 1 - self.number)

    @property
    def every(self) -> ColumnElement[bool]:
        """The condition on its rows."""
        columns = registered_segments.c
        return and_(columns.audit == self.audit, columns.table_name == self.table, columns.side == self.number)

    @property
    def standing(self) -> ColumnElement[bool]:
        """The condition on its rows without doubled segments."""
        return and_(self.every, registered_segments.c.overlap == 0)


def _enter(connection: Connection, own: _Side, entry: RegisteredSegment) -> bool:
    before = _first(connection, select(*_WITHOUT_BUCKETS).where(own.standing, ~_after(entry.end)), newest=True)
    if before and before.end >= entry.start:  # those that stand do not overlap, so that this is the only one that can
        return _enter_doubled(connection, own, entry, before)
    other = _first(connection, select(*_WITHOUT_BUCKETS).where(own.other.standing, _not_before(entry.start)))
    verdict, place = compare_segment(entry, other)
    connection.execute(insert(registered_segments).values(_values(own, replace(entry, verdict=verdict, matched=place))))
    # Those of the other side between this segment's start and that of the one before it now have this one as the first behind them.
    between = and_(own.other.standing, _after(_start_before(connection, own, entry.start)), ~_not_before(entry.start))
    connection.execute(update(registered_segments).where(between).values(verdict="start mismatch", **_matched(entry.start)))
    if other and other.start == entry.start:
        verdict, place = compare_segment(other, entry)
        same = and_(own.other.standing, *_at(entry.start))
        connection.execute(update(registered_segments).where(same).values(verdict=verdict, **_matched(place)))
    return True


def _enter_doubled(connection: Connection, own: _Side, entry: RegisteredSegment, before: RegisteredSegment) -> bool:
    starts = and_(own.every, *_at(entry.start))
    known = [_segment(row) for row in connection.execute(select(*_WITHOUT_BUCKETS).where(starts))]
    if any(each.end == entry.end and each.equals(entry) is not False for each in known):
        return False
    doubled = replace(entry, verdict="doubled", matched=before.start, overlap=1 + max((each.overlap for each in known), default=0))
    connection.execute(insert(registered_segments).values(_values(own, doubled)))
    return True


def _start_before(connection: Connection, own: _Side, place: Place) -> Place:
    """Return where the last segment of a side starts that does so before a place."""
    earlier = select(*_WITHOUT_BUCKETS).where(own.standing, ~_not_before(place))
    earlier_segment = _first(connection, earlier, newest=True)
    return earlier_segment.start if earlier_segment else FIRST


def _judge(connection: Connection, judged: _Side, after: Place, through: Place) -> None:
    """Judge again a side's segments that start behind one place and not behind another."""
    wanted = select(*_WITHOUT_BUCKETS).where(judged.standing, _after(after), ~_after(through)).order_by(*_START)
    for entry in [_segment(row) for row in connection.execute(wanted)]:
        other = _first(connection, select(*_WITHOUT_BUCKETS).where(judged.other.standing, _not_before(entry.start)))
        verdict, place = compare_segment(entry, other)
        if (verdict, place) != (entry.verdict, entry.matched):
            same = and_(judged.standing, *_at(entry.start))
            connection.execute(update(registered_segments).where(same).values(verdict=verdict, **_matched(place)))


@dataclass(frozen=True, slots=True)
class SideState:
    """What a side registered of a table."""

    segments: int = 0
    """Those that stand, without doubled ones."""
    rows: int = 0
    ended: dt.datetime | None = None
    """When the source committed its last event."""
    waiting: int = 0
    """Segments that the other side is awaited for."""
    waiting_since: dt.datetime | None = None
    """When the first of these was registered."""
    not_comparable: int = 0
    """Segments whose digests are of other versions of the events' text than the other side's."""


@dataclass(frozen=True, slots=True)
class TableState:
    """What both sides registered of a table."""

    table: str
    sides: tuple[SideState, SideState]
    """In the order of the register's sides."""
    compared_from: Place | None
    """The first place at which a segment of both sides starts; what is before it is not judged. None if there is none yet."""
    matched_through: dt.datetime | None
    """When the source committed the last event of the last pair of equal segments before any other verdict; None if there is none."""
    matches: int
    """Pairs of equal segments."""
    matched_rows: int


def get_refusal(store: Store, audit: str) -> str:
    """Return why segments of a register are not comparable; '' if they are. Raises StoreError."""
    with store.reading() as connection:
        header = connection.execute(_header(audit)).one_or_none()
    return header.refused if header else ""


def list_sides(store: Store, audit: str) -> tuple[str, ...]:
    """Return the names of a register's sides in its order; none without a register. Raises StoreError."""
    with store.reading() as connection:
        header = connection.execute(_header(audit)).one_or_none()
    return tuple(header.sides) if header else ()


def list_tables(store: Store, audit: str) -> list[TableState]:
    """Return what both sides registered of each table, by its name. Raises StoreError."""
    columns = registered_segments.c
    sums = (func.count(), func.sum(columns.row_count), func.max(columns.ended), func.min(columns.registered))
    grouped = select(columns.table_name, columns.side, columns.verdict, *sums).where(columns.audit == audit, columns.overlap == 0)
    with store.reading() as connection:
        rows = connection.execute(grouped.group_by(columns.table_name, columns.side, columns.verdict)).all()
        tables = sorted({row[0] for row in rows})
        return [_table_state(connection, audit, table, [tuple(row)[1:] for row in rows if row[0] == table]) for table in tables]


def _table_state(connection: Connection, audit: str, table: str, rows: Sequence[tuple[Any, ...]]) -> TableState:
    sides = []
    for number in (0, 1):
        own = [row for row in rows if row[0] == number]
        waits = next((row for row in own if row[1] == "behind"), None)
        ended = max((row[4] for row in own), default=None)
        counts = sum(row[2] for row in own), sum(int(row[3]) for row in own)
        other_text = sum(row[2] for row in own if row[1] == "not comparable")
        sides.append(SideState(*counts, ended, waits[2] if waits else 0, waits[5] if waits else None, other_text))
    side = _Side(audit, table, 0)
    meeting = registered_segments.c.verdict.in_(("match", "end mismatch", "content mismatch", "not comparable"))
    first = _first(connection, select(*_WITHOUT_BUCKETS).where(side.standing, meeting))
    matched = next((row for row in rows if row[0] == 0 and row[1] == "match"), None)
    through = _matched_through(connection, side, first.start) if first else None
    counts = (matched[2], int(matched[3])) if matched else (0, 0)
    return TableState(table, (sides[0], sides[1]), first.start if first else None, through, *counts)


def _matched_through(connection: Connection, side: _Side, start: Place) -> dt.datetime | None:
    of_table = and_(registered_segments.c.audit == side.audit, registered_segments.c.table_name == side.table)
    wrong = select(*_WITHOUT_BUCKETS).where(of_table, registered_segments.c.verdict != "match", _not_before(start))
    until = _first(connection, wrong)
    earlier = [~_not_before(until.start)] if until else []
    matching = select(*_WITHOUT_BUCKETS).where(side.standing, registered_segments.c.verdict == "match", _not_before(start), *earlier)
    last = _first(connection, matching, newest=True)
    return last.ended if last else None


def list_entries(
    store: Store,
    audit: str,
    table: str,
    side: str,
    *,
    after: Place = FIRST,
    verdicts: Sequence[SegmentVerdict] = (),
    newest: bool = False,
    limit: int = 1000,
    with_buckets: bool = False,
) -> list[RegisteredSegment]:
    """Return a side's first segments of a table that start behind a place, in order, doubled ones too; or the newest ones, newest first.

    With ``verdicts`` only those with one of them; their digests by bucket are read only ``with_buckets``. Raises StoreError.
    """
    sides = list_sides(store, audit)
    if side not in sides:
        return []
    columns = registered_segments.c if with_buckets else _WITHOUT_BUCKETS
    wanted = select(*columns).where(_Side(audit, table, sides.index(side)).every, _after(after))
    if verdicts:
        wanted = wanted.where(registered_segments.c.verdict.in_(verdicts))
    order = (*_START, registered_segments.c.overlap)
    wanted = wanted.order_by(*(column.desc() for column in order)) if newest else wanted.order_by(*order)
    with store.reading() as connection:
        return [_segment(row) for row in connection.execute(wanted.limit(limit))]


def last_end(store: Store, audit: str, side: str, table: str) -> int:
    """Return the position at which the last segment that a side registered of a table ends; 0 if there is none. Raises StoreError."""
    sides = list_sides(store, audit)
    if side not in sides:
        return 0
    own = _Side(audit, table, sides.index(side)).every
    with store.reading() as connection:
        return connection.execute(select(func.max(registered_segments.c.last_position)).where(own)).scalar() or 0


def prune(store: Store, audit: str, before: dt.datetime) -> int:
    """Delete equal segments that were registered before a moment, but for the last of each table; return how many. Raises StoreError."""

    def work(connection: Connection) -> int:
        tables = connection.execute(select(registered_segments.c.table_name).where(registered_segments.c.audit == audit).distinct())
        deleted = 0
        for table, number in [(table, number) for table in tables.scalars().all() for number in (0, 1)]:
            matching = and_(_Side(audit, table, number).standing, registered_segments.c.verdict == "match")
            if last := _first(connection, select(*_WITHOUT_BUCKETS).where(matching), newest=True):
                old = and_(matching, registered_segments.c.registered < before, ~_not_before(last.start))
                deleted += connection.execute(delete(registered_segments).where(old)).rowcount
        return deleted

    return store.write(work)


def forget(store: Store, audit: str) -> None:
    """Delete a register. Raises StoreError."""

    def work(connection: Connection) -> None:
        connection.execute(delete(registered_segments).where(registered_segments.c.audit == audit))
        connection.execute(delete(segment_values).where(segment_values.c.audit == audit))
        connection.execute(delete(segment_registers).where(segment_registers.c.audit == audit))

    store.write(work)


def get_values(store: Store, audit: str) -> dict[str, Any]:
    """Return whose events differ in the findings of a segment audit, by the digests of these. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(segment_values.c.finding, segment_values.c.body).where(segment_values.c.audit == audit)).all()
    return {row.finding: row.body for row in rows}


def replace_values(store: Store, audit: str, values: Mapping[str, Any]) -> None:
    """Store whose events differ in the findings of a segment audit, instead of what was stored. Raises StoreError."""

    def work(connection: Connection) -> None:
        connection.execute(delete(segment_values).where(segment_values.c.audit == audit))
        if values:
            rows = [{"audit": audit, "finding": finding, "body": body} for finding, body in values.items()]
            connection.execute(insert(segment_values), rows)

    store.write(work)


def _header(audit: str) -> Select[Any]:
    return select(segment_registers).where(segment_registers.c.audit == audit)


def _first(connection: Connection, wanted: Select[Any], newest: bool = False) -> RegisteredSegment | None:
    order = [column.desc() for column in _START] if newest else list(_START)
    row = connection.execute(wanted.order_by(*order).limit(1)).one_or_none()
    return _segment(row) if row else None


def _at(place: Place) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _START[0] == place[0], _START[1] == place[1]


def _not_before(place: Place) -> ColumnElement[bool]:
    return or_(_START[0] > place[0], and_(_START[0] == place[0], _START[1] >= place[1]))


def _after(place: Place) -> ColumnElement[bool]:
    return or_(_START[0] > place[0], and_(_START[0] == place[0], _START[1] > place[1]))


def _matched(place: Place | None) -> dict[str, int | None]:
    return {"matched_position": place[0] if place else None, "matched_row": place[1] if place else None}


def _values(own: _Side, entry: RegisteredSegment) -> dict[str, Any]:
    subject = {"audit": own.audit, "table_name": own.table, "side": own.number, "overlap": entry.overlap}
    places = {"start_at": entry.start[0], "start_row": entry.start[1], "end_at": entry.end[0], "end_row": entry.end[1]}
    content = {"row_count": entry.rows, "schema_id": entry.schema_id, "sha256": entry.sha256, "encoding": entry.encoding}
    log = {"first_position": entry.first, "last_position": entry.last, "gtid": entry.gtid, "began": entry.began, "ended": entry.ended}
    digests: dict[str, Any] = {"older": dict(entry.older) or None, "buckets": entry.buckets or None}
    judged = {"registered": entry.registered, "verdict": entry.verdict, **_matched(entry.matched)}
    return {**subject, **places, **content, **digests, **log, **judged}


def _segment(row: Row[Any]) -> RegisteredSegment:
    return RegisteredSegment(
        table=row.table_name,
        start=(row.start_at, row.start_row),
        end=(row.end_at, row.end_row),
        rows=row.row_count,
        schema_id=row.schema_id,
        sha256=row.sha256,
        encoding=row.encoding,
        first=row.first_position,
        last=row.last_position,
        gtid=row.gtid,
        began=row.began,
        ended=row.ended,
        registered=row.registered,
        verdict=row.verdict,
        matched=None if row.matched_position is None else (row.matched_position, row.matched_row),
        overlap=row.overlap,
        older={int(version): sha256 for version, sha256 in (row.older or {}).items()},
        buckets=row._mapping.get("buckets") or b"",
    )
