"""The life of a run as it is kept: begun, alive, ended, and taken up again.

Every step of a run's own process holds only while the run is that process's: once another has taken it away, or
`recover` has given it up, the steps of the first raise UnknownRun.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, Table, and_, delete, insert, select, update

from auditor.errors import AlreadyRunning, NotResumable, UnknownRun
from auditor.model import Side, State, Verdict
from auditor.store import standing
from auditor.store._process import Owner, gone, this_process
from auditor.store._reading import Kept
from auditor.store._schema import audits, chunks, differences, documents, queue, runs, schemas
from auditor.store._store import Store, now
from auditor.store._stored import StoredRun, number_of, owner, stored, unknown

STALE = 120.0
"""Seconds without a heartbeat after which a process that cannot be looked at is taken for gone."""

MOST_LOST = 3
"""A run whose process was gone so often is given up: it may be what ends them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended. ``report`` and ``picture`` are kept as they are; ``resumable`` keeps what resuming needs."""

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
    resumable: bool = False
    report: bytes = b""
    picture: bytes = b""
    differences: Sequence[Kept] = ()


NUMBERS = ("score", "lower", "upper", "published", "coverage", "partitions", "unequal", "missing", "extra", "changed", "unsettled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """A run that was taken up again, and what it needs to go on."""

    run: str
    audit: str
    definition: dict[str, Any]
    overrides: dict[str, Any]
    plan: bytes
    method: str | None
    started: dt.datetime


def begin(
    store: Store,
    *,
    run: str,
    audit: str,
    definition: Mapping[str, Any],
    method: str | None,
    reason: str = "",
    requested_by: str = "",
    overrides: Mapping[str, Any] = {},
) -> None:
    """Note that this process begins a run. Raises AlreadyRunning where a living run of the audit exists."""
    recover(store)

    def work(connection: Connection) -> None:
        _refuse_second(connection, audit)
        at = now(connection)
        version = keep_once(connection, audits, {"audit": audit}, {"definition": definition, "since": at})
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
                **mine(audit, at),
            )
        )

    store.write(work)


def pin(store: Store, run: str, *, plan: bytes, schema: Mapping[str, Any]) -> None:
    """Keep what resuming the run needs, and both sides' columns; chunks read by an earlier plan are dropped. Raises UnknownRun."""

    def work(connection: Connection) -> None:
        version = keep_once(connection, schemas, {}, {"columns": schema})
        number = change(connection, run, schema_version=version)
        _keep(connection, number, "plan", plan)
        connection.execute(delete(chunks).where(chunks.c.run == number))

    store.write(work)


def beat(store: Store, run: str, progress: Mapping[str, Any]) -> bool:
    """Note that the run lives, and how far it is; True if it was asked to stop. Raises UnknownRun once it was taken away."""

    def work(connection: Connection) -> bool:
        number = change(connection, run, heartbeat=now(connection), progress=progress)
        return bool(connection.execute(select(runs.c.cancel_asked).where(runs.c.number == number)).scalar())

    return store.write(work)


def finish(store: Store, run: str, outcome: Outcome) -> None:
    """Keep how the run ended, and what it found. Raises UnknownRun once it was taken away."""
    rows = outcome.rows or {}
    report = zlib.compress(outcome.report) if outcome.report else b""

    def work(connection: Connection) -> None:
        number = change(
            connection,
            run,
            **{column: getattr(outcome, column) for column in NUMBERS},
            state=outcome.state,
            verdict=outcome.verdict,
            exit_code=outcome.exit_code,
            seconds=outcome.seconds,
            **({"method": outcome.method} if outcome.method else {}),
            reasons=list(outcome.reasons),
            source_rows=rows.get("source"),
            target_rows=rows.get("target"),
            verified_through=outcome.verified_through,
            resumable=outcome.resumable,
            ended=now(connection),
            running=None,
        )
        _keep(connection, number, "report", report)
        _keep(connection, number, "picture", outcome.picture)
        connection.execute(delete(differences).where(differences.c.run == number))
        if outcome.differences:
            connection.execute(insert(differences), [_row(number, *found) for found in enumerate(outcome.differences, 1)])
        if not outcome.resumable:
            connection.execute(delete(chunks).where(chunks.c.run == number))
            _keep(connection, number, "plan", b"")
        standing.count(connection, number, 1)

    store.write(work)


def _row(number: int, position: int, found: Kept) -> dict[str, Any]:
    detail = asdict(found)
    return {"run": number, "number": position, "kind": detail.pop("kind"), "state": detail.pop("state"), "detail": detail}


def ask_cancel(store: Store, run: str) -> StoredRun:
    """Ask a run to stop, which it sees at its next heartbeat; one that waits ends at once. Raises UnknownRun.

    A run that has ended stays as it is.
    """

    def work(connection: Connection) -> StoredRun:
        number = number_of(connection, run)
        # The queue's row first, as who claims it does: the run is either cancelled or claimed.
        if connection.execute(update(queue).where(queue.c.run == number, queue.c.waiting.is_not(None)).values(waiting=None)).rowcount:
            ended = {"state": State.CANCELLED, "ended": now(connection), "exit_code": Verdict.UNKNOWN.exit_code}
            ended |= {"reasons": ["the run was cancelled while it waited"]}
            connection.execute(update(runs).where(runs.c.number == number).values(**ended))
            standing.count(connection, number, 1)
        connection.execute(update(runs).where(runs.c.number == number, runs.c.running.is_not(None)).values(cancel_asked=True))
        return stored(connection, select(runs).where(runs.c.number == number))[0]

    return store.write(work)


def take_up(store: Store, run: str) -> Resumed:
    """Make a run that ended early this process's. Raises UnknownRun, AlreadyRunning and NotResumable."""
    recover(store)

    def work(connection: Connection) -> Resumed:
        row = connection.execute(select(runs).where(runs.c.run == run).with_for_update()).first()
        if row is None:
            raise unknown(run)
        plan = connection.execute(select(documents.c.body).where(documents.c.run == row.number, documents.c.kind == "plan")).scalar()
        _refuse_to_resume(row, plan)
        _refuse_second(connection, row.audit)
        here = mine(row.audit, now(connection))
        ended: dict[str, Any] = {"ended": None, "seconds": None, "exit_code": None, "reasons": [], "verdict": Verdict.UNKNOWN}
        connection.execute(update(runs).where(runs.c.number == row.number).values(**here, **ended))
        standing.count(connection, row.number, -1)
        found = stored(connection, select(runs).where(runs.c.number == row.number))[0]
        return Resumed(
            run=run,
            audit=row.audit,
            definition=found.definition,
            overrides=found.overrides,
            plan=plan or b"",
            method=row.method,
            started=row.started,
        )

    return store.write(work)


def recover(store: Store) -> list[str]:
    """Give up the runs whose process is gone, and return their ids: they have ended, and can be resumed if they had a plan.

    A process of this machine is looked at. Another machine's counts as gone when its heartbeat is older than STALE by the
    database's clock, by which heartbeats are written too; one in that clock's future, which was then set back, is set to now,
    so that it ages from here on. Those that were requested through the queue are not given up, but wait again.
    """
    return lost(store)[0]


def lost(store: Store) -> tuple[list[str], list[str]]:
    """The runs whose process is gone: the ids of those that were given up, and of those that wait again."""
    with store.reading() as connection:
        if all(judged == "alive" for _, judged in _judged(connection)):
            return [], []

    def work(connection: Connection) -> tuple[list[str], list[str]]:
        given_up, waiting = [], []
        for row, judged in _judged(connection):
            same = and_(runs.c.number == row.number, runs.c.heartbeat == row.heartbeat, _is_of(owner(row)))
            if judged == "ahead":
                connection.execute(update(runs).where(same).values(heartbeat=now(connection)))
            if judged != "gone":
                continue
            again = _waits_again(connection, row)
            planned = has_plan(connection, row.number)
            values = {"state": State.PENDING, "running": None, "resumable": planned} if again else _given_up(row, planned, again)
            if not connection.execute(update(runs).where(same).values(**values)).rowcount:
                continue
            if again:
                connection.execute(update(queue).where(queue.c.run == row.number).values(waiting=row.audit, lost=queue.c.lost + 1))
                waiting.append(str(row.run))
            else:
                standing.count(connection, row.number, 1)
                given_up.append(str(row.run))
        return given_up, waiting

    return store.write(work)


def _waits_again(connection: Connection, row: Row[Any]) -> bool | None:
    """Whether a run whose process is gone waits again; None of one that was never requested through the queue."""
    requested = connection.execute(select(queue.c.lost).where(queue.c.run == row.number)).scalar()
    if requested is None:
        return None
    other = connection.execute(select(queue.c.run).where(queue.c.waiting == row.audit)).first()
    return requested + 1 < MOST_LOST and other is None and not row.cancel_asked


def _judged(connection: Connection) -> list[tuple[Row[Any], Literal["alive", "gone", "ahead"]]]:
    # Every name is beyond "": SQLite has no use for an index in IS NOT NULL.
    living = connection.execute(select(runs).where(runs.c.running >= "")).all()
    at = now(connection)  # after the heartbeats were read, so that none of them is later by right
    return [(row, _judge(row, at)) for row in living]


def _judge(row: Row[Any], at: dt.datetime) -> Literal["alive", "gone", "ahead"]:
    seen = gone(owner(row))
    if seen is not None:
        return "gone" if seen else "alive"
    if row.heartbeat > at:
        return "ahead"
    return "gone" if (at - row.heartbeat).total_seconds() > STALE else "alive"


def _given_up(row: Row[Any], planned: bool, requested: bool | None) -> dict[str, Any]:
    after = f"what it had done is kept: auditor resume {row.run}" if planned else "it had no plan yet: run the audit again"
    return {
        "state": State.CANCELLED if requested is False and row.cancel_asked else State.FAILED,
        "running": None,
        "ended": row.heartbeat,
        "seconds": max(0.0, (row.heartbeat - row.started).total_seconds()),
        "exit_code": Verdict.UNKNOWN.exit_code,
        "resumable": planned,
        "reasons": [f"its process is gone ({owner(row)}); {after}"],
    }


def has_plan(connection: Connection, number: int) -> bool:
    """Whether what resuming the run needs is kept."""
    wanted = select(documents.c.run).where(documents.c.run == number, documents.c.kind == "plan")
    return connection.execute(wanted).first() is not None


def _refuse_second(connection: Connection, audit: str) -> None:
    row = connection.execute(select(runs).where(runs.c.running == audit)).first()
    if row is not None:
        since = f"{row.started:%Y-%m-%d %H:%M:%S} UTC"
        raise AlreadyRunning(f"{audit} is being run already: run {row.run}, since {since}, by {owner(row)}")


def _refuse_to_resume(row: Row[Any], plan: bytes | None) -> None:
    if row.running is not None:
        raise NotResumable(f"run {row.run} is still running, in {owner(row)}")
    if row.state == State.PENDING:
        raise NotResumable(f"run {row.run} waits for its turn; a process that serves will take it up")
    if row.state == State.DONE:
        raise NotResumable(f"run {row.run} is done; start a new one: auditor run {row.audit}")
    if not row.resumable or plan is None:
        why = "what it had done was not kept" if row.schema_version else "it ended before its plan was made"
        raise NotResumable(f"run {row.run} cannot be resumed: {why}; start a new one: auditor run {row.audit}")


def mine(audit: str, at: dt.datetime) -> dict[str, Any]:
    """The columns of a run that this process has from now on."""
    me = this_process()
    return {
        "state": State.RUNNING,
        "running": audit,
        "host": me.host,
        "pid": me.pid,
        "process": me.started,
        "heartbeat": at,
        "cancel_asked": False,
    }


def _is_of(process: Owner) -> ColumnElement[bool]:
    return and_(runs.c.running.is_not(None), runs.c.host == process.host, runs.c.pid == process.pid, runs.c.process == process.started)


def change(connection: Connection, run: str, **values: Any) -> int:
    """Change a run of this process, and return its number. Raises UnknownRun where it is not this process's."""
    if not connection.execute(update(runs).where(runs.c.run == run, _is_of(this_process())).values(**values)).rowcount:
        row = connection.execute(select(runs).where(runs.c.run == run)).first()
        if row is None:
            raise unknown(run)
        whose = f"{owner(row)} has it" if row.running is not None else f"it is {row.state}"
        raise UnknownRun(f"run {run} was taken away from this process: {whose}")
    return number_of(connection, run)


def _keep(connection: Connection, number: int, kind: str, body: bytes) -> None:
    """Keep a document in place of the one before; an empty one is none."""
    connection.execute(delete(documents).where(documents.c.run == number, documents.c.kind == kind))
    if body:
        connection.execute(insert(documents).values(run=number, kind=kind, body=body))


def keep_once(connection: Connection, table: Table, key: Mapping[str, str], values: Mapping[str, Any]) -> str:
    """Keep a value under the hash of its content, unless it is kept already; returns the hash."""
    content = next(iter(values.values()))
    version = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    known = select(table.c.version).where(table.c.version == version, *(table.c[column] == value for column, value in key.items()))
    if connection.execute(known).first() is None:
        connection.execute(insert(table).values(**key, **values, version=version))
    return version
