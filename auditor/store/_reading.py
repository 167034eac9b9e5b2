"""Reading what is kept of runs."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, or_, select, union

from auditor.errors import UnknownRun
from auditor.model import Side, State, Verdict
from auditor.store._schema import audits, documents, queue, runs
from auditor.store._schema import differences as kept
from auditor.store._store import Store
from auditor.store._stored import WHOLE, StoredRun, number_of, stored, unknown


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


_BY_ID = select(runs).where(runs.c.run == bindparam("id"))


def find(store: Store, run: str) -> StoredRun:
    """The run of this id, or the only one whose id begins so. Raises UnknownRun."""
    if not run or not run.isprintable():
        raise unknown(run)
    with store.reading() as connection:
        exact = stored(connection, _BY_ID, {"id": run})
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
    store: Store, *, audit: str | None = None, state: str | None = None, limit: int = 50, before: str | None = None, whole: bool = False
) -> list[StoredRun]:
    """Runs, the newest first; ``before`` is the id of the last one of the page before. Raises UnknownRun for that.

    ``whole`` leaves out those of a section of their table.
    """
    with store.reading() as connection:
        below = number_of(connection, before) if before else None
        values = {"audit": audit, "state": state, "below": below}
        known = {name: value for name, value in values.items() if value is not None}
        return stored(connection, listing(tuple(known), whole).limit(limit), known)


@cache
def listing(by: tuple[str, ...], whole: bool) -> Select[Any]:
    """The statement for runs ``by`` values of their own, of ``whole`` tables only or of all, the newest first."""
    conditions = {
        "audit": runs.c.audit == bindparam("audit"),
        "state": runs.c.state == bindparam("state"),
        "below": runs.c.number < bindparam("below"),
        "before": runs.c.started < bindparam("before"),
    }
    wanted = select(runs).where(*(conditions[name] for name in by)).order_by(runs.c.number.desc())
    return wanted.where(WHOLE) if whole else wanted


def latest(store: Store, audit: str, *, done_only: bool = True, before: dt.datetime | None = None) -> StoredRun | None:
    """The newest run of an audit's whole table, of those that are done, or of all; ``before`` leaves out what began then or later."""
    values = {"audit": audit, "state": State.DONE if done_only else None, "before": before}
    known = {name: value for name, value in values.items() if value is not None}
    with store.reading() as connection:
        found = stored(connection, listing(tuple(known), True).limit(1), known)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Ending:
    """Whether and when a run ended; one that ``is_open`` may end yet, or go on and end again."""

    number: int
    run: str
    ended: dt.datetime | None
    is_open: bool


def endings(store: Store, above: int | None = None, among: Collection[int] = ()) -> list[Ending]:
    """The endings of all runs, or of those whose numbers are ``above`` one or ``among`` some, by their numbers."""
    wanted = select(runs.c.number, runs.c.run, runs.c.ended, runs.c.resumable).order_by(runs.c.number)
    if above is not None:
        wanted = wanted.where(or_(runs.c.number > above, runs.c.number.in_(list(among))))
    with store.reading() as connection:
        return [Ending(row.number, row.run, row.ended, row.ended is None or row.resumable) for row in connection.execute(wanted)]


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


def newest_and_living(store: Store, audit: str | None = None) -> tuple[dict[str, StoredRun], dict[str, StoredRun]]:
    """The newest run of each audit's whole table, or of one's; and the one that runs, or else waits.

    The newest may be in whatever state; one that only waits is passed over where there is another.
    """
    with store.reading() as connection:
        found = stored(connection, _HEADS if audit is None else _HEADS_OF_ONE, {} if audit is None else {"named": audit})
    # The last one of a name stays.
    newest = {one.audit: one for one in sorted(found, key=lambda one: one.state is not State.PENDING) if one.is_whole}
    return newest, {one.audit: one for one in found if one.state in LIVING}


def living(store: Store) -> dict[str, StoredRun]:
    """The run of each audit that runs, or else waits."""
    with store.reading() as connection:
        numbers = union(*_living()).subquery()
        found = stored(connection, select(runs).join(numbers, numbers.c.number == runs.c.number).order_by(runs.c.state))
    return {one.audit: one for one in found}


LIVING = (State.PENDING, State.RUNNING)


def _heads(audit: ColumnElement[str] | None = None) -> Select[Any]:
    """The statement for the newest runs of whole tables and the living ones of any, by their numbers.

    It reads these alone, however many an audit has.
    """
    names = select(audits.c.audit).distinct()
    every = select(runs.c.number).where(WHOLE)
    begun = every.where(runs.c.state != State.PENDING)
    if audit is not None:
        names = names.where(audits.c.audit == audit)
    name = names.subquery()

    def last(numbers: Select[Any]) -> Any:
        return numbers.where(runs.c.audit == name.c.audit).order_by(runs.c.number.desc()).limit(1).scalar_subquery()

    newest = select(func.coalesce(last(begun), last(every)).label("number")).select_from(name)
    numbers = union(newest, *_living()).subquery()
    wanted = select(runs).join(numbers, numbers.c.number == runs.c.number).order_by(runs.c.number)
    return wanted if audit is None else wanted.where(runs.c.audit == audit)


def _living() -> tuple[Select[Any], Select[Any]]:
    """The statements for the numbers of the runs that run, and of those that wait."""
    # Every name is beyond "": SQLite has no use for an index in IS NOT NULL.
    return select(runs.c.number).where(runs.c.running >= ""), select(queue.c.run).where(queue.c.waiting >= "")


_HEADS, _HEADS_OF_ONE = _heads(), _heads(bindparam("named"))
"""Made once, which takes as long as running them."""


@dataclass(frozen=True, slots=True)
class Point:
    """A run of the past, and how well its tables agreed."""

    run: str
    at: dt.datetime
    verdict: Verdict
    score: float | None
    lower: float | None
    upper: float | None


def scores(store: Store, since: dt.datetime, audit: str | None = None) -> dict[str, list[Point]]:
    """What the runs of each audit's whole table, or of one's, found that are done, the oldest first."""
    with store.reading() as connection:
        values = {"since": since} if audit is None else {"since": since, "named": audit}
        rows = connection.execute(_SCORES if audit is None else _SCORES_OF_ONE, values).all()
    found: dict[str, list[Point]] = {}
    for name, run, at, verdict, *rest in rows:
        found.setdefault(name, []).append(Point(run, at, Verdict(verdict), *rest))
    return found


def _scores() -> Select[Any]:
    columns = (runs.c.audit, runs.c.run, runs.c.started, runs.c.verdict, runs.c.score, runs.c.lower, runs.c.upper)
    since = runs.c.started >= bindparam("since", type_=runs.c.started.type)
    return select(*columns).where(runs.c.state == State.DONE, since, WHOLE).order_by(runs.c.number)


_SCORES = _scores()
_SCORES_OF_ONE = _SCORES.where(runs.c.audit == bindparam("named"))


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
