"""The life of a stored run: start, heartbeat, finish and resume from its finished chunks, and recovery where its process has died.

A process may change a run only while it owns it. Once another process has resumed the run, or `recover_runs` has failed it, the
functions called by its former process raise RunLost.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, NoReturn, TypedDict

from sqlalchemy import Connection, Row, Table, and_, delete, insert, select, update

from auditor.durations import durations
from auditor.errors import AlreadyRunning, NotResumable, RunLost
from auditor.escaping import shell_word
from auditor.model import Side, State, Verdict
from auditor.store import audit_state, leases
from auditor.store.database import Store, database_time
from auditor.store.events import insert_event
from auditor.store.evidence import Seal, add_link, forget_payloads
from auditor.store.leases import Lease
from auditor.store.runs import StoredDifference, StoredRun, fetch_runs, get_run_number, unknown_run
from auditor.store.schema import audit_versions, chunks, differences, queue, run_documents, runs, schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, and what it found.

    Scores and ``coverage`` are in [0, 1]. ``report`` (JSON) and ``partition_map`` (packed) are stored unless empty. ``resumable`` counts
    only if the run left a plan and chunks, which are deleted otherwise.
    """

    state: State
    verdict: Verdict
    exit_code: int
    seconds: float
    method: str | None = None
    reasons: Sequence[str] = ()
    score: float | None = None
    lower: float | None = None
    upper: float | None = None
    published: float | None = None
    coverage: float | None = None
    rows: Mapping[Side, int] | None = None
    partitions: int | None = None
    unequal: int | None = None
    missing: int | None = None
    extra: int | None = None
    changed: int | None = None
    unsettled: int | None = None
    verified_through: dt.datetime | None = None
    within_threshold: bool = False
    within_threshold_through: dt.datetime | None = None
    resumable: bool = False
    report: bytes = b""
    partition_map: bytes = b""
    differences: Sequence[StoredDifference] = ()


OUTCOME_COLUMNS = (
    "score", "lower", "upper", "published", "coverage", "partitions", "unequal", "missing", "extra", "changed", "unsettled", "state",
    "verdict", "exit_code", "seconds", "verified_through", "within_threshold", "within_threshold_through",
)  # fmt: skip

NOT_ENDED: dict[str, Any] = {"ended": None, "seconds": None, "exit_code": None, "reasons": [], "verdict": Verdict.UNKNOWN}
"""Column values of a run that ended and now continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedRun:
    """A run that this process has resumed. ``plan`` is packed; ``method`` is the method of the run so far."""

    run: str
    audit: str
    definition: dict[str, Any]
    overrides: dict[str, Any]
    plan: bytes
    method: str | None
    started: dt.datetime


def start_run(
    store: Store,
    *,
    run: str,
    audit: str,
    definition: Mapping[str, Any],
    method: str | None,
    reason: str = "",
    requested_by: str = "",
    overrides: Mapping[str, Any] = {},
    event: Mapping[str, Any] | None = None,
) -> None:
    """Store a run that this process starts, with the event that it was requested, if there is a detail for it.

    Raises AlreadyRunning if a run of the audit is running.
    """
    recover_runs(store)

    def work(connection: Connection) -> None:
        _check_not_running(connection, audit)
        at = database_time(connection)
        version = save_version(connection, audit_versions, {"audit": audit}, {"definition": definition, "since": at})
        connection.execute(
            insert(runs).values(
                run=run,
                audit=audit,
                version=version,
                verdict=Verdict.UNKNOWN,
                method=method,
                reason=reason,
                requested_by=requested_by,
                overrides=overrides,
                started=at,
                reasons=[],
                progress={},
                resumable=False,
                **running_columns(audit),
            )
        )
        leases.assign(connection, "run", run, durations().run_lease)
        if event is not None:
            insert_event(connection, actor=requested_by, action="run requested", subject=run, detail=event)

    store.write(work)


def save_plan(store: Store, run: str, *, plan: bytes, schema: Mapping[str, Any]) -> None:
    """Store a run's packed plan and both sides' columns, and delete the chunks of an earlier plan. Raises UnknownRun and RunLost."""

    def work(connection: Connection) -> None:
        version = save_version(connection, schemas, {}, {"columns": schema})
        number = update_own_run(connection, run, schema_version=version)
        _save_document(connection, number, "plan", plan)
        connection.execute(delete(chunks).where(chunks.c.run == number))

    store.write(work)


def record_heartbeat(store: Store, run: str, progress: Mapping[str, Any]) -> bool:
    """Store a heartbeat and the run's progress, and return whether cancellation was requested. Raises UnknownRun and RunLost."""

    def work(connection: Connection) -> bool:
        number = update_own_run(connection, run, progress=progress)
        return bool(connection.execute(select(runs.c.cancel_requested).where(runs.c.number == number)).scalar())

    return store.write(work)


def finish_run(store: Store, run: str, outcome: Outcome, seal: Seal | None = None, *, schema: Mapping[str, Any] | None = None) -> None:
    """Store how the run ended, and what it found; with a ``seal`` also its link in the audit's chain.

    ``schema`` are both sides' columns, of a run that may have ended before its plan was stored. Raises UnknownRun and RunLost.
    """
    rows = outcome.rows or {}
    report = zlib.compress(outcome.report) if outcome.report else b""

    def work(connection: Connection) -> None:
        row = connection.execute(select(runs.c.number, runs.c.schema_version).where(runs.c.run == run)).first()
        if row is None:
            raise unknown_run(run)
        if not leases.give_back(connection, "run", run):
            _raise_lost(connection, run)
        number, has_plan = row.number, row.schema_version is not None
        resumable = outcome.resumable and has_plan and has_checkpoint(connection, number)
        values = {
            **{column: getattr(outcome, column) for column in OUTCOME_COLUMNS},
            **({"method": outcome.method} if outcome.method else {}),
            **({"schema_version": save_version(connection, schemas, {}, {"columns": schema})} if schema else {}),
            "reasons": list(outcome.reasons),
            "source_rows": rows.get("source"),
            "target_rows": rows.get("target"),
            "resumable": resumable,
            "ended": database_time(connection),
            "running_audit": None,
            "progress": {},
        }
        connection.execute(update(runs).where(runs.c.number == number).values(**values))
        if has_plan:  # else nothing of what it stored before is to be replaced
            old = run_documents.c.kind.in_(("report", "partition_map") if resumable else ("report", "partition_map", "plan"))
            connection.execute(delete(run_documents).where(run_documents.c.run == number, old))
            connection.execute(delete(differences).where(differences.c.run == number))
        bodies = {"report": report, "partition_map": outcome.partition_map}
        if documents := [{"run": number, "kind": kind, "body": body} for kind, body in bodies.items() if body]:
            connection.execute(insert(run_documents), documents)
        if outcome.differences:
            connection.execute(insert(differences), [_difference_row(number, *entry) for entry in enumerate(outcome.differences, 1)])
        if seal:
            add_link(connection, number, seal)
        if has_plan and not resumable:
            connection.execute(delete(chunks).where(chunks.c.run == number))
        audit_state.adjust_run_count(connection, number, 1)

    store.write(work)


def _difference_row(number: int, position: int, difference: StoredDifference) -> dict[str, Any]:
    # Not by asdict(), which copies every value; thousands of differences are written at once.
    detail = {field.name: getattr(difference, field.name) for field in fields(StoredDifference) if field.name not in ("kind", "state")}
    return {"run": number, "number": position, "kind": difference.kind, "state": difference.state, "detail": detail}


def request_cancel(store: Store, run: str) -> StoredRun:
    """Request a run to stop, and return it. Raises UnknownRun.

    A running run sees the request at its next heartbeat, a pending run is cancelled immediately, a finished run does not change.
    """

    def work(connection: Connection) -> StoredRun:
        number = get_run_number(connection, run)
        # Updates the row of the queue first, as `queue.claim_run` does, so that the run is either cancelled or claimed.
        if connection.execute(
            update(queue).where(queue.c.run == number, queue.c.pending_audit.is_not(None)).values(pending_audit=None)
        ).rowcount:
            ended = {"state": State.CANCELLED, "ended": database_time(connection), "exit_code": Verdict.UNKNOWN.exit_code}
            ended |= {"reasons": ["the run was cancelled while it was pending"], "progress": {}}
            connection.execute(update(runs).where(runs.c.number == number).values(**ended))
            audit_state.adjust_run_count(connection, number, 1)
        connection.execute(update(runs).where(runs.c.number == number, runs.c.running_audit.is_not(None)).values(cancel_requested=True))
        return fetch_runs(connection, select(runs).where(runs.c.number == number))[0]

    return store.write(work)


def resume_run(store: Store, run: str) -> ResumedRun:
    """Assign a run that ended early to this process, which is to continue it. Raises UnknownRun, AlreadyRunning and NotResumable."""
    recover_runs(store)

    def work(connection: Connection) -> ResumedRun:
        row = connection.execute(select(runs).where(runs.c.run == run).with_for_update()).first()
        if row is None:
            raise unknown_run(run)
        plan = connection.execute(
            select(run_documents.c.body).where(run_documents.c.run == row.number, run_documents.c.kind == "plan")
        ).scalar()
        _check_resumable(connection, row, plan)
        _check_not_running(connection, row.audit)
        connection.execute(update(runs).where(runs.c.number == row.number).values(**running_columns(row.audit), **NOT_ENDED))
        leases.assign(connection, "run", run, durations().run_lease)
        audit_state.adjust_run_count(connection, row.number, -1)
        forget_payloads(connection, [run])
        resumed = fetch_runs(connection, select(runs).where(runs.c.number == row.number))[0]
        return ResumedRun(
            run=run,
            audit=row.audit,
            definition=resumed.definition,
            overrides=resumed.overrides,
            plan=plan or b"",
            method=row.method,
            started=row.started,
        )

    return store.write(work)


def _check_not_running(connection: Connection, audit: str) -> None:
    row = connection.execute(select(runs).where(runs.c.running_audit == audit)).first()
    if row is not None:
        since = f"{row.started:%Y-%m-%d %H:%M:%S} UTC"
        raise AlreadyRunning(f"audit {audit} is already running: run {row.run}, since {since}, in {_owner(connection, row)}")


def _check_resumable(connection: Connection, row: Row[Any], plan: bytes | None) -> None:
    if row.running_audit is not None:
        raise NotResumable(f"run {row.run} is still running, in {_owner(connection, row)}")
    if row.state == State.PENDING:
        raise NotResumable(f"run {row.run} is pending; a serving process will start it")
    if row.state == State.DONE:
        raise NotResumable(f"run {row.run} is done; start a new run: auditor run {shell_word(row.audit)}")
    if not row.resumable or plan is None:
        why = "it stored nothing to go on from, or that no longer holds" if row.schema_version else "it ended before it was planned"
        raise NotResumable(f"run {row.run} cannot be resumed: {why}; start a new run: auditor run {shell_word(row.audit)}")


def _owner(connection: Connection, row: Row[Any]) -> str:
    return leases.describe_owner(connection, "run", row.run)


class RunningColumns(TypedDict):
    """The columns of a run that say that it is running."""

    state: State
    running_audit: str
    cancel_requested: bool


def running_columns(audit: str) -> RunningColumns:
    """Return the column values of a run that a process begins or continues, whose lease it takes in the same transaction."""
    return {"state": State.RUNNING, "running_audit": audit, "cancel_requested": False}


def update_own_run(connection: Connection, run: str, **values: Any) -> int:
    """Renew the lease of a run that this process owns, update its columns, and return its number.

    Raises UnknownRun if there is no such run, and RunLost if this process does not own it.
    """
    if not leases.renew(connection, "run", run, durations().run_lease):
        _raise_lost(connection, run)
    if values:
        connection.execute(update(runs).where(runs.c.run == run).values(**values))
    return get_run_number(connection, run)


def _raise_lost(connection: Connection, run: str) -> NoReturn:
    row = connection.execute(select(runs).where(runs.c.run == run)).first()
    if row is None:
        raise unknown_run(run)
    reason = f"{_owner(connection, row)} owns it" if row.running_audit is not None else f"it is {row.state}"
    raise RunLost(f"run {run} no longer belongs to this process: {reason}")


def _save_document(connection: Connection, number: int, kind: str, body: bytes) -> None:
    """Replace the run's document of this kind; an empty ``body`` only deletes it."""
    connection.execute(delete(run_documents).where(run_documents.c.run == number, run_documents.c.kind == kind))
    if body:
        connection.execute(insert(run_documents).values(run=number, kind=kind, body=body))


def save_version(connection: Connection, table: Table, key: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """Store a content under its version, unless it is stored already, and return the version.

    The content is the first of ``values``; its version is the SHA-256, in hexadecimal, of its JSON with sorted keys.
    """
    content = next(iter(values.values()))
    version = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    known = select(table.c.version).where(table.c.version == version, *(table.c[column] == value for column, value in key.items()))
    if connection.execute(known).first() is None:
        connection.execute(insert(table).values(**key, **values, version=version))
    return version


MAX_PROCESS_LOSSES = 3
"""How often a requested run may lose its process before it fails instead of being requeued: the run itself may kill its processes."""


class Recovered(NamedTuple):
    """The ids of the runs whose process had died: those that failed, and those that are pending again."""

    failed: list[str]
    requeued: list[str]


def recover_runs(store: Store) -> Recovered:
    """Fail or requeue the runs whose process has died.

    A run that was requested through the queue becomes pending again; any other fails, and can be resumed if it stored a chunk.
    A process on another host is considered dead when its heartbeat is older than ``run_lease`` by the database's clock, which
    also dates the heartbeats. If that clock was set back, a heartbeat in its future is set to the current time, to age from there.
    A running run has a lease: both are written in one transaction.
    """
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
                leases.let_age(connection, lease, durations().run_lease)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredChunk:
    """A finished chunk of a side.

    Its keys are from ``first`` (inclusive) to ``end`` (exclusive), None for no bound, or NULL with ``null_key``. ``rows`` were read in
    ``seconds`` after ``attempts``, finished ``at``. ``payload`` is the packed summaries.
    """

    side: Side
    first: int | None
    end: int | None
    null_key: bool = False
    rows: int
    seconds: float
    attempts: int
    at: dt.datetime
    payload: bytes


def save_chunk(store: Store, run: str, chunk: StoredChunk) -> None:
    """Store a chunk, replacing an earlier copy of it. Raises UnknownRun, and RunLost if this process no longer owns the run."""

    def work(connection: Connection) -> None:
        # This locks the run's lease first, so that a process that takes over the run waits for this transaction, or this one for it.
        key = {
            "run": update_own_run(connection, run),
            "side": chunk.side,
            "first": format_bound(chunk.first),
            "end_before": format_bound(chunk.end),
            "null_key": chunk.null_key,
        }
        connection.execute(delete(chunks).where(and_(*(chunks.c[column] == value for column, value in key.items()))))
        took = {"row_count": chunk.rows, "seconds": chunk.seconds, "attempts": chunk.attempts, "at": chunk.at}
        connection.execute(insert(chunks).values(**key, **took, payload=chunk.payload))

    store.write(work)


def list_chunks(store: Store, run: str) -> list[StoredChunk]:
    """Return the stored chunks of a run, ordered by side, then by key with NULL keys last. Raises UnknownRun."""
    with store.reading() as connection:
        rows = connection.execute(select(chunks).where(chunks.c.run == get_run_number(connection, run))).all()
    stored = [
        StoredChunk(
            side=row.side,
            first=parse_bound(row.first),
            end=parse_bound(row.end_before),
            null_key=row.null_key,
            rows=row.row_count,
            seconds=row.seconds,
            attempts=row.attempts,
            at=row.at,
            payload=row.payload,
        )
        for row in rows
    ]
    return sorted(stored, key=lambda c: (c.side, c.null_key, c.first is not None, c.first or 0))


def format_bound(bound: int | None) -> str:
    """Return a bound as the text that is stored; '' for None."""
    return "" if bound is None else str(bound)


def parse_bound(bound: str) -> int | None:
    """Return the bound that `format_bound` made this text of."""
    return int(bound) if bound else None
