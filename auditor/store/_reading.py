"""Reading what is kept of runs."""

from __future__ import annotations

import datetime as dt
import zlib
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Select, func, select

from auditor.errors import UnknownRun
from auditor.model import Side, State, Verdict
from auditor.store._schema import differences as kept
from auditor.store._schema import documents, runs
from auditor.store._store import Store
from auditor.store._stored import StoredRun, number_of, stored, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A difference as it is kept: of one ``key``, or of a ``range`` of them.

    ``state`` is confirmed or unsettled; ``looks`` are the times it was looked at again, and what was seen.
    """

    kind: str
    key: dict[str, str | None] | None = None
    rows: dict[Side, int] = field(default_factory=dict)
    columns: list[Any] = field(default_factory=list)
    state: str = "confirmed"
    range: dict[str, Any] | None = None
    looks: list[dict[str, Any]] = field(default_factory=list)


def find(store: Store, run: str) -> StoredRun:
    """The run of this id, or the only one whose id begins so. Raises UnknownRun."""
    if not run or not run.isprintable():
        raise unknown(run)
    with store.reading() as connection:
        exact = stored(connection, select(runs).where(runs.c.run == run))
        if exact:
            return exact[0]
        begins = select(runs.c.run).where(runs.c.run >= run, runs.c.run < f"{run}\U0010ffff").order_by(runs.c.run).limit(6)
        ids = list(connection.execute(begins).scalars())
        if not ids:
            raise unknown(run)
        if len(ids) > 1:
            raise UnknownRun(
                f"more than one run begins with {run!r}: {', '.join(ids[:5])}{', ...' if len(ids) > 5 else ''}; write more of it"
            )
        return stored(connection, select(runs).where(runs.c.run == ids[0]))[0]


def listed(
    store: Store, *, audit: str | None = None, state: str | None = None, limit: int = 50, before: str | None = None
) -> list[StoredRun]:
    """Runs, the newest first; ``before`` is the id of the last one of the page before. Raises UnknownRun for that."""
    with store.reading() as connection:
        wanted = listing(audit, state, number_of(connection, before) if before else None)
        return stored(connection, wanted.limit(limit))


def listing(audit: str | None = None, state: str | None = None, below: int | None = None) -> Select[Any]:
    """The statement for runs with numbers ``below`` one, the newest first."""
    wanted = select(runs).order_by(runs.c.number.desc())
    if audit is not None:
        wanted = wanted.where(runs.c.audit == audit)
    if state is not None:
        wanted = wanted.where(runs.c.state == state)
    return wanted if below is None else wanted.where(runs.c.number < below)


def latest(store: Store, audit: str, *, done_only: bool = True, before: dt.datetime | None = None) -> StoredRun | None:
    """The newest run of an audit, of those that are done, or of all; ``before`` leaves out what began then or later."""
    wanted = listing(audit, State.DONE if done_only else None)
    if before is not None:
        wanted = wanted.where(runs.c.started < before)
    with store.reading() as connection:
        found = stored(connection, wanted.limit(1))
    return found[0] if found else None


def report(store: Store, run: str) -> bytes | None:
    """The report of a run, as `finish` was given it; None before that. Raises UnknownRun."""
    body = _document(store, run, "report")
    return None if body is None else zlib.decompress(body)


def picture(store: Store, run: str) -> bytes | None:
    """The picture of a run, as `finish` was given it; None where there is none. Raises UnknownRun."""
    return _document(store, run, "picture")


def plan(store: Store, run: str) -> bytes | None:
    """The plan that a run goes by, as long as it runs or can be resumed. Raises UnknownRun."""
    return _document(store, run, "plan")


def newest(store: Store) -> dict[str, StoredRun]:
    """The newest run of each audit, whatever its state; one that only waits is passed over where there is another."""
    with store.reading() as connection:
        every = select(func.max(runs.c.number)).group_by(runs.c.audit)
        begun = every.where(runs.c.state != State.PENDING)
        found = stored(connection, select(runs).where(runs.c.number.in_(every)))
        found += stored(connection, select(runs).where(runs.c.number.in_(begun)))
    return {one.audit: one for one in found}


def living(store: Store) -> dict[str, StoredRun]:
    """The run of each audit that runs, or else waits."""
    with store.reading() as connection:
        wanted = select(runs).where(runs.c.state.in_((State.PENDING, State.RUNNING))).order_by(runs.c.state)
        return {one.audit: one for one in stored(connection, wanted)}


@dataclass(frozen=True, slots=True)
class Scored:
    """A run that is done, and how well its tables agreed."""

    run: str
    audit: str
    started: dt.datetime
    verdict: Verdict
    score: float | None
    lower: float | None
    upper: float | None


def scores(store: Store, since: dt.datetime) -> list[Scored]:
    """What the runs of all audits found that are done, the oldest first."""
    columns = (runs.c.run, runs.c.audit, runs.c.started, runs.c.verdict, runs.c.score, runs.c.lower, runs.c.upper)
    wanted = select(*columns).where(runs.c.state == State.DONE, runs.c.started >= since).order_by(runs.c.number)
    with store.reading() as connection:
        return [Scored(row.run, row.audit, row.started, Verdict(row.verdict), *row[4:]) for row in connection.execute(wanted)]


def _document(store: Store, run: str, kind: str) -> bytes | None:
    with store.reading() as connection:
        number = number_of(connection, run)
        wanted = select(documents.c.body).where(documents.c.run == number, documents.c.kind == kind)
        body: bytes | None = connection.execute(wanted).scalar()
    return body


def differences(
    store: Store, run: str, *, kind: str | None = None, state: str | None = None, after: int = 0, limit: int = 1000
) -> list[tuple[int, Kept]]:
    """The differences of a run with their numbers, from 1 in the order in which they were given. Raises UnknownRun."""
    with store.reading() as connection:
        wanted = select(kept).where(kept.c.run == number_of(connection, run), kept.c.number > after)
        if kind is not None:
            wanted = wanted.where(kept.c.kind == kind)
        if state is not None:
            wanted = wanted.where(kept.c.state == state)
        rows = connection.execute(wanted.order_by(kept.c.number).limit(limit)).all()
    return [(row.number, Kept(kind=row.kind, state=row.state, **row.detail)) for row in rows]
