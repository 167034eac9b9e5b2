"""What people and their programs asked for, in the order in which they did."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select

from auditor.store._schema import events
from auditor.store._store import Store, now


@dataclass(frozen=True, slots=True)
class Event:
    """Something that somebody did: ``what`` was done to ``subject``, by ``who``."""

    number: int
    at: dt.datetime
    who: str
    what: str
    subject: str
    detail: dict[str, Any]


def note(store: Store, *, who: str, what: str, subject: str, detail: Mapping[str, Any] = {}) -> None:
    """Keep an event. Its detail must hold no secret and no value of a row."""
    store.write(lambda connection: noted(connection, who=who, what=what, subject=subject, detail=detail))


def noted(connection: Connection, *, who: str, what: str, subject: str, detail: Mapping[str, Any] = {}) -> None:
    """Keep an event together with what else this transaction writes."""
    connection.execute(insert(events).values(at=now(connection), who=who, what=what, subject=subject, detail=dict(detail)))


def listed(store: Store, *, limit: int = 100, before: int | None = None) -> list[Event]:
    """Events, the newest first; ``before`` is the number of the last one of the page before."""
    wanted = select(events).order_by(events.c.number.desc()).limit(limit)
    if before is not None:
        wanted = wanted.where(events.c.number < before)
    with store.reading() as connection:
        return [Event(row.number, row.at, row.who, row.what, row.subject, row.detail) for row in connection.execute(wanted)]
