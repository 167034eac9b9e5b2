"""Leave out rows that are still in flight: the watermark, and the condition that compared rows fulfil on both sides.

A row is in flight from the watermark on, up to a day beyond the source's clock. A time later than that was not written by this clock:
such a row would never settle, so it is compared like an old one; otherwise a wrong time would hide it for ever.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from auditor.config import Audit, Settle
from auditor.connections.reader import Reader
from auditor.errors import HeartbeatUnusable, PlanError
from auditor.model import NotCompared, Plan, Side, parse_time
from auditor.planning import planner
from auditor.planning.columns import Endpoint
from auditor.planning.heartbeats import MOMENT, TIMES, read_heartbeat, wait_for_heartbeat
from dialects import Column, Dialect, Kind, Session

DAY = Kind("date")

AHEAD = dt.timedelta(days=1)
"""How far beyond the source's clock a row in flight may lie: writes later in a long run, and clocks or zones that are off."""


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
    text = session.dialect.timestamp_text(session.dialect.UTC_NOW, MOMENT)
    return parse_time(str(session.query_row(f"SELECT {text}")[0]))


def _condition(settle: Settle, column: Column, flight: tuple[str, str], dialect: Dialect) -> str:
    name = dialect.quote(column.name)
    since, until = (dialect.timestamp_literal(text) for text in flight)
    landed = f"{name} < {since} OR {name} > {until}"
    return f"({landed} OR {name} IS NULL)" if settle.nulls == "compare" else f"({landed})"


def _written(column: Column, dialect: Dialect) -> str:
    """Return SQL of the canonical text of a column's times."""
    return dialect.canonical_text(MOMENT, dialect.quote(column.name), column.kind or MOMENT)
