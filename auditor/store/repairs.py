"""What people recorded that they did, outside of the auditor, to mend a target after a run. It outlives its run."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Row, and_, insert, or_, select

from auditor.errors import ConfigError, UnknownRepair
from auditor.store import events
from auditor.store._schema import repairs
from auditor.store._store import Store, now

Kind = Literal["patch", "bootstrap", "other"]
"""Rows were mended, the table was copied anew, or what the note says."""

RECORDED = "recorded"
"""The state of what somebody says was done: nothing here looked whether it was."""

Key = dict[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """A repair as it was recorded by ``who``; ``rows`` is None where nobody counted them."""

    repair: str
    run: str
    audit: str
    kind: str
    state: str
    note: str
    rows: int | None
    keys: list[Key]
    who: str
    at: dt.datetime


def record(
    store: Store,
    *,
    run: str,
    audit: str,
    kind: Kind,
    note: str,
    who: str,
    rows: int | None = None,
    keys: Sequence[Key] = (),
    idempotency: str | None = None,
) -> Repair:
    """Keep a repair and note the event, both or neither. Texts of masked columns have no place in ``keys``.

    An ``idempotency`` key that ``who`` used before finds the repair of that time. Raises ConfigError where it was something else.
    """
    # Its own key makes its id, so that the primary key keeps the same request from being two repairs.
    identity = uuid.uuid4().hex if idempotency is None else _hash([who, idempotency])[:32]
    detail = {"note": note, "rows": rows, "keys": [dict(key) for key in keys]}
    asked = {"run": run, "audit": audit, "kind": kind, "requested_by": who, "detail": detail}

    def work(connection: Connection) -> Repair:
        wanted = select(repairs).where(repairs.c.id == identity)
        row = connection.execute(wanted).first()
        if row is not None and any(getattr(row, name) != value for name, value in asked.items()):
            raise ConfigError(f"the idempotency key {str(idempotency)[:64]!r} was used to record something else; use another")
        if row is None:
            connection.execute(insert(repairs).values(id=identity, state=RECORDED, at=now(connection), **asked))
            noted = {"audit": audit, "repair": identity, "kind": kind, "rows": rows}
            events.noted(connection, who=who, what="repair recorded", subject=run, detail=noted)
        return _read(row or connection.execute(wanted).one())

    return store.write(work)


def find(store: Store, repair: str) -> Repair:
    """The repair of this id. Raises UnknownRepair."""
    with store.reading() as connection:
        return _read(_row(connection, repair))


def listed(store: Store, run: str, *, limit: int = 50, before: str | None = None) -> list[Repair]:
    """The repairs that were recorded for a run, the newest first; ``before`` is the id of the last one of the page before.

    Raises UnknownRepair for that.
    """
    wanted = select(repairs).where(repairs.c.run == run).order_by(repairs.c.at.desc(), repairs.c.id.desc()).limit(limit)
    with store.reading() as connection:
        if before is not None:
            last = _row(connection, before)
            wanted = wanted.where(or_(repairs.c.at < last.at, and_(repairs.c.at == last.at, repairs.c.id < last.id)))
        return [_read(row) for row in connection.execute(wanted)]


def _row(connection: Connection, repair: str) -> Row[Any]:
    row = connection.execute(select(repairs).where(repairs.c.id == repair)).first()
    if row is None:
        raise UnknownRepair(f"there is no repair {repair!r}; see those of its run")
    return row


def _read(row: Row[Any]) -> Repair:
    same = {name: getattr(row, name) for name in ("run", "audit", "kind", "state", "at")}
    return Repair(repair=row.id, who=row.requested_by, **same, **row.detail)


def _hash(asked: Any) -> str:
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()
