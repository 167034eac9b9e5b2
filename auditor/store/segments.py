"""The manifest of segments: their digests and files, and how far a pipeline's stream was cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, Connection, Index, Integer, Row, Table, and_, bindparam, delete, func, insert, or_, select, update

from auditor.errors import SegmentFailed
from auditor.model import Segment
from auditor.store.database import Store
from auditor.store.schema import Json, Moment, Words, big_integer, long_binary, metadata, short_text

segments = Table(
    "auditor_segments",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("last_position", big_integer(), primary_key=True, autoincrement=False),
    Column("last_row", big_integer(), primary_key=True, autoincrement=False),
    Column("first_position", big_integer(), nullable=False),
    Column("first_row", big_integer(), nullable=False),
    Column("row_count", big_integer(), nullable=False),
    Column("byte_count", big_integer(), nullable=False),
    Column("schema_id", short_text(64), nullable=False),
    Column("sha256", short_text(64), nullable=False),
    Column("encoding", Integer(), nullable=False),
    Column("path", short_text(), nullable=False),
    Column("blocks", Json(), nullable=False),
    Column("began", Moment(), nullable=False),
    Column("ended", Moment(), nullable=False),
    Column("gtid", Words()),
    Column("first_gtid", Words()),
    Column("older", Json()),
    Column("buckets", long_binary()),
    Index("auditor_segments_path", "pipeline", "path"),
)
"""The segments of a pipeline's tables, each with its digest, its file, and where it is in that."""

PATHS_AT_ONCE = 500
"""Paths that one statement asks for."""

segmented_tables = Table(
    "auditor_segmented_tables",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("free_through", big_integer(), nullable=False),
)
"""Up to which position a table's parts are no longer needed for segments; the open segment begins behind it."""

segment_progress = Table(
    "auditor_segment_progress",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("through", big_integer(), nullable=False),
    Column("latest_commit", big_integer(), nullable=False),
    Column("replacements", Integer(), nullable=False, default=0),
)
"""Up to which position a pipeline's events were cut, the latest commit until there, in microseconds since 1970, and how often segments were
replaced, by which their writer notices it."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How far a stream was cut: up to which position, 0 for none, and the latest commit until there."""

    through: int = 0
    latest_commit: int = 0
    """In microseconds since 1970."""
    free: Mapping[str, int] = field(default_factory=dict)
    """By table, up to which position all its events are in segments that ended."""
    replacements: int = 0
    """How often segments of the pipeline were replaced."""


def get_cut(store: Store, pipeline: str) -> Cut:
    """Return how far a pipeline's stream was cut. Raises StoreError."""
    tables = select(segmented_tables).where(segmented_tables.c.pipeline == pipeline)
    with store.reading() as connection:
        row = connection.execute(select(segment_progress).where(segment_progress.c.pipeline == pipeline)).one_or_none()
        free = {table_row.table_name: table_row.free_through for table_row in connection.execute(tables)}
    return Cut(row.through, row.latest_commit, free, row.replacements) if row else Cut()


def record_cut(
    store: Store,
    pipeline: str,
    ended: Sequence[Segment],
    cut: Cut,
    before: int,
    also: Sequence[Callable[[Connection, Sequence[Segment]], object]] = (),
) -> bool:
    """List segments that ended, and how far the stream was cut with them; ``also`` is done with them in this one transaction.

    ``before`` is the position up to which the stream was cut before. Does nothing and returns False if the store says another one, as after
    it was restored to an earlier time, or if segments of the pipeline were replaced since: the next ones begin elsewhere then. Raises
    StoreError.
    """

    def work(connection: Connection) -> bool:
        known = select(segment_progress).where(segment_progress.c.pipeline == pipeline).with_for_update()
        row = connection.execute(known).one_or_none()
        if ((row.through, row.replacements) if row else (0, 0)) != (before, cut.replacements):
            return False
        _write_ended(connection, pipeline, ended)
        _replace(connection, segment_progress, {"pipeline": pipeline}, {"through": cut.through, "latest_commit": cut.latest_commit})
        _write_free(connection, pipeline, cut.free)
        for one_more in also:
            one_more(connection, ended)
        return True

    return store.write(work)


def replace_listed(
    store: Store,
    pipeline: str,
    table: str,
    within: tuple[tuple[int, int], tuple[int, int]],
    instead: Sequence[Segment],
    also: Callable[[Connection], object],
) -> list[Segment]:
    """List segments instead of those of a table that start from one place to another, both inclusive, and return these.

    ``also`` is done in the same transaction. The pipeline's writer goes on behind the last segment that is listed then.

    Raises SegmentFailed if a segment that would go reaches behind the stretch, as one that the writer has ended meanwhile: its last events
    would be in no segment, and their parts may be deleted. Raises StoreError.
    """
    (first, first_row), (last, last_row) = within
    begins = or_(segments.c.first_position > first, and_(segments.c.first_position == first, segments.c.first_row >= first_row))
    ends = or_(segments.c.first_position < last, and_(segments.c.first_position == last, segments.c.first_row <= last_row))
    chosen = and_(_of(pipeline, table), begins, ends)

    def work(connection: Connection) -> list[Segment]:
        once_more = {"replacements": segment_progress.c.replacements + 1}
        connection.execute(update(segment_progress).where(segment_progress.c.pipeline == pipeline).values(once_more))
        gone = [_segment(row) for row in connection.execute(select(segments).where(chosen))]
        if any((segment.last, segment.last_row) > (last, last_row) for segment in gone):
            raise SegmentFailed(f"{pipeline} ended a segment of {table} meanwhile, and nothing was replaced; run the command again")
        connection.execute(delete(segments).where(chosen))
        for segment in instead:
            connection.execute(insert(segments).values(_values(pipeline, segment)))
        also(connection)
        return gone

    return store.write(work)


def list_segments(store: Store, pipeline: str, table: str, after: tuple[int, int] = (0, -1), limit: int = 1000) -> list[Segment]:
    """Return a table's first segments that end behind a position and row, in order. Raises StoreError."""
    position, row = after
    is_later = (segments.c.last_position > position) | ((segments.c.last_position == position) & (segments.c.last_row > row))
    order = (segments.c.last_position, segments.c.last_row)
    with store.reading() as connection:
        rows = connection.execute(select(segments).where(_of(pipeline, table), is_later).order_by(*order).limit(limit)).all()
    return [_segment(row) for row in rows]


def list_newest(store: Store, pipeline: str, table: str, before: tuple[int, int] | None, limit: int) -> list[Segment]:
    """Return a table's last segments that end before a position and row, newest first. Raises StoreError."""
    wanted = select(segments).where(_of(pipeline, table))
    if before:
        position, row = before
        is_earlier = (segments.c.last_position < position) | ((segments.c.last_position == position) & (segments.c.last_row < row))
        wanted = wanted.where(is_earlier)
    order = (segments.c.last_position.desc(), segments.c.last_row.desc())
    with store.reading() as connection:
        return [_segment(row) for row in connection.execute(wanted.order_by(*order).limit(limit)).all()]


def list_segments_of(store: Store, pipeline: str, paths: Collection[str]) -> list[Segment]:
    """Return the segments, of whichever tables, that are in these files. Raises StoreError."""
    with store.reading() as connection:
        return [_segment(row) for some in _in_files(pipeline, paths) for row in connection.execute(select(segments).where(some)).all()]


def find_listed(store: Store, pipeline: str, paths: Collection[str]) -> set[str]:
    """Return which of these files have segments. Raises StoreError."""
    with store.reading() as connection:
        listed = (connection.execute(select(segments.c.path).where(some).distinct()).scalars() for some in _in_files(pipeline, paths))
        return {path for found in listed for path in found}


def _in_files(pipeline: str, paths: Collection[str]) -> Iterator[Any]:
    """Yield the conditions of statements that ask for segments in these files."""
    asked = sorted(paths)
    for start in range(0, len(asked), PATHS_AT_ONCE):
        yield and_(segments.c.pipeline == pipeline, segments.c.path.in_(asked[start : start + PATHS_AT_ONCE]))


def last_places(store: Store, pipeline: str) -> dict[str, tuple[int, int]]:
    """Return the position and row at which each table's last segment ends. Raises StoreError."""
    newest = select(segments.c.table_name, func.max(segments.c.last_position).label("position")).where(segments.c.pipeline == pipeline)
    last = newest.group_by(segments.c.table_name).subquery()
    joined = segments.join(last, and_(segments.c.table_name == last.c.table_name, segments.c.last_position == last.c.position))
    wanted = select(segments.c.table_name, segments.c.last_position, func.max(segments.c.last_row)).select_from(joined)
    wanted = wanted.where(segments.c.pipeline == pipeline).group_by(segments.c.table_name, segments.c.last_position)
    with store.reading() as connection:
        return {table: (position, row) for table, position, row in connection.execute(wanted)}


def forget(store: Store, pipeline: str) -> None:
    """Delete the manifest of a pipeline's segments. Raises StoreError."""

    def work(connection: Connection) -> None:
        for table in (segments, segmented_tables, segment_progress):
            connection.execute(delete(table).where(table.c.pipeline == pipeline))

    store.write(work)


def _write_ended(connection: Connection, pipeline: str, ended: Sequence[Segment]) -> None:
    """List segments, instead of those with the same ends."""
    if ended:
        same = (segments.c.last_position == bindparam("ends"), segments.c.last_row == bindparam("ends_at"))
        replaced = delete(segments).where(segments.c.pipeline == pipeline, segments.c.table_name == bindparam("of_table"), *same)
        connection.execute(replaced, [{"of_table": one.table, "ends": one.last, "ends_at": one.last_row} for one in ended])
        connection.execute(insert(segments), [_values(pipeline, segment) for segment in ended])


AT_ONCE = 500
"""Tables that one statement names."""


def _write_free(connection: Connection, pipeline: str, free: Mapping[str, int]) -> None:
    """Write up to where tables' parts are no longer needed, where that changed."""
    of_pipeline = segmented_tables.c.pipeline == pipeline
    listed = select(segmented_tables.c.table_name, segmented_tables.c.free_through).where(of_pipeline)
    known = {row.table_name: row.free_through for row in connection.execute(listed)}
    changed = [table for table, position in free.items() if known.get(table) != position]
    before = [table for table in changed if table in known]
    for start in range(0, len(before), AT_ONCE):
        named = segmented_tables.c.table_name.in_(before[start : start + AT_ONCE])
        connection.execute(delete(segmented_tables).where(of_pipeline, named))
    if changed:
        values = [{"pipeline": pipeline, "table_name": table, "free_through": free[table]} for table in changed]
        connection.execute(insert(segmented_tables), values)


def _replace(connection: Connection, table: Any, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    same = and_(*(table.c[name] == value for name, value in key.items()))
    if connection.execute(select(table).where(same)).one_or_none() is None:
        connection.execute(insert(table).values(**key, **values))
    else:
        connection.execute(update(table).where(same).values(**values))


def _of(pipeline: str, table: str) -> Any:
    return and_(segments.c.pipeline == pipeline, segments.c.table_name == table)


def _values(pipeline: str, segment: Segment) -> dict[str, Any]:
    places = {"first_position": segment.first, "first_row": segment.first_row, "last_position": segment.last, "last_row": segment.last_row}
    counts = {
        "row_count": segment.rows,
        "byte_count": segment.bytes,
        "schema_id": segment.schema_id,
        "sha256": segment.sha256,
        "encoding": segment.encoding,
    }
    file = {"path": segment.path, "blocks": segment.blocks}
    log = {"began": segment.began, "ended": segment.ended, "gtid": segment.gtid, "first_gtid": segment.first_gtid}
    digests: dict[str, Any] = {"older": dict(segment.older) or None, "buckets": segment.buckets or None}
    return {"pipeline": pipeline, "table_name": segment.table, **places, **counts, **file, **log, **digests}


def _segment(row: Row[Any]) -> Segment:
    places = (row.first_position, row.first_row, row.last_position, row.last_row)
    counts = (row.row_count, row.byte_count, row.schema_id, row.sha256, row.encoding)
    blocks = tuple((offset, size) for offset, size in row.blocks)
    older = {int(version): sha256 for version, sha256 in (row.older or {}).items()}
    log = (row.began, row.ended, row.gtid, row.first_gtid)
    return Segment(row.table_name, *places, *counts, row.path, *log, blocks, older, row.buckets or b"")
