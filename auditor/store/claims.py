"""Schedules' claims: who runs what is due."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping

from sqlalchemy import Connection, and_, insert, or_, select

from auditor.store._schema import claims
from auditor.store._store import Store, now


def claim(store: Store, audit: str, tick: dt.datetime, by: str) -> bool:
    """Claim the run of an audit that is due at ``tick``: True for exactly one caller, of all processes."""
    return store.write(lambda connection: claimed(connection, audit, tick, by))


def claimed(connection: Connection, audit: str, tick: dt.datetime, by: str) -> bool:
    """Claim it together with what else this transaction writes."""
    # Where two insert at once the key lets one through, and the other's second try finds it.
    if connection.execute(select(claims.c.tick).where(claims.c.audit == audit, claims.c.tick == tick)).first() is not None:
        return False
    connection.execute(insert(claims).values(audit=audit, tick=tick, claimed_by=by, at=now(connection)))
    return True


def taken(store: Store, ticks: Mapping[str, dt.datetime], now: dt.datetime) -> set[str]:
    """The audits, of these, whose tick was claimed, or a later one that has come: what lies before that was passed over."""
    found: set[str] = set()
    with store.reading() as connection:
        for some in _batches(ticks):
            passed = or_(*(and_(claims.c.audit == one, claims.c.tick.between(ticks[one], max(now, ticks[one]))) for one in some))
            found.update(connection.execute(select(claims.c.audit).where(passed).distinct()).scalars())
    return found


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    """SQLite refuses conditions that are nested too deeply, as long ones are."""
    left = list(names)
    for start in range(0, len(left), 200):
        yield left[start : start + 200]


def known(store: Store, audits: Iterable[str]) -> set[str]:
    """The audits, of these, of which any tick was ever claimed."""
    with store.reading() as connection:
        return {one for one in audits if connection.execute(select(claims.c.tick).where(claims.c.audit == one).limit(1)).first()}
