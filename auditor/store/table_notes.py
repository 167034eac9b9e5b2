"""Notes on a pipeline's tables: events that stop them, who skipped these, and statements that changed the tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Index, Row, Table, and_, delete, insert, select, update

from auditor.model import NoteKind, Skip, TableNote
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, big_integer, metadata, short_text

notes = Table(
    "auditor_table_notes",
    metadata,
    Column("number", big_integer(), primary_key=True),
    Column("pipeline", short_text(), nullable=False),
    Column("table_name", short_text(), nullable=False),
    Column("position", big_integer(), nullable=False),
    Column("last_position", big_integer(), nullable=False),
    Column("first_row", big_integer(), nullable=False),
    Column("kind", short_text(16), nullable=False),
    Column("target", short_text(), nullable=False),
    Column("event_count", big_integer(), nullable=False),
    Column("time", Moment(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("body", Json(), nullable=False),
    Column("skipped_at", Moment()),
    Column("skipped_by", Words()),
    Column("skip_reason", Words()),
    Index("auditor_table_notes_place", "pipeline", "table_name", "position"),
)
"""Events of a table that stop it, with who skipped them, and statements that changed the table; '' as target stands for all targets."""


def write_notes(connection: Connection, pipeline: str, table_notes: Sequence[TableNote]) -> None:
    """Write notes within a transaction, replacing those of the same kind, place and target; what was skipped stays skipped."""
    at = database_time(connection)
    for note in table_notes:
        same = _same(pipeline, note)
        values = {"last_position": note.last, "event_count": note.events, "time": note.time, "body": dict(note.body)}
        if connection.execute(select(notes.c.number).where(same)).first():
            connection.execute(update(notes).where(same).values(**values))
        else:
            key = {"pipeline": pipeline, "table_name": note.table, "kind": note.kind, "target": note.target}
            place = {"position": note.position, "first_row": note.row}
            connection.execute(insert(notes).values(**key, **place, **values, at=at))


def record_poison(store: Store, pipeline: str, note: TableNote) -> None:
    """Record the event that one target cannot hold, instead of others of its transaction that it could not hold before.

    Raises StoreError.
    """
    others = and_(_of(pipeline, note.table), notes.c.position == note.position, notes.c.target == note.target)

    def work(connection: Connection) -> None:
        connection.execute(delete(notes).where(others, notes.c.first_row != note.row, notes.c.skipped_at.is_(None)))
        write_notes(connection, pipeline, [note])

    store.write(work)


def drop_passed(store: Store, pipeline: str, target: str, through: Mapping[str, int]) -> None:
    """Delete what stopped tables of one target up to their positions and was not skipped: the target holds it now. Raises StoreError."""
    of_target = (notes.c.pipeline == pipeline, notes.c.target == target, notes.c.skipped_at.is_(None))
    with store.reading() as connection:  # which takes no lock, and there is next to never anything
        rows = connection.execute(select(notes.c.number, notes.c.table_name, notes.c.last_position).where(*of_target)).all()
    if passed := [row.number for row in rows if row.last_position <= through.get(row.table_name, -1)]:
        store.write(lambda connection: connection.execute(delete(notes).where(notes.c.number.in_(passed))))


def list_notes(
    store: Store, pipeline: str, tables: Collection[str] | None = None, *, kind: NoteKind | None = None, after: int = 0
) -> list[TableNote]:
    """Return the notes of all tables, or of some, that end behind a position, in the order of the stream. Raises StoreError.

    Of the kind ``change`` they are those of the source's statements, without what a target keeps of one for another name of its table.
    """
    wanted: list[ColumnElement[bool]] = [notes.c.pipeline == pipeline, notes.c.last_position > after]
    wanted += [] if tables is None else [notes.c.table_name.in_(tables)]
    wanted += [] if kind is None else [notes.c.kind == kind]
    wanted += [notes.c.target == ""] if kind == "change" else []
    with store.reading() as connection:
        rows = connection.execute(select(notes).where(*wanted).order_by(notes.c.position, notes.c.first_row, notes.c.number)).all()
    return [_note(row) for row in rows]


def skip(store: Store, pipeline: str, table_notes: Sequence[TableNote], *, by: str, reason: str, whole: bool = False) -> list[TableNote]:
    """Let tables go on without what these notes are about; one transaction. Returns the notes as they are then. Raises StoreError.

    With ``whole`` a target goes on without all events of the table in the transaction of one that it cannot hold.
    """
    skipped = [replace(note, row=-1, events=note.body["of"]) if whole and "of" in note.body else note for note in table_notes]

    def work(connection: Connection) -> None:
        values = {"skipped_at": database_time(connection), "skipped_by": by, "skip_reason": reason}
        for note, now in zip(table_notes, skipped, strict=True):
            event_values = {"first_row": now.row, "event_count": now.events}
            connection.execute(update(notes).where(_same(pipeline, note)).values(**values, **event_values))

    store.write(work)
    return skipped


def forget(store: Store, pipeline: str, target: str | None = None) -> None:
    """Delete the notes of a pipeline, or those of one target alone. Raises StoreError."""
    chosen = and_(notes.c.pipeline == pipeline, *([notes.c.target == target] if target is not None else []))
    store.write(lambda connection: connection.execute(delete(notes).where(chosen)))


def _of(pipeline: str, table: str) -> ColumnElement[bool]:
    return and_(notes.c.pipeline == pipeline, notes.c.table_name == table)


def _same(pipeline: str, note: TableNote) -> ColumnElement[bool]:
    place = and_(notes.c.position == note.position, notes.c.first_row == note.row)
    return and_(_of(pipeline, note.table), place, notes.c.kind == note.kind, notes.c.target == note.target)


def _note(row: Row[Any]) -> TableNote:
    done = Skip(row.skipped_by, row.skipped_at, row.skip_reason) if row.skipped_at else None
    place = (row.position, row.last_position, row.event_count)
    return TableNote(row.table_name, row.kind, *place, row.time, row.body, row.target, row.first_row, done)
