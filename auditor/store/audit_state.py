"""What is remembered of each audit beyond its runs: up to when it is verified, what the channels were sent, whether it is paused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import sqlalchemy as sa
from sqlalchemy import Connection, Row, insert, select

from auditor.store._rows import OWN_SETTINGS
from auditor.store._schema import audit_states, runs
from auditor.store._store import Store

_ALL = select(audit_states)


@dataclass(frozen=True, slots=True)
class AuditState:
    """What is remembered of an audit.

    ``notified_verdict`` is the last verdict that was sent to the channels, at ``notified_at``; ``notified_failure`` is whether they know
    that runs fail since. ``run_count`` counts the finished runs with the audit's own settings. ``verified_settings`` is the hash of the
    settings under which ``verified_through`` and ``within_threshold_through`` were determined; these do not apply to others.
    ``counted_shapes`` are the shapes of statements whose rows were held against a count of the whole table, the latest last.
    """

    verified_through: dt.datetime | None = None
    notified_verdict: str | None = None
    notified_at: dt.datetime | None = None
    run_count: int = 0
    paused: bool = False
    verified_settings: str | None = None
    within_threshold_through: dt.datetime | None = None
    notified_failure: bool = False
    counted_shapes: tuple[str, ...] = ()

    def verified_under(self, settings: str) -> tuple[dt.datetime | None, dt.datetime | None]:
        """Return the times up to which everything was seen equal, and equal or within the threshold, under these settings (their hash)."""
        return (self.verified_through, self.within_threshold_through) if self.verified_settings == settings else (None, None)


class Changes(TypedDict, total=False):
    """The fields of an `AuditState` that can be changed."""

    verified_through: dt.datetime | None
    within_threshold_through: dt.datetime | None
    verified_settings: str | None
    notified_verdict: str | None
    notified_failure: bool
    notified_at: dt.datetime | None
    paused: bool
    counted_shapes: Sequence[str]


def get_state(store: Store, audit: str) -> AuditState:
    """Return what is remembered of an audit; an empty state if the audit never ran."""
    with store.reading() as connection:
        row = connection.execute(select(audit_states).where(audit_states.c.audit == audit)).first()
    return AuditState() if row is None else _to_state(row)


def get_states(store: Store) -> dict[str, AuditState]:
    """Return the states of all audits that have one, by audit."""
    with store.reading() as connection:
        return {row.audit: _to_state(row) for row in connection.execute(_ALL)}


def is_paused(states: Mapping[str, AuditState], audit: str) -> bool:
    """Return whether an audit, or the audit of which it is a leg, is paused."""
    return any(name in states and states[name].paused for name in (audit, audit.rpartition(".")[0]))


def _to_state(row: Row[Any]) -> AuditState:
    return AuditState(
        verified_through=row.verified_through,
        notified_verdict=row.notified_verdict,
        notified_at=row.notified_at,
        run_count=row.run_count,
        paused=row.paused,
        verified_settings=row.verified_settings,
        within_threshold_through=row.within_threshold_through,
        notified_failure=bool(row.notified_failure),
        counted_shapes=tuple(row.counted_shapes or ()),
    )


def update_state(store: Store, audit: str, **changes: Unpack[Changes]) -> None:
    """Change the given fields of an audit's state."""

    def work(connection: Connection) -> None:
        lock_state(connection, audit)
        if changes:
            connection.execute(sa.update(audit_states).where(audit_states.c.audit == audit).values(**changes))

    store.write(work)


def adjust_run_count(connection: Connection, run: int, by: int) -> None:
    """Add ``by`` to the audit's count of finished runs: 1 when a run ends, -1 when it is resumed. One-off runs do not count."""
    audit = connection.execute(select(runs.c.audit).where(runs.c.number == run, OWN_SETTINGS)).scalar()
    if audit is None:
        return
    lock_state(connection, audit)
    connection.execute(sa.update(audit_states).where(audit_states.c.audit == audit).values(run_count=audit_states.c.run_count + by))


def lock_state(connection: Connection, audit: str) -> None:
    """Insert the audit's row if there is none, and lock it until the transaction ends."""
    if connection.execute(select(audit_states.c.audit).where(audit_states.c.audit == audit).with_for_update()).first() is None:
        connection.execute(insert(audit_states).values(audit=audit, run_count=0, paused=False))
