"""From which position on a pipeline's tables had which schema."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, delete, insert, select

from auditor.model import Part
from auditor.store._pipeline_schema import schema_history
from auditor.store._store import Store


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
    known: dict[str, str | None] = {}
    for part in sorted(batch, key=lambda part: part.first):
        if part.table not in known:
            before = and_(schema_history.c.pipeline == pipeline, schema_history.c.table_name == part.table)
            newest = select(schema_history.c.schema_id).where(before, schema_history.c.position <= part.first)
            known[part.table] = connection.execute(newest.order_by(schema_history.c.position.desc()).limit(1)).scalar()
        if known[part.table] != part.schema_id:
            key = {"pipeline": pipeline, "table_name": part.table, "position": part.first}
            same = and_(*(schema_history.c[column] == value for column, value in key.items()))
            connection.execute(delete(schema_history).where(same))
            values = {"schema_id": part.schema_id, "at": at, "catalogue": catalogue.get(part.schema_id)}
            connection.execute(insert(schema_history).values(**key, **values))
            known[part.table] = part.schema_id


def list_history(store: Store, pipeline: str, table: str | None = None) -> list[SchemaAt]:
    """Return the schemas of a pipeline's tables, or of one, in the order of the stream. Raises StoreError."""
    wanted = [schema_history.c.pipeline == pipeline, *([] if table is None else [schema_history.c.table_name == table])]
    with store.reading() as connection:
        rows = connection.execute(select(schema_history).where(*wanted).order_by(schema_history.c.table_name, schema_history.c.position))
        return [SchemaAt(row.table_name, row.position, row.schema_id, row.at, row.catalogue) for row in rows]


def forget(store: Store, pipeline: str) -> None:
    """Delete the history of a pipeline. Raises StoreError."""
    store.write(lambda connection: connection.execute(delete(schema_history).where(schema_history.c.pipeline == pipeline)))
