"""The problems that pipelines have: since when, and whether the channels were told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from auditor.store._pipeline_schema import problems
from auditor.store._store import Store

ProblemKind = Literal["down", "failing", "stopped", "lagging"]
"""No process runs the pipeline; staging fails; a table of a target is stopped; pipeline or table lag behind more than they may."""

KINDS: tuple[ProblemKind, ...] = get_args(ProblemKind)
"""The kinds, the gravest first; their numbers here are stored, so that new ones go to the end."""


class ProblemKey(NamedTuple):
    """What has which problem; '' where it is of no target or table."""

    kind: ProblemKind
    target: str = ""
    table: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a pipeline."""

    key: ProblemKey
    since: dt.datetime
    reason: str
    notified: bool = False
    """Whether the channels were told."""


def update_problems(
    store: Store, pipeline: str, found: Mapping[ProblemKey, str], now: dt.datetime, patience: Callable[[Problem], float]
) -> tuple[list[Problem], list[Problem]]:
    """Record the problems that a pipeline has now, with their reasons; return those to report now, and those reported that are over.

    A problem is returned once, after ``patience`` seconds, and to one process only. Raises StoreError.
    """

    def work(connection: Connection) -> tuple[list[Problem], list[Problem]]:
        known = {one.key: one for one in _read(connection, pipeline, lock=True)}
        due, over = [], []
        for key, reason in found.items():
            before = known.get(key)
            one = Problem(key, before.since if before else now, reason, bool(before and before.notified))
            if not one.notified and (now - one.since).total_seconds() >= patience(one):
                one = Problem(key, one.since, reason, notified=True)
                due.append(one)
            _save(connection, pipeline, one, before)
        for key, before in known.items():
            if key not in found:
                connection.execute(delete(problems).where(_same(pipeline, key)))
                over += [before] if before.notified else []
        return due, over

    return store.write(work)


def set_unnotified(store: Store, pipeline: str, keys: Iterable[ProblemKey]) -> None:
    """Record that no channel received the notification of these problems, so that it is sent later. Raises StoreError."""

    def work(connection: Connection) -> None:
        for key in keys:
            connection.execute(update(problems).where(_same(pipeline, key)).values(notified=False))

    store.write(work)


def list_problems(store: Store, pipeline: str) -> list[Problem]:
    """Return the problems that a pipeline had when a service last looked. Raises StoreError."""
    with store.reading() as connection:
        return _read(connection, pipeline)


def _read(connection: Connection, pipeline: str, lock: bool = False) -> list[Problem]:
    wanted = select(problems).where(problems.c.pipeline == pipeline).order_by(problems.c.since)
    rows = connection.execute(wanted.with_for_update() if lock else wanted)
    return [Problem(ProblemKey(KINDS[row.kind], row.target, row.table_name), row.since, row.reason, row.notified) for row in rows]


def _save(connection: Connection, pipeline: str, one: Problem, before: Problem | None) -> None:
    if before is None:
        key = {"pipeline": pipeline, "kind": KINDS.index(one.key.kind), "target": one.key.target, "table_name": one.key.table}
        connection.execute(insert(problems).values(**key, since=one.since, reason=one.reason, notified=one.notified))
    elif one != before:
        connection.execute(update(problems).where(_same(pipeline, one.key)).values(reason=one.reason, notified=one.notified))


def _same(pipeline: str, key: ProblemKey) -> ColumnElement[bool]:
    is_kind = problems.c.kind == KINDS.index(key.kind)
    return and_(problems.c.pipeline == pipeline, is_kind, problems.c.target == key.target, problems.c.table_name == key.table)
