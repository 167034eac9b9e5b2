"""Refreshes within a pipeline's stream: who asked for which rows, and how far they were written into the source's log."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, delete, insert, select, update

from auditor.api_models.pipeline import RefreshState
from auditor.errors import StoreError
from auditor.store import events
from auditor.store.database import Store, database_time
from auditor.store.schema import MYSQL, Json, Moment, Words, metadata, short_text

refreshes = Table(
    "auditor_refreshes",
    metadata,
    Column("refresh", short_text(64), primary_key=True),
    Column("pipeline", short_text(), nullable=False),
    Column("table_name", short_text(), nullable=False),
    Column("scope", Json(), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("ended", Moment()),
    Column("progress", Json(), nullable=False),
    Column("reason", Words(), nullable=False),
    Index("auditor_refreshes_pipeline_at", "pipeline", "at"),
    **MYSQL,
)
"""Refreshes that were asked for: of which table and keys, how far their rows were written into the source's log, and what stops them."""

UNFINISHED = ("requested", "running")

KeyTexts = Sequence[str | None]
"""The first values of a key, as texts of events."""


@dataclass(frozen=True, slots=True)
class RefreshScope:
    """Which rows of a table are requested: all where nothing is given."""

    ranges: tuple[tuple[KeyTexts, KeyTexts], ...] = ()
    """Intervals of keys: the greatest key below, and the last one; an empty key is no bound."""
    keys: tuple[KeyTexts, ...] = ()

    @property
    def is_all(self) -> bool:
        """Whether all rows of the table are asked for."""
        return not (self.ranges or self.keys)


@dataclass(frozen=True, slots=True)
class Refresh:
    """A refresh that was asked for."""

    refresh: str
    pipeline: str
    table: str
    scope: RefreshScope
    state: RefreshState
    requested_by: str
    at: dt.datetime
    ended: dt.datetime | None = None
    progress: Mapping[str, Any] = field(default_factory=dict)
    """``chunks``, ``rows`` and ``seconds`` so far, ``longest`` lock in seconds; ``end``, the place of the log, once it is done."""
    reason: str = ""
    """Why it waits or failed; empty if it does not."""


def request_refresh(store: Store, pipeline: str, table: str, scope: RefreshScope, requested_by: str) -> Refresh:
    """Ask for rows of a table, and record the event; return the request, or an equal one that has not ended. Raises StoreError."""
    plain = _plain(scope)

    def work(connection: Connection) -> Refresh:
        for row in connection.execute(_unfinished(pipeline).where(refreshes.c.table_name == table)):
            if row.scope == plain:
                return _refresh(row)
        at, refresh = database_time(connection), uuid.uuid4().hex
        values = {"refresh": refresh, "pipeline": pipeline, "table_name": table, "scope": plain, "requested_by": requested_by, "at": at}
        connection.execute(insert(refreshes).values(**values, state="requested", progress={}, reason=""))
        detail = {"refresh": refresh, "table": table, "ranges": len(scope.ranges), "keys": len(scope.keys)}
        events.insert_event(connection, actor=requested_by, action="pipeline refresh", subject=pipeline, detail=detail)
        return Refresh(refresh, pipeline, table, scope, "requested", requested_by, at)

    return store.write(work)


def list_unfinished(store: Store, pipeline: str) -> list[Refresh]:
    """Return the refreshes of a pipeline that have not ended, oldest first. Raises StoreError."""
    with store.reading() as connection:
        return [_refresh(row) for row in connection.execute(_unfinished(pipeline)).all()]


def list_refreshes(store: Store, pipeline: str, limit: int = 100) -> list[Refresh]:
    """Return the last refreshes of a pipeline, newest first. Raises StoreError."""
    wanted = select(refreshes).where(refreshes.c.pipeline == pipeline)
    with store.reading() as connection:
        rows = connection.execute(wanted.order_by(refreshes.c.at.desc(), refreshes.c.refresh).limit(limit)).all()
    return [_refresh(row) for row in rows]


def get_refresh(store: Store, refresh: str) -> Refresh:
    """Return a refresh. Raises StoreError, also if there is none."""
    with store.reading() as connection:
        row = connection.execute(select(refreshes).where(refreshes.c.refresh == refresh)).one_or_none()
    if row is None:
        raise StoreError(f"there is no refresh {refresh!r} of a pipeline")
    return _refresh(row)


def save_progress(store: Store, refresh: str, state: RefreshState, progress: Mapping[str, Any], reason: str = "") -> None:
    """Store how a refresh stands. Raises StoreError."""

    def work(connection: Connection) -> None:
        ended = {} if state in UNFINISHED else {"ended": database_time(connection)}
        values = {"state": state, "progress": dict(progress), "reason": reason, **ended}
        connection.execute(update(refreshes).where(refreshes.c.refresh == refresh).values(**values))

    store.write(work)


def forget(store: Store, pipeline: str) -> None:
    """Delete the refreshes of a pipeline. Raises StoreError."""
    store.write(lambda connection: connection.execute(delete(refreshes).where(refreshes.c.pipeline == pipeline)) and None)


def _unfinished(pipeline: str) -> Any:
    wanted = select(refreshes).where(refreshes.c.pipeline == pipeline, refreshes.c.state.in_(UNFINISHED))
    return wanted.order_by(refreshes.c.at, refreshes.c.refresh)


def _plain(scope: RefreshScope) -> Any:
    plain = asdict(scope)
    return {
        "ranges": [[list(end) for end in bounds] for bounds in plain["ranges"]],
        "keys": [list(key) for key in plain["keys"]],
    }


def _refresh(row: Row[Any]) -> Refresh:
    scope = RefreshScope(
        tuple((tuple(low), tuple(high)) for low, high in row.scope["ranges"]), tuple(tuple(key) for key in row.scope["keys"])
    )
    begun = (row.refresh, row.pipeline, row.table_name, scope, row.state, row.requested_by, row.at)
    return Refresh(*begun, row.ended, row.progress, row.reason)
