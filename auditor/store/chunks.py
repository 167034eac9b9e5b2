"""The finished chunks of runs, from which runs are resumed."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from sqlalchemy import Connection, and_, delete, insert, select

from auditor.model import Side
from auditor.store._schema import chunks
from auditor.store._store import Store
from auditor.store.run_lifecycle import update_own_run
from auditor.store.runs import get_run_number


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A finished chunk of a side.

    Its keys are from ``first`` (inclusive) to ``end`` (exclusive), None for no bound, or NULL with ``null_key``. ``rows`` were read in
    ``seconds`` after ``attempts``, finished ``at``. ``payload`` is the packed summaries.
    """

    side: Side
    first: int | None
    end: int | None
    null_key: bool = False
    rows: int
    seconds: float
    attempts: int
    at: dt.datetime
    payload: bytes


def save_chunk(store: Store, run: str, chunk: StoredChunk) -> None:
    """Store a chunk, replacing an earlier copy of it. Raises UnknownRun, and RunLost if this process no longer owns the run."""

    def work(connection: Connection) -> None:
        # This locks the run's lease first, so that a process that takes over the run waits for this transaction, or this one for it.
        key = {
            "run": update_own_run(connection, run),
            "side": chunk.side,
            "first": format_bound(chunk.first),
            "end_before": format_bound(chunk.end),
            "null_key": chunk.null_key,
        }
        connection.execute(delete(chunks).where(and_(*(chunks.c[column] == value for column, value in key.items()))))
        took = {"row_count": chunk.rows, "seconds": chunk.seconds, "attempts": chunk.attempts, "at": chunk.at}
        connection.execute(insert(chunks).values(**key, **took, payload=chunk.payload))

    store.write(work)


def list_chunks(store: Store, run: str) -> list[StoredChunk]:
    """Return the stored chunks of a run, ordered by side, then by key with NULL keys last. Raises UnknownRun."""
    with store.reading() as connection:
        rows = connection.execute(select(chunks).where(chunks.c.run == get_run_number(connection, run))).all()
    stored = [
        StoredChunk(
            side=row.side,
            first=parse_bound(row.first),
            end=parse_bound(row.end_before),
            null_key=row.null_key,
            rows=row.row_count,
            seconds=row.seconds,
            attempts=row.attempts,
            at=row.at,
            payload=row.payload,
        )
        for row in rows
    ]
    return sorted(stored, key=lambda c: (c.side, c.null_key, c.first is not None, c.first or 0))


def format_bound(bound: int | None) -> str:
    """Return a bound as the text that is stored; '' for None."""
    return "" if bound is None else str(bound)


def parse_bound(bound: str) -> int | None:
    """Return the bound that `format_bound` made this text of."""
    return int(bound) if bound else None
