"""Holds: an audit lets the loader of a target bring one table up to a position that it names, and no further, for a moment.

======== ================================================================= ==========
state    meaning                                                           set by
======== ================================================================= ==========
intent   the audit wants the table to stand still                          the audit
frozen   the loader merges nothing more of it                              the loader
wanted   the audit has read the source at ``position``                     the audit
held     the target holds the table exactly up to there, and says so       the loader
failed   it cannot; ``reason`` says why                                    the loader
======== ================================================================= ==========

The audit ends a hold by deleting it. One that is not ended, because its process died, ends by itself at ``until``, by the store's clock:
after `hold_limit` of `auditor/durations.py`.

It has a table of its own beside that of leases, because it is a question with an answer: audit and loader write its state in turn, nobody
renews it, and its key are three names, which would not fit into the key of a lease.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Column, ColumnElement, Connection, Row, Table, and_, delete, insert, select, update

from auditor.store.database import Store, database_time
from auditor.store.schema import Moment, Words, big_integer, metadata, short_text

holds = Table(
    "auditor_holds",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("target", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("holder", short_text(64), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("position", big_integer()),
    Column("reason", Words(), nullable=False),
    Column("frozen_at", Moment()),
    Column("until", Moment(), nullable=False),
)
"""Which tables of which targets audits hold still since when, up to which position these are wanted, and when a hold ends by itself."""

HoldState = Literal["intent", "frozen", "wanted", "held", "failed"]


@dataclass(frozen=True, slots=True)
class Hold:
    """A hold of a target's table."""

    table: str
    holder: str
    state: HoldState
    position: int | None = None
    """Up to which position the table is wanted; None until that is known."""
    reason: str = ""
    """Why it failed."""


@dataclass(frozen=True, slots=True)
class HoldKey:
    """Whose hold, and of what."""

    pipeline: str
    target: str
    table: str
    holder: str


def take_hold(store: Store, key: HoldKey, seconds: float) -> bool:
    """Ask for a hold that ends by itself after so many seconds; False while another holder has the table. Raises StoreError."""

    def work(connection: Connection) -> bool:
        at, same = database_time(connection), _table(key.pipeline, key.target, key.table)
        hold = connection.execute(select(holds).where(same)).one_or_none()
        if hold is not None and hold.until > at and hold.holder != key.holder:
            return False
        connection.execute(delete(holds).where(same))
        names = {"pipeline": key.pipeline, "target": key.target, "table_name": key.table, "holder": key.holder}
        connection.execute(insert(holds).values(**names, state="intent", reason="", until=at + dt.timedelta(seconds=seconds)))
        return True

    return store.write(work)


def get_hold(store: Store, key: HoldKey) -> Hold | None:
    """Return a hold; None if it has ended. Raises StoreError."""
    same = and_(_table(key.pipeline, key.target, key.table), holds.c.holder == key.holder)
    with store.reading() as connection:
        row = connection.execute(select(holds).where(same)).one_or_none()
        return _hold(row) if row is not None and row.until > database_time(connection) else None


def list_holds(store: Store, pipeline: str, target: str) -> dict[str, Hold]:
    """Return the holds of a target that have not ended, by table. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(holds).where(holds.c.pipeline == pipeline, holds.c.target == target)).all()
        at = database_time(connection) if rows else None
    return {row.table_name: _hold(row) for row in rows if at is not None and row.until > at}


def list_held_seconds(store: Store, pipeline: str) -> dict[str, dict[str, float]]:
    """Return for how many seconds the loaders of a pipeline have merged nothing more of tables, by target and table. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(holds).where(holds.c.pipeline == pipeline, holds.c.frozen_at.is_not(None))).all()
        at = database_time(connection) if rows else None
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if at is not None and row.until > at:
            found.setdefault(row.target, {})[row.table_name] = max(0.0, (at - row.frozen_at).total_seconds())
    return found


def set_state(store: Store, key: HoldKey, state: HoldState, *, position: int | None = None, reason: str = "") -> bool:
    """Set the state of a hold, and its position unless that is None; False if it has ended. Raises StoreError."""
    values: dict[str, Any] = {"state": state, "reason": reason} | ({} if position is None else {"position": position})

    def work(connection: Connection) -> bool:
        at = database_time(connection)
        since = {"frozen_at": at} if state == "frozen" else {}
        same = and_(_table(key.pipeline, key.target, key.table), holds.c.holder == key.holder, holds.c.until > at)
        return bool(connection.execute(update(holds).where(same).values(**values, **since)).rowcount)

    return store.write(work)


def end_hold(store: Store, key: HoldKey) -> None:
    """End a hold; does nothing if it has ended, or another holder has the table. Raises StoreError."""
    same = and_(_table(key.pipeline, key.target, key.table), holds.c.holder == key.holder)
    store.write(lambda connection: connection.execute(delete(holds).where(same)) and None)


def _table(pipeline: str, target: str, table: str) -> ColumnElement[bool]:
    return and_(holds.c.pipeline == pipeline, holds.c.target == target, holds.c.table_name == table)


def _hold(row: Row[Any]) -> Hold:
    return Hold(row.table_name, row.holder, row.state, row.position, row.reason)
