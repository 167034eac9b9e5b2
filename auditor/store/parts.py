"""The manifest of pipelines: their parts, and the schemas and tables of these."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Index,
    Row,
    Select,
    Table,
    UniqueConstraint,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from auditor.errors import IncarnationsDiffer
from auditor.model import Part, TableNote
from auditor.store import pipelines, row_versions, schema_changes, segments, table_notes, topic_batches
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, big_integer, metadata, short_text

parts = Table(
    "auditor_parts",
    metadata,
    Column("number", big_integer(), primary_key=True),
    Column("pipeline", short_text(), nullable=False),
    Column("table_name", short_text(), nullable=False),
    Column("first_position", big_integer(), nullable=False),
    Column("last_position", big_integer(), nullable=False),
    Column("row_count", big_integer(), nullable=False),
    Column("byte_count", big_integer(), nullable=False),
    Column("schema_id", short_text(64), nullable=False),
    Column("path", short_text(), nullable=False),
    Column("last_time", Moment(), nullable=False),
    Column("staged_at", Moment(), nullable=False),
    Column("checksum", short_text(64), nullable=False),
    Column("blocks", Json(), nullable=False),
    Column("previous_position", big_integer(), nullable=False),
    UniqueConstraint("pipeline", "table_name", "first_position"),
    Index("auditor_parts_last", "pipeline", "last_position"),
    Index("auditor_parts_path", "pipeline", "path"),
    Index("auditor_parts_missing", "pipeline", "table_name", "last_position"),
    Index("auditor_parts_age", "pipeline", "staged_at"),
)
"""The manifest of a pipeline: its parts, each the events of one table and schema between two positions.

The parts of a table are a chain: each says up to where the table had been staged before it. So a part that is gone is missed.
"""

table_schemas = Table(
    "auditor_table_schemas",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("schema_id", short_text(64), primary_key=True),
    Column("body", Json(), nullable=False),
)
"""The columns of a pipeline's tables, by the id that parts state."""

staged_tables = Table(
    "auditor_staged_tables",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("staged_through", big_integer(), nullable=False),
    Column("pruned_through", big_integer(), nullable=False),
    Column("part_count", big_integer(), nullable=False, default=0),
    Column("row_count", big_integer(), nullable=False, default=0),
    Column("byte_count", big_integer(), nullable=False, default=0),
)
"""For each table of a pipeline the last position of its parts, and that of those that were deleted, 0 for none; and what its parts hold,
so that nobody has to add up the manifest."""


AT_ONCE = 500
"""Paths or parts that one statement names."""


@dataclass(frozen=True, slots=True)
class StagedTable:
    """Up to which position a table's events were staged, and up to which their parts were deleted; 0 for none."""

    staged_through: int
    pruned_through: int


def record_batch(
    store: Store,
    pipeline: str,
    batch: Sequence[Part],
    schemas: Mapping[str, Any],
    offset: Any = None,
    notes: Sequence[TableNote] = (),
    catalogue: Mapping[str, Any] | None = None,
    topics_through: int | None = None,
    begin: Any = None,
) -> None:
    """List the parts of a batch, replacing those with the same table and first position, the schemas they have, by id, and notes.

    ``offset`` is the end of the batch as the source wrote it; None if it is not known. ``catalogue`` is what the source's catalogue says
    of columns, by schema id. ``topics_through`` is the position at which the batch ends, if that is found in topics again by ``offset``.
    ``begin`` is the offset at which the batch begins; None if that is not checked.

    One transaction: either all parts of the batch are listed or none. Raises StoreError, and IncarnationsDiffer if the store says that the
    batch before ended elsewhere, as one does that was restored to an earlier time: what was staged in between would be in no batch.
    """

    def work(connection: Connection) -> None:
        if begin is not None and (known := pipelines.lock_offset(connection, pipeline)) not in (None, json.loads(json.dumps(begin))):
            places = [f"{offset['file']}:{offset['position']}" for offset in (known, begin)]
            raise IncarnationsDiffer(
                f"pipeline {pipeline}: the store says that it staged up to {places[0]}, and this process up to {places[1]}: the store was"
                " restored to another time, or another process stages; start the pipeline again, which continues from what the store says"
            )
        at = database_time(connection)
        _write_schemas(connection, pipeline, schemas)
        passed = [(note.table, note.position) for note in notes if note.body.get("advances")]
        added = _write_parts(connection, pipeline, batch, passed, at)
        through: dict[str, int] = {}
        ends = [(part.table, part.last) for part in batch] + passed
        for table, position in ends:
            through[table] = max(position, through.get(table, 0))
        _note_tables(connection, pipeline, "staged_through", through, added)
        table_notes.write_notes(connection, pipeline, notes)
        schema_changes.note_schemas(connection, pipeline, batch, at, catalogue or {})
        newest = max(batch, key=lambda part: part.last, default=None)
        events = sum(counts.rows for counts in added.values())
        if topics_through is not None:
            topic_batches.note_end(connection, pipeline, topics_through, offset)
        pipelines.note_staged(connection, pipeline, (newest.last, newest.time) if newest else None, at, offset, events)

    store.write(work)


def list_parts(store: Store, pipeline: str, table: str, after: int, limit: int = 1000) -> list[Part]:
    """Return the first parts of a table that have events behind a position, in order. Raises StoreError."""
    wanted = and_(parts.c.pipeline == pipeline, parts.c.table_name == table, parts.c.last_position > after)
    with store.reading() as connection:
        rows = connection.execute(select(parts).where(wanted).order_by(parts.c.first_position).limit(limit)).all()
    return [_part(row) for row in rows]


def list_parts_since(store: Store, pipeline: str, table: str, since: dt.datetime, limit: int) -> list[Part]:
    """Return the first parts of a table with events that the source committed since a moment, in order. Raises StoreError."""
    wanted = and_(parts.c.pipeline == pipeline, parts.c.table_name == table, parts.c.last_time >= since)
    with store.reading() as connection:
        rows = connection.execute(select(parts).where(wanted).order_by(parts.c.first_position).limit(limit)).all()
    return [_part(row) for row in rows]


def reaches_back(store: Store, pipeline: str, table: str, since: dt.datetime) -> bool:
    """Return whether no part is deleted, nor missing, of the events that the source committed of a table since a moment. Raises StoreError.

    It is so if a part of the table is older, and if none of its parts was deleted and the pipeline has an older one of another table.
    """
    before = select(parts.c.number).where(parts.c.pipeline == pipeline, parts.c.last_time < since).limit(1)
    with store.reading() as connection:
        if connection.execute(before.where(parts.c.table_name == table)).first():
            return True
        same = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name == table)
        deleted = connection.execute(select(staged_tables.c.pruned_through).where(same)).scalar()
        return not deleted and connection.execute(before).first() is not None


def list_parts_of_all(store: Store, pipeline: str, after: int, through: int, limit: int | None = 10_000) -> list[Part]:
    """Return the first parts, or with None all, of whichever tables, that have events behind a position and begin up to another.

    Raises StoreError.
    """
    wanted = and_(parts.c.pipeline == pipeline, parts.c.last_position > after, parts.c.first_position <= through)
    with store.reading() as connection:
        rows = connection.execute(select(parts).where(wanted).order_by(parts.c.first_position).limit(limit)).all()
    return [_part(row) for row in rows]


def list_parts_behind(store: Store, pipeline: str, after: int, limit: int) -> list[Part]:
    """Return the first parts, of whichever tables, that end behind a position, in the order of their ends. Raises StoreError."""
    wanted = and_(parts.c.pipeline == pipeline, parts.c.last_position > after)
    order = (parts.c.last_position, parts.c.first_position, parts.c.table_name)
    with store.reading() as connection:
        rows = connection.execute(select(parts).where(wanted).order_by(*order).limit(limit)).all()
    return [_part(row) for row in rows]


def list_tables(store: Store, pipeline: str) -> dict[str, StagedTable]:
    """Return the tables of a pipeline of which events were staged. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(staged_tables).where(staged_tables.c.pipeline == pipeline)).all()
    return {row.table_name: StagedTable(row.staged_through, row.pruned_through) for row in rows}


def get_table(store: Store, pipeline: str, table: str) -> StagedTable:
    """Return how far one table's events were staged. Raises StoreError."""
    same = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name == table)
    with store.reading() as connection:
        row = connection.execute(select(staged_tables).where(same)).one_or_none()
    return StagedTable(row.staged_through, row.pruned_through) if row else StagedTable(0, 0)


def list_pipelines(store: Store) -> list[tuple[str, str]]:
    """Return the tables of all pipelines of which events were staged: the pipeline's name and the table's. Raises StoreError."""
    with store.reading() as connection:
        return [(row.pipeline, row.table_name) for row in connection.execute(select(staged_tables))]


def list_paths(store: Store, pipeline: str) -> set[str]:
    """Return the paths of all parts of a pipeline. Raises StoreError."""
    with store.reading() as connection:
        return set(connection.execute(select(parts.c.path).where(parts.c.pipeline == pipeline)).scalars())


def find_listed(store: Store, pipeline: str, paths: Collection[str]) -> set[str]:
    """Return which of these files have parts. Raises StoreError."""
    asked, found = sorted(paths), set[str]()
    with store.reading() as connection:
        for start in range(0, len(asked), AT_ONCE):
            some = (parts.c.pipeline == pipeline, parts.c.path.in_(asked[start : start + AT_ONCE]))
            found.update(connection.execute(select(parts.c.path).where(*some).distinct()).scalars())
    return found


def list_unknown(store: Store, pipeline: str, schema_ids: Iterable[str]) -> list[str]:
    """Return which of these schemas are not written yet. Raises StoreError."""
    asked = list(schema_ids)
    if not asked:
        return []
    with store.reading() as connection:
        known = select(table_schemas.c.schema_id).where(table_schemas.c.pipeline == pipeline, table_schemas.c.schema_id.in_(asked))
        there = set(connection.execute(known).scalars())
    return [schema_id for schema_id in asked if schema_id not in there]


def get_schema(store: Store, pipeline: str, schema_id: str) -> Any:
    """Return the JSON value of a schema, or None if there is none of that id. Raises StoreError."""
    with store.reading() as connection:
        return connection.execute(select(table_schemas.c.body).where(_schema(pipeline, schema_id))).scalar()


@dataclass(frozen=True, slots=True)
class Pile:
    """How much parts hold together."""

    parts: int = 0
    rows: int = 0
    bytes: int = 0
    oldest: dt.datetime | None = None
    """When the source committed the last event of the oldest part; None if there is no part, or that was not asked for."""

    def plus(self, other: Pile) -> Pile:
        """Return the counts of both together."""
        return Pile(self.parts + other.parts, self.rows + other.rows, self.bytes + other.bytes)


_SUMS = (func.count(), func.sum(parts.c.row_count), func.sum(parts.c.byte_count), func.min(parts.c.last_time))


def sum_parts(store: Store, pipeline: str, tables: Collection[str] | None = None) -> dict[str, Pile]:
    """Return how much the parts of each table hold of which events were staged, without the time of the oldest one.

    With ``tables`` of these alone. Raises StoreError.
    """
    columns = (staged_tables.c.table_name, staged_tables.c.part_count, staged_tables.c.row_count, staged_tables.c.byte_count)
    wanted = select(*columns).where(staged_tables.c.pipeline == pipeline)
    wanted = wanted if tables is None else wanted.where(staged_tables.c.table_name.in_(tables))
    with store.reading() as connection:
        return {table: Pile(*counts) for table, *counts in connection.execute(wanted)}


def recount(store: Store, pipeline: str) -> None:
    """Add up what the parts of each table hold, and write that where it is not what was counted until now. Raises StoreError."""
    sums = select(parts.c.table_name, *_SUMS[:-1]).where(parts.c.pipeline == pipeline).group_by(parts.c.table_name)

    def work(connection: Connection) -> None:
        listed = connection.execute(select(staged_tables).where(staged_tables.c.pipeline == pipeline).with_for_update()).all()
        held = {table: Pile(number, int(rows), int(size)) for table, number, rows, size in connection.execute(sums)}
        known = {row.table_name: Pile(row.part_count, row.row_count, row.byte_count) for row in listed}
        wrong = {table: held.get(table, Pile()) for table, pile in known.items() if held.get(table, Pile()) != pile}
        if wrong:
            same = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name == bindparam("named"))
            values: dict[str, Any] = {"part_count": bindparam("parts"), "row_count": bindparam("rows"), "byte_count": bindparam("bytes")}
            right = [{"named": table, "parts": pile.parts, "rows": pile.rows, "bytes": pile.bytes} for table, pile in wrong.items()]
            connection.execute(update(staged_tables).where(same).values(values), right)

    store.write(work)


def sum_missing(store: Store, pipeline: str, targets: Iterable[str], tables: Collection[str] | None = None) -> dict[str, dict[str, Pile]]:
    """Return by target how much the parts of tables hold that end behind what it reported; a table of which it lacks none is left out.

    One statement a target, whatever the number of tables; ``tables`` are the only ones that are asked for. Raises StoreError.
    """
    missing: dict[str, dict[str, Pile]] = {}
    with store.reading() as connection:
        for target in targets:
            rows = connection.execute(_missing(pipeline, target, tables))
            missing[target] = {table: _pile(*row) for table, *row in rows}
    return missing


def _missing(pipeline: str, target: str, tables: Collection[str] | None) -> Select[Any]:
    reported = pipelines.merges
    held = func.coalesce(reported.c.position, 0)
    of_target = and_(
        reported.c.pipeline == staged_tables.c.pipeline, reported.c.target == target, reported.c.table_name == staged_tables.c.table_name
    )
    of_table = and_(parts.c.pipeline == staged_tables.c.pipeline, parts.c.table_name == staged_tables.c.table_name)
    joined = staged_tables.outerjoin(reported, of_target).join(parts, and_(of_table, parts.c.last_position > held))
    wanted = select(staged_tables.c.table_name, *_SUMS).select_from(joined).where(staged_tables.c.pipeline == pipeline)
    wanted = wanted.where(staged_tables.c.staged_through > held).group_by(staged_tables.c.table_name)
    return wanted if tables is None else wanted.where(staged_tables.c.table_name.in_(tables))


def count_bytes(store: Store, pipeline: str) -> int:
    """Return how many bytes the parts of a pipeline hold. Raises StoreError."""
    with store.reading() as connection:
        return int(
            connection.execute(select(func.sum(staged_tables.c.byte_count)).where(staged_tables.c.pipeline == pipeline)).scalar() or 0
        )


def _pile(number: int, rows: Any, size: Any, oldest: dt.datetime | None) -> Pile:
    return Pile(number, int(rows or 0), int(size or 0), oldest)


def delete_passed(store: Store, pipeline: str, keep: float, *, targets: Collection[str] = (), segmented: bool = False) -> list[Part]:
    """Delete the parts older than ``keep`` seconds that all these targets have, as they reported; return them.

    With ``segmented`` those that segments still need stay. A few statements, whatever the number of tables.

    Files in which no part is left are no longer part of the pipeline from then on; delete them afterwards. Raises StoreError.
    """
    passed = _passed(pipeline, targets, segmented).with_for_update(of=parts)  # what is counted off is deleted by nobody else
    passed = passed.order_by(parts.c.first_position)

    def work(connection: Connection) -> list[Part]:
        oldest = database_time(connection) - dt.timedelta(seconds=keep)
        expired = connection.execute(passed.where(parts.c.staged_at < oldest)).all()
        _delete_parts(connection, pipeline, expired)
        if expired:
            first = connection.execute(select(func.min(parts.c.first_position)).where(parts.c.pipeline == pipeline)).scalar()
            topic_batches.prune(connection, pipeline, first)
        return [_part(row) for row in expired]

    return store.write(work)


def delete_oldest(store: Store, pipeline: str, size: int, *, targets: Collection[str] = (), segmented: bool = False) -> list[Part]:
    """Delete parts that all these targets have, the oldest first, until so many bytes are free; return them.

    With ``segmented`` those that segments still need stay.

    Files in which no part is left are no longer part of the pipeline from then on; delete them afterwards. Raises StoreError.
    """
    passed = _passed(pipeline, targets, segmented).with_for_update(of=parts)
    passed = passed.order_by(parts.c.staged_at, parts.c.first_position, parts.c.number).limit(AT_ONCE)

    def work(connection: Connection) -> list[Part]:
        chosen, freed = list[Row[Any]](), 0
        while freed < size and (page := connection.execute(passed.offset(len(chosen))).all()):
            for row in page:
                if freed >= size:
                    break
                freed += row.byte_count
                chosen.append(row)
        _delete_parts(connection, pipeline, chosen)
        return [_part(row) for row in chosen]

    return store.write(work)


def count_passed(
    store: Store, pipeline: str, paths: Collection[str], *, targets: Collection[str] = (), segmented: bool = False
) -> dict[str, int]:
    """Return by file how many parts in it all these targets have, and, with ``segmented``, no segment needs. Raises StoreError."""
    listed, passed = sorted(paths), _passed(pipeline, targets, segmented)
    found: Counter[str] = Counter()
    with store.reading() as connection:
        for start in range(0, len(listed), AT_ONCE):
            found.update(row.path for row in connection.execute(passed.where(parts.c.path.in_(listed[start : start + AT_ONCE]))))
    return dict(found)


def _passed(pipeline: str, targets: Collection[str], segmented: bool) -> Select[Any]:
    """Return the query of the parts that all targets reported to have, and that no open segment and no history needs.

    Without targets and segments it is for histories alone that the pipeline stages.
    """
    behind = select(row_versions.histories.c.history).where(
        row_versions.histories.c.pipeline == pipeline,
        row_versions.histories.c.table_name == parts.c.table_name,
        row_versions.histories.c.through < parts.c.last_position,
    )
    wanted = select(parts).where(parts.c.pipeline == pipeline, ~behind.exists())
    for target in targets:
        reported = pipelines.merges.alias()
        of_table = (reported.c.pipeline == pipeline, reported.c.target == target, reported.c.table_name == parts.c.table_name)
        wanted = wanted.where(*of_table, parts.c.last_position <= reported.c.position)
    if segmented:
        cut = segments.segmented_tables
        wanted = wanted.where(
            cut.c.pipeline == pipeline, cut.c.table_name == parts.c.table_name, parts.c.last_position <= cut.c.free_through
        )
    return wanted


def forget(store: Store, pipeline: str, *, schemas: bool = True) -> None:
    """Delete the manifest of a pipeline, with or without the ``schemas`` of tables. Raises StoreError."""

    def work(connection: Connection) -> None:
        for table in (parts, staged_tables, *([table_schemas] if schemas else [])):
            connection.execute(delete(table).where(table.c.pipeline == pipeline))
        topic_batches.forget(connection, pipeline)

    store.write(work)


def replace_files(store: Store, pipeline: str, moved: Sequence[tuple[Part, Part]], joined_through: int | None = None) -> None:
    """List other files, and blocks of these, for parts whose events were written again: each as it was listed, and as it is now.

    Nothing is changed of a part that is listed no more, or in another file than it was. ``joined_through``: up to which position the files
    of batches are joined with it. Raises StoreError.
    """
    same = and_(
        parts.c.pipeline == pipeline,
        parts.c.table_name == bindparam("in_table"),
        parts.c.first_position == bindparam("first_of_part"),
        parts.c.path == bindparam("old_path"),
    )
    values = {name: bindparam(f"new_{name}", type_=parts.c[name].type) for name in ("path", "byte_count", "checksum", "blocks")}
    rows = [
        {
            "in_table": old.table,
            "first_of_part": old.first,
            "old_path": old.path,
            "new_path": new.path,
            "new_byte_count": new.bytes,
            "new_checksum": new.checksum,
            "new_blocks": new.blocks,
        }
        for old, new in moved
    ]

    def work(connection: Connection) -> None:
        if rows:
            before = _paths_of(connection, pipeline, [old for old, new in moved if old.bytes != new.bytes])
            connection.execute(update(parts).where(same).values(values), rows)
            added: dict[str, Pile] = {}
            for old, new in moved:
                if before.get((old.table, old.first)) == old.path:
                    added[old.table] = added.get(old.table, Pile()).plus(Pile(bytes=new.bytes - old.bytes))
            _note_tables(connection, pipeline, "staged_through", dict.fromkeys(added, 0), added)
        if joined_through is not None:
            pipelines.note_joined(connection, pipeline, joined_through)

    store.write(work)


def _paths_of(connection: Connection, pipeline: str, some: Sequence[Part]) -> dict[tuple[str, int], str]:
    """Return where these parts are listed, by table and first position; their rows are locked."""
    if not some:
        return {}
    places = (parts.c.table_name.in_({part.table for part in some}), parts.c.first_position.in_({part.first for part in some}))
    listed = select(parts.c.table_name, parts.c.first_position, parts.c.path).where(parts.c.pipeline == pipeline, *places)
    return {(row.table_name, row.first_position): row.path for row in connection.execute(listed.with_for_update())}


def list_parts_of(store: Store, pipeline: str, paths: Collection[str]) -> list[Part]:
    """Return the parts that are in these files, in the order of the stream. Raises StoreError."""
    listed = sorted(paths)
    with store.reading() as connection:
        rows = [
            row
            for start in range(0, len(listed), AT_ONCE)
            for row in connection.execute(
                select(parts).where(parts.c.pipeline == pipeline, parts.c.path.in_(listed[start : start + AT_ONCE]))
            )
        ]
    return sorted((_part(row) for row in rows), key=lambda part: (part.first, part.table))


def _delete_parts(connection: Connection, pipeline: str, listed: Sequence[Row[Any]]) -> None:
    """Delete parts within a transaction, and note up to which positions those of each table are gone."""
    numbers = [row.number for row in listed]
    for start in range(0, len(numbers), AT_ONCE):
        connection.execute(delete(parts).where(parts.c.number.in_(numbers[start : start + AT_ONCE])))
    through: dict[str, int] = {}
    gone: dict[str, Pile] = {}
    for row in listed:
        through[row.table_name] = max(row.last_position, through.get(row.table_name, 0))
        gone[row.table_name] = gone.get(row.table_name, Pile()).plus(Pile(-1, -row.row_count, -row.byte_count))
    _note_tables(connection, pipeline, "pruned_through", through, gone)


def _schema(pipeline: str, schema_id: str) -> Any:
    return and_(table_schemas.c.pipeline == pipeline, table_schemas.c.schema_id == schema_id)


def _write_schemas(connection: Connection, pipeline: str, schemas: Mapping[str, Any]) -> None:
    """Write the schemas that are not known yet."""
    if not schemas:
        return
    asked = and_(table_schemas.c.pipeline == pipeline, table_schemas.c.schema_id.in_(list(schemas)))
    known = set(connection.execute(select(table_schemas.c.schema_id).where(asked)).scalars())
    if new := [{"pipeline": pipeline, "schema_id": key, "body": body} for key, body in schemas.items() if key not in known]:
        connection.execute(insert(table_schemas), new)


def _write_parts(
    connection: Connection, pipeline: str, batch: Sequence[Part], passed: Iterable[tuple[str, int]], at: dt.datetime
) -> dict[str, Pile]:
    """List parts, with the same number of statements for any number of them; return how much more is staged of each table than before.

    ``passed`` are tables, and positions of statements that emptied them in this batch.
    """
    if not batch:
        return {}
    places = (parts.c.table_name.in_({part.table for part in batch}), parts.c.first_position >= min(part.first for part in batch))
    listed = select(parts.c.number, parts.c.table_name, parts.c.first_position, parts.c.row_count, parts.c.byte_count)
    before = {
        (row.table_name, row.first_position): row for row in connection.execute(listed.where(parts.c.pipeline == pipeline, *places)).all()
    }
    new, replaced, added = list[dict[str, Any]](), list[dict[str, Any]](), dict[str, Pile]()
    listed_parts = {(part.table, part.first): part for part in batch}.values()
    previous = _find_previous(connection, pipeline, listed_parts, passed)
    for part in listed_parts:
        row = before.get((part.table, part.first))
        more = Pile(1, part.rows, part.bytes) if row is None else Pile(0, part.rows - row.row_count, part.bytes - row.byte_count)
        added[part.table] = added.get(part.table, Pile()).plus(more)
        values = {
            "last_position": part.last,
            "row_count": part.rows,
            "byte_count": part.bytes,
            "schema_id": part.schema_id,
            "path": part.path,
            "last_time": part.time,
            "checksum": part.checksum,
            "blocks": part.blocks,
        }
        if row is None:
            place = {"pipeline": pipeline, "table_name": part.table, "first_position": part.first}
            new.append({**place, "previous_position": previous[part.table, part.first], "staged_at": at, **values})
        else:
            replaced.append({"known": row.number, **values})
    if new:
        connection.execute(insert(parts), new)
    if replaced:
        connection.execute(update(parts).where(parts.c.number == bindparam("known")), replaced)
    return added


def _find_previous(
    connection: Connection, pipeline: str, batch: Collection[Part], passed: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], int]:
    """Return by table and first position of each part up to where the table was staged before it."""
    asked = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name.in_({part.table for part in batch}))
    ends: dict[str, list[int]] = {row.table_name: [row.staged_through] for row in connection.execute(select(staged_tables).where(asked))}
    for table, position in (*passed, *((part.table, part.last) for part in batch)):
        ends.setdefault(table, []).append(position)
    return {(part.table, part.first): max((end for end in ends[part.table] if end < part.first), default=0) for part in batch}


def _note_tables(connection: Connection, pipeline: str, column: str, through: Mapping[str, int], added: Mapping[str, Pile]) -> None:
    """Raise one of the positions of tables to these, where it is lower, and count what their parts hold more than before."""
    if not through:
        return
    asked = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name.in_(list(through)))
    known = {row.table_name: getattr(row, column) for row in connection.execute(select(staged_tables).where(asked))}
    new, changed = list[dict[str, Any]](), list[dict[str, Any]]()
    for table, position in sorted(through.items()):  # in one order, so that nobody waits for one who waits for them
        more = added.get(table, Pile())
        if table not in known:
            counts = {"part_count": more.parts, "row_count": more.rows, "byte_count": more.bytes}
            new.append({"pipeline": pipeline, "table_name": table, "staged_through": 0, "pruned_through": 0, **counts, column: position})
        elif known[table] < position or more != Pile():
            counts = {"more_parts": more.parts, "more_rows": more.rows, "more_bytes": more.bytes}
            changed.append({"named": table, "raised_to": max(known[table], position), **counts})
    if new:
        connection.execute(insert(staged_tables), new)
    if changed:
        same = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name == bindparam("named"))
        values = {
            column: bindparam("raised_to"),
            "part_count": staged_tables.c.part_count + bindparam("more_parts"),
            "row_count": staged_tables.c.row_count + bindparam("more_rows"),
            "byte_count": staged_tables.c.byte_count + bindparam("more_bytes"),
        }
        connection.execute(update(staged_tables).where(same).values(values), changed)


def _part(row: Row[Any]) -> Part:
    return Part(
        row.table_name,
        row.first_position,
        row.last_position,
        row.row_count,
        row.byte_count,
        row.schema_id,
        row.path,
        row.last_time,
        row.checksum,
        tuple((offset, size) for offset, size in row.blocks),
        row.previous_position,
    )


def totals(counted: Iterable[Part]) -> tuple[int, int]:
    """Return the rows and bytes of parts."""
    listed = list(counted)
    return sum(part.rows for part in listed), sum(part.bytes for part in listed)
