"""Recover runs whose process has died: they become pending again, or fail."""

from __future__ import annotations

import datetime as dt
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, select, update

from auditor.escaping import shell_word
from auditor.model import State, Verdict
from auditor.store import audit_state, leases
from auditor.store._schema import chunks, queue, run_documents, runs
from auditor.store._store import Store, database_time
from auditor.store.leases import Lease
from auditor.waits import waits

MAX_PROCESS_LOSSES = 3
"""How often a requested run may lose its process before it fails instead of being requeued: the run itself may kill its processes."""


class Recovered(NamedTuple):
    """The ids of the runs whose process had died: those that failed, and those that are pending again."""

    failed: list[str]
    requeued: list[str]


def recover_runs(store: Store) -> list[str]:
    """Fail or requeue the runs whose process has died, and return the ids of those that failed.

    A run that was requested through the queue becomes pending again; any other fails, and can be resumed if it stored a chunk.
    A process on another host is considered dead when its heartbeat is older than ``run_silent`` by the database's clock, which
    also dates the heartbeats. If that clock was set back, a heartbeat in its future is set to the current time, to age from there.
    A running run has a lease: both are written in one transaction.
    """
    return recover_dead_runs(store).failed


def recover_dead_runs(store: Store) -> Recovered:
    """Fail or requeue the runs whose process has died, as `recover_runs` describes."""
    with store.reading() as connection:
        at, running = _read_running(connection)
        if all(lease.judge(at) == "alive" for _, lease in running):
            return Recovered([], [])

    def work(connection: Connection) -> Recovered:
        recovered = Recovered([], [])
        at, running = _read_running(connection)
        for row, lease in running:
            liveness = lease.judge(at)
            if liveness == "ahead":
                leases.let_age(connection, lease, waits().run_silent)
            if liveness != "dead" or not leases.take_away(connection, lease):
                continue
            requeue = _should_requeue(connection, row)
            resumable = has_checkpoint(connection, row.number)
            pending = {"state": State.PENDING, "running_audit": None, "resumable": resumable}
            values = pending if requeue else _failed_columns(row, lease, resumable, requested=requeue is not None)
            connection.execute(update(runs).where(runs.c.number == row.number).values(**values, progress={}))
            if requeue:
                connection.execute(
                    update(queue)
                    .where(queue.c.run == row.number)
                    .values(pending_audit=row.audit, lost_processes=queue.c.lost_processes + 1)
                )
                recovered.requeued.append(str(row.run))
            else:
                audit_state.adjust_run_count(connection, row.number, 1)
                recovered.failed.append(str(row.run))
        return recovered

    return store.write(work)


def _should_requeue(connection: Connection, row: Row[Any]) -> bool | None:
    """Return whether a run whose process has died becomes pending again; None if it was never requested through the queue."""
    losses = connection.execute(select(queue.c.lost_processes).where(queue.c.run == row.number)).scalar()
    if losses is None:
        return None
    pending = connection.execute(select(queue.c.run).where(queue.c.pending_audit == row.audit)).first()
    return losses + 1 < MAX_PROCESS_LOSSES and pending is None and not row.cancel_requested


def _read_running(connection: Connection) -> tuple[dt.datetime, list[tuple[Row[Any], Lease]]]:
    """Return the running runs with their leases, and the time at which these were read."""
    # Not IS NOT NULL, for which SQLite uses no index; every name is greater than "".
    running = leases.select_with_leases(runs, runs.c.run, "run").where(runs.c.running_audit >= "")
    rows = connection.execute(running).all()
    at = database_time(connection)  # after the heartbeats were read, so that only a clock that was set back makes one later
    return at, [(row, lease) for row in rows if (lease := leases.lease_of(row))]


def _failed_columns(row: Row[Any], lease: Lease, resumable: bool, *, requested: bool) -> dict[str, Any]:
    anew = f"it had stored nothing to go on from; start a new run: auditor run {shell_word(row.audit)}"
    suggestion = f"resume it with: auditor resume {row.run}" if resumable else anew
    return {
        "state": State.CANCELLED if requested and row.cancel_requested else State.FAILED,
        "running_audit": None,
        "ended": lease.heartbeat,
        "seconds": max(0.0, (lease.heartbeat - row.started).total_seconds()),
        "exit_code": Verdict.UNKNOWN.exit_code,
        "resumable": resumable,
        "reasons": [f"its process has died ({lease.owner}); {suggestion}"],
    }


def has_checkpoint(connection: Connection, number: int) -> bool:
    """Return whether the run left what a resume goes on from: its plan, and a chunk at least. Without these it can only begin anew."""
    left = (
        select(chunks.c.run)
        .join(run_documents, run_documents.c.run == chunks.c.run)
        .where(chunks.c.run == number, run_documents.c.kind == "plan")
    )
    return connection.execute(left.limit(1)).first() is not None
