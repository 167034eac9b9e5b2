"""The queue of requested runs, how processes claim them, and the claims of scheduled ticks, by which exactly one process requests each.

A requested run is stored as pending; runs are claimed in the order of their numbers. A claimed run is a run like any other, except that
it is requeued if its process dies, and then resumes from what it stored.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Column, Connection, ForeignKey, Table, and_, func, insert, or_, select, update

from auditor.durations import durations
from auditor.errors import ConfigError, NotResumable, QueueFull
from auditor.model import State, Verdict
from auditor.store import audit_state, leases
from auditor.store.database import Store, database_time
from auditor.store.evidence import forget_payloads
from auditor.store.run_lifecycle import NOT_ENDED, has_checkpoint, recover_runs, running_columns, save_version, update_own_run
from auditor.store.runs import OWN_SETTINGS, StoredRun, fetch_runs, get_run_number, unknown_run
from auditor.store.schema import Moment, Words, audit_versions, big_integer, metadata, queue, runs, short_text

idempotency_keys = Table(
    "auditor_idempotency_keys",
    metadata,
    Column("hash", short_text(64), primary_key=True),
    Column("run", big_integer(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), nullable=False),
    Column("request_hash", short_text(64), nullable=False),
)
"""Hashes of the idempotency keys of requests; ``request_hash`` is that of the request."""

tick_claims = Table(
    "auditor_schedule_claims",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("tick", Moment(), primary_key=True),
    Column("claimed_by", Words(), nullable=False),
    Column("at", Moment(), nullable=False),
)
"""Ticks of audits' schedules, each with the one process that requested its run."""

CLAIM_CANDIDATES = 16
"""Pending runs that `claim_run` tries in turn, skipping those that other processes are claiming."""

HowEnqueued = Literal["new", "same", "pending", "running"]
"""A new run; the run of an earlier request with this idempotency key; or the audit's run that is pending or running already."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The run that a request led to. ``others`` are the runs of the other parts of an audit with a proxy (``via``)."""

    run: str
    how: HowEnqueued
    others: tuple[str, ...] = ()


def enqueue_run(
    store: Store,
    *,
    run: str,
    audit: str,
    definition: Mapping[str, Any],
    method: str | None,
    reason: str = "",
    requested_by: str = "",
    overrides: Mapping[str, Any] = {},
    idempotency_key: str | None = None,
    request: Mapping[str, Any] | None = None,
    max_pending: int,
) -> Enqueued:
    """Enqueue a run of an audit, or return the audit's run that is pending or running already.

    If ``idempotency_key`` was used before, returns the run that the earlier request created, as long as it is stored: a request that met
    a run of somebody else created none, and its key is free. ``request`` is what the key stands for; by default the audit and the
    overrides. Raises ConfigError if the key was used for another request, and QueueFull if
    ``max_pending`` runs are pending.
    """
    requested = {"audit": audit, "overrides": dict(overrides)}
    values = {"run": run, "method": method, "reason": reason, "requested_by": requested_by, **requested}
    request_hash = _hash(requested if request is None else request)
    recover_runs(store)

    def work(connection: Connection) -> Enqueued:
        if idempotency_key is not None and (earlier := _find_request(connection, idempotency_key, request_hash)):
            return earlier
        enqueued = _insert_or_join(connection, definition, values, max_pending)
        if idempotency_key is not None and enqueued.how == "new":
            number = get_run_number(connection, enqueued.run)
            connection.execute(insert(idempotency_keys).values(hash=_hash(idempotency_key), run=number, request_hash=request_hash))
        return enqueued

    enqueued = store.write(work)
    if idempotency_key is not None and enqueued.how not in ("new", "same"):  # it may be the run of this request, sent twice at once
        with store.reading() as connection:
            return _find_request(connection, idempotency_key, request_hash) or enqueued
    return enqueued


def find_earlier_request(store: Store, idempotency_key: str, request: Mapping[str, Any]) -> Enqueued | None:
    """Return the run of an earlier request with this key, None if there is none. Raises ConfigError if it was another request."""
    with store.reading() as connection:
        return _find_request(connection, idempotency_key, _hash(request))


def enqueue_due_run(
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
    max_pending: int,
) -> Enqueued | None:
    """Claim a tick of an audit's schedule and enqueue its run, in one transaction; None if the tick was claimed before.

    The tick is left unclaimed while a one-off run of the audit is pending or running, which would not stand in for its own, and if
    QueueFull is raised.
    """

    def work(connection: Connection) -> Enqueued | None:
        if _has_one_off(connection, audit) or not insert_claim(connection, audit, tick, by):
            return None
        values: dict[str, Any] = {"run": run, "audit": audit, "method": method, "overrides": {}}
        values |= {"reason": reason, "requested_by": requested_by}
        return _insert_or_join(connection, definition, values, max_pending)

    return store.write(work)


def claim_run(store: Store) -> StoredRun | None:
    """Assign the pending run with the lowest number whose audit is not running to this process; None if there is none.

    If the run is ``resumable``, it was started before and continues with its plan (`runs.get_plan`).
    """
    with store.reading() as connection:
        if not _claimable(connection):
            return None

    def work(connection: Connection) -> StoredRun | None:
        for number in _claimable(connection):
            # Locks a single row by its primary key: a locking scan would lock every row that it passes.
            pending = select(queue.c.run).where(queue.c.run == number, queue.c.pending_audit.is_not(None)).with_for_update(skip_locked=True)
            if connection.execute(pending).first() is not None:
                return _assign(connection, number)
        return None

    return store.write(work)


def _claimable(connection: Connection) -> list[int]:
    # Not IS NOT NULL, for which SQLite uses no index; every name is greater than "".
    running = select(runs.c.running_audit).where(runs.c.running_audit >= "")
    pending = select(queue.c.run).where(queue.c.pending_audit >= "", queue.c.pending_audit.not_in(running)).order_by(queue.c.run)
    return list(connection.execute(pending.limit(CLAIM_CANDIDATES)).scalars())


def _assign(connection: Connection, number: int) -> StoredRun:
    row = connection.execute(select(runs.c.run, runs.c.audit, runs.c.resumable).where(runs.c.number == number)).one()
    started = {} if row.resumable else {"started": database_time(connection)}
    connection.execute(update(runs).where(runs.c.number == number).values(**running_columns(row.audit), **started))
    leases.assign(connection, "run", row.run, durations().run_lease)
    connection.execute(update(queue).where(queue.c.run == number).values(pending_audit=None))
    return fetch_runs(connection, select(runs).where(runs.c.number == number))[0]


def put_back_run(store: Store, run: str) -> None:
    """Requeue a run of this process at its place in the order. Raises RunLost if this process does not own it.

    If another run of the audit is pending, this one is cancelled instead: the other compares the same tables, at least as soon.
    """

    def work(connection: Connection) -> None:
        number = update_own_run(connection, run, state=State.PENDING, running_audit=None)
        leases.drop(connection, "run", run)
        audit = connection.execute(select(runs.c.audit).where(runs.c.number == number)).scalar_one()
        if _run_named_in(connection, audit, queue.c.pending_audit) is not None:
            ended = {"state": State.CANCELLED, "ended": database_time(connection), "exit_code": Verdict.UNKNOWN.exit_code}
            reason = "its process was stopped while another run of the audit was pending"
            ended |= {"reasons": [reason], "resumable": has_checkpoint(connection, number)}
            connection.execute(update(runs).where(runs.c.number == number).values(**ended))
            audit_state.adjust_run_count(connection, number, 1)
            return
        connection.execute(update(runs).where(runs.c.number == number).values(resumable=has_checkpoint(connection, number)))
        connection.execute(update(queue).where(queue.c.run == number).values(pending_audit=audit))

    store.write(work)


def requeue_run(store: Store, run: str, max_pending: int) -> StoredRun:
    """Enqueue a run that ended early, to be resumed. Raises UnknownRun, NotResumable and QueueFull."""
    recover_runs(store)

    def work(connection: Connection) -> StoredRun:
        row = connection.execute(select(runs).where(runs.c.run == run).with_for_update()).first()
        if row is None:
            raise unknown_run(run)
        if row.state not in (State.FAILED, State.CANCELLED) or not row.resumable or not has_checkpoint(connection, row.number):
            raise NotResumable(f"run {run} is {row.state} and cannot be resumed; start a new run")
        for state, column in (("pending", queue.c.pending_audit), ("running", runs.c.running_audit)):
            if (other := _run_named_in(connection, row.audit, column)) is not None:
                raise NotResumable(
                    f"run {run} cannot be resumed while run {other} of audit {row.audit} is {state}; wait for it, or cancel it"
                )
        _check_queue_size(connection, max_pending)
        pending = {"state": State.PENDING, "cancel_requested": False, **NOT_ENDED}
        connection.execute(update(runs).where(runs.c.number == row.number).values(**pending))
        if not connection.execute(
            update(queue).where(queue.c.run == row.number).values(pending_audit=row.audit, lost_processes=0)
        ).rowcount:
            connection.execute(
                insert(queue).values(run=row.number, requested_at=database_time(connection), pending_audit=row.audit, lost_processes=0)
            )
        audit_state.adjust_run_count(connection, row.number, -1)
        forget_payloads(connection, [run])
        return fetch_runs(connection, select(runs).where(runs.c.number == row.number))[0]

    return store.write(work)


def update_definition(store: Store, run: str, definition: Mapping[str, Any]) -> None:
    """Replace the definition with which a run of this process was requested. Raises UnknownRun and RunLost."""

    def work(connection: Connection) -> None:
        audit = connection.execute(select(runs.c.audit).where(runs.c.run == run)).scalar() or ""
        version = save_version(connection, audit_versions, {"audit": audit}, {"definition": definition, "since": database_time(connection)})
        update_own_run(connection, run, version=version)

    store.write(work)


def count_waiting(store: Store) -> int:
    """Return the number of pending runs."""
    with store.reading() as connection:
        return _count_waiting(connection)


def _count_waiting(connection: Connection) -> int:
    count: int = connection.execute(select(func.count()).select_from(queue).where(queue.c.pending_audit >= "")).scalar_one()
    return count


def _check_queue_size(connection: Connection, max_pending: int) -> None:
    if (count := _count_waiting(connection)) >= max_pending:
        raise QueueFull(f"the queue is full: {count:,} runs are pending, and service: queue is {max_pending:,}; retry later")


def _find_request(connection: Connection, key: str, request_hash: str) -> Enqueued | None:
    statement = (
        select(idempotency_keys.c.request_hash, runs.c.run)
        .join(runs, runs.c.number == idempotency_keys.c.run)
        .where(idempotency_keys.c.hash == _hash(key))
    )
    row = connection.execute(statement).first()
    if row is None:
        return None
    if row.request_hash != request_hash:
        raise ConfigError(f"the idempotency key {key[:64]!r} was used for another request; use a new key")
    return Enqueued(row.run, "same")


def _insert_or_join(connection: Connection, definition: Mapping[str, Any], values: Mapping[str, Any], max_pending: int) -> Enqueued:
    audit = values["audit"]
    if (pending := _run_named_in(connection, audit, queue.c.pending_audit)) is not None:
        return Enqueued(pending, "pending")
    if (running := _run_named_in(connection, audit, runs.c.running_audit)) is not None:
        return Enqueued(running, "running")
    _check_queue_size(connection, max_pending)
    at = database_time(connection)
    version = save_version(connection, audit_versions, {"audit": audit}, {"definition": definition, "since": at})
    new = {"version": version, "state": State.PENDING, "verdict": Verdict.UNKNOWN, "started": at, "reasons": [], "progress": {}}
    connection.execute(insert(runs).values(**values, **new, cancel_requested=False, resumable=False))
    connection.execute(
        insert(queue).values(run=get_run_number(connection, values["run"]), requested_at=at, pending_audit=audit, lost_processes=0)
    )
    return Enqueued(values["run"], "new")


def _has_one_off(connection: Connection, audit: str) -> bool:
    """Return whether a run of the audit with other settings is pending or running."""
    active = [
        run for column in (queue.c.pending_audit, runs.c.running_audit) if (run := _run_named_in(connection, audit, column)) is not None
    ]
    one_off = select(runs.c.number).where(runs.c.run.in_(active), ~OWN_SETTINGS)
    return bool(active) and connection.execute(one_off).first() is not None


def _run_named_in(connection: Connection, audit: str, column: Any) -> str | None:
    """Return the id of the run in whose row ``column`` (`queue.pending_audit` or `runs.running_audit`) holds the audit's name."""
    statement = select(runs.c.run).where(column == audit)
    if column.table is queue:
        statement = statement.join(queue, queue.c.run == runs.c.number)
    run: str | None = connection.execute(statement).scalar()
    return run


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def claim_tick(store: Store, audit: str, tick: dt.datetime, by: str) -> bool:
    """Claim a tick of an audit's schedule for ``by``; returns True to exactly one caller among all processes."""
    return store.write(lambda connection: insert_claim(connection, audit, tick, by))


def insert_claim(connection: Connection, audit: str, tick: dt.datetime, by: str) -> bool:
    """Claim a tick within the caller's transaction; returns whether it was unclaimed."""
    # Of two concurrent inserts the primary key rejects one; the retry of its transaction then finds the claim.
    if connection.execute(select(tick_claims.c.tick).where(tick_claims.c.audit == audit, tick_claims.c.tick == tick)).first() is not None:
        return False
    connection.execute(insert(tick_claims).values(audit=audit, tick=tick, claimed_by=by, at=database_time(connection)))
    return True


def list_claimed_audits(store: Store, ticks: Mapping[str, dt.datetime], now: dt.datetime) -> set[str]:
    """Return those audits of ``ticks`` whose tick, or a later one up to ``now``, was claimed; an earlier tick has then been skipped."""
    claimed: set[str] = set()
    with store.reading() as connection:
        for audits in _batches(ticks):
            passed = or_(
                *(and_(tick_claims.c.audit == audit, tick_claims.c.tick.between(ticks[audit], max(now, ticks[audit]))) for audit in audits)
            )
            claimed.update(connection.execute(select(tick_claims.c.audit).where(passed).distinct()).scalars())
    return claimed


def _batches(names: Iterable[str]) -> Iterator[list[str]]:
    """Yield the names in batches: SQLite limits the depth of an expression, and so the number of terms of an OR."""
    listed = list(names)
    for start in range(0, len(listed), 200):
        yield listed[start : start + 200]


def list_audits_with_claims(store: Store, audits: Iterable[str]) -> set[str]:
    """Return those of ``audits`` of which any tick was ever claimed."""
    with store.reading() as connection:
        return {
            audit for audit in audits if connection.execute(select(tick_claims.c.tick).where(tick_claims.c.audit == audit).limit(1)).first()
        }
