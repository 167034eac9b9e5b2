"""Incidents: for each audit the times from a mismatch to the recovery, and the acknowledgement of each. An incident outlives its runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from sqlalchemy import Boolean, Column, Connection, Row, Table, UniqueConstraint, func, insert, select, update

from auditor.errors import NoIncident
from auditor.store.database import Store, database_time
from auditor.store.events import insert_event
from auditor.store.runs import BATCH
from auditor.store.schema import Moment, Words, big_integer, metadata, short_text

if TYPE_CHECKING:
    from auditor.api_models.incident import Covered, Incident, IncidentState, Severity

incidents = Table(
    "auditor_incidents",
    metadata,
    Column("number", big_integer(), primary_key=True),
    Column("audit", short_text(), nullable=False),
    # The audit's name while the incident is open: the unique constraint allows one open incident of an audit.
    Column("open_audit", short_text(), unique=True),
    Column("severity", short_text(16), nullable=False),
    Column("opened", Moment(), nullable=False),
    Column("first_run", short_text(64), nullable=False),
    Column("last_run", short_text(64), nullable=False),
    Column("closed", Moment()),
    Column("closing_run", short_text(64)),
    # Of the acknowledgement; all null without one.
    Column("by", Words()),
    Column("at", Moment()),
    Column("why", Words()),
    Column("muted", Boolean()),
    Column("until", Moment()),
    Column("differences", short_text(8)),
    Column("run", short_text(64)),
    UniqueConstraint("audit", "number"),
)
"""The incidents, numbered in the order in which they were opened. Runs are named by their ids, not by foreign keys."""


def record_found(store: Store, audit: str, run: str, severity: Severity) -> None:
    """Store that a run of an audit found differences: open an incident, or update the open one."""

    def work(connection: Connection) -> None:
        if (row := _lock_open(connection, audit)) is not None:
            connection.execute(update(incidents).where(incidents.c.number == row.number).values(severity=severity, last_run=run))
            return
        at = database_time(connection)
        values = {"audit": audit, "open_audit": audit, "severity": severity, "opened": at, "first_run": run, "last_run": run}
        connection.execute(insert(incidents).values(**values))

    store.write(work)


def close(store: Store, audit: str, run: str) -> None:
    """Store that a run found that an audit has recovered: close its open incident, if there is one."""

    def work(connection: Connection) -> None:
        values = {"open_audit": None, "closed": database_time(connection), "closing_run": run}
        connection.execute(update(incidents).where(incidents.c.open_audit == audit).values(**values))

    store.write(work)


def acknowledge(store: Store, audit: str, *, by: str, why: str, muted: bool, until: dt.datetime | None, differences: Covered) -> Incident:
    """Store an acknowledgement of an audit's open incident and its event, replacing an earlier one. Raises NoIncident."""

    def work(connection: Connection) -> Incident:
        row = _lock_required(connection, audit)
        values = {"by": by, "at": database_time(connection), "why": why, "muted": muted, "until": until, "differences": differences}
        connection.execute(update(incidents).where(incidents.c.number == row.number).values(**values, run=row.last_run))
        detail = {"incident": row.number, "why": why, "until": until.isoformat() if until else None, "differences": differences}
        action = "incident muted" if muted else "incident acknowledged"
        insert_event(connection, actor=by, action=action, subject=audit, detail=detail)
        return _fetch(connection, row.number)

    return store.write(work)


def end_acknowledgement(store: Store, audit: str, *, by: str, why: str) -> Incident:
    """Delete the acknowledgement of an audit's open incident, and store the event with the reason. Raises NoIncident."""
    from auditor.api_models.incident import Acknowledgement  # as in _to_incident

    def work(connection: Connection) -> Incident:
        row = _lock_required(connection, audit)
        if row.by is not None:
            nothing = dict.fromkeys(Acknowledgement.model_fields)
            connection.execute(update(incidents).where(incidents.c.number == row.number).values(**nothing))
            detail = {"incident": row.number, "why": why}
            insert_event(connection, actor=by, action="acknowledgement ended", subject=audit, detail=detail)
        return _fetch(connection, row.number)

    return store.write(work)


def get_open(store: Store, audit: str) -> Incident | None:
    """Return the open incident of an audit; None if there is none."""
    with store.reading() as connection:
        row = connection.execute(select(incidents).where(incidents.c.open_audit == audit)).first()
        return None if row is None else _to_incident(row, database_time(connection))


def list_open(store: Store) -> dict[str, Incident]:
    """Return the open incidents by audit."""
    with store.reading() as connection:
        at = database_time(connection)
        # Not IS NOT NULL, for which SQLite uses no index; every name is greater than "".
        return {row.audit: _to_incident(row, at) for row in connection.execute(select(incidents).where(incidents.c.open_audit >= ""))}


def list_last(store: Store, audits: Collection[str]) -> dict[str, Incident]:
    """Return the last incident, open or closed, of each of these audits that had one."""
    names = list(audits)
    found: dict[str, Incident] = {}
    with store.reading() as connection:
        at = database_time(connection)
        for first in range(0, len(names), BATCH):
            newest = (
                select(func.max(incidents.c.number)).where(incidents.c.audit.in_(names[first : first + BATCH])).group_by(incidents.c.audit)
            )
            found |= {
                row.audit: _to_incident(row, at) for row in connection.execute(select(incidents).where(incidents.c.number.in_(newest)))
            }
    return found


def list_incidents(
    store: Store, *, audit: str | None = None, limit: int = 50, before: int | None = None, among: Collection[str] | None = None
) -> list[Incident]:
    """Return up to ``limit`` incidents, open and closed, newest first, with ``among`` of these audits alone.

    ``before`` is the number of the last one of the previous page.
    """
    statement = select(incidents).order_by(incidents.c.number.desc()).limit(limit)
    if audit is not None:
        statement = statement.where(incidents.c.audit == audit)
    if before is not None:
        statement = statement.where(incidents.c.number < before)
    if among is not None:
        statement = statement.where(incidents.c.audit.in_(list(among)))
    with store.reading() as connection:
        at = database_time(connection)
        return [_to_incident(row, at) for row in connection.execute(statement)]


def _lock_open(connection: Connection, audit: str) -> Row[Any] | None:
    return connection.execute(select(incidents).where(incidents.c.open_audit == audit).with_for_update()).first()


def _lock_required(connection: Connection, audit: str) -> Row[Any]:
    row = _lock_open(connection, audit)
    if row is None:
        raise NoIncident(f"audit {audit} has no open incident; list the incidents with: auditor incidents")
    return row


def _fetch(connection: Connection, number: int) -> Incident:
    row = connection.execute(select(incidents).where(incidents.c.number == number)).one()
    return _to_incident(row, database_time(connection))


def _to_incident(row: Row[Any], now: dt.datetime) -> Incident:
    """Return a row as an incident; an acknowledgement whose time is over is none, unless the incident was closed before that."""
    from auditor.api_models.incident import Acknowledgement, Incident  # models take long to load, and most runs find no incident

    holds = row.by is not None and (row.until is None or row.until > (row.closed or now))
    acknowledgement = Acknowledgement(**Acknowledgement.fields_of(row)) if holds else None
    state: IncidentState = "acknowledged" if holds else "open"
    state = "closed" if row.closed else "muted" if holds and row.muted else state
    return Incident(**Incident.fields_of(row, without=("acknowledgement",)), state=state, acknowledgement=acknowledgement)
