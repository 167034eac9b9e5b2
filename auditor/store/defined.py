"""Audits that were defined through the API and stand in no configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from auditor.errors import UnknownAudit
from auditor.store._schema import defined
from auditor.store._store import Store, now

_ALL = select(defined.c.audit, defined.c.definition).order_by(defined.c.audit)


def keep(store: Store, name: str, definition: Mapping[str, Any], by: str) -> None:
    """Keep an audit in place of the one of that name before."""

    def work(connection: Connection) -> None:
        connection.execute(delete(defined).where(defined.c.audit == name))
        values = {"audit": name, "definition": dict(definition), "defined_by": by, "at": now(connection)}
        connection.execute(insert(defined).values(**values))

    store.write(work)


def drop(store: Store, name: str) -> None:
    """Forget an audit; its runs stay. Raises UnknownAudit."""
    if not store.write(lambda connection: connection.execute(delete(defined).where(defined.c.audit == name)).rowcount):
        raise UnknownAudit(f"no audit {name!r} was defined through the API")


def all(store: Store) -> dict[str, dict[str, Any]]:
    """Their definitions by name."""
    with store.reading() as connection:
        return {row.audit: row.definition for row in connection.execute(_ALL)}
