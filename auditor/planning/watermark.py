"""Leave out rows that are still in flight: the watermark, and the condition that compared rows fulfil on both sides.

A row is in flight from the watermark on, up to a day beyond the source's clock. A time later than that was not written by this clock:
such a row would never settle, so it is compared like an old one; otherwise a wrong time would hide it for ever.

The watermark is the source's clock, or the last heartbeat that reached the target, less a lag. With a barrier the run waits until a
heartbeat has reached the target that was written after the source's snapshot was opened.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from auditor.config import Audit, Heartbeat, Settle
from auditor.connections.reader import Reader
from auditor.durations import durations
from auditor.errors import HeartbeatUnusable, NoSuchObject, PlanError, StatementCancelled
from auditor.model import NotCompared, Plan, Side, parse_time
from auditor.planning import planner
from auditor.planning.columns import Endpoint
from auditor.sql.user_sql import checked
from dialects import Column, Dialect, Kind, Place, Session

DAY = Kind("date")

AHEAD = dt.timedelta(days=1)
"""How far beyond the source's clock a row in flight may lie: writes later in a long run, and clocks or zones that are off."""

MOMENT = Kind("timestamp", scale=6)
TIMES = frozenset({"date", "timestamp", "timestamptz"})
"""Kinds of columns that can show how young a row is."""


def settle(plan: Plan, audit: Audit, reader: Reader, tables: Mapping[Side, Endpoint]) -> Plan:
    """Return the plan with its watermark and, on both sides, the condition that a row is not in flight.

    With a barrier the source's snapshot is open after it. Raises PlanError if the column holds no times or the heartbeat table is empty,
    NoSuchObject if either does not exist, HeartbeatUnusable.
    """
    how = audit.settle
    if how is None:
        return plan
    columns = planner.find_columns(audit, tables, how.column, "settle")
    for side, column in columns.items():
        kind = column.kind
        if kind is None or kind.name not in TIMES:
            raise PlanError(f"settle: the column {how.column!r} of the {side} is {column.native}, which holds no times")
    clock = read_source_clock(reader)
    if reader.ends_fixed is not None:  # a topic has nothing that was written since
        clock -= dt.timedelta(seconds=time.monotonic() - reader.ends_fixed)
    if how.barrier is None:
        oldest = _watermark(how, clock, reader)
    else:
        oldest = clock - dt.timedelta(seconds=how.lag or 0.0)
        plan = dataclasses.replace(plan, barrier=wait_for_heartbeat(how, reader, plan.snapshot == "whole", oldest))
    if any(column.kind == DAY for column in columns.values()):
        oldest = oldest.replace(hour=0, minute=0, second=0, microsecond=0)  # a row of that day may have been written after the watermark
    text = f"{oldest:%Y-%m-%d %H:%M:%S.%f}"
    unseen: tuple[NotCompared, ...] = ()
    if how.nulls == "leave_out":
        unseen = (NotCompared(column=how.column, how="left out", what="rows in which it is NULL: nothing is said of them"),)
    plan = dataclasses.replace(plan, watermark=text, not_compared=(*plan.not_compared, *unseen))
    return _with_conditions(plan, how, columns, tables, clock)


def renew(plan: Plan, audit: Audit, reader: Reader, tables: Mapping[Side, Endpoint]) -> Plan:
    """Return the plan with the same watermark, for what is read from here on, perhaps long after the run began.

    Rows written since then lie beyond what was a day ahead of the source's clock once, and yet were written by this clock: they are
    in flight. Chunks that were read before had none of them.
    """
    if audit.settle is None or not plan.watermark:
        return plan
    clock = read_source_clock(reader)
    return _with_conditions(plan, audit.settle, planner.find_columns(audit, tables, audit.settle.column, "settle"), tables, clock)


def _with_conditions(plan: Plan, how: Settle, columns: Mapping[Side, Column], tables: Mapping[Side, Endpoint], clock: dt.datetime) -> Plan:
    """Return the plan whose sides leave out rows from its watermark up to a day beyond the source's ``clock``."""
    flight = (plan.watermark, f"{clock + AHEAD:%Y-%m-%d %H:%M:%S.%f}")
    sides = {
        side: dataclasses.replace(
            plan.sides[side],
            settled=_condition(how, columns[side], flight, tables[side].dialect),
            written=_written(columns[side], tables[side].dialect),
        )
        for side in plan.read_sides
    }
    return dataclasses.replace(plan, sides={**plan.sides, **sides})


def _watermark(settle: Settle, clock: dt.datetime, reader: Reader) -> dt.datetime:
    """Return the moment (UTC) up to which rows are compared: the source's clock, or the target's last heartbeat, less the lag.

    Raises HeartbeatUnusable for a beat that the source, by its ``clock``, cannot have written yet.
    """
    lag = dt.timedelta(seconds=settle.lag or 0.0)
    if settle.heartbeat is None:
        return clock - lag
    how = settle.heartbeat
    beat = reader.ask_side("target", lambda _, session: read_heartbeat(session, how)).at
    if beat - clock > dt.timedelta(seconds=how.ahead):
        raise HeartbeatUnusable(
            f"the last heartbeat in the target, {how.table}.{how.column}, is {beat:%Y-%m-%d %H:%M:%S} UTC, and the source's clock is at"
            f" {clock:%Y-%m-%d %H:%M:%S} UTC: the source cannot have written it yet, so it does not show what has arrived; have the source"
            f" write its own clock, in UTC, and delete later times, or allow for clocks that differ by more than {how.ahead:g} s"
            " (heartbeat: {ahead: ...})"
        )
    return min(beat, clock) - lag


def read_source_clock(reader: Reader) -> dt.datetime:
    """Return the source's clock, in UTC; of shards the slowest one, so that no row in flight of any is compared."""
    return min(reader.ask_source(lambda _, session: read_clock(session)))


def read_clock(session: Session) -> dt.datetime:
    """Return the server's clock, in UTC."""
    text = session.dialect.times.timestamp_text(session.dialect.times.UTC_NOW, MOMENT)
    return parse_time(str(session.query_row(f"SELECT {text}")[0]))


def _condition(settle: Settle, column: Column, flight: tuple[str, str], dialect: Dialect) -> str:
    name = dialect.names.quote(column.name)
    since, until = (dialect.names.timestamp_literal(text) for text in flight)
    landed = f"{name} < {since} OR {name} > {until}"
    return f"({landed} OR {name} IS NULL)" if settle.nulls == "compare" else f"({landed})"


def _written(column: Column, dialect: Dialect) -> str:
    """Return SQL of the canonical text of a column's times."""
    return dialect.canonical.canonical_text(MOMENT, dialect.names.quote(column.name), column.kind or MOMENT)


@dataclass(frozen=True, slots=True)
class LastBeat:
    """The last heartbeat of a side."""

    at: dt.datetime
    step: dt.timedelta
    """The difference of two times of its column that follow each other."""

    def is_behind(self, other: LastBeat) -> bool:
        """Return whether this one was written after another one, whose column may have finer times."""
        return self.at - other.at >= self.step if self.step > other.step else self.at > other.at


def read_heartbeat(session: Session, how: Heartbeat) -> LastBeat:
    """Return the last heartbeat, its time in UTC. Raises NoSuchObject, and PlanError if the table is empty or the column holds no times."""
    place = Place(tuple(how.table.split(".")))
    tables = session.dialect.catalogue.describe(session, place)
    if not tables:
        raise NoSuchObject(f"there is no heartbeat table {place}, or this user may not see it")
    beat = next((c for c in tables[0].columns if c.name.lower() == how.column.lower()), None)
    if beat is None or beat.kind is None or beat.kind.name not in TIMES:
        raise PlanError(f"the heartbeat table {place} has no column {how.column!r} that holds times")
    names = {column.name.lower(): column.name for column in tables[0].columns}
    if unknown := [name for name in how.rows if name.lower() not in names]:
        raise PlanError(f"the heartbeat table {place} has no column {unknown[0]!r}, by which its rows are chosen")
    rows = {names[name.lower()]: value for name, value in how.rows.items()}
    text = session.dialect.canonical.canonical_text(MOMENT, session.dialect.names.latest(beat.name, rows), beat.kind)
    value = session.query_row(checked(f"SELECT {text} FROM {tables[0].sql}", session.dialect))[0]
    if value is None:
        chosen = "".join(f", of rows whose {name} is {value!r}" for name, value in how.rows.items())
        raise PlanError(f"the heartbeat table {place} holds no time{chosen}: nothing proves yet what has arrived")
    is_day = beat.kind.name == "date"
    return LastBeat(parse_time(str(value)), dt.timedelta(days=1) if is_day else dt.timedelta(seconds=10.0 ** -(beat.kind.scale or 0)))


def wait_for_heartbeat(how: Settle, reader: Reader, in_snapshot: bool, watermark: dt.datetime) -> str:
    """Wait until the target has a heartbeat that the source's snapshot does not show, and return a note for the report.

    With ``in_snapshot`` the source's snapshot is opened before, and stays open. Everything that it shows has then arrived, if the path to
    the target keeps the order of transactions across tables. Later fresh looks of the reader wait likewise, between source and target.
    Raises HeartbeatUnusable if none comes in time, and what `read_heartbeat` raises.
    """
    if in_snapshot:
        reader.sides["source"].begin_snapshot()
    waited = _wait(how, reader)
    reader.wait_between = partial(_wait, how, reader)
    opened = "the source's snapshot was opened" if in_snapshot else "the run began"
    return (
        f"a heartbeat that was written after {opened} reached the target after {waited:.1f} s: what the source held before"
        f" {watermark:%Y-%m-%d %H:%M:%S} UTC had arrived, so that its differences are real; rows changed since are in flight, and left out"
    )


def _wait(how: Settle, reader: Reader) -> float:
    """Wait until the target has a heartbeat that the source does not show now, and return after how many seconds it had."""
    beat, most = how.heartbeat, how.barrier
    assert beat is not None and most is not None
    shown = reader.ask_side("source", lambda _, session: read_heartbeat(session, beat))
    began = time.monotonic()
    reader.report("target", "waits for a heartbeat that was written after the source was read")
    while not (arrived := reader.ask_side("target", lambda _, session: read_heartbeat(session, beat))).is_behind(shown):
        if time.monotonic() - began > most:
            raise HeartbeatUnusable(
                f"no heartbeat that was written after the source was read reached the target within {most:g} s: the last one there,"
                f" {beat.table}.{beat.column}, is {arrived.at:%Y-%m-%d %H:%M:%S} UTC; see that auditor heartbeat run is running, and what"
                " carries the table, or allow for more time (settle: {barrier: ...})"
            )
        if reader.stopped.wait(durations().heartbeat_poll):
            raise StatementCancelled
    return time.monotonic() - began
