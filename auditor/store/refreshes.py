"""Refreshes within a pipeline's stream: who asked for which rows, and how far they were written into the source's log."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, bindparam, delete, insert, select, update

from auditor.api_models.pipeline import RefreshState
from auditor.errors import StoreError
from auditor.store import events
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, metadata, short_text

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
)
"""Refreshes that were asked for: of which table and keys, how far their rows were written into the source's log, and what stops them."""

UNFINISHED = ("requested", "running")

AT_ONCE = 500
"""Names that one statement has."""

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
    """``chunks``, ``rows`` and ``seconds`` so far, ``longest`` lock in seconds; ``begin`` and ``end``, where the log ended before its first
    chunk, and once it was done: file, offset, what identifies the server, and the stream's epoch."""
    reason: str = ""
    """Why it waits or failed; empty if it does not."""


def request_refresh(store: Store, pipeline: str, table: str, scope: RefreshScope, requested_by: str) -> Refresh:
    """Ask for rows of a table, and record the event; return the request, or an equal one that has not ended. Raises StoreError."""
    [requested] = request_refreshes(store, pipeline, [(table, scope)], requested_by)
    return requested


def request_refreshes(store: Store, pipeline: str, wanted: Sequence[tuple[str, RefreshScope]], requested_by: str) -> list[Refresh]:
    """Ask for rows of tables in one transaction, and record the events; return the requests, as `request_refresh` does.

    Raises StoreError.
    """

    def work(connection: Connection) -> list[Refresh]:
        names = sorted({table for table, _ in wanted})
        under_way = [
            _refresh(row)
            for first in range(0, len(names), AT_ONCE)
            for row in connection.execute(_unfinished(pipeline).where(refreshes.c.table_name.in_(names[first : first + AT_ONCE])))
        ]
        at, new, requests = database_time(connection), list[Refresh](), list[Refresh]()
        by_table: dict[str, list[Refresh]] = {}
        for refresh in under_way:
            by_table.setdefault(refresh.table, []).append(refresh)
        for table, scope in wanted:
            there = by_table.setdefault(table, [])
            found = next((refresh for refresh in there if _plain(refresh.scope) == _plain(scope)), None)
            if found is None:
                found = Refresh(uuid.uuid4().hex, pipeline, table, scope, "requested", requested_by, at)
                there.append(found)
                new.append(found)
            requests.append(found)
        if new:
            connection.execute(insert(refreshes), [_values(refresh) for refresh in new])
            details = [_detail(refresh) for refresh in new]
            events.insert_events(connection, actor=requested_by, action="pipeline refresh", subject=pipeline, details=details)
        return requests

    return store.write(work)


def _values(new: Refresh) -> dict[str, Any]:
    asked = {"refresh": new.refresh, "pipeline": new.pipeline, "table_name": new.table, "scope": _plain(new.scope)}
    return {**asked, "requested_by": new.requested_by, "at": new.at, "state": new.state, "progress": {}, "reason": ""}


def _detail(new: Refresh) -> dict[str, Any]:
    return {"refresh": new.refresh, "table": new.table, "ranges": len(new.scope.ranges), "keys": len(new.scope.keys)}


def has_unfinished(store: Store, pipeline: str) -> bool:
    """Return whether a refresh of a pipeline has not ended. Raises StoreError."""
    with store.reading() as connection:
        return connection.execute(_unfinished(pipeline).with_only_columns(refreshes.c.refresh).limit(1)).first() is not None


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


def list_done(store: Store, pipeline: str, tables: Sequence[str]) -> list[Refresh]:
    """Return the refreshes of these tables whose rows are all in the source's log, oldest first. Raises StoreError."""
    done = select(refreshes).where(refreshes.c.pipeline == pipeline, refreshes.c.state == "done").order_by(refreshes.c.at)
    with store.reading() as connection:
        rows = [
            row
            for first in range(0, len(tables), AT_ONCE)
            for row in connection.execute(done.where(refreshes.c.table_name.in_(tables[first : first + AT_ONCE])))
        ]
    return [_refresh(row) for row in rows]


def get_refresh(store: Store, refresh: str) -> Refresh:
    """Return a refresh. Raises StoreError, also if there is none."""
    with store.reading() as connection:
        row = connection.execute(select(refreshes).where(refreshes.c.refresh == refresh)).one_or_none()
    if row is None:
        raise StoreError(f"there is no refresh {refresh!r} of a pipeline")
    return _refresh(row)


def get_refreshes(store: Store, wanted: Collection[str]) -> list[Refresh]:
    """Return those of the refreshes that are there, oldest first. Raises StoreError."""
    names = sorted(wanted)
    with store.reading() as connection:
        rows = [
            row
            for first in range(0, len(names), AT_ONCE)
            for row in connection.execute(select(refreshes).where(refreshes.c.refresh.in_(names[first : first + AT_ONCE])))
        ]
    return sorted((_refresh(row) for row in rows), key=lambda refresh: (refresh.at, refresh.table, refresh.refresh))


def save_progress(store: Store, refresh: str, state: RefreshState, progress: Mapping[str, Any], reason: str = "") -> None:
    """Store how a refresh stands. Raises StoreError."""
    save_standings(store, [replace(get_refresh(store, refresh), state=state, progress=progress, reason=reason)])


def save_standings(store: Store, changed: Sequence[Refresh]) -> None:
    """Store how refreshes stand, in one transaction: the state of each, its progress, and its reason. Raises StoreError."""

    def work(connection: Connection) -> None:
        at = database_time(connection)
        for has_ended in (False, True):
            rows = [
                {"of": one.refresh, "now": one.state, "how": dict(one.progress), "why": one.reason}
                for one in changed
                if (one.state not in UNFINISHED) == has_ended
            ]
            values: dict[str, Any] = {"state": bindparam("now"), "progress": bindparam("how"), "reason": bindparam("why")}
            if rows:
                statement = update(refreshes).where(refreshes.c.refresh == bindparam("of"))
                connection.execute(statement.values({**values, **({"ended": at} if has_ended else {})}), rows)

    store.write(work)


def fail_all(store: Store, pipeline: str, reason: str) -> int:
    """End all refreshes of a pipeline that have not ended, for one reason, in one statement; return how many. Raises StoreError."""
    unfinished = update(refreshes).where(refreshes.c.pipeline == pipeline, refreshes.c.state.in_(UNFINISHED))

    def work(connection: Connection) -> int:
        return int(connection.execute(unfinished.values(state="failed", reason=reason, ended=database_time(connection))).rowcount)

    return store.write(work)


def forget(store: Store, pipeline: str) -> None:
    """Delete the refreshes of a pipeline. Raises StoreError."""
    store.write(lambda connection: connection.execute(delete(refreshes).where(refreshes.c.pipeline == pipeline)) and None)


def _unfinished(pipeline: str) -> Any:
    wanted = select(refreshes).where(refreshes.c.pipeline == pipeline, refreshes.c.state.in_(UNFINISHED))
    return wanted.order_by(refreshes.c.at, refreshes.c.table_name, refreshes.c.refresh)


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
