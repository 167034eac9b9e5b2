"""What is known of an audit beyond its runs, and outlives them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa
from sqlalchemy import Connection, Row, insert, select

from auditor.store._schema import runs, standing
from auditor.store._store import Store
from auditor.store._stored import WHOLE

_EVERY = select(standing)


@dataclass(frozen=True, slots=True)
class Standing:
    """One audit's. ``told_verdict`` is what its channels were told last; ``runs`` is how many of the whole table have ended.

    ``verified_by`` is the hash of the settings that ``verified_through`` was found by: of an audit with others it says nothing.
    """

    verified_through: dt.datetime | None = None
    told_verdict: str | None = None
    told_at: dt.datetime | None = None
    runs: int = 0
    paused: bool = False
    verified_by: str | None = None

    def verified(self, by: str) -> dt.datetime | None:
        """Up to when everything is verified by these settings (their hash)."""
        return self.verified_through if self.verified_by == by else None


class Some(TypedDict, total=False):
    """What can be changed."""

    verified_through: dt.datetime | None
    verified_by: str | None
    told_verdict: str | None
    told_at: dt.datetime | None
    paused: bool


def get(store: Store, audit: str) -> Standing:
    """What is known; of an audit that never ran, nothing."""
    with store.reading() as connection:
        row = connection.execute(select(standing).where(standing.c.audit == audit)).first()
    return Standing() if row is None else _read(row)


def every(store: Store) -> dict[str, Standing]:
    """What is known of each audit."""
    with store.reading() as connection:
        return {row.audit: _read(row) for row in connection.execute(_EVERY)}


def _read(row: Row[Any]) -> Standing:
    return Standing(row.verified_through, row.told_verdict, row.told_at, row.runs, row.paused, row.verified_by)


def update(store: Store, audit: str, **some: Unpack[Some]) -> None:
    """Change what is named, and leave the rest."""

    def work(connection: Connection) -> None:
        ensure(connection, audit)
        if some:
            connection.execute(sa.update(standing).where(standing.c.audit == audit).values(**some))

    store.write(work)


def count(connection: Connection, run: int, by: int) -> None:
    """Count a run that ended, or one that goes on after all; one of a section has no turn in what every n-th run does."""
    audit = connection.execute(select(runs.c.audit).where(runs.c.number == run, WHOLE)).scalar()
    if audit is None:
        return
    ensure(connection, audit)
    connection.execute(sa.update(standing).where(standing.c.audit == audit).values(runs=standing.c.runs + by))


def ensure(connection: Connection, audit: str) -> None:
    """Make the audit's row if there is none, and keep others from it until the transaction ends."""
    if connection.execute(select(standing.c.audit).where(standing.c.audit == audit).with_for_update()).first() is None:
        connection.execute(insert(standing).values(audit=audit, runs=0, paused=False))
