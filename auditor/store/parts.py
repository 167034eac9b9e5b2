"""The manifest of pipelines: their parts, and the schemas and tables of these."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Row, Table, UniqueConstraint, and_, delete, func, insert, select, update

from auditor.model import Part, TableNote
from auditor.store import pipelines, schema_changes, table_notes
from auditor.store._schema import MYSQL, Json, Moment, Words, big_integer, metadata, short_text
from auditor.store._store import Store, database_time

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
    Column("path", Words(), nullable=False),
    Column("last_time", Moment(), nullable=False),
    Column("staged_at", Moment(), nullable=False),
    Column("checksum", short_text(64)),
    UniqueConstraint("pipeline", "table_name", "first_position"),
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
        for schema_id, body in schemas.items():
            if connection.execute(select(table_schemas.c.schema_id).where(_schema(pipeline, schema_id))).one_or_none() is None:
                connection.execute(insert(table_schemas).values(pipeline=pipeline, schema_id=schema_id, body=body))
        events = sum([_write_part(connection, pipeline, part, at) for part in batch])
        for table in {part.table for part in batch}:
            _note_table(connection, pipeline, table, "staged_through", max(part.last for part in batch if part.table == table))
        table_notes.write_notes(connection, pipeline, notes)
        for note in notes:
            if note.body.get("advances"):
                _note_table(connection, pipeline, note.table, "staged_through", note.position)
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


def list_tables(store: Store, pipeline: str) -> dict[str, StagedTable]:
    """Return the tables of a pipeline of which events were staged. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(staged_tables).where(staged_tables.c.pipeline == pipeline)).all()
    return {row.table_name: StagedTable(row.staged_through, row.pruned_through) for row in rows}


def list_pipelines(store: Store) -> list[tuple[str, str]]:
    """Return the tables of all pipelines of which events were staged: the pipeline's name and the table's. Raises StoreError."""
    with store.reading() as connection:
        return [(row.pipeline, row.table_name) for row in connection.execute(select(staged_tables))]


def list_paths(store: Store, pipeline: str) -> set[str]:
    """Return the paths of all parts of a pipeline. Raises StoreError."""
    with store.reading() as connection:
        return set(connection.execute(select(parts.c.path).where(parts.c.pipeline == pipeline)).scalars())


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

    Their files are no longer part of the pipeline from then on; delete them afterwards. Raises StoreError.
    """

    def work(connection: Connection) -> list[Part]:
        oldest = database_time(connection) - dt.timedelta(seconds=keep)
        expired = [
            row for table, position in passed.items() for row in connection.execute(_expired(pipeline, table, position, oldest)).all()
        ]
        for row in expired:
            connection.execute(delete(parts).where(parts.c.number == row.number))
            _note_table(connection, pipeline, row.table_name, "pruned_through", row.last_position)
        return [_part(row) for row in expired]

    return store.write(work)


def delete_oldest(store: Store, pipeline: str, passed: Mapping[str, int], size: int) -> list[Part]:
    """Delete parts that end at or before their table's position in ``passed``, the oldest first, until so many bytes are free; return them.

    Their files are no longer part of the pipeline from then on; delete them afterwards. Raises StoreError.
    """

    def work(connection: Connection) -> list[Part]:
        at = database_time(connection) + dt.timedelta(days=1)
        expired = [row for table, position in passed.items() for row in connection.execute(_expired(pipeline, table, position, at)).all()]
        freed, deleted = 0, list[Part]()
        for row in sorted(expired, key=lambda row: (row.staged_at, row.first_position)):
            if freed >= size:
                break
            connection.execute(delete(parts).where(parts.c.number == row.number))
            _note_table(connection, pipeline, row.table_name, "pruned_through", row.last_position)
            freed += row.byte_count
            deleted.append(_part(row))
        return deleted

    return store.write(work)


def forget(store: Store, pipeline: str, *, schemas: bool = True) -> None:
    """Delete the manifest of a pipeline, with or without the ``schemas`` of tables. Raises StoreError."""

    def work(connection: Connection) -> None:
        for table in (parts, staged_tables, *([table_schemas] if schemas else [])):
            connection.execute(delete(table).where(table.c.pipeline == pipeline))

    store.write(work)


def replace_file(store: Store, pipeline: str, part: Part) -> None:
    """List the bytes and the checksum of a part whose file was written again. Raises StoreError."""
    same = and_(parts.c.pipeline == pipeline, parts.c.table_name == part.table, parts.c.first_position == part.first)
    written = update(parts).where(same).values(byte_count=part.bytes, checksum=part.checksum)
    store.write(lambda connection: connection.execute(written))


def _expired(pipeline: str, table: str, position: int, oldest: dt.datetime) -> Any:
    passed = (parts.c.last_position <= position, parts.c.staged_at < oldest)
    return select(parts).where(parts.c.pipeline == pipeline, parts.c.table_name == table, *passed).order_by(parts.c.first_position)


def _schema(pipeline: str, schema_id: str) -> Any:
    return and_(table_schemas.c.pipeline == pipeline, table_schemas.c.schema_id == schema_id)


def _write_part(connection: Connection, pipeline: str, part: Part, at: dt.datetime) -> int:
    """List a part, and return how many more rows are staged than before."""
    same = and_(parts.c.pipeline == pipeline, parts.c.table_name == part.table, parts.c.first_position == part.first)
    values = {
        "last_position": part.last,
        "row_count": part.rows,
        "byte_count": part.bytes,
        "schema_id": part.schema_id,
        "path": part.path,
        "last_time": part.time,
        "checksum": part.checksum,
    }
    replaced = connection.execute(select(parts.c.row_count).where(same)).scalar()
    if replaced is not None:
        connection.execute(update(parts).where(same).values(**values))
        return part.rows - int(replaced)
    names = {"pipeline": pipeline, "table_name": part.table, "first_position": part.first}
    connection.execute(insert(parts).values(**names, staged_at=at, **values))
    return part.rows


def _note_table(connection: Connection, pipeline: str, table: str, column: str, position: int) -> None:
    """Raise one of the positions of a table."""
    same = and_(staged_tables.c.pipeline == pipeline, staged_tables.c.table_name == table)
    staged = connection.execute(select(staged_tables).where(same)).one_or_none()
    if staged is None:
        values = {"staged_through": 0, "pruned_through": 0, column: position}
        connection.execute(insert(staged_tables).values(pipeline=pipeline, table_name=table, **values))
    elif getattr(staged, column) < position:
        connection.execute(update(staged_tables).where(same).values({column: position}))


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
        row.checksum or "",
    )


def totals(counted: Iterable[Part]) -> tuple[int, int]:
    """Return the rows and bytes of parts."""
    listed = list(counted)
    return sum(part.rows for part in listed), sum(part.bytes for part in listed)
