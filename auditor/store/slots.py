"""Slots that limit the concurrent statements on a connection's database over all processes that share the store, first come first served.

Each slot in use is a row whose primary key is the slot's number, from 0, so the database guarantees the limit. Each waiting holder has
a row too, with a negative number: the lower, the later it arrived.
"""

from __future__ import annotations

import datetime as dt
import random
from contextlib import nullcontext

from sqlalchemy import ColumnElement, Connection, and_, delete, exc, insert, select, update

from auditor.store._schema import slots
from auditor.store._store import Store, database_time

WAITER_TIMEOUT = dt.timedelta(seconds=3)
"""A waiting holder loses its place if it does not call `take_slot` again within this time."""


def take_slot(store: Store, connection: str, limit: int, holder: str, seconds: float) -> bool:
    """Take one of a connection's ``limit`` slots for ``holder``, which holds at most one, and return whether one was free.

    If not, the holder is queued and must call this again soon. The slot expires after ``seconds`` unless `renew_slot` extends it.
    """

    def work(database: Connection) -> bool:
        at = database_time(database)
        rows = database.execute(select(slots).where(slots.c.connection == connection)).all()
        last_place = min((row.slot for row in rows if row.slot < 0), default=0) - 1
        own_place = next((row.slot for row in rows if row.slot < 0 and row.holder == holder), last_place)
        ahead = sum(own_place < row.slot < 0 and row.until > at for row in rows)
        taken = {row.slot: row.holder for row in rows if row.slot >= 0 and row.until > at}
        expired = {row.slot: row.holder for row in rows if row.slot >= 0 and row.until <= at}
        free = [slot for slot in range(limit) if slot not in taken]
        until = at + dt.timedelta(seconds=seconds)
        # A random one, so that concurrent holders seldom try the same slot.
        slot = random.choice(free) if len(free) > ahead else None
        if slot is not None and _write_slot(database, connection, slot, expired.get(slot), {"holder": holder, "until": until}):
            database.execute(delete(slots).where(_held_by(connection, holder), slots.c.slot < 0))
            return True
        waiting = and_(_held_by(connection, holder), slots.c.slot < 0)
        if not database.execute(update(slots).where(waiting).values(until=at + WAITER_TIMEOUT)).rowcount:
            database.execute(delete(slots).where(slots.c.connection == connection, slots.c.slot < 0, slots.c.until <= at))
            # Where another holder takes this place concurrently, the next call takes the one after it.
            _write_slot(database, connection, last_place, None, {"holder": holder, "until": at + WAITER_TIMEOUT})
        return False

    return store.write(work)


def renew_slot(store: Store, holder: str, seconds: float) -> bool:
    """Extend the holder's slot to ``seconds`` from now; returns False if it expired and was taken by another holder."""

    def work(database: Connection) -> bool:
        held = and_(slots.c.holder == holder, slots.c.slot >= 0)
        until = database_time(database) + dt.timedelta(seconds=seconds)
        return bool(database.execute(update(slots).where(held).values(until=until)).rowcount)

    return store.write(work)


def release_slot(store: Store, connection: str, holder: str) -> None:
    """Release the holder's slot, or its place among the waiting; does nothing if another holder has taken the slot."""
    store.write(lambda database: database.execute(delete(slots).where(_held_by(connection, holder))) and None)


def _held_by(connection: str, holder: str) -> ColumnElement[bool]:
    return and_(slots.c.connection == connection, slots.c.holder == holder)


def _write_slot(database: Connection, connection: str, slot: int, before: str | None, values: dict[str, object]) -> bool:
    """Write a free slot or place, or a slot that expired under ``before``; returns False if another process took it concurrently."""
    if before is not None:
        same = and_(_held_by(connection, before), slots.c.slot == slot)
        return bool(database.execute(update(slots).where(same).values(**values)).rowcount)
    # A failed statement ends a transaction of PostgreSQL alone; MySQL drops the savepoint after a deadlock, which would hide that.
    guard = database.begin_nested() if database.dialect.name == "postgresql" else nullcontext()
    try:
        with guard:
            database.execute(insert(slots).values(connection=connection, slot=slot, **values))
    except exc.IntegrityError:
        return False
    return True
