"""Claims of scheduled ticks, so that exactly one process runs each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping

from sqlalchemy import Column, Connection, Table, and_, insert, or_, select

from auditor.store._schema import MYSQL, Moment, Words, metadata, short_text
from auditor.store._store import Store, database_time

claims = Table(
    "auditor_schedule_claims",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("tick", Moment(), primary_key=True),
    Column("claimed_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    **MYSQL,
)


def claim_tick(store: Store, audit: str, tick: dt.datetime, by: str) -> bool:
    """Claim a tick of an audit's schedule for ``by``; returns True to exactly one caller among all processes."""
    return store.write(lambda connection: insert_claim(connection, audit, tick, by))


def insert_claim(connection: Connection, audit: str, tick: dt.datetime, by: str) -> bool:
    """Claim a tick within the caller's transaction; returns whether it was unclaimed."""
    # Of two concurrent inserts the primary key rejects one; the retry of its transaction then finds the claim.
    if connection.execute(select(claims.c.tick).where(claims.c.audit == audit, claims.c.tick == tick)).first() is not None:
        return False
    connection.execute(insert(claims).values(audit=audit, tick=tick, claimed_by=by, at=database_time(connection)))
    return True


def list_claimed_audits(store: Store, ticks: Mapping[str, dt.datetime], now: dt.datetime) -> set[str]:
    """Return those audits of ``ticks`` whose tick, or a later one up to ``now``, was claimed; an earlier tick has then been skipped."""
    claimed: set[str] = set()
    with store.reading() as connection:
        for audits in _batches(ticks):
            passed = or_(*(and_(claims.c.audit == audit, claims.c.tick.between(ticks[audit], max(now, ticks[audit]))) for audit in audits))
            claimed.update(connection.execute(select(claims.c.audit).where(passed).distinct()).scalars())
    return claimed


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    """Yield the names in batches: SQLite limits the depth of an expression, and so the number of terms of an OR."""
    listed = list(names)
    for start in range(0, len(listed), 200):
        yield listed[start : start + 200]


def list_audits_with_claims(store: Store, audits: Iterable[str]) -> set[str]:
    """Return those of ``audits`` of which any tick was ever claimed."""
    with store.reading() as connection:
        return {audit for audit in audits if connection.execute(select(claims.c.tick).where(claims.c.audit == audit).limit(1)).first()}
