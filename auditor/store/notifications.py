"""The rate limit of each notification channel, and the messages that it held back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Table, insert, select, update

from auditor.store.database import Store
from auditor.store.schema import Json, big_integer, metadata, short_text

channel_messages = Table(
    "auditor_channel_messages",
    metadata,
    Column("channel", short_text(), primary_key=True),
    Column("sent", Json(), nullable=False),
    Column("held_back", big_integer(), nullable=False),
    Column("titles", Json(), nullable=False),
)
"""For each channel the times of the last hour's messages (``sent``, seconds since 1970), and the number and titles of those held back."""

WINDOW = 3600.0
"""Seconds to which the limit of messages applies."""

MAX_HELD_TITLES = 50
"""Titles stored of messages held back for a channel. Further ones are only counted."""


class HeldMessages(NamedTuple):
    """Messages that were held back for a channel: their number, and the titles of the first `MAX_HELD_TITLES`."""

    number: int
    titles: list[str]


def reserve_message(store: Store, channel: str, max_per_hour: int, now: dt.datetime) -> bool:
    """Return whether a channel may be sent another message, and count it if so."""

    def work(connection: Connection) -> bool:
        row = _lock_row(connection, channel)
        recent = [at for at in row.sent if 0 <= now.timestamp() - at < WINDOW]
        if len(recent) >= max_per_hour:
            return False
        connection.execute(update(channel_messages).where(channel_messages.c.channel == channel).values(sent=[*recent, now.timestamp()]))
        return True

    return store.write(work)


def hold_messages(store: Store, channel: str, titles: Sequence[str], count: int = 1) -> None:
    """Store the titles of messages that were held back, and add ``count`` to their number."""

    def work(connection: Connection) -> None:
        row = _lock_row(connection, channel)
        stored = [*row.titles, *titles][:MAX_HELD_TITLES]
        connection.execute(
            update(channel_messages).where(channel_messages.c.channel == channel).values(held_back=row.held_back + count, titles=stored)
        )

    store.write(work)


def list_held_messages(store: Store) -> dict[str, HeldMessages]:
    """Return the messages that were held back, by channel."""
    with store.reading() as connection:
        rows = connection.execute(
            select(channel_messages).where(channel_messages.c.held_back > 0).order_by(channel_messages.c.channel)
        ).all()
    return {row.channel: HeldMessages(row.held_back, row.titles) for row in rows}


def clear_held_messages(store: Store, channel: str) -> None:
    """Delete the titles and the number of a channel's messages held back."""
    store.write(
        lambda connection: connection.execute(
            update(channel_messages).where(channel_messages.c.channel == channel).values(held_back=0, titles=[])
        )
    )


def _lock_row(connection: Connection, channel: str) -> Any:
    statement = select(channel_messages).where(channel_messages.c.channel == channel).with_for_update()
    if connection.execute(statement).first() is None:
        connection.execute(insert(channel_messages).values(channel=channel, sent=[], held_back=0, titles=[]))
    return connection.execute(statement).one()
