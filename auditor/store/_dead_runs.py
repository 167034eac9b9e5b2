"""Recover runs whose process has died: they become pending again, or fail."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, and_, select, update

from auditor.escaping import shell_word
from auditor.model import State, Verdict
from auditor.store import audit_state
from auditor.store._process import Owner, has_ended
from auditor.store._rows import run_owner
from auditor.store._schema import chunks, queue, run_documents, runs
from auditor.store._store import Store, database_time

HEARTBEAT_TIMEOUT = 120.0
"""Seconds without a heartbeat after which a run's process on another host is considered dead."""

MAX_PROCESS_LOSSES = 3
"""How often a requested run may lose its process before it fails instead of being requeued: the run itself may kill its processes."""


class Recovered(NamedTuple):
    """The ids of the runs whose process had died: those that failed, and those that are pending again."""

    failed: list[str]
    requeued: list[str]


def recover_runs(store: Store) -> list[str]:
    """Fail or requeue the runs whose process has died, and return the ids of those that failed.

    A run that was requested through the queue becomes pending again; any other fails, and can be resumed if it stored a chunk.
    A process on another host is considered dead when its heartbeat is older than HEARTBEAT_TIMEOUT by the database's clock, which
    also dates the heartbeats. If that clock was set back, a heartbeat in its future is set to the current time, to age from there.
    """
    return recover_dead_runs(store).failed


def recover_dead_runs(store: Store) -> Recovered:
    """Fail or requeue the runs whose process has died, as `recover_runs` describes."""
    with store.reading() as connection:
        if all(liveness == "alive" for _, liveness in _judge_running(connection)):
            return Recovered([], [])

    def work(connection: Connection) -> Recovered:
        recovered = Recovered([], [])
        for row, liveness in _judge_running(connection):
            unchanged = and_(runs.c.number == row.number, runs.c.heartbeat == row.heartbeat, is_owned_by(run_owner(row)))
            if liveness == "ahead":
                connection.execute(update(runs).where(unchanged).values(heartbeat=database_time(connection)))
            if liveness != "dead":
                continue
            requeue = _should_requeue(connection, row)
            resumable = has_checkpoint(connection, row.number)
            pending = {"state": State.PENDING, "running_audit": None, "resumable": resumable}
            values = pending if requeue else _failed_columns(row, resumable, requested=requeue is not None)
            if not connection.execute(update(runs).where(unchanged).values(**values, progress={})).rowcount:
                continue
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


Liveness = Literal["alive", "dead", "ahead"]
"""Of a running run's process; ``ahead``: unknown, because its last heartbeat lies in the future."""


def _judge_running(connection: Connection) -> list[tuple[Row[Any], Liveness]]:
    # Not IS NOT NULL, for which SQLite uses no index; every name is greater than "".
    running = connection.execute(select(runs).where(runs.c.running_audit >= "")).all()
    at = database_time(connection)  # after the heartbeats were read, so that only a clock that was set back makes one later
    return [(row, _judge(row, at)) for row in running]


def _judge(row: Row[Any], at: dt.datetime) -> Liveness:
    ended = has_ended(run_owner(row))
    if ended is not None:
        return "dead" if ended else "alive"
    if row.heartbeat > at:
        return "ahead"
    return "dead" if (at - row.heartbeat).total_seconds() > HEARTBEAT_TIMEOUT else "alive"


def _failed_columns(row: Row[Any], resumable: bool, *, requested: bool) -> dict[str, Any]:
    anew = f"it had stored nothing to go on from; start a new run: auditor run {shell_word(row.audit)}"
    advice = f"resume it with: auditor resume {row.run}" if resumable else anew
    return {
        "state": State.CANCELLED if requested and row.cancel_requested else State.FAILED,
        "running_audit": None,
        "ended": row.heartbeat,
        "seconds": max(0.0, (row.heartbeat - row.started).total_seconds()),
        "exit_code": Verdict.UNKNOWN.exit_code,
        "resumable": resumable,
        "reasons": [f"its process has died ({run_owner(row)}); {advice}"],
    }


def has_checkpoint(connection: Connection, number: int) -> bool:
    """Return whether the run left what a resume goes on from: its plan, and a chunk at least. Without these it can only begin anew."""
    left = (
        select(chunks.c.run)
        .join(run_documents, run_documents.c.run == chunks.c.run)
        .where(chunks.c.run == number, run_documents.c.kind == "plan")
    )
    return connection.execute(left.limit(1)).first() is not None


def is_owned_by(process: Owner) -> ColumnElement[bool]:
    """Return the condition that a run is running and belongs to this process."""
    return and_(
        runs.c.running_audit.is_not(None), runs.c.host == process.host, runs.c.pid == process.pid, runs.c.process == process.started
    )
