"""Statements at once on a connection's database, over all processes that share the store: first come, first served.

There is a row for each statement, and its number is the key: that there are never more is the database's promise. Who waits has
a row too, with a number below zero, the lower the later it came.
"""

from __future__ import annotations

import datetime as dt
import random

from sqlalchemy import ColumnElement, Connection, and_, delete, exc, insert, select, update

from auditor.store._schema import slots
from auditor.store._store import Store, now

IN_LINE = dt.timedelta(seconds=3)
"""Who waits and has not asked again for so long waits no more."""


def take(store: Store, connection: str, most: int, holder: str, seconds: float) -> bool:
    """Take one of a connection's ``most`` slots for so long, or stand in line for it and ask again soon. A holder takes one at a time.

    A slot whose time is over is free. Until it is given back, `renew` keeps it.
    """

    def work(database: Connection) -> bool:
        at = now(database)
        rows = database.execute(select(slots).where(slots.c.connection == connection)).all()
        place = min((row.slot for row in rows if row.slot < 0), default=0) - 1
        mine = next((row.slot for row in rows if row.slot < 0 and row.holder == holder), place)
        ahead = sum(mine < row.slot < 0 and row.until > at for row in rows)
        taken = {row.slot: row.holder for row in rows if row.slot >= 0 and row.until > at}
        lapsed = {row.slot: row.holder for row in rows if row.slot >= 0 and row.until <= at}
        free = [slot for slot in range(most) if slot not in taken]
        until = at + dt.timedelta(seconds=seconds)
        # Any of them, so that those who come at once seldom want the same.
        slot = random.choice(free) if len(free) > ahead else None
        if slot is not None and _taken(database, connection, slot, lapsed.get(slot), {"holder": holder, "until": until}):
            database.execute(delete(slots).where(_mine(connection, holder), slots.c.slot < 0))
            return True
        waiting = and_(_mine(connection, holder), slots.c.slot < 0)
        if not database.execute(update(slots).where(waiting).values(until=at + IN_LINE)).rowcount:
            database.execute(delete(slots).where(slots.c.connection == connection, slots.c.slot < 0, slots.c.until <= at))
            database.execute(insert(slots).values(connection=connection, slot=place, holder=holder, until=at + IN_LINE))
        return False

    return store.write(work)


def renew(store: Store, holder: str, seconds: float) -> bool:
    """Hold on for so long from now; False where the time was over and another has the slot."""

    def work(database: Connection) -> bool:
        held = and_(slots.c.holder == holder, slots.c.slot >= 0)
        until = now(database) + dt.timedelta(seconds=seconds)
        return bool(database.execute(update(slots).where(held).values(until=until)).rowcount)

    return store.write(work)


def release(store: Store, connection: str, holder: str) -> None:
    """Give a slot back, or leave the line; harmless where another has the slot by now."""
    store.write(lambda database: database.execute(delete(slots).where(_mine(connection, holder))) and None)


def _mine(connection: str, holder: str) -> ColumnElement[bool]:
    return and_(slots.c.connection == connection, slots.c.holder == holder)


def _taken(database: Connection, connection: str, slot: int, before: str | None, values: dict[str, object]) -> bool:
    """Whether nobody else took it at the same moment."""
    if before is not None:
        same = and_(_mine(connection, before), slots.c.slot == slot)
        return bool(database.execute(update(slots).where(same).values(**values)).rowcount)
    try:
        with database.begin_nested():
            database.execute(insert(slots).values(connection=connection, slot=slot, **values))
    except exc.IntegrityError:
        return False
    return True
