"""Slots that limit the concurrent statements on a connection's database over all processes that share the store, first come first served.

They are leases that a database has several of: each slot in use is a row with the slot's number, from 0, which is part of the primary key,
so that the database guarantees the limit. Each waiting holder has a row too, with a negative number: the lower, the later it arrived.
"""

from __future__ import annotations

import random
from contextlib import nullcontext

from sqlalchemy import ColumnElement, Connection, and_, delete, exc, insert, select, update

from auditor.store._process import this_process
from auditor.store._schema import leases
from auditor.store._store import Store, database_time
from auditor.store.leases import lease_times, owner_columns
from auditor.waits import waits


def take_slot(store: Store, connection: str, limit: int, holder: str, seconds: float) -> bool:
    """Take one of a connection's ``limit`` slots for ``holder``, which holds at most one, and return whether one was free.

    If not, the holder is queued and must call this again soon. The slot expires after ``seconds`` unless `renew_slot` extends it.
    """

    def work(database: Connection) -> bool:
        at = database_time(database)
        rows = database.execute(select(leases).where(_of(connection))).all()
        last_place = min((row.slot for row in rows if row.slot < 0), default=0) - 1
        own_place = next((row.slot for row in rows if row.slot < 0 and row.holder == holder), last_place)
        ahead = sum(own_place < row.slot < 0 and row.until > at for row in rows)
        taken = {row.slot: row.holder for row in rows if row.slot >= 0 and row.until > at}
        expired = {row.slot: row.holder for row in rows if row.slot >= 0 and row.until <= at}
        free = [slot for slot in range(limit) if slot not in taken]
        # A random one, so that concurrent holders seldom try the same slot.
        slot = random.choice(free) if len(free) > ahead else None
        taking = {"holder": holder, **lease_times(database, seconds, at)}
        if slot is not None and _write_slot(database, connection, slot, expired.get(slot), taking):
            database.execute(delete(leases).where(_held_by(connection, holder), leases.c.slot < 0))
            return True
        waiting, times = and_(_held_by(connection, holder), leases.c.slot < 0), lease_times(database, waits().slot_waiter, at)
        if not database.execute(update(leases).where(waiting).values(**times)).rowcount:
            database.execute(delete(leases).where(_of(connection), leases.c.slot < 0, leases.c.until <= at))
            # Where another holder takes this place concurrently, the next call takes the one after it.
            _write_slot(database, connection, last_place, None, {"holder": holder, **times})
        return False

    return store.write(work)


def renew_slot(store: Store, connection: str, holder: str, seconds: float) -> bool:
    """Extend the holder's slot to ``seconds`` from now; returns False if it expired and was taken by another holder."""

    def work(database: Connection) -> bool:
        own_slot = and_(_held_by(connection, holder), leases.c.slot >= 0)
        return bool(database.execute(update(leases).where(own_slot).values(**lease_times(database, seconds))).rowcount)

    return store.write(work)


def release_slot(store: Store, connection: str, holder: str) -> None:
    """Release the holder's slot, or its place among the waiting; does nothing if another holder has taken the slot."""
    store.write(lambda database: database.execute(delete(leases).where(_held_by(connection, holder))) and None)


def _of(connection: str) -> ColumnElement[bool]:
    return and_(leases.c.kind == "slot", leases.c.name == connection)


def _held_by(connection: str, holder: str) -> ColumnElement[bool]:
    return and_(_of(connection), leases.c.holder == holder)


def _write_slot(database: Connection, connection: str, slot: int, before: str | None, values: dict[str, object]) -> bool:
    """Write a free slot or place, or a slot that expired under ``before``; returns False if another process took it concurrently."""
    values = {**values, **owner_columns(this_process())}
    if before is not None:
        same = and_(_held_by(connection, before), leases.c.slot == slot)
        return bool(database.execute(update(leases).where(same).values(**values)).rowcount)
    # A failed statement ends a transaction of PostgreSQL alone; MySQL drops the savepoint after a deadlock, which would hide that.
    guard = database.begin_nested() if database.dialect.name == "postgresql" else nullcontext()
    try:
        with guard:
            database.execute(insert(leases).values(kind="slot", name=connection, slot=slot, **values))
    except exc.IntegrityError:
        return False
    return True
