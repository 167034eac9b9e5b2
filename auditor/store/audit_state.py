"""What is stored of each audit beyond its runs.

That is its definition, if it was defined through the API; up to when it is verified; what the channels were sent; whether it is paused; and
which rows its last runs did not compare.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import sqlalchemy as sa
from sqlalchemy import Boolean, Column, Connection, Row, Table, delete, insert, select

from auditor.errors import UnknownAudit
from auditor.store.database import Store, database_time
from auditor.store.runs import OWN_SETTINGS
from auditor.store.schema import Json, Moment, Words, big_integer, long_binary, metadata, runs, short_text

if TYPE_CHECKING:
    from auditor.api_models.audit import Definition

audit_states = Table(
    "auditor_audit_states",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("verified_through", Moment()),
    Column("within_threshold_through", Moment()),
    Column("verified_settings", short_text(64)),
    Column("notified_verdict", short_text(16)),
    Column("notified_failure", Boolean()),
    Column("notified_at", Moment()),
    Column("run_count", big_integer(), nullable=False),
    Column("paused", Boolean(), nullable=False),
    # Shapes of statements whose rows were held against a count of the whole table, the latest last; null where there are none.
    Column("counted_shapes", Json()),
)
"""What is remembered of an audit, and outlives its runs. ``verified_settings`` is the hash of the settings under which it was verified;
``notified_verdict`` and ``notified_at`` are the last verdict sent to the channels, ``notified_failure`` whether they know that runs fail
since; ``run_count`` is how many runs with the audit's own settings ended."""

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
    own, whole = states.get(audit), states.get(audit.rpartition(".")[0])
    return (own is not None and own.paused) or (whole is not None and whole.paused)


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


left_out_rows = Table(
    "auditor_left_out_rows",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("settings", short_text(64), nullable=False),
    Column("body", long_binary(), nullable=False),
)
"""The rows of each audit that its last runs did not compare, packed; ``settings`` is the hash of the settings of these runs."""


def save_left_out(store: Store, audit: str, settings: str, body: bytes) -> None:
    """Store an audit's packed rows, replacing those of earlier runs. ``settings`` is the hash of the settings that they are about."""

    def work(connection: Connection) -> None:
        lock_state(connection, audit)
        connection.execute(delete(left_out_rows).where(left_out_rows.c.audit == audit))
        connection.execute(insert(left_out_rows).values(audit=audit, settings=settings, body=body))

    store.write(work)


def get_left_out(store: Store, audit: str, settings: str) -> bytes:
    """Return an audit's packed rows under these settings; empty if there are none."""
    with store.reading() as connection:
        statement = select(left_out_rows.c.body).where(left_out_rows.c.audit == audit, left_out_rows.c.settings == settings)
        return bytes(connection.execute(statement).scalar() or b"")


def list_left_out(store: Store, audit: str) -> list[bytes]:
    """Return an audit's packed rows under any settings."""
    with store.reading() as connection:
        return [bytes(body) for body in connection.execute(select(left_out_rows.c.body).where(left_out_rows.c.audit == audit)).scalars()]


definitions = Table(
    "auditor_definitions",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("definition", Json(), nullable=False),
    Column("defined_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
)
"""Audits that were defined through the API, not in a configuration."""

_DEFINITIONS = select(definitions.c.audit, definitions.c.definition).order_by(definitions.c.audit)


def save_definition(store: Store, name: str, definition: Mapping[str, Any], by: str) -> None:
    """Store an audit's definition, replacing an earlier one of this name. ``by`` is who defined it."""

    def work(connection: Connection) -> None:
        connection.execute(delete(definitions).where(definitions.c.audit == name))
        values = {"audit": name, "definition": dict(definition), "defined_by": by, "at": database_time(connection)}
        connection.execute(insert(definitions).values(**values))

    store.write(work)


def delete_definition(store: Store, name: str) -> None:
    """Delete an audit's definition, but not its runs. Raises UnknownAudit."""
    if not store.write(lambda connection: connection.execute(delete(definitions).where(definitions.c.audit == name)).rowcount):
        raise UnknownAudit(f"no audit {name!r} is defined through the API; audits in the configuration file are changed there")


def list_definitions(store: Store) -> dict[str, Definition]:
    """Return all definitions by audit."""
    with store.reading() as connection:
        return {row.audit: row.definition for row in connection.execute(_DEFINITIONS)}
