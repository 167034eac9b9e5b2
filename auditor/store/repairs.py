"""Repairs of targets that people made outside of the auditor, and recorded. A repair outlives its run."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Index, Row, Table, and_, insert, or_, select, update

from auditor.api_models.repair import Repair, RepairKind
from auditor.errors import ConfigError, UnknownRepair
from auditor.store import events
from auditor.store.database import Store, database_time
from auditor.store.schema import Json, Moment, Words, metadata, short_text

repairs = Table(
    "auditor_repairs",
    metadata,
    Column("id", short_text(64), primary_key=True),
    Column("run", short_text(64), nullable=False),
    Column("audit", short_text(), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("kind", short_text(16), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("detail", Json(), nullable=False),
    Index("auditor_repairs_run_at", "run", "at"),
)
"""Recorded repairs. ``run`` is the run's id, not a foreign key, because a repair outlives its run."""

STATE_RECORDED = "recorded"
"""The state of a repair that a person recorded; the auditor has not verified it."""

Key = dict[str, str | None]
"""A key: its columns' canonical texts by name, None for NULL."""


def record_repair(
    store: Store,
    *,
    run: str,
    audit: str,
    kind: RepairKind,
    note: str,
    who: str,
    rows: int | None = None,
    keys: Sequence[Key] = (),
    idempotency_key: str | None = None,
) -> Repair:
    """Store a repair and its event in one transaction. ``keys`` must not contain values of masked columns.

    If ``who`` used this ``idempotency_key`` before, returns the earlier repair; raises ConfigError if that one differs.
    """
    # The id is derived from the idempotency key, so that the primary key prevents a second repair for the same request.
    identity = uuid.uuid4().hex if idempotency_key is None else _hash([who, idempotency_key])[:32]
    detail = {"note": note, "rows": rows, "keys": [dict(key) for key in keys]}
    values = {"run": run, "audit": audit, "kind": kind, "requested_by": who, "detail": detail}

    def work(connection: Connection) -> Repair:
        statement = select(repairs).where(repairs.c.id == identity)
        row = connection.execute(statement).first()
        if row is not None and any(getattr(row, name) != value for name, value in values.items()):
            raise ConfigError(f"the idempotency key {str(idempotency_key)[:64]!r} was used for another repair; use a new key")
        if row is None:
            connection.execute(insert(repairs).values(id=identity, state=STATE_RECORDED, at=database_time(connection), **values))
            summary = {"audit": audit, "repair": identity, "kind": kind, "rows": rows}
            events.insert_event(connection, actor=who, action="repair recorded", subject=run, detail=summary)
        return _to_repair(row or connection.execute(statement).one())

    return store.write(work)


def get_repair(store: Store, repair: str) -> Repair:
    """Return the repair with this id. Raises UnknownRepair."""
    with store.reading() as connection:
        return _to_repair(_fetch_row(connection, repair))


def list_repairs(store: Store, run: str, *, limit: int = 50, before: str | None = None) -> list[Repair]:
    """Return up to ``limit`` repairs of a run, newest first.

    ``before`` is the id of the last repair of the previous page; raises UnknownRepair if it does not exist.
    """
    statement = select(repairs).where(repairs.c.run == run).order_by(repairs.c.at.desc(), repairs.c.id.desc()).limit(limit)
    with store.reading() as connection:
        if before is not None:
            last = _fetch_row(connection, before)
            statement = statement.where(or_(repairs.c.at < last.at, and_(repairs.c.at == last.at, repairs.c.id < last.id)))
        return [_to_repair(row) for row in connection.execute(statement)]


def forget_key(store: Store, audit: str, key: Key, mask: str, *, apply: bool) -> int:
    """Return how many repairs of an audit name a key; with ``apply``, put ``mask`` in place of its values there."""
    masked = {name: mask if text is not None else None for name, text in key.items()}

    def work(connection: Connection) -> int:
        found = 0
        for row in connection.execute(select(repairs).where(repairs.c.audit == audit)).all():
            if key in row.detail["keys"]:
                found += 1
                keys = [masked if one == key else one for one in row.detail["keys"]]
                if apply:
                    connection.execute(update(repairs).where(repairs.c.id == row.id).values(detail={**row.detail, "keys": keys}))
        return found

    return store.write(work)


def _fetch_row(connection: Connection, repair: str) -> Row[Any]:
    row = connection.execute(select(repairs).where(repairs.c.id == repair)).first()
    if row is None:
        raise UnknownRepair(f"there is no repair {repair!r}; list the repairs of its run")
    return row


def _to_repair(row: Row[Any]) -> Repair:
    copied = {name: getattr(row, name) for name in ("run", "audit", "kind", "state")}
    return Repair(repair=row.id, recorded_by=row.requested_by, recorded_at=row.at, **copied, **row.detail)


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
