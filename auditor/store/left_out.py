"""The rows that the last runs of each audit did not compare: one packed value for each audit."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from auditor.store import audit_state
from auditor.store._schema import left_out_rows
from auditor.store._store import Store


def save_left_out(store: Store, audit: str, settings: str, body: bytes) -> None:
    """Store an audit's packed rows, replacing those of earlier runs. ``settings`` is the hash of the settings that they are about."""

    def work(connection: Connection) -> None:
        audit_state.lock_state(connection, audit)
        connection.execute(delete(left_out_rows).where(left_out_rows.c.audit == audit))
        connection.execute(insert(left_out_rows).values(audit=audit, settings=settings, body=body))

    store.write(work)


def get_left_out(store: Store, audit: str, settings: str) -> bytes:
    """Return an audit's packed rows under these settings; empty if there are none."""
    with store.reading() as connection:
        statement = select(left_out_rows.c.body).where(left_out_rows.c.audit == audit, left_out_rows.c.settings == settings)
        return bytes(connection.execute(statement).scalar() or b"")
