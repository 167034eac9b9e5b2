"""Runs that wait for a process to carry them out, and the process that takes each of them up.

A run that was requested is kept as pending, and its number is its place in the line. When it is carried out it is a run like any
other; only if its process is gone it waits again, and goes on from what was done.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, select, update

from auditor.errors import ConfigError, NotResumable, QueueFull
from auditor.model import State, Verdict
from auditor.store import claims, standing
from auditor.store._life import change, has_plan, keep_once, lost, mine
from auditor.store._schema import audits, keys, queue, runs
from auditor.store._store import Store, now
from auditor.store._stored import StoredRun, number_of, stored, unknown

LOOKED_AT = 16
"""Waiting runs that one process looks at for one that no other process is just taking."""

HOW = Literal["new", "same", "pending", "running"]


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of a request: the run, and whether it is ``new``, the ``same`` request's from before, or was there already.

    ``others`` are the runs of the audit's other legs, where it goes by way of a dump.
    """

    run: str
    how: HOW
    others: tuple[str, ...] = ()


def enqueue(
    store: Store,
    *,
    run: str,
    audit: str,
    definition: Mapping[str, Any],
    method: str | None,
    reason: str = "",
    requested_by: str = "",
    overrides: Mapping[str, Any] = {},
    idempotency: str | None = None,
    asked: Mapping[str, Any] | None = None,
    most: int,
) -> Enqueued:
    """Let a run of an audit wait for its turn, unless one waits or runs already: then it is that one.

    An ``idempotency`` key that was used before finds the run of that time, as long as it is kept. It stands for what was ``asked``
    for: this audit with these overrides, unless that is given. Raises QueueFull where ``most`` runs wait, and ConfigError for a key
    that was used to ask for something else.
    """
    own = {"audit": audit, "overrides": dict(overrides)}
    values = {"run": run, "method": method, "reason": reason, "requested_by": requested_by, **own}
    asked = own if asked is None else asked
    requeue_lost(store)

    def work(connection: Connection) -> Enqueued:
        if idempotency is not None and (same := _same(connection, _hash(idempotency), _hash(asked), idempotency)):
            return same
        found = _enqueued(connection, definition, values, most)
        if idempotency is not None:
            number = number_of(connection, found.run)
            connection.execute(insert(keys).values(hash=_hash(idempotency), run=number, asked=_hash(asked)))
        return found

    return store.write(work)


def requested(store: Store, idempotency: str, asked: Mapping[str, Any]) -> Enqueued | None:
    """The run that a key found when this was asked for before. Raises ConfigError where it was used to ask for something else."""
    with store.reading() as connection:
        return _same(connection, _hash(idempotency), _hash(asked), idempotency)


def enqueue_tick(
    store: Store,
    *,
    tick: dt.datetime,
    by: str,
    run: str,
    audit: str,
    definition: Mapping[str, Any],
    method: str | None,
    reason: str,
    requested_by: str,
    most: int,
) -> Enqueued | None:
    """Claim a tick of an audit's schedule and let a run wait for it, both or neither; None where the tick was claimed before.

    Raises QueueFull, and the tick is due as before.
    """

    def work(connection: Connection) -> Enqueued | None:
        if not claims.claimed(connection, audit, tick, by):
            return None
        values: dict[str, Any] = {"run": run, "audit": audit, "method": method, "overrides": {}}
        values |= {"reason": reason, "requested_by": requested_by}
        return _enqueued(connection, definition, values, most)

    return store.write(work)


def claim(store: Store) -> StoredRun | None:
    """The run that has waited longest, of those whose audit does not run: from now on this process's. None where there is none.

    Its ``resumable`` says that it was begun before and goes on from its plan, which `runs.plan` has.
    """
    with store.reading() as connection:
        if not _waiting(connection):
            return None

    def work(connection: Connection) -> StoredRun | None:
        for number in _waiting(connection):
            # One row by its key, or none: who scans with a lock would lock what it passes.
            wanted = select(queue.c.run).where(queue.c.run == number, queue.c.waiting.is_not(None)).with_for_update(skip_locked=True)
            if connection.execute(wanted).first() is not None:
                return _taken(connection, number)
        return None

    return store.write(work)


def _waiting(connection: Connection) -> list[int]:
    # Every name is beyond "": SQLite has no use for an index in IS NOT NULL.
    busy = select(runs.c.running).where(runs.c.running >= "")
    wanted = select(queue.c.run).where(queue.c.waiting >= "", queue.c.waiting.not_in(busy)).order_by(queue.c.run).limit(LOOKED_AT)
    return list(connection.execute(wanted).scalars())


def _taken(connection: Connection, number: int) -> StoredRun:
    row = connection.execute(select(runs.c.audit, runs.c.resumable).where(runs.c.number == number)).one()
    at = now(connection)
    began = {} if row.resumable else {"started": at}
    connection.execute(update(runs).where(runs.c.number == number).values(**mine(row.audit, at), **began))
    connection.execute(update(queue).where(queue.c.run == number).values(waiting=None))
    return stored(connection, select(runs).where(runs.c.number == number))[0]


def put_back(store: Store, run: str) -> None:
    """Let a run of this process wait again, where it stands. Raises UnknownRun once it was taken away."""

    def work(connection: Connection) -> None:
        number = change(connection, run, state=State.PENDING, running=None)
        audit = connection.execute(select(runs.c.audit).where(runs.c.number == number)).scalar_one()
        if _other(connection, audit, queue.c.waiting) is not None:  # that one looks at the same tables, and has its turn as soon
            ended = {"state": State.CANCELLED, "ended": now(connection), "exit_code": Verdict.UNKNOWN.exit_code}
            reason = "its process was asked to end, and another run of the audit waits"
            ended |= {"reasons": [reason], "resumable": has_plan(connection, number)}
            connection.execute(update(runs).where(runs.c.number == number).values(**ended))
            standing.count(connection, number, 1)
            return
        connection.execute(update(runs).where(runs.c.number == number).values(resumable=has_plan(connection, number)))
        connection.execute(update(queue).where(queue.c.run == number).values(waiting=audit))

    store.write(work)


def requeue(store: Store, run: str, most: int) -> StoredRun:
    """Let a run that ended early wait for its turn to go on. Raises UnknownRun, NotResumable and QueueFull."""
    requeue_lost(store)

    def work(connection: Connection) -> StoredRun:
        row = connection.execute(select(runs).where(runs.c.run == run).with_for_update()).first()
        if row is None:
            raise unknown(run)
        if row.state not in (State.FAILED, State.CANCELLED) or not row.resumable or not has_plan(connection, row.number):
            raise NotResumable(f"run {run} is {row.state} and cannot be resumed; start a new one")
        for what, column in (("waits", queue.c.waiting), ("runs", runs.c.running)):
            if (other := _other(connection, row.audit, column)) is not None:
                raise NotResumable(f"run {run} cannot be resumed while another run of {row.audit} {what}: {other}")
        _refuse_more(connection, most)
        ended: dict[str, Any] = {"ended": None, "seconds": None, "exit_code": None, "reasons": [], "verdict": Verdict.UNKNOWN}
        again = {"state": State.PENDING, "cancel_asked": False, **ended}
        connection.execute(update(runs).where(runs.c.number == row.number).values(**again))
        if not connection.execute(update(queue).where(queue.c.run == row.number).values(waiting=row.audit, lost=0)).rowcount:
            connection.execute(insert(queue).values(run=row.number, requested=now(connection), waiting=row.audit, lost=0))
        standing.count(connection, row.number, -1)
        return stored(connection, select(runs).where(runs.c.number == row.number))[0]

    return store.write(work)


def redefine(store: Store, run: str, definition: Mapping[str, Any]) -> None:
    """Note that a run of this process goes by another definition than it was requested with. Raises UnknownRun."""

    def work(connection: Connection) -> None:
        audit = connection.execute(select(runs.c.audit).where(runs.c.run == run)).scalar() or ""
        version = keep_once(connection, audits, {"audit": audit}, {"definition": definition, "since": now(connection)})
        change(connection, run, version=version)

    store.write(work)


def requeue_lost(store: Store) -> list[str]:
    """Let the runs wait again that were requested and whose process is gone, and recover the others; the ids of the first."""
    return lost(store)[1]


def waiting(store: Store) -> int:
    """How many runs wait."""
    with store.reading() as connection:
        return _count(connection)


def _count(connection: Connection) -> int:
    found: int = connection.execute(select(func.count()).select_from(queue).where(queue.c.waiting >= "")).scalar_one()
    return found


def _refuse_more(connection: Connection, most: int) -> None:
    if (count := _count(connection)) >= most:
        raise QueueFull(f"{count:,} runs are waiting already, and service: queue is {most:,}; try again later")


def _same(connection: Connection, hashed: str, asked: str, key: str) -> Enqueued | None:
    wanted = select(keys.c.asked, runs.c.run).join(runs, runs.c.number == keys.c.run).where(keys.c.hash == hashed)
    row = connection.execute(wanted).first()
    if row is None:
        return None
    if row.asked != asked:
        raise ConfigError(f"the idempotency key {key[:64]!r} was used to ask for something else; use another")
    return Enqueued(row.run, "same")


def _enqueued(connection: Connection, definition: Mapping[str, Any], values: Mapping[str, Any], most: int) -> Enqueued:
    audit = values["audit"]
    if (waits := _other(connection, audit, queue.c.waiting)) is not None:
        return Enqueued(waits, "pending")
    if (runs_now := _other(connection, audit, runs.c.running)) is not None:
        return Enqueued(runs_now, "running")
    _refuse_more(connection, most)
    at = now(connection)
    version = keep_once(connection, audits, {"audit": audit}, {"definition": definition, "since": at})
    nobody = {"host": "", "pid": 0, "process": "", "heartbeat": at, "cancel_asked": False, "resumable": False}
    new = {"version": version, "state": State.PENDING, "verdict": Verdict.UNKNOWN, "started": at, "reasons": [], "progress": {}}
    connection.execute(insert(runs).values(**values, **new, **nobody))
    connection.execute(insert(queue).values(run=number_of(connection, values["run"]), requested=at, waiting=audit, lost=0))
    return Enqueued(values["run"], "new")


def _other(connection: Connection, audit: str, column: Any) -> str | None:
    """The run of which this column holds the audit's name."""
    wanted = select(runs.c.run).where(column == audit)
    if column.table is queue:
        wanted = wanted.join(queue, queue.c.run == runs.c.number)
    found: str | None = connection.execute(wanted).scalar()
    return found


def _hash(asked: Any) -> str:
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
