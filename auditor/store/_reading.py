"""Read runs and what is stored with them."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, or_, select, union

from auditor.errors import UnknownRun
from auditor.model import Side, State, Verdict
from auditor.store._rows import OWN_SETTINGS, StoredRun, fetch_runs, get_run_number, unknown_run
from auditor.store._schema import audit_versions, differences, queue, run_documents, runs
from auditor.store._store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDifference:
    """A stored difference: of one ``key`` (column to text, None for NULL), or of a ``range`` of keys (a `RangeDifference` as a mapping).

    ``kind`` is missing, extra or changed; ``state`` is confirmed or unsettled. ``rows`` is the number of rows of each side, ``columns``
    the columns that differ. ``looks`` are the rechecks: ``at`` (ISO 8601) and the ``outcome``; ``shards``
    those of the source that hold the key.
    """

    kind: str
    key: dict[str, str | None] | None = None
    rows: dict[Side, int] = field(default_factory=dict)
    columns: list[Any] = field(default_factory=list)
    state: str = "confirmed"
    range: dict[str, Any] | None = None
    looks: list[dict[str, Any]] = field(default_factory=list)
    shards: list[str] = field(default_factory=list)


_BY_ID = select(runs).where(runs.c.run == bindparam("id"))


def get_run(store: Store, run: str) -> StoredRun:
    """Return the run with this id, or with an id that begins so. Raises UnknownRun if there is none, or more than one."""
    if not run or not run.isprintable():
        raise unknown_run(run)
    with store.reading() as connection:
        exact = fetch_runs(connection, _BY_ID, {"id": run})
        if exact:
            return exact[0]
        begins = select(runs.c.run).where(runs.c.run >= run, runs.c.run < f"{run}\U0010ffff").order_by(runs.c.run).limit(6)
        ids = list(connection.execute(begins).scalars())
        if not ids:
            raise unknown_run(run)
        if len(ids) > 1:
            raise UnknownRun(
                f"more than one run id begins with {run!r}: {', '.join(ids[:5])}{', ...' if len(ids) > 5 else ''}; use a longer prefix"
            )
        return fetch_runs(connection, select(runs).where(runs.c.run == ids[0]))[0]


def list_runs(
    store: Store,
    *,
    audit: str | None = None,
    state: str | None = None,
    limit: int = 50,
    before: str | None = None,
    own_only: bool = False,
) -> list[StoredRun]:
    """Return up to ``limit`` runs, newest first.

    ``before`` is the id of the last run of the previous page; raises UnknownRun if it does not exist. ``own_only`` leaves out
    one-off runs, which have other settings than their audit.
    """
    with store.reading() as connection:
        below = get_run_number(connection, before) if before else None
        values = {"audit": audit, "state": state, "below": below}
        known = {name: value for name, value in values.items() if value is not None}
        return fetch_runs(connection, _select_runs(tuple(known), own_only).limit(limit), known)


@cache
def _select_runs(by: tuple[str, ...], own_only: bool) -> Select[Any]:
    """Return the statement for runs, newest first, with the named conditions, whose values are bound parameters."""
    conditions = {
        "audit": runs.c.audit == bindparam("audit"),
        "state": runs.c.state == bindparam("state"),
        "below": runs.c.number < bindparam("below"),
        "before": runs.c.started < bindparam("before"),
    }
    statement = select(runs).where(*(conditions[name] for name in by)).order_by(runs.c.number.desc())
    return statement.where(OWN_SETTINGS) if own_only else statement


def get_latest_run(store: Store, audit: str, *, done_only: bool = True, before: dt.datetime | None = None) -> StoredRun | None:
    """Return the newest run with the audit's own settings that is done (or in any state), and started before ``before``."""
    values = {"audit": audit, "state": State.DONE if done_only else None, "before": before}
    known = {name: value for name, value in values.items() if value is not None}
    with store.reading() as connection:
        latest = fetch_runs(connection, _select_runs(tuple(known), True).limit(1), known)
    return latest[0] if latest else None


@dataclass(frozen=True, slots=True)
class Ending:
    """Whether and when a run ended. ``is_open``: it has not ended, or can be resumed. ``number`` orders runs by their start."""

    number: int
    run: str
    ended: dt.datetime | None
    is_open: bool


def list_endings(store: Store, after: int | None = None, numbers: Collection[int] = ()) -> list[Ending]:
    """Return the endings of all runs, or of those whose number is greater than ``after`` or one of ``numbers``, by number."""
    statement = select(runs.c.number, runs.c.run, runs.c.ended, runs.c.resumable).order_by(runs.c.number)
    if after is not None:
        statement = statement.where(or_(runs.c.number > after, runs.c.number.in_(list(numbers))))
    with store.reading() as connection:
        return [Ending(row.number, row.run, row.ended, row.ended is None or row.resumable) for row in connection.execute(statement)]


def get_report(store: Store, run: str) -> bytes | None:
    """Return the report that `finish_run` stored (JSON), None if there is none. Raises UnknownRun."""
    body = _get_document(store, run, "report")
    return None if body is None else zlib.decompress(body)


def get_partition_map(store: Store, run: str) -> bytes | None:
    """Return the packed partition map that `finish_run` stored, None if there is none. Raises UnknownRun."""
    return _get_document(store, run, "partition_map")


def get_plan(store: Store, run: str) -> bytes | None:
    """Return the packed plan of a run that is running or can be resumed, else None. Raises UnknownRun."""
    return _get_document(store, run, "plan")


def list_latest_runs(store: Store, audit: str | None = None) -> dict[str, list[StoredRun]]:
    """Return by audit the runs that decide its standing, newest first; with ``audit``, of this audit only.

    These are, of the runs with the audit's own settings, the newest one that has ended and the newest one that is done; and the running
    and pending runs of any settings.
    """
    with store.reading() as connection:
        latest = fetch_runs(connection, _LATEST) if audit is None else fetch_runs(connection, _LATEST_OF_AUDIT, {"named": audit})
    by_audit: dict[str, list[StoredRun]] = {}
    for run in latest:
        by_audit.setdefault(run.audit, []).append(run)
    return by_audit


def get_active_runs(store: Store) -> dict[str, StoredRun]:
    """Return the running (else the pending) run of each audit, by audit."""
    with store.reading() as connection:
        numbers = union(*_select_active_numbers()).subquery()
        active = fetch_runs(connection, select(runs).join(numbers, numbers.c.number == runs.c.number).order_by(runs.c.state))
    return {run.audit: run for run in active}


ACTIVE_STATES = (State.PENDING, State.RUNNING)


def _select_latest(audit: ColumnElement[str] | None = None) -> Select[Any]:
    """Return the statement for the newest ended and done runs with their audits' own settings, and all active runs, newest first.

    It finds them by indexes, so its cost does not grow with the number of runs of an audit.
    """
    names = select(audit_versions.c.audit).distinct()
    if audit is not None:
        names = names.where(audit_versions.c.audit == audit)
    name = names.subquery()

    def last(condition: ColumnElement[bool]) -> Select[Any]:
        numbers = select(runs.c.number).where(OWN_SETTINGS, condition, runs.c.audit == name.c.audit)
        return select(numbers.order_by(runs.c.number.desc()).limit(1).scalar_subquery().label("number")).select_from(name)

    newest = last(runs.c.ended.is_not(None)), last(runs.c.state == State.DONE)
    numbers = union(*newest, *_select_active_numbers()).subquery()
    statement = select(runs).join(numbers, numbers.c.number == runs.c.number).order_by(runs.c.number.desc())
    return statement if audit is None else statement.where(runs.c.audit == audit)


def _select_active_numbers() -> tuple[Select[Any], Select[Any]]:
    """Return the statements for the numbers of the running and of the pending runs."""
    # Not IS NOT NULL, for which SQLite uses no index; every name is greater than "".
    return select(runs.c.number).where(runs.c.running_audit >= ""), select(queue.c.run).where(queue.c.pending_audit >= "")


_LATEST, _LATEST_OF_AUDIT = _select_latest(), _select_latest(bindparam("named"))
"""Built once: building them takes as long as running them."""


@dataclass(frozen=True, slots=True)
class ScorePoint:
    """The score of a finished run; ``at`` is when it started."""

    run: str
    at: dt.datetime
    verdict: Verdict
    score: float | None
    lower: float | None
    upper: float | None


def list_scores(store: Store, since: dt.datetime, audit: str | None = None) -> dict[str, list[ScorePoint]]:
    """Return by audit the scores of finished runs with the audit's own settings that started at ``since`` or later, oldest first."""
    with store.reading() as connection:
        values = {"since": since} if audit is None else {"since": since, "named": audit}
        rows = connection.execute(_SCORES if audit is None else _SCORES_OF_AUDIT, values).all()
    points: dict[str, list[ScorePoint]] = {}
    for name, run, at, verdict, *scores in rows:
        points.setdefault(name, []).append(ScorePoint(run, at, Verdict(verdict), *scores))
    return points


def _select_scores() -> Select[Any]:
    columns = (runs.c.audit, runs.c.run, runs.c.started, runs.c.verdict, runs.c.score, runs.c.lower, runs.c.upper)
    since = runs.c.started >= bindparam("since", type_=runs.c.started.type)
    return select(*columns).where(runs.c.state == State.DONE, since, OWN_SETTINGS).order_by(runs.c.number)


_SCORES = _select_scores()
_SCORES_OF_AUDIT = _SCORES.where(runs.c.audit == bindparam("named"))


def _get_document(store: Store, run: str, kind: str) -> bytes | None:
    with store.reading() as connection:
        number = get_run_number(connection, run)
        statement = select(run_documents.c.body).where(run_documents.c.run == number, run_documents.c.kind == kind)
        body: bytes | None = connection.execute(statement).scalar()
    return body


def list_differences(
    store: Store, run: str, *, kind: str | None = None, state: str | None = None, after: int = 0, limit: int = 1000
) -> list[tuple[int, StoredDifference]]:
    """Return up to ``limit`` differences of a run with their numbers, which count from 1 in the order of `Outcome.differences`.

    ``after`` is the number of the last one of the previous page. Raises UnknownRun.
    """
    with store.reading() as connection:
        statement = select(differences).where(differences.c.run == get_run_number(connection, run), differences.c.number > after)
        if kind is not None:
            statement = statement.where(differences.c.kind == kind)
        if state is not None:
            statement = statement.where(differences.c.state == state)
        rows = connection.execute(statement.order_by(differences.c.number).limit(limit)).all()
    return [(row.number, StoredDifference(kind=row.kind, state=row.state, **row.detail)) for row in rows]
