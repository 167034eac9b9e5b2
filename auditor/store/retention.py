"""What is kept no longer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, select

from auditor.model import State
from auditor.store._errors import told
from auditor.store._schema import claims, runs, stretches
from auditor.store._store import Store

RESUMABLE = dt.timedelta(days=7)
"""How long a run that can be resumed is kept for that, whatever the limits."""

CLAIMED = dt.timedelta(days=7)
"""How long a claim is kept that is not its audit's newest."""

LIVING = (State.PENDING, State.RUNNING)

TOGETHER = 50
"""Runs that one transaction deletes, so that others need not wait long."""

PAGES = 2000
"""Pages of SQLite's file that are given back at a time, for the same reason."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many runs were deleted, and by how many bytes the store's file shrank; None for a server's, which reuses them."""

    runs: int
    bytes: int | None


def prune(store: Store, *, runs: int | None, days: float | None, now: dt.datetime) -> Pruned:
    """Delete every run that is not among the newest ``runs`` of its audit, or is older than ``days``.

    Kept all the same: each audit's newest run that is done, what runs or can still be resumed, and what a stretch refers to.
    """
    oldest = None if days is None else now - dt.timedelta(days=days)
    with store.reading() as connection:
        numbers = list(_superfluous(connection, runs, oldest, now))
    dropped = 0
    for start in range(0, len(numbers), TOGETHER):
        dropped += _drop(store, numbers[start : start + TOGETHER])
    _forget_claims(store, now)
    if store.engine.dialect.name != "sqlite":
        return Pruned(dropped, None)
    with told(store.name):
        return Pruned(dropped, _shrink(store.engine))


def _superfluous(connection: Connection, newest: int | None, oldest: dt.datetime | None, now: dt.datetime) -> Iterator[int]:
    columns = (runs.c.audit, runs.c.number, runs.c.state, runs.c.started, runs.c.ended, runs.c.resumable)
    found = connection.execute(select(*columns).order_by(runs.c.audit, runs.c.number.desc()))
    for _, rows in groupby(found, key=lambda row: row.audit):
        yield from _superfluous_of_audit([*rows], newest, oldest, now)


def _superfluous_of_audit(rows: Sequence[Any], newest: int | None, oldest: dt.datetime | None, now: dt.datetime) -> Iterator[int]:
    last_done = next((row.number for row in rows if row.state == State.DONE), None)
    for position, row in enumerate(rows):
        too_many = newest is not None and position >= newest
        too_old = oldest is not None and row.started < oldest
        resumable = row.resumable and now - (row.ended or row.started) < RESUMABLE
        if (too_many or too_old) and not resumable and row.number != last_done and row.state not in LIVING:
            yield row.number


def _drop(store: Store, numbers: Sequence[int]) -> int:
    def work(connection: Connection) -> int:
        # A run may have been taken up again, or looked at as a stretch, since it was chosen.
        unused = runs.c.number.not_in(select(stretches.c.run))
        return connection.execute(delete(runs).where(runs.c.number.in_(numbers), runs.c.state.not_in(LIVING), unused)).rowcount

    return store.write(work)


def _forget_claims(store: Store, now: dt.datetime) -> None:
    def work(connection: Connection) -> None:
        newest = select(claims.c.audit, func.max(claims.c.tick).label("tick")).group_by(claims.c.audit)
        for row in connection.execute(newest).all():
            old = claims.c.tick < min(row.tick, now - CLAIMED)
            connection.execute(delete(claims).where(claims.c.audit == row.audit, old))

    store.write(work)


def _shrink(engine: Engine) -> int:
    """Give what is free in the file back to the disk, a little at a time; how many bytes that was."""
    connection = engine.raw_connection()
    try:
        driver: Any = connection.driver_connection

        def ask(pragma: str) -> int:
            return int(driver.execute(f"PRAGMA {pragma}").fetchall()[0][0])

        before = ask("page_count")
        while free := ask("freelist_count"):
            driver.execute(f"PRAGMA incremental_vacuum({PAGES})").fetchall()
            if ask("freelist_count") >= free:  # a file that another program made need not be able to
                break
        driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return max(0, before - ask("page_count")) * ask("page_size")
    finally:
        connection.close()
