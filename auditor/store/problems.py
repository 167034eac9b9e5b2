"""The problems that pipelines have: since when, and whether the channels were told."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from sqlalchemy import Boolean, Column, ColumnElement, Connection, Integer, Row, Table, and_, delete, insert, select, update

from auditor.shapes.pipeline import PipelineProblem, ProblemKey, ProblemKind
from auditor.store._schema import MYSQL, Moment, Words, metadata, short_text
from auditor.store._store import Store

problems = Table(
    "auditor_pipeline_problems",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("kind", Integer(), primary_key=True, autoincrement=False),
    Column("target", short_text(), primary_key=True),
    Column("table_name", short_text(), primary_key=True),
    Column("since", Moment(), nullable=False),
    Column("reason", Words(), nullable=False),
    Column("notified", Boolean(), nullable=False),
    **MYSQL,
)
"""The problems that pipelines have, since when, and whether the channels were notified; '' where a problem is of no target or table.

A kind is its number in `problems.KINDS`: with one more text InnoDB's key would be too long."""

KINDS: tuple[ProblemKind, ...] = get_args(ProblemKind)
"""The kinds, the gravest first; their numbers here are stored, so that new ones go to the end."""


def update_problems(
    store: Store, pipeline: str, reasons: Mapping[ProblemKey, str], now: dt.datetime, patience: Callable[[PipelineProblem], float]
) -> tuple[list[PipelineProblem], list[PipelineProblem]]:
    """Record the problems that a pipeline has now, with their reasons; return those to report now, and those reported that are over.

    A problem is returned once, after ``patience`` seconds, and to one process only. Raises StoreError.
    """

    def work(connection: Connection) -> tuple[list[PipelineProblem], list[PipelineProblem]]:
        known = {problem.key: problem for problem in _read(connection, pipeline, lock=True)}
        due, over = [], []
        for key, reason in reasons.items():
            before = known.get(key)
            since, notified = (before.since, before.notified) if before else (now, False)
            problem = PipelineProblem(**key._asdict(), since=since, reason=reason, notified=notified)
            if not notified and (now - since).total_seconds() >= patience(problem):
                problem = PipelineProblem(**key._asdict(), since=since, reason=reason, notified=True)
                due.append(problem)
            _save(connection, pipeline, problem, before)
        for key, before in known.items():
            if key not in reasons:
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


def list_problems(store: Store, pipeline: str) -> list[PipelineProblem]:
    """Return the problems that a pipeline had when a service last looked. Raises StoreError."""
    with store.reading() as connection:
        return _read(connection, pipeline)


def _read(connection: Connection, pipeline: str, lock: bool = False) -> list[PipelineProblem]:
    wanted = select(problems).where(problems.c.pipeline == pipeline).order_by(problems.c.since)
    rows = connection.execute(wanted.with_for_update() if lock else wanted)
    return [_problem(row) for row in rows]


def _problem(row: Row[Any]) -> PipelineProblem:
    return PipelineProblem(
        kind=KINDS[row.kind], target=row.target, table=row.table_name, since=row.since, reason=row.reason, notified=row.notified
    )


def _save(connection: Connection, pipeline: str, problem: PipelineProblem, before: PipelineProblem | None) -> None:
    if before is None:
        key = {"pipeline": pipeline, "kind": KINDS.index(problem.key.kind), "target": problem.key.target, "table_name": problem.key.table}
        connection.execute(insert(problems).values(**key, since=problem.since, reason=problem.reason, notified=problem.notified))
    elif problem != before:
        connection.execute(update(problems).where(_same(pipeline, problem.key)).values(reason=problem.reason, notified=problem.notified))


def _same(pipeline: str, key: ProblemKey) -> ColumnElement[bool]:
    is_kind = problems.c.kind == KINDS.index(key.kind)
    return and_(problems.c.pipeline == pipeline, is_kind, problems.c.target == key.target, problems.c.table_name == key.table)
