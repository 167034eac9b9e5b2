"""Audits that were defined through the API, not in a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, Table, delete, insert, select

from auditor.errors import UnknownAudit
from auditor.shapes.audit import Definition
from auditor.store._schema import MYSQL, Json, Moment, Words, metadata, short_text
from auditor.store._store import Store, database_time

definitions = Table(
    "auditor_definitions",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("definition", Json(), nullable=False),
    Column("defined_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    **MYSQL,
)
"""Audits that were defined through the API, not in a configuration."""

_ALL = select(definitions.c.audit, definitions.c.definition).order_by(definitions.c.audit)


def save_definition(store: Store, name: str, definition: Mapping[str, Any], by: str) -> None:
    """Store an audit's definition, replacing an earlier one of this name. ``by`` is who defined it."""

    def work(connection: Connection) -> None:
        connection.execute(delete(definitions).where(definitions.c.audit == name))
        values = {"audit": name, "definition": dict(definition), "defined_by": by, "at": database_time(connection)}
        connection.execute(insert(definitions).values(**values))

    store.write(work)


def delete_definition(store: Store, name: str) -> None:
    """Delete an audit's definition, but not its runs. Raises UnknownAudit."""
    if not store.write(lambda connection: connection.execute(delete(definitions).where(definitions.c.audit == name)).rowcount):
        raise UnknownAudit(f"no audit {name!r} is defined through the API; audits in the configuration file are changed there")


def list_definitions(store: Store) -> dict[str, Definition]:
    """Return all definitions by audit."""
    with store.reading() as connection:
        return {row.audit: row.definition for row in connection.execute(_ALL)}
