"""Where the batches of pipelines ended that read topics: by which a position of the stream is found again in its topic."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Connection, Table, delete, func, insert, select

from auditor.store.database import Store
from auditor.store.schema import Json, big_integer, metadata, short_text

batches = Table(
    "auditor_topic_batches",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("position", big_integer(), primary_key=True, autoincrement=False),
    Column("body", Json(), nullable=False),
)
"""The offset of the stream at the end of each batch, by the position of its last message, as long as parts of it are listed."""


def note_end(connection: Connection, pipeline: str, position: int, offset: Any) -> None:
    """Write within a transaction where a batch ended; one that ended there before is replaced."""
    connection.execute(delete(batches).where(batches.c.pipeline == pipeline, batches.c.position == position))
    connection.execute(insert(batches), {"pipeline": pipeline, "position": position, "body": offset})


def list_around(store: Store, pipeline: str, first: int, last: int) -> list[Any]:
    """Return the offsets at the ends of the batches that have positions between two, and of the one before them, in order.

    Raises StoreError.
    """
    of_pipeline = batches.c.pipeline == pipeline
    with store.reading() as connection:
        before = connection.execute(select(func.max(batches.c.position)).where(of_pipeline, batches.c.position < first)).scalar()
        after = connection.execute(select(func.min(batches.c.position)).where(of_pipeline, batches.c.position >= last)).scalar()
        if before is None or after is None:
            return []
        wanted = select(batches.c.body).where(of_pipeline, batches.c.position.between(before, after))
        return list(connection.execute(wanted.order_by(batches.c.position)).scalars())


def prune(connection: Connection, pipeline: str, needed_from: int | None) -> None:
    """Delete within a transaction what lies before the batch that has a position, or but for the last one, if none is needed."""
    of_pipeline = batches.c.pipeline == pipeline
    ends = select(func.max(batches.c.position)).where(of_pipeline)
    kept = connection.execute(ends if needed_from is None else ends.where(batches.c.position < needed_from)).scalar()
    if kept is not None:
        connection.execute(delete(batches).where(of_pipeline, batches.c.position < kept))


def forget(connection: Connection, pipeline: str) -> None:
    """Delete within a transaction all that is known of a pipeline's batches."""
    connection.execute(delete(batches).where(batches.c.pipeline == pipeline))
