"""How long audits have had their last verdicts: since which run, what came before, and the worst verdict of each day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, bindparam, func, select, type_coerce
from sqlalchemy.sql.selectable import FromClause

from auditor.model import State, Verdict
from auditor.store.database import Store
from auditor.store.runs import BATCH, OWN_OVERRIDES, StoredRun
from auditor.store.schema import runs

REMEMBERED = 10_000
"""Streaks and days of audits that a process remembers."""

BY_SEVERITY = (Verdict.MATCH, Verdict.UNKNOWN, Verdict.MISMATCH)


@dataclass(frozen=True, slots=True)
class Streak:
    """The newest runs of an audit that ended in one verdict: when the first of them started, and the verdict ``before``, if any.

    ``runs_one`` is whether the first one is also the last.
    """

    since: dt.datetime
    before: Verdict | None
    runs_one: bool


_streaks: dict[str, Streak] = {}
"""Streaks by the id of their newest run, of which they are a function."""


def find_streaks(store: Store, newest: Mapping[str, StoredRun]) -> dict[str, Streak]:
    """Return by audit the streak that its ``newest`` done run with its own settings ends. Raises StoreError."""
    wanted = [run.run for run in newest.values() if run.run not in _streaks]
    found: dict[str, Streak] = {}
    with store.reading() as connection:
        for first in range(0, len(wanted), BATCH):
            for row in connection.execute(_STREAKS, {"ids": wanted[first : first + BATCH]}):
                found[row.run] = Streak(row.since, Verdict(row.before) if row.before else None, row.first == row.number)
    if len(_streaks) + len(found) > REMEMBERED:
        _streaks.clear()
    _streaks.update(found)
    known = {name: found.get(run.run) or _streaks.get(run.run) for name, run in newest.items()}
    return {name: streak for name, streak in known.items() if streak}


def _select_streaks() -> Select[Any]:
    latest, other, same, started, previous = (runs.alias(name) for name in ("latest", "other", "same", "started", "previous"))
    before = (
        select(other.c.number)
        .where(other.c.audit == latest.c.audit, *_is_own(other), other.c.number < latest.c.number, other.c.verdict != latest.c.verdict)
        .order_by(other.c.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    ends = (
        select(latest.c.run, latest.c.audit, latest.c.number, func.coalesce(before, 0).label("before"))
        .where(latest.c.run.in_(bindparam("ids", expanding=True)))
        .subquery("ends")
    )
    first = (
        select(same.c.number)
        .where(same.c.audit == ends.c.audit, *_is_own(same), same.c.number > ends.c.before)
        .order_by(same.c.number)
        .limit(1)
        .scalar_subquery()
    )
    firsts = select(ends, first.label("first")).subquery("firsts")
    return select(
        firsts.c.run, firsts.c.number, firsts.c.first, started.c.started.label("since"), previous.c.verdict.label("before")
    ).select_from(firsts.join(started, started.c.number == firsts.c.first).outerjoin(previous, previous.c.number == firsts.c.before))


def _is_own(table: FromClause) -> tuple[ColumnElement[bool], ...]:
    return table.c.state == State.DONE, type_coerce(table.c.overrides, Text).in_(OWN_OVERRIDES)


_STREAKS = _select_streaks()

_days: dict[str, tuple[dt.date, dict[dt.date, Verdict]]] = {}
"""The worst verdicts of days by the id of an audit's newest done run, with the day from which on they were read."""


def list_days(store: Store, newest: Mapping[str, StoredRun], first: dt.date) -> dict[str, dict[dt.date, Verdict]]:
    """Return by audit the worst verdict of each day (UTC) from ``first`` on on which a done run with its own settings started.

    ``newest`` is each audit's newest done run. Raises StoreError.
    """
    known = {name: kept[1] for name, run in newest.items() if (kept := _days.get(run.run)) and kept[0] == first}
    names = [name for name in newest if name not in known]
    read: dict[str, dict[dt.date, Verdict]] = {name: {} for name in names}
    with store.reading() as connection:
        statement = _select_days(connection.dialect.name)
        since = dt.datetime.combine(first, dt.time(), dt.UTC)
        for place in range(0, len(names), BATCH):
            for row in connection.execute(statement, {"names": names[place : place + BATCH], "since": since}):
                day, verdict = dt.date.fromisoformat(str(row.day)[:10]), Verdict(row.verdict)
                days = read[row.audit]
                days[day] = max(verdict, days.get(day, verdict), key=BY_SEVERITY.index)
    if len(_days) + len(read) > REMEMBERED:
        _days.clear()
    _days.update({newest[name].run: (first, days) for name, days in read.items()})
    return known | read


def _select_days(database: str) -> Select[Any]:
    started: ColumnElement[Any] = func.timezone("UTC", runs.c.started) if database == "postgresql" else runs.c.started
    day = func.date(started)
    since = runs.c.started >= bindparam("since", type_=runs.c.started.type)
    named = runs.c.audit.in_(bindparam("names", expanding=True))
    return (
        select(runs.c.audit, day.label("day"), runs.c.verdict)
        .where(named, since, *_is_own(runs))
        .group_by(runs.c.audit, day, runs.c.verdict)
    )
