"""The chunks that a run has done, so that it can be resumed."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from sqlalchemy import Connection, and_, delete, insert, select

from auditor.model import SIDES, Side
from auditor.store._life import change
from auditor.store._schema import chunks
from auditor.store._store import Store, now
from auditor.store._stored import number_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A chunk that is done: which keys of which side, what it took, and its summaries."""

    side: Side
    first: int | None
    end: int | None
    null_key: bool = False
    rows: int
    seconds: float
    attempts: int
    at: dt.datetime
    payload: bytes


def save(store: Store, run: str, chunk: StoredChunk) -> None:
    """Keep a chunk in place of the same one saved before. Raises UnknownRun, also once the run was taken away from this process."""

    def work(connection: Connection) -> None:
        # Before anything is written, so that whoever takes the run away waits for this, or this for them.
        key = {
            "run": change(connection, run, heartbeat=now(connection)),
            "side": chunk.side,
            "first": written(chunk.first),
            "end_before": written(chunk.end),
            "null_key": chunk.null_key,
        }
        connection.execute(delete(chunks).where(and_(*(chunks.c[column] == value for column, value in key.items()))))
        took = {"row_count": chunk.rows, "seconds": chunk.seconds, "attempts": chunk.attempts, "at": chunk.at}
        connection.execute(insert(chunks).values(**key, **took, payload=chunk.payload))

    store.write(work)


def done(store: Store, run: str) -> list[StoredChunk]:
    """The chunks that are kept of a run, by side and ascending, those without a key last. Raises UnknownRun."""
    with store.reading() as connection:
        rows = connection.execute(select(chunks).where(chunks.c.run == number_of(connection, run))).all()
    found = [
        StoredChunk(
            side=row.side,
            first=read(row.first),
            end=read(row.end_before),
            null_key=row.null_key,
            rows=row.row_count,
            seconds=row.seconds,
            attempts=row.attempts,
            at=row.at,
            payload=row.payload,
        )
        for row in rows
    ]
    return sorted(found, key=lambda c: (SIDES.index(c.side), c.null_key, c.first is not None, c.first or 0))


def written(bound: int | None) -> str:
    """A bound as it is kept."""
    return "" if bound is None else str(bound)


def read(bound: str) -> int | None:
    """A bound that was kept."""
    return int(bound) if bound else None
