"""What publishers report of the topics of their targets: up to where each has messages, and how many transactions there were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, Table, and_, delete, insert, select, update

from auditor.api_models.pipeline import PublishedTopic, TopicsStatus
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, metadata, short_text

topic_states = Table(
    "auditor_topic_states",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("target", short_text(), primary_key=True),
    Column("body", Json(), nullable=False),
)
"""The last `TopicsStatus` of each target that is topics."""


def report(store: Store, pipeline: str, target: str, topics: Mapping[str, PublishedTopic], committed: int, aborted: int) -> None:
    """Record up to where topics have messages now, by table, and how many more transactions there were. Raises StoreError."""

    def work(connection: Connection) -> None:
        same = and_(topic_states.c.pipeline == pipeline, topic_states.c.target == target)
        body = connection.execute(select(topic_states.c.body).where(same)).scalar()
        known = TopicsStatus.model_validate(body or {})
        now = TopicsStatus(
            at=database_time(connection),
            committed=known.committed + committed,
            aborted=known.aborted + aborted,
            topics={**known.topics, **topics},
        )
        values: dict[str, Any] = {"body": now.model_dump(mode="json")}
        if body is None:
            connection.execute(insert(topic_states).values(pipeline=pipeline, target=target, **values))
        else:
            connection.execute(update(topic_states).where(same).values(**values))

    store.write(work)


def list_states(store: Store, pipeline: str) -> dict[str, TopicsStatus]:
    """Return what was reported of a pipeline's targets, by their names. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(topic_states.c.target, topic_states.c.body).where(topic_states.c.pipeline == pipeline))
        return {target: TopicsStatus.model_validate(body) for target, body in rows}


def forget(store: Store, pipeline: str, target: str | None = None) -> None:
    """Delete what was reported of a pipeline, or of one of its targets. Raises StoreError."""
    chosen = topic_states.c.pipeline == pipeline
    chosen = chosen if target is None else and_(chosen, topic_states.c.target == target)
    store.write(lambda connection: connection.execute(delete(topic_states).where(chosen)) and None)
