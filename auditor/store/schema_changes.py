"""Changes of the schema of a pipeline's tables: from which position on each had which, and how the targets' tables were migrated."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, and_, bindparam, delete, insert, select, update

from auditor.api_models.pipeline import MigrationState
from auditor.model import Part
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, big_integer, metadata, short_text

schema_history = Table(
    "auditor_schema_history",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("position", big_integer(), primary_key=True, autoincrement=False),
    Column("schema_id", short_text(64), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("catalogue", Json()),
)
"""From which position on a table had which schema, and what the source's catalogue said of its columns when it was first seen."""

migrations = Table(
    "auditor_migrations",
    metadata,
    Column("number", big_integer(), primary_key=True),
    Column("pipeline", short_text(), nullable=False),
    Column("target", short_text(), nullable=False),
    Column("table_name", short_text(), nullable=False),
    Column("position", big_integer(), nullable=False),
    Column("from_schema", short_text(64), nullable=False),
    Column("to_schema", short_text(64), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("body", Json(), nullable=False),
    Column("reason", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("ended", Moment()),
    Index("auditor_migrations_place", "pipeline", "table_name", "position"),
)
"""How the targets' tables were brought from one schema to the next, or why they were not."""


@dataclass(frozen=True, slots=True)
class SchemaAt:
    """A schema of a table."""

    table: str
    position: int
    """That of its first event."""
    schema_id: str
    at: dt.datetime
    """When it was first seen."""
    catalogue: Any = None
    """What the source's catalogue said of its columns then, by name; None if it was not asked, or said something else."""


def note_schemas(connection: Connection, pipeline: str, batch: Sequence[Part], at: dt.datetime, catalogue: Mapping[str, Any]) -> None:
    """Write within a transaction at which positions the tables of a batch have another schema than before."""
    if not batch:
        return
    asked = and_(schema_history.c.pipeline == pipeline, schema_history.c.table_name.in_({part.table for part in batch}))
    columns = (schema_history.c.table_name, schema_history.c.position, schema_history.c.schema_id)
    history: dict[str, dict[int, str]] = {}
    for row in connection.execute(select(*columns).where(asked).order_by(schema_history.c.position)):
        history.setdefault(row.table_name, {})[row.position] = row.schema_id
    changed: dict[tuple[str, int], str] = {}
    for part in sorted(batch, key=lambda part: part.first):
        of_table = history.setdefault(part.table, {})
        before = [schema_id for position, schema_id in sorted(of_table.items()) if position <= part.first]
        if before[-1:] != [part.schema_id]:
            of_table[part.first] = changed[part.table, part.first] = part.schema_id
    if not changed:
        return
    keys = [{"of_table": table, "at_position": position} for table, position in changed]
    same = (schema_history.c.table_name == bindparam("of_table"), schema_history.c.position == bindparam("at_position"))
    connection.execute(delete(schema_history).where(schema_history.c.pipeline == pipeline, *same), keys)
    rows = [
        {"pipeline": pipeline, "table_name": table, "position": position, "schema_id": key, "at": at, "catalogue": catalogue.get(key)}
        for (table, position), key in changed.items()
    ]
    connection.execute(insert(schema_history), rows)


def list_history(store: Store, pipeline: str, table: str | None = None) -> list[SchemaAt]:
    """Return the schemas of a pipeline's tables, or of one, in the order of the stream. Raises StoreError."""
    wanted = [schema_history.c.pipeline == pipeline, *([] if table is None else [schema_history.c.table_name == table])]
    with store.reading() as connection:
        rows = connection.execute(select(schema_history).where(*wanted).order_by(schema_history.c.table_name, schema_history.c.position))
        return [SchemaAt(row.table_name, row.position, row.schema_id, row.at, row.catalogue) for row in rows]


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
    form: Any = None
    """What the target's table was like when the migration was planned, as JSON; None where it is changed in a transaction."""


def record_migration(store: Store, pipeline: str, migration: TargetMigration) -> None:
    """Write how a migration stands, replacing what was written of it before. Raises StoreError."""

    def work(connection: Any) -> None:
        now = database_time(connection)
        same = and_(_of(pipeline, migration.target, migration.table), migrations.c.position == migration.position, _between(migration))
        body = {"statements": list(migration.statements), "said": list(migration.said), "form": migration.form}
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


def settle(store: Store, pipeline: str, target: str, held: Mapping[str, tuple[int, str]]) -> None:
    """Note that migrations were applied whose commit a process did not live to report: the target is past them.

    ``held`` are the positions of tables, with the ids of their schemas. Raises StoreError.
    """
    of_target = and_(migrations.c.pipeline == pipeline, migrations.c.target == target, migrations.c.state != "applied")
    with store.reading() as connection:
        rows = connection.execute(select(migrations).where(of_target)).all()
    done = [row.number for row in rows if row.table_name in held and _is_past(row, *held[row.table_name])]
    if done:
        applied = update(migrations).where(migrations.c.number.in_(done))
        store.write(lambda writer: writer.execute(applied.values(state="applied", reason="", ended=database_time(writer))))


def _is_past(row: Row[Any], position: int, schema_id: str) -> bool:
    return bool(row.position < position or (row.position == position and row.to_schema == schema_id))


def list_migrations(store: Store, pipeline: str, most: int | None = None, tables: Collection[str] | None = None) -> list[TargetMigration]:
    """Return the migrations of a pipeline's targets, or of some tables, or the ``most`` newest, the newest last. Raises StoreError."""
    newest = select(migrations).where(migrations.c.pipeline == pipeline).order_by(migrations.c.number.desc()).limit(most)
    newest = newest if tables is None else newest.where(migrations.c.table_name.in_(tables))
    with store.reading() as connection:
        rows = connection.execute(newest).all()[::-1]
    return [
        TargetMigration(
            row.target,
            row.table_name,
            row.position,
            row.from_schema,
            row.to_schema,
            row.body["statements"],
            row.body["said"],
            row.state,
            row.reason,
            row.at,
            row.ended,
            row.body.get("form"),
        )
        for row in rows
    ]


def forget(store: Store, pipeline: str, *, history: bool) -> None:
    """Delete the migrations of a pipeline, and also the history of its schemas if asked. Raises StoreError."""

    def work(connection: Connection) -> None:
        for table in (schema_history, migrations) if history else (migrations,):
            connection.execute(delete(table).where(table.c.pipeline == pipeline))

    store.write(work)


def forget_target(store: Store, pipeline: str, target: str) -> None:
    """Delete the migrations of one target. Raises StoreError."""
    same = and_(migrations.c.pipeline == pipeline, migrations.c.target == target)
    store.write(lambda connection: connection.execute(delete(migrations).where(same)) and None)


def _of(pipeline: str, target: str, table: str) -> Any:
    return and_(migrations.c.pipeline == pipeline, migrations.c.target == target, migrations.c.table_name == table)


def _between(migration: TargetMigration) -> Any:
    return and_(migrations.c.from_schema == migration.from_schema, migrations.c.to_schema == migration.to_schema)
