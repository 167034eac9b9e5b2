"""How much each channel was told in the last hour, and what was held back since."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from auditor.store._schema import told
from auditor.store._store import Store

HOUR = 3600.0

HELD = 50
"""Titles of messages that were held back which are kept; all are counted."""


def admitted(store: Store, channel: str, most: int, now: dt.datetime) -> bool:
    """Whether the hour has room for another message to a channel, which is then counted."""

    def work(connection: Connection) -> bool:
        row = _row(connection, channel)
        recent = [at for at in row.sent if 0 <= now.timestamp() - at < HOUR]
        if len(recent) >= most:
            return False
        connection.execute(update(told).where(told.c.channel == channel).values(sent=[*recent, now.timestamp()]))
        return True

    return store.write(work)


def hold(store: Store, channel: str, titles: Sequence[str], count: int = 1) -> None:
    """Keep the titles of messages that were held back, and count them."""

    def work(connection: Connection) -> None:
        row = _row(connection, channel)
        kept = [*row.titles, *titles][:HELD]
        connection.execute(update(told).where(told.c.channel == channel).values(held=row.held + count, titles=kept))

    store.write(work)


def held(store: Store) -> dict[str, tuple[int, list[str]]]:
    """How many messages were held back of each channel, and the titles of the first."""
    with store.reading() as connection:
        rows = connection.execute(select(told).where(told.c.held > 0).order_by(told.c.channel)).all()
    return {row.channel: (row.held, row.titles) for row in rows}


def forget(store: Store, channel: str) -> None:
    """Nothing is held back of a channel any more."""
    store.write(lambda connection: connection.execute(update(told).where(told.c.channel == channel).values(held=0, titles=[])))


def _row(connection: Connection, channel: str) -> Any:
    wanted = select(told).where(told.c.channel == channel).with_for_update()
    if connection.execute(wanted).first() is None:
        connection.execute(insert(told).values(channel=channel, sent=[], held=0, titles=[]))
    return connection.execute(wanted).one()
