"""What runs cost, by day and connection. Rows outlive their runs: a day's budget counts runs that were pruned, too.

Each process that executes a run, or resumes it, is an attempt with rows of its own, which it replaces while the run goes on. The day is
that of the store's clock, in UTC.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Column, ColumnElement, Connection, Index, Row, Select, Table, and_, delete, func, insert, or_, select

from auditor.model import DayCost, Spent
from auditor.store.database import Store, database_time
from auditor.store.schema import Moment, Real, big_integer, metadata, short_text

costs = Table(
    "auditor_costs",
    metadata,
    Column("day", short_text(10), primary_key=True),
    Column("run", short_text(64), primary_key=True),
    Column("attempt", short_text(32), primary_key=True),
    Column("connection", short_text(), primary_key=True),
    Column("audit", short_text(), nullable=False),
    Column("statements", big_integer(), nullable=False),
    Column("seconds", Real(), nullable=False),
    Column("byte_count", big_integer(), nullable=False),
    Column("usd", Real()),
    Column("at", Moment(), nullable=False),
    Index("auditor_costs_run", "run"),
)
"""What an attempt at a run cost on a connection on a day (``YYYY-MM-DD``), as of a moment; ``usd`` is NULL where that is not known."""

Key = Literal["day", "audit", "connection"]
"""What costs are added up by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A process's execution of a run."""

    run: str
    attempt: str
    """A random id."""


def record_costs(store: Store, attempt: Attempt, spent: Sequence[DayCost]) -> None:
    """Store what an attempt at a run cost until now, in place of what was stored of it. Raises StoreError."""
    of_attempt = and_(costs.c.run == attempt.run, costs.c.attempt == attempt.attempt)

    def work(connection: Connection) -> None:
        at = database_time(connection)
        connection.execute(delete(costs).where(of_attempt, costs.c.day.in_([cost.day.isoformat() for cost in spent])))
        connection.execute(insert(costs), [_row(attempt, cost, at) for cost in spent])

    if spent:
        store.write(work)


def _row(attempt: Attempt, cost: DayCost, at: dt.datetime) -> dict[str, object]:
    return {
        "day": cost.day.isoformat(),
        "run": attempt.run,
        "attempt": attempt.attempt,
        "connection": cost.connection,
        "audit": cost.audit,
        "statements": cost.spent.statements,
        "seconds": cost.spent.seconds,
        "byte_count": cost.spent.bytes,
        "usd": cost.spent.usd,
        "at": at,
    }


def read_day(
    store: Store, connections: Collection[str], audit: str | None, without: Attempt | None = None
) -> tuple[dt.datetime, list[DayCost]]:
    """Return the store's clock, and what was spent on its day on these connections, and for an audit, by audit and connection.

    One attempt may be left out. Without connections nothing is read but the clock. Raises StoreError.
    """
    with store.reading() as connection:
        now = database_time(connection)
        if not connections:
            return now, []
        wanted = [or_(costs.c.connection.in_(list(connections)), costs.c.audit == audit)]
        if without:
            wanted.append(or_(costs.c.run != without.run, costs.c.attempt != without.attempt))
        rows = _add_up(connection, (costs.c.audit, costs.c.connection), [costs.c.day == now.date().isoformat(), *wanted])
    return now, [DayCost(day=now.date(), audit=row.audit, connection=row.connection, spent=_spent(row), runs=int(row.runs)) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSum:
    """What runs cost together."""

    keys: Mapping[Key, str]
    """The day, audit or connection that they have in common."""
    runs: int
    spent: Spent
    """Its ``usd`` is the sum of what is known; None where nothing is."""
    unpriced: tuple[str, ...]
    """Connections on which some of it has no costs in USD."""


def list_costs(store: Store, first: dt.date, last: dt.date, keys: Sequence[Key], among: Sequence[str] | None = None) -> list[CostSum]:
    """Return what runs cost from one day to another, both included, added up by ``keys``, in their order; with ``among`` of
    these audits alone. Raises StoreError."""
    wanted: list[ColumnElement[bool]] = [costs.c.day >= first.isoformat(), costs.c.day <= last.isoformat()]
    if among is not None:
        wanted.append(costs.c.audit.in_(among))
    columns = [costs.c[key] for key in keys]
    with store.reading() as connection:
        rows = _add_up(connection, columns, wanted)
        unpriced = connection.execute(select(*columns, costs.c.connection.label("place")).where(*wanted, costs.c.usd.is_(None)).distinct())
        places: dict[tuple[str, ...], list[str]] = {}
        for row in unpriced:
            places.setdefault(tuple(row)[:-1], []).append(row.place)
    return [
        CostSum(
            keys={key: row[index] for index, key in enumerate(keys)},
            runs=int(row.runs),
            spent=_spent(row),
            unpriced=tuple(sorted(places.get(tuple(row)[: len(keys)], ()))),
        )
        for row in rows
    ]


def list_of_runs(store: Store, runs: Sequence[str]) -> list[dict[str, Spent]]:
    """Return what each of these runs cost, by connection, in their order, without those of which nothing is stored. Raises StoreError."""
    if not runs:
        return []
    by_run: dict[str, dict[str, Spent]] = {}
    with store.reading() as connection:
        for row in _add_up(connection, (costs.c.run, costs.c.connection), [costs.c.run.in_(list(runs))]):
            priced = row.unknown == 0
            spent = _spent(row)
            by_run.setdefault(row.run, {})[row.connection] = (
                spent if priced else Spent(statements=spent.statements, seconds=spent.seconds, bytes=spent.bytes)
            )
    return [by_run[run] for run in runs if run in by_run]


def _add_up(connection: Connection, keys: Sequence[ColumnElement[Any]], wanted: Sequence[ColumnElement[bool]]) -> Sequence[Row[Any]]:
    sums = (
        func.count(costs.c.run.distinct()).label("runs"),
        func.sum(costs.c.statements).label("statements"),
        func.sum(costs.c.seconds).label("seconds"),
        func.sum(costs.c.byte_count).label("byte_count"),
        func.sum(costs.c.usd).label("usd"),
        (func.count() - func.count(costs.c.usd)).label("unknown"),
    )
    statement: Select[Any] = select(*keys, *sums).where(*wanted).group_by(*keys).order_by(*keys)
    return connection.execute(statement).all()


def _spent(row: Row[Any]) -> Spent:
    usd = None if row.usd is None else float(row.usd)
    return Spent(statements=int(row.statements), seconds=float(row.seconds), bytes=int(row.byte_count), usd=usd)


def delete_costs(connection: Connection, before: dt.date) -> int:
    """Delete the costs of days before one, and return of how many rows."""
    return connection.execute(delete(costs).where(costs.c.day < before.isoformat())).rowcount
