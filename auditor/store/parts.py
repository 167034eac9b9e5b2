"""The manifest of pipelines: their parts, and the schemas and tables of these."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, UniqueConstraint, and_, bindparam, delete, func, insert, select, update

from auditor.model import Part, TableNote
from auditor.store import pipelines, schema_changes, table_notes
from auditor.store.database import Store, database_time
from auditor.store.schema import MYSQL, Json, Moment, big_integer, metadata, short_text

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
    UniqueConstraint("pipeline", "table_name", "first_position"),
    Index("auditor_parts_last", "pipeline", "last_position"),
    Index("auditor_parts_path", "pipeline", "path"),
    **MYSQL,
)
"""The manifest of a pipeline: its parts, each the events of one table and schema between two positions."""

table_schemas = Table(
    "auditor_table_schemas",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("schema_id", short_text(64), primary_key=True),
    Column("body", Json(), nullable=False),
    **MYSQL,
)
"""The columns of a pipeline's tables, by the id that parts state."""

staged_tables = Table(
    "auditor_staged_tables",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("staged_through", big_integer(), nullable=False),
    Column("pruned_through", big_integer(), nullable=False),
    **MYSQL,
)
"""For each table of a pipeline the last position of its parts, and that of those that were deleted; 0 for none."""


PATHS_AT_ONCE = 500
"""Paths that one statement asks for."""


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
) -> None:
    """List the parts of a batch, replacing those with the same table and first position, the schemas they have, by id, and notes.

    ``offset`` is the end of the batch as the source wrote it; None if it is not known. ``catalogue`` is what the source's catalogue says
    of columns, by schema id.

    One transaction: either all parts of the batch are listed or none. Raises StoreError.
    """

    def work(connection: Connection) -> None:
        at = database_time(connection)
        _write_schemas(connection, pipeline, schemas)
        events = _write_parts(connection, pipeline, batch, at)
        through: dict[str, int] = {}
        ends = [(part.table, part.last) for part in batch] + [(note.table, note.position) for note in notes if note.body.get("advances")]
        for table, position in ends:
            through[table] = max(position, through.get(table, 0))
        _note_tables(connection, pipeline, "staged_through", through)
        table_notes.write_notes(connection, pipeline, notes)
        schema_changes.note_schemas(connection, pipeline, batch, at, catalogue or {})
        newest = max(batch, key=lambda part: part.last, default=None)
        pipelines.note_staged(connection, pipeline, (newest.last, newest.time) if newest else None, at, offset, events)

    store.write(work)


def list_parts(store: Store, pipeline: str, table: str, after: int, limit: int = 1000) -> list[Part]:
    """Return the first parts of a table that have events behind a position, in order. Raises StoreError."""
    wanted = and_(parts.c.pipeline == pipeline, parts.c.table_name == table, parts.c.last_position > after)
    with store.reading() as connection:
        rows = connection.execute(select(parts).where(wanted).order_by(parts.c.first_position).limit(limit)).all()
    return [_part(row) for row in rows]


def list_parts_of_all(store: Store, pipeline: str, after: int, through: int, limit: int = 10_000) -> list[Part]:
    """Return the first parts, of whichever tables, that have events behind a position and begin up to another. Raises StoreError."""
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
        for start in range(0, len(asked), PATHS_AT_ONCE):
            some = (parts.c.pipeline == pipeline, parts.c.path.in_(asked[start : start + PATHS_AT_ONCE]))
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
    """When the source committed the last event of the oldest part; None if there is no part."""


def sum_parts(store: Store, pipeline: str, positions: Mapping[str, int]) -> dict[str, Pile]:
    """Return how much the parts of each table hold that end behind its position; 0 for a table without one. Raises StoreError."""
    sums = (func.count(), func.sum(parts.c.row_count), func.sum(parts.c.byte_count), func.min(parts.c.last_time))
    staged = select(staged_tables.c.table_name, staged_tables.c.staged_through).where(staged_tables.c.pipeline == pipeline)
    with store.reading() as connection:
        through = {row.table_name: row.staged_through for row in connection.execute(staged)}
        piles = dict.fromkeys(through, Pile())
        if not positions:
            whole = select(parts.c.table_name, *sums).where(parts.c.pipeline == pipeline).group_by(parts.c.table_name)
            return piles | {table: _pile(*row) for table, *row in connection.execute(whole)}
        for table, last in through.items():
            if positions.get(table, 0) < last:
                behind = (parts.c.pipeline == pipeline, parts.c.table_name == table, parts.c.last_position > positions.get(table, 0))
                piles[table] = _pile(*connection.execute(select(*sums).where(*behind)).one())
    return piles


def _pile(number: int, rows: Any, size: Any, oldest: dt.datetime | None) -> Pile:
    return Pile(number, int(rows or 0), int(size or 0), oldest)


def delete_passed(store: Store, pipeline: str, passed: Mapping[str, int], keep: float) -> list[Part]:
    """Delete the parts that end at or before their table's position in ``passed`` and are older than ``keep`` seconds; return them.

    Files in which no part is left are no longer part of the pipeline from then on; delete them afterwards. Raises StoreError.
    """

    def work(connection: Connection) -> list[Part]:
        oldest = database_time(connection) - dt.timedelta(seconds=keep)
        expired = [
            row for table, position in passed.items() for row in connection.execute(_expired(pipeline, table, position, oldest)).all()
        ]
        _delete_parts(connection, pipeline, expired)
        return [_part(row) for row in expired]

    return store.write(work)


def delete_oldest(store: Store, pipeline: str, passed: Mapping[str, int], size: int) -> list[Part]:
    """Delete parts that end at or before their table's position in ``passed``, the oldest first, until so many bytes are free; return them.

    Files in which no part is left are no longer part of the pipeline from then on; delete them afterwards. Raises StoreError.
    """

    def work(connection: Connection) -> list[Part]:
        at = database_time(connection) + dt.timedelta(days=1)
        expired = [row for table, position in passed.items() for row in connection.execute(_expired(pipeline, table, position, at)).all()]
        freed, chosen = 0, list[Row[Any]]()
        for row in sorted(expired, key=lambda row: (row.staged_at, row.first_position)):
            if freed >= size:
                break
            freed += row.byte_count
            chosen.append(row)
        _delete_parts(connection, pipeline, chosen)
        return [_part(row) for row in chosen]

    return store.write(work)


def forget(store: Store, pipeline: str, *, schemas: bool = True) -> None:
    """Delete the manifest of a pipeline, with or without the ``schemas`` of tables. Raises StoreError."""

    def work(connection: Connection) -> None:
        for table in (parts, staged_tables, *([table_schemas] if schemas else [])):
            connection.execute(delete(table).where(table.c.pipeline == pipeline))

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
            connection.execute(update(parts).where(same).values(values), rows)
        if joined_through is not None:
            pipelines.note_joined(connection, pipeline, joined_through)

    store.write(work)


def list_parts_of(store: Store, pipeline: str, paths: Collection[str]) -> list[Part]:
    """Return the parts that are in these files, in the order of the stream. Raises StoreError."""
    listed = sorted(paths)
    with store.reading() as connection:
        rows = [
            row
            for start in range(0, len(listed), PATHS_AT_ONCE)
            for row in connection.execute(
                select(parts).where(parts.c.pipeline == pipeline, parts.c.path.in_(listed[start : start + PATHS_AT_ONCE]))
            )
        ]
    return sorted((_part(row) for row in rows), key=lambda part: (part.first, part.table))


def _delete_parts(connection: Connection, pipeline: str, listed: Sequence[Row[Any]]) -> None:
    """Delete parts within a transaction, and note up to which positions those of each table are gone."""
    if listed:
        connection.execute(delete(parts).where(parts.c.number == bindparam("known")), [{"known": row.number} for row in listed])
    through: dict[str, int] = {}
    for row in listed:
        through[row.table_name] = max(row.last_position, through.get(row.table_name, 0))
    _note_tables(connection, pipeline, "pruned_through", through)


def _expired(pipeline: str, table: str, position: int, oldest: dt.datetime) -> Any:
    passed = (parts.c.last_position <= position, parts.c.staged_at < oldest)
    return select(parts).where(parts.c.pipeline == pipeline, parts.c.table_name == table, *passed).order_by(parts.c.first_position)


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


def _write_parts(connection: Connection, pipeline: str, batch: Sequence[Part], at: dt.datetime) -> int:
    """List parts, with the same number of statements for any number of them; return how many more rows are staged than before."""
    if not batch:
        return 0
    places = (parts.c.table_name.in_({part.table for part in batch}), parts.c.first_position >= min(part.first for part in batch))
    listed = select(parts.c.number, parts.c.table_name, parts.c.first_position, parts.c.row_count)
    before = {
        (row.table_name, row.first_position): row for row in connection.execute(listed.where(parts.c.pipeline == pipeline, *places)).all()
    }
    new, replaced = list[dict[str, Any]](), list[dict[str, Any]]()
    for part in {(part.table, part.first): part for part in batch}.values():
        row = before.get((part.table, part.first))
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
            new.append({"pipeline": pipeline, "table_name": part.table, "first_position": part.first, "staged_at": at, **values})
        else:
            replaced.append({"known": row.number, **values})
    if new:
        connection.execute(insert(parts), new)
    if replaced:
        connection.execute(update(parts).where(parts.c.number == bindparam("known")), replaced)
    gone: int = sum(before[part.table, part.first].row_count for part in batch if (part.table, part.first) in before)
    return sum(part.rows for part in batch) - gone


def _note_tables(connection: Connection, pipeline: str, column: str, through: Mapping[str, int]) -> None:
    """Raise one of the positions of tables to these, where it is lower."""
    if not through:
        return
    asked = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name.in_(list(through)))
    known = {row.table_name: getattr(row, column) for row in connection.execute(select(staged_tables).where(asked))}
    new = [
        {"pipeline": pipeline, "table_name": table, "staged_through": 0, "pruned_through": 0, column: position}
        for table, position in through.items()
        if table not in known
    ]
    raised = [{"named": table, "raised_to": position} for table, position in through.items() if known.get(table, position) < position]
    if new:
        connection.execute(insert(staged_tables), new)
    if raised:
        same = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name == bindparam("named"))
        connection.execute(update(staged_tables).where(same).values({column: bindparam("raised_to")}), raised)


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
    )


def totals(counted: Iterable[Part]) -> tuple[int, int]:
    """Return the rows and bytes of parts."""
    listed = list(counted)
    return sum(part.rows for part in listed), sum(part.bytes for part in listed)
