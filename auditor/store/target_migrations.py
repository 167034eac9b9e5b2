"""Migrations of a pipeline's targets: how their tables are brought from one schema to the next, or why they are not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, delete, insert, select, update

from auditor.shapes.pipeline import MigrationState
from auditor.store._pipeline_schema import migrations
from auditor.store._store import Store, database_time


@dataclass(frozen=True, slots=True)
class TargetMigration:
    """A migration of one table of a target."""

    target: str
    table: str
    position: int
    """Up to which position the target held the table under the old schema."""
    from_schema: str
    to_schema: str
    statements: Sequence[str]
    said: Sequence[str]
    """What a person should know of it, a sentence each."""
    state: MigrationState = "planned"
    reason: str = ""
    """Why it is refused, and what to do; '' if it is not."""
    at: dt.datetime | None = None
    ended: dt.datetime | None = None


def record_migration(store: Store, pipeline: str, migration: TargetMigration) -> None:
    """Write how a migration stands, replacing what was written of it before. Raises StoreError."""

    def work(connection: Any) -> None:
        now = database_time(connection)
        same = and_(_of(pipeline, migration.target, migration.table), migrations.c.position == migration.position, _between(migration))
        body = {"statements": list(migration.statements), "said": list(migration.said)}
        values = {
            "state": migration.state,
            "reason": migration.reason,
            "body": body,
            "ended": now if migration.state == "applied" else None,
        }
        if connection.execute(select(migrations.c.number).where(same)).first():
            connection.execute(update(migrations).where(same).values(**values))
        else:
            key = {"pipeline": pipeline, "target": migration.target, "table_name": migration.table, "position": migration.position}
            schemas = {"from_schema": migration.from_schema, "to_schema": migration.to_schema}
            connection.execute(insert(migrations).values(**key, **schemas, **values, at=now))

    store.write(work)


def settle(store: Store, pipeline: str, target: str, table: str, position: int, schema_id: str) -> None:
    """Note that migrations were applied whose commit a process did not live to report: the target is past them. Raises StoreError."""
    done = (migrations.c.position < position) | ((migrations.c.position == position) & (migrations.c.to_schema == schema_id))
    open_ = and_(_of(pipeline, target, table), migrations.c.state != "applied", done)
    with store.reading() as connection:
        if connection.execute(select(migrations.c.number).where(open_).limit(1)).first() is None:
            return
    store.write(
        lambda writer: writer.execute(update(migrations).where(open_).values(state="applied", reason="", ended=database_time(writer)))
    )


def list_migrations(store: Store, pipeline: str) -> list[TargetMigration]:
    """Return the migrations of a pipeline's targets, the newest last. Raises StoreError."""
    with store.reading() as connection:
        rows = connection.execute(select(migrations).where(migrations.c.pipeline == pipeline).order_by(migrations.c.number)).all()
    return [
        TargetMigration(
            row.target, row.table_name, row.position, row.from_schema, row.to_schema, row.body["statements"], row.body["said"], row.state,
            row.reason, row.at, row.ended,
        )
        for row in rows
    ]  # fmt: skip


def forget(store: Store, pipeline: str) -> None:
    """Delete the migrations of a pipeline. Raises StoreError."""
    store.write(lambda connection: connection.execute(delete(migrations).where(migrations.c.pipeline == pipeline)))


def _of(pipeline: str, target: str, table: str) -> Any:
    return and_(migrations.c.pipeline == pipeline, migrations.c.target == target, migrations.c.table_name == table)


def _between(migration: TargetMigration) -> Any:
    return and_(migrations.c.from_schema == migration.from_schema, migrations.c.to_schema == migration.to_schema)
