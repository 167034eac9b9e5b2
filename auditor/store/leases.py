"""Leases: at most one process reads the change stream of a source, and one loads a target."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json

from sqlalchemy import Connection, delete, insert, select, update

from auditor.errors import SourceTaken
from auditor.store._process import Owner, has_ended
from auditor.store._schema import leases
from auditor.store._store import Store, database_time


def take_lease(store: Store, source: str, holder: str, owner: Owner, seconds: float) -> None:
    """Take or extend the lease of ``source`` for ``holder``, for ``seconds`` by the store's clock; ``owner`` is the holder's process.

    A lease whose process has ended is free, if this host can tell: what takes the place of a crashed process does not wait. Raises
    SourceTaken while another holder has it, and StoreError.
    """

    def work(database: Connection) -> str:
        at = database_time(database)
        found = database.execute(select(leases).where(leases.c.source == source)).one_or_none()
        values = {"holder": holder, "about": json.dumps(dataclasses.asdict(owner)), "until": at + dt.timedelta(seconds=seconds)}
        if found is None:
            database.execute(insert(leases).values(source=source, **values))
            return ""
        present = Owner(**json.loads(found.about))
        if found.holder == holder or found.until <= at or has_ended(present):
            unchanged = (leases.c.source == source) & (leases.c.holder == found.holder)
            return "" if database.execute(update(leases).where(unchanged).values(**values)).rowcount else str(present)
        return f"{present} until {found.until:%H:%M:%S} UTC"

    if taken := store.write(work):
        raise SourceTaken(f"it is taken by {taken}; stop that process, or wait until its lease is over")


def is_held(store: Store, source: str) -> bool:
    """Return whether a process has the lease of ``source``: one that died has it until it runs out. Raises StoreError."""
    with store.reading() as database:
        held = (leases.c.source == source) & (leases.c.until > database_time(database))
        return database.execute(select(leases.c.holder).where(held)).one_or_none() is not None


def release_lease(store: Store, source: str, holder: str) -> None:
    """Give a lease back; does nothing if another holder has it. Raises StoreError."""
    held = (leases.c.source == source) & (leases.c.holder == holder)
    store.write(lambda database: database.execute(delete(leases).where(held)) and None)
