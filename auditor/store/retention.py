"""What is kept no longer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, Row, and_, delete, func, or_, select

from auditor.model import State
from auditor.store._errors import told
from auditor.store._schema import audits, claims, events, runs, standing, stretches, tokens
from auditor.store._store import Store
from auditor.store._stored import WHOLE, ad_hoc
from auditor.store.tokens import SESSION

RESUMABLE = dt.timedelta(days=7)
"""How long a run that can be resumed is kept for that, whatever the limits."""

CLAIMED = dt.timedelta(days=7)
"""How long a claim is kept that is not its audit's newest."""

LIVING = (State.PENDING, State.RUNNING)

TOGETHER = 50
"""Runs that one transaction deletes, so that others need not wait long."""

EVENTS = 1000
"""Events that one transaction looks at, for the same reason."""

PAGES = 2000
"""Pages of SQLite's file that are given back at a time, for the same reason."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How much was deleted, and by how many bytes the store's file shrank; None for a server's, which reuses them."""

    runs: int
    events: int
    tokens: int
    bytes: int | None


def prune(store: Store, *, runs: int | None, days: float | None, now: dt.datetime) -> Pruned:
    """Delete every run that is not among the newest ``runs`` of its audit, or is older than ``days``.

    Kept all the same: the newest run of each audit's whole table that is done, what runs or can still be resumed, and what a
    stretch refers to. All ad-hoc runs count as those of one audit, whose newest is not kept; their definitions go with them.
    Repairs and events outlive their runs. Events that are older than ``days`` go too, and tokens that ended longer ago; sessions
    go as soon as they have ended.
    """
    oldest = None if days is None else now - dt.timedelta(days=days)
    with store.reading() as connection:
        rows = list(_superfluous(connection, runs, oldest, now))
    dropped = 0
    for start in range(0, len(rows), TOGETHER):
        dropped += _drop(store, rows[start : start + TOGETHER])
    _forget_claims(store, now)
    forgotten, ended = _drop_events(store, oldest) if oldest else 0, _drop_tokens(store, oldest, now)
    shrunk = None
    if store.engine.dialect.name == "sqlite":
        with told(store.name):
            shrunk = _shrink(store.engine)
    return Pruned(dropped, forgotten, ended, shrunk)


def _superfluous(connection: Connection, newest: int | None, oldest: dt.datetime | None, now: dt.datetime) -> Iterator[Row[Any]]:
    columns = (runs.c.audit, runs.c.run, runs.c.number, runs.c.state, runs.c.started, runs.c.ended, runs.c.resumable, WHOLE.label("whole"))
    once = []
    for _, rows in groupby(connection.execute(select(*columns).order_by(runs.c.audit, runs.c.number.desc())), key=lambda row: row.audit):
        mine = list(rows)
        once += [row for row in mine if _is_ad_hoc(row)]
        named = [row for row in mine if not _is_ad_hoc(row)]
        last_done = next((row.number for row in named if row.state == State.DONE and row.whole), None)
        yield from _superfluous_of_audit(named, newest, oldest, now, last_done)
    yield from _superfluous_of_audit(sorted(once, key=lambda row: -row.number), newest, oldest, now)


def _is_ad_hoc(row: Row[Any]) -> bool:
    return bool(row.audit == ad_hoc(row.run))


def _superfluous_of_audit(
    rows: Sequence[Row[Any]], newest: int | None, oldest: dt.datetime | None, now: dt.datetime, last_done: int | None = None
) -> Iterator[Row[Any]]:
    for position, row in enumerate(rows):
        too_many = newest is not None and position >= newest
        too_old = oldest is not None and row.started < oldest
        resumable = row.resumable and now - (row.ended or row.started) < RESUMABLE
        if (too_many or too_old) and not resumable and row.number != last_done and row.state not in LIVING:
            yield row


def _drop(store: Store, rows: Sequence[Row[Any]]) -> int:
    numbers, once = [row.number for row in rows], [row.audit for row in rows if _is_ad_hoc(row)]

    def work(connection: Connection) -> int:
        # A run may have been taken up again, or looked at as a stretch, since it was chosen.
        unused = runs.c.number.not_in(select(stretches.c.run))
        gone = connection.execute(delete(runs).where(runs.c.number.in_(numbers), runs.c.state.not_in(LIVING), unused)).rowcount
        for table in (audits, standing) if once else ():  # what was known of an audit that was this run's alone
            left = select(runs.c.audit).where(runs.c.audit.in_(once))
            connection.execute(delete(table).where(table.c.audit.in_(once), table.c.audit.not_in(left)))
        return gone

    return store.write(work)


def _forget_claims(store: Store, now: dt.datetime) -> None:
    def work(connection: Connection) -> None:
        newest = select(claims.c.audit, func.max(claims.c.tick).label("tick")).group_by(claims.c.audit)
        for row in connection.execute(newest).all():
            old = claims.c.tick < min(row.tick, now - CLAIMED)
            connection.execute(delete(claims).where(claims.c.audit == row.audit, old))

    store.write(work)


def _drop_events(store: Store, oldest: dt.datetime) -> int:
    # By their numbers the oldest stand first, so that a long log is not read through each time to find nothing.
    first = select(events.c.number, events.c.at).order_by(events.c.number).limit(EVENTS)

    def work(connection: Connection) -> int:
        old = [row.number for row in connection.execute(first) if row.at < oldest]
        return connection.execute(delete(events).where(events.c.number.in_(old))).rowcount

    dropped = 0
    while gone := store.write(work):
        dropped += gone
    return dropped


def _drop_tokens(store: Store, oldest: dt.datetime | None, now: dt.datetime) -> int:
    def ended(at: dt.datetime) -> ColumnElement[bool]:
        return or_(tokens.c.revoked < at, tokens.c.expires < at)

    # "!" is the next character after the space. LIKE would be deaf to case in SQLite.
    session = and_(tokens.c.name > SESSION, tokens.c.name < SESSION[:-1] + "!")
    old = [and_(session, ended(now)), *([ended(oldest)] if oldest else [])]
    return store.write(lambda connection: connection.execute(delete(tokens).where(or_(*old))).rowcount)


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
