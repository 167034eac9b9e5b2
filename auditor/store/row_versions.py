"""The histories that a pipeline keeps for audits: of which rows, from where to where in its stream, and in which files their versions are.

A history is wanted by the first run of its audit (`want`), and written by the pipeline (`record`). It begins again where something of it
is missing (`restart`): what it says holds from its beginning on, and is complete up to where it was written through.
"""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, and_, delete, insert, select, update

from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, big_integer, metadata, short_text

histories = Table(
    "auditor_row_histories",
    metadata,
    Column("history", short_text(16), primary_key=True),
    Column("audit", short_text(), nullable=False),
    Column("pipeline", short_text(), nullable=False),
    Column("table_name", short_text(), nullable=False),
    Column("fingerprint", short_text(16), nullable=False),
    Column("plan", Json(), nullable=False),
    Column("condition", Words(), nullable=False),
    Column("requested_at", Moment(), nullable=False),
    Column("begins", big_integer()),
    Column("begins_time", Moment()),
    Column("why_there", Words(), nullable=False),
    Column("through", big_integer(), nullable=False),
    Column("shape", short_text(16), nullable=False),
    Column("stopped", Words(), nullable=False),
    Index("auditor_row_histories_audit", "audit"),
    Index("auditor_row_histories_pipeline", "pipeline"),
)
"""The histories that pipelines keep, one for an audit at most."""

files = Table(
    "auditor_row_version_files",
    metadata,
    Column("history", short_text(16), primary_key=True),
    Column("first_position", big_integer(), primary_key=True, autoincrement=False),
    Column("last_position", big_integer(), nullable=False),
    Column("path", short_text(), nullable=False),
    Column("version_count", big_integer(), nullable=False),
    Column("byte_count", big_integer(), nullable=False),
    Column("newest", Moment(), nullable=False),
)
"""The files of histories, in the order of the stream."""


@dataclass(frozen=True, slots=True)
class RowHistory:
    """The versions of an audit's rows that a pipeline keeps."""

    id: str
    audit: str
    pipeline: str
    table: str
    """The table as the stream calls it, ``database.table``."""
    fingerprint: str
    """Equal for plans under which rows have the same hashes, but for the salt."""
    plan: Mapping[str, Any]
    """The plan, as JSON, by which rows are hashed."""
    where: str
    """The audit's filter in the portable language; '' for all rows."""
    begins: int | None
    """The position behind which every change of a row is in it; None before it was begun."""
    begins_time: dt.datetime | None
    """A moment of the source's clock that is not before that position."""
    why_there: str
    """Why it begins there, as a clause; '' where it began when it was first wanted."""
    through: int
    """The position up to which it was written."""
    shape: str
    """A digest of the compared columns in the events that it has; '' before there are any."""
    stopped: str
    """Why it cannot go on, as a clause; '' while it goes on."""


@dataclass(frozen=True, slots=True)
class VersionFile:
    """A file of versions."""

    first: int
    last: int
    path: str
    """Relative to the folder of the staging."""
    versions: int
    bytes: int
    newest: dt.datetime
    """When the source committed the last of them."""


def want(
    store: Store, *, audit: str, pipeline: str, table: str, fingerprint: str, plan: Mapping[str, Any] | None, where: str
) -> RowHistory | None:
    """Return the history of an audit, which begins anew if the one that it has is of other rows, texts, or another pipeline.

    Without a ``plan`` it does not begin: None then. Raises StoreError.
    """
    about = {"audit": audit, "pipeline": pipeline, "table_name": table, "fingerprint": fingerprint, "condition": where}

    def work(connection: Connection) -> RowHistory | None:
        row = connection.execute(select(histories).where(*(histories.c[name] == value for name, value in about.items()))).first()
        if row is None and plan is None:
            return None
        if row is None:
            assert plan is not None
            _delete(connection, histories.c.audit == audit)
            empty = {"why_there": "", "through": 0, "shape": "", "stopped": "", "requested_at": database_time(connection)}
            id_ = secrets.token_hex(8)
            connection.execute(insert(histories).values(history=id_, plan=dict(plan), **about, **empty))
            row = connection.execute(select(histories).where(histories.c.history == id_)).one()
        return _history(row)

    return store.write(work)


def get(store: Store, history: str) -> RowHistory | None:
    """Return a history; None if it was replaced or forgotten. Raises StoreError."""
    with store.reading() as connection:
        row = connection.execute(select(histories).where(histories.c.history == history)).one_or_none()
    return None if row is None else _history(row)


def list_histories(store: Store, pipeline: str) -> list[RowHistory]:
    """Return the histories that a pipeline keeps. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(histories).where(histories.c.pipeline == pipeline).order_by(histories.c.history)).all()
    return [_history(row) for row in rows]


def list_files(store: Store, history: str) -> list[VersionFile]:
    """Return the files of a history in the order of the stream. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(files).where(files.c.history == history).order_by(files.c.first_position)).all()
    return [VersionFile(row.first_position, row.last_position, row.path, row.version_count, row.byte_count, row.newest) for row in rows]


def restart(store: Store, history: RowHistory, position: int, time: dt.datetime | None, why: str) -> bool:
    """Let a history begin behind a position, without the versions that it has; False if another process changed it since.

    Without a ``time`` it is the store's clock that says when this was. Raises StoreError.
    """

    def work(connection: Connection) -> bool:
        over = {"begins": position, "begins_time": time or database_time(connection), "why_there": why, "shape": "", "stopped": ""}
        changed = connection.execute(update(histories).where(_same(history)).values(through=position, **over)).rowcount
        if changed:
            connection.execute(delete(files).where(files.c.history == history.id))
        return bool(changed)

    return store.write(work)


def stop(store: Store, history: RowHistory, why: str) -> None:
    """Say why a history cannot go on; it is tried again. Raises StoreError."""
    store.write(lambda connection: connection.execute(update(histories).where(_same(history)).values(stopped=why)))


def record(store: Store, history: RowHistory, through: int, shape: str, file: VersionFile | None) -> bool:
    """List a file of the next versions, None if there are none, and up to where they were written; False if the history changed since.

    Raises StoreError.
    """

    def work(connection: Connection) -> bool:
        over = {"through": through, "shape": shape, "stopped": ""}
        changed = connection.execute(update(histories).where(_same(history)).values(**over)).rowcount
        if changed and file:
            connection.execute(insert(files).values(**_values(history.id, file)))
        return bool(changed)

    return store.write(work)


def join(store: Store, history: str, old: Sequence[VersionFile], new: VersionFile) -> None:
    """Put a file in the place of some that follow each other. Raises StoreError."""

    def work(connection: Connection) -> None:
        connection.execute(delete(files).where(files.c.history == history, files.c.path.in_([file.path for file in old])))
        connection.execute(insert(files).values(**_values(history, new)))

    store.write(work)


def drop(store: Store, history: RowHistory, oldest: Sequence[VersionFile], why: str) -> bool:
    """Leave out the oldest files of a history, which begins behind the last of them; False if it changed since. Raises StoreError."""

    def work(connection: Connection) -> bool:
        over = {"begins": oldest[-1].last, "begins_time": oldest[-1].newest, "why_there": why}
        changed = connection.execute(update(histories).where(_same(history)).values(**over)).rowcount
        if changed:
            gone = [file.path for file in oldest]
            connection.execute(delete(files).where(files.c.history == history.id, files.c.path.in_(gone)))
        return bool(changed)

    return store.write(work)


def forget(store: Store, pipeline: str, *, but: Sequence[str] | None = None) -> None:
    """Forget the histories of a pipeline, without those of the audits ``but``. Raises StoreError."""
    chosen = histories.c.pipeline == pipeline
    store.write(lambda connection: _delete(connection, chosen if but is None else and_(chosen, histories.c.audit.not_in(but))))


def _delete(connection: Connection, chosen: Any) -> None:
    of_them = select(histories.c.history).where(chosen)
    connection.execute(delete(files).where(files.c.history.in_(of_them)))
    connection.execute(delete(histories).where(chosen))


def _same(history: RowHistory) -> Any:
    return and_(histories.c.history == history.id, histories.c.through == history.through)


def _values(history: str, file: VersionFile) -> dict[str, Any]:
    counts = {"version_count": file.versions, "byte_count": file.bytes}
    return {
        "history": history,
        "first_position": file.first,
        "last_position": file.last,
        "path": file.path,
        "newest": file.newest,
        **counts,
    }


def _history(row: Row[Any]) -> RowHistory:
    values = dict(row._mapping)
    del values["requested_at"]
    return RowHistory(id=values.pop("history"), table=values.pop("table_name"), where=values.pop("condition"), **values)
