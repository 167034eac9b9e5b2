"""The log of requests by people and programs, in their order."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Table, insert, select, update

from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, big_integer, metadata, short_text

events = Table(
    "auditor_events",
    metadata,
    Column("number", big_integer(), primary_key=True),
    Column("at", Moment(), nullable=False),
    Column("actor", Words(), nullable=False),
    Column("action", short_text(64), nullable=False),
    Column("subject", Words(), nullable=False),
    Column("detail", Json(), nullable=False),
)
"""The log of requests by people and programs."""


@dataclass(frozen=True, slots=True)
class Event:
    """A request: ``actor`` did ``action`` to ``subject`` (an audit, run or token). ``number`` counts events in their order."""

    number: int
    at: dt.datetime
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]


def record_event(store: Store, *, actor: str, action: str, subject: str, detail: Mapping[str, Any] = {}) -> None:
    """Store an event. ``detail`` must not contain secrets or values of rows."""
    store.write(lambda connection: insert_event(connection, actor=actor, action=action, subject=subject, detail=detail))


def insert_event(connection: Connection, *, actor: str, action: str, subject: str, detail: Mapping[str, Any] = {}) -> None:
    """Store an event within the caller's transaction."""
    insert_events(connection, actor=actor, action=action, subject=subject, details=[detail])


def insert_events(connection: Connection, *, actor: str, action: str, subject: str, details: Sequence[Mapping[str, Any]]) -> None:
    """Store an event for each of the details within the caller's transaction."""
    common = {"at": database_time(connection), "actor": actor, "action": action, "subject": subject}
    connection.execute(insert(events), [{**common, "detail": dict(detail)} for detail in details])


MOST_CALLERS = 20
"""Callers that a counted event names."""

RECENT_EVENTS = 1000
"""How many of the newest events are searched for one that still counts."""


def count_event(store: Store, *, actor: str, action: str, within: dt.timedelta) -> None:
    """Store an event that callers can cause at will: one row counts all of them within a time, and names the first MOST_CALLERS."""

    def work(connection: Connection) -> None:
        at = database_time(connection)
        newest = connection.execute(select(events.c.number).order_by(events.c.number.desc()).limit(1)).scalar() or 0
        recent = select(events).where(events.c.number > newest - RECENT_EVENTS, events.c.action == action, events.c.at > at - within)
        row = connection.execute(recent.order_by(events.c.number.desc()).limit(1).with_for_update()).first()
        if row is None:
            insert_event(connection, actor=actor, action=action, subject="", detail={"count": 1, "callers": [actor]})
            return
        callers = row.detail.get("callers", [row.actor])
        callers = callers if actor in callers or len(callers) >= MOST_CALLERS else [*callers, actor]
        detail = {"count": row.detail.get("count", 1) + 1, "callers": callers}
        connection.execute(update(events).where(events.c.number == row.number).values(detail=detail))

    store.write(work)


def list_events(
    store: Store, *, limit: int = 100, before: int | None = None, actor: str | None = None, subject: str | None = None
) -> list[Event]:
    """Return up to ``limit`` events, newest first, of this actor and subject; ``before`` is the number of the previous page's last one."""
    statement = select(events).order_by(events.c.number.desc()).limit(limit)
    if before is not None:
        statement = statement.where(events.c.number < before)
    if actor is not None:
        statement = statement.where(events.c.actor == actor)
    if subject is not None:
        statement = statement.where(events.c.subject == subject)
    with store.reading() as connection:
        return [Event(row.number, row.at, row.actor, row.action, row.subject, row.detail) for row in connection.execute(statement)]


def names(text: str, key: str) -> bool:
    """Return whether a text that a person wrote has a key as one of its words."""
    return re.search(rf"(?<!\w){re.escape(key)}(?!\w)", text) is not None


def forget_asked(store: Store, audit: str, key: str, mask: str, *, apply: bool) -> int:
    """Return how many events of an audit are of a range of keys that ends with a key, or have a reason that names it.

    With ``apply``, put ``mask`` in place of their bounds and reasons. Raises StoreError.
    """

    def work(connection: Connection) -> int:
        found = 0
        for row in connection.execute(select(events).where(events.c.action == "run requested")).all():
            bounds = (row.detail.get("overrides") or {}).get("keys") or {}
            ends = key in {str(bound) for bound in bounds.values()}
            reason = row.detail.get("reason") or ""
            if row.detail.get("audit") != audit or not (ends or names(reason, key)):
                continue
            found += 1
            if apply:
                overrides = {**row.detail.get("overrides", {}), **({"keys": dict.fromkeys(bounds, mask)} if ends else {})}
                detail = {**row.detail, "overrides": overrides, "reason": mask if names(reason, key) else reason}
                connection.execute(update(events).where(events.c.number == row.number).values(detail=detail))
        return found

    return store.write(work)
