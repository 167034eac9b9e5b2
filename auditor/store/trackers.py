"""The state of schema trackers: where each stands, the dump of its schema there, and the columns that tables had at each place."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Column, Connection, Table, and_, delete, insert, select, update

from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, big_integer, metadata, short_text

trackers = Table(
    "auditor_trackers",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("token", short_text(64), nullable=False),
    Column("checkpoint", Json()),
    Column("pending_statement", Json()),
    Column("at", Moment(), nullable=False),
)
"""The text by which a tracker's server is known as a pipeline's own, the place of the log up to which it was brought, and the statement
that is being replayed."""

dumps = Table(
    "auditor_tracker_dumps",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("digest", short_text(64), primary_key=True),
    Column("database_name", Words(), nullable=False),
    Column("table_name", Words(), nullable=False),
    Column("statement", Json(), nullable=False),
)
"""The statements that make a tracker's schema at its checkpoint; '' as table stands for the database itself. The digest is of the names,
which are compared as their bytes."""

columns = Table(
    "auditor_tracker_columns",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("digest", short_text(64), primary_key=True),
    Column("position", big_integer(), primary_key=True, autoincrement=False),
    Column("database_name", Words(), nullable=False),
    Column("table_name", Words(), nullable=False),
    Column("body", Json(), nullable=False),
)
"""The columns that a table has behind a position of the log, or why they are not known."""

Name = tuple[str, str]
"""Database and table."""


@dataclass(frozen=True, slots=True)
class TrackerState:
    """What is known of a pipeline's tracker."""

    token: str
    """By which the tracker's server is known as this pipeline's own."""
    checkpoint: Any = None
    """The place up to which the tracker was brought: ``epoch``, ``file``, ``position``; None if it was not begun."""
    pending_statement: Any = None
    """The statement that was being replayed: ``place`` and ``text``; None between two statements."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a statement changed: the new state of a tracker."""

    checkpoint: Mapping[str, Any]
    """The place behind the statement."""
    position: int
    """From behind which on the tables have the columns."""
    dump: Mapping[Name, str | None] = field(default_factory=dict)
    """The statements that make the tables anew which it changed; None for one that is gone."""
    columns: Mapping[Name, Any] = field(default_factory=dict)
    """The columns that they have, or why they are not known."""


def get_tracker(store: Store, pipeline: str) -> TrackerState:
    """Return the state of a pipeline's tracker, with a new token if it had none. Raises StoreError."""

    def work(connection: Connection) -> TrackerState:
        row = connection.execute(select(trackers).where(trackers.c.pipeline == pipeline)).one_or_none()
        if row is not None:
            return TrackerState(row.token, row.checkpoint, row.pending_statement)
        token = secrets.token_hex(16)
        connection.execute(insert(trackers).values(pipeline=pipeline, token=token, at=database_time(connection)))
        return TrackerState(token)

    return store.write(work)


def read_dump(store: Store, pipeline: str) -> dict[Name, str]:
    """Return the statements that make a tracker's schema at its checkpoint, by database and table. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(dumps).where(dumps.c.pipeline == pipeline)).all()
    return {(row.database_name, row.table_name): row.statement for row in rows}


def read_columns(store: Store, pipeline: str) -> dict[Name, list[tuple[int, Any]]]:
    """Return the columns of all tables by position, in order. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(columns).where(columns.c.pipeline == pipeline).order_by(columns.c.position)).all()
    history: dict[Name, list[tuple[int, Any]]] = {}
    for row in rows:
        history.setdefault((row.database_name, row.table_name), []).append((row.position, row.body))
    return history


def begin(store: Store, pipeline: str, step: Step, unknown: tuple[int, Any] | None = None) -> None:
    """Record a tracker's whole schema, in place of any it had before; one transaction.

    What tables had earlier stays; ``unknown`` is a position from behind which on nobody knows it, and what is recorded there. Raises
    StoreError.
    """

    def work(connection: Connection) -> None:
        connection.execute(delete(dumps).where(dumps.c.pipeline == pipeline))
        if unknown:
            known = select(columns.c.database_name, columns.c.table_name).where(columns.c.pipeline == pipeline).distinct()
            bodies = {(row.database_name, row.table_name): {"body": unknown[1]} for row in connection.execute(known)}
            _replace(connection, columns, pipeline, bodies, position=unknown[0])
        _record(connection, pipeline, step)

    store.write(work)


def note_statement(store: Store, pipeline: str, place: str, text: str) -> None:
    """Record that a statement is going to be replayed on the schema that the dump has. Raises StoreError."""

    def work(connection: Connection) -> None:
        values = {"pending_statement": {"place": place, "text": text}, "at": database_time(connection)}
        connection.execute(update(trackers).where(trackers.c.pipeline == pipeline).values(**values))

    store.write(work)


def record(store: Store, pipeline: str, step: Step) -> None:
    """Record what a statement changed, and that none is being replayed; one transaction. Raises StoreError."""
    store.write(lambda connection: _record(connection, pipeline, step))


def forget(store: Store, pipeline: str) -> None:
    """Delete what is known of a tracker but its token: its server stays the pipeline's own. Raises StoreError."""

    def work(connection: Connection) -> None:
        for table in (dumps, columns):
            connection.execute(delete(table).where(table.c.pipeline == pipeline))
        values = {"checkpoint": None, "pending_statement": None, "at": database_time(connection)}
        connection.execute(update(trackers).where(trackers.c.pipeline == pipeline).values(**values))

    store.write(work)


def _record(connection: Connection, pipeline: str, step: Step) -> None:
    _replace(connection, dumps, pipeline, {name: None if text is None else {"statement": text} for name, text in step.dump.items()})
    bodies = {name: {"body": body} for name, body in step.columns.items()}
    _replace(connection, columns, pipeline, bodies, position=step.position)
    values = {"checkpoint": dict(step.checkpoint), "pending_statement": None, "at": database_time(connection)}
    connection.execute(update(trackers).where(trackers.c.pipeline == pipeline).values(**values))


def _replace(connection: Connection, table: Any, pipeline: str, contents: Mapping[Name, Mapping[str, Any] | None], **key: Any) -> None:
    """Replace the rows of some tables; None deletes one."""
    rows: list[dict[str, Any]] = []
    same = and_(table.c.pipeline == pipeline, *(table.c[column] == value for column, value in key.items()))
    for name, content in contents.items():
        digest = _digest(name)
        connection.execute(delete(table).where(same, table.c.digest == digest))
        if content is not None:
            names = {"pipeline": pipeline, "digest": digest, "database_name": name[0], "table_name": name[1]}
            rows.append({**names, **key, **content})
    if rows:
        connection.execute(insert(table), rows)


def _digest(name: Sequence[str]) -> str:
    """Return the key of a table: names may be longer than a key, and equal for a store's collation."""
    return hashlib.sha256("\0".join(name).encode()).hexdigest()[:32]
