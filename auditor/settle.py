"""Leaving out what is still in flight: the watermark, and the condition that the rows to be compared fulfil on both sides.

A row is in flight from the watermark on, up to a day beyond the source's clock. A time later than that was not written by this clock:
such a row will never settle, so it is compared like an old one, or else a wrong time would hide it for ever.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping

from auditor.columns import Endpoint
from auditor.config import Settle
from auditor.errors import NoSuchObject, PlanError
from auditor.expressions import checked
from auditor.model import SIDES, Plan, Side
from dialects import Column, Dialect, Kind, Place, Session

MOMENT, DAY = Kind("timestamp", scale=6), Kind("date")
TIMES = frozenset({"date", "timestamp", "timestamptz"})
AHEAD = dt.timedelta(days=1)
"""How far beyond the source's clock at planning a row in flight may lie: a long run's later writes, clocks and zones that are off."""


def settled(
    plan: Plan, settle: Settle, columns: Mapping[Side, Column], ends: Mapping[Side, Endpoint], sides: Mapping[Side, Session]
) -> Plan:
    """The plan with its watermark, and the condition on both sides that a row is not in flight.

    Raises PlanError where the column holds no times, and where there is no heartbeat yet.
    """
    for side in SIDES:
        kind = columns[side].kind
        if kind is None or kind.name not in TIMES:
            raise PlanError(f"settle: the column {settle.column!r} of the {side} is {columns[side].native}, which holds no times")
    clock = now(sides["source"])
    oldest, until = watermark(settle, clock, sides["target"]), clock + AHEAD
    if any(columns[side].kind == DAY for side in SIDES):
        oldest = oldest.replace(hour=0, minute=0, second=0, microsecond=0)  # a row of that day may have been written after the watermark
    text = f"{oldest:%Y-%m-%d %H:%M:%S.%f}"
    flight = (text, f"{until:%Y-%m-%d %H:%M:%S.%f}")
    changed = {
        side: dataclasses.replace(plan.sides[side], settled=_condition(settle, columns[side], flight, ends[side].dialect)) for side in SIDES
    }
    unseen = (f"rows whose {settle.column} is NULL: nothing is said of them",) if settle.nulls == "leave_out" else ()
    return dataclasses.replace(plan, sides=changed, watermark=text, left_out=(*plan.left_out, *unseen))


def watermark(settle: Settle, clock: dt.datetime, target: Session) -> dt.datetime:
    """The moment (UTC) up to which rows are compared; ``clock`` is the source's. Raises PlanError where the target has no heartbeat."""
    lag = dt.timedelta(seconds=settle.lag or 0.0)
    if settle.heartbeat is None:
        return clock - lag
    beat = settle.heartbeat
    return latest(target, Place(tuple(beat.table.split("."))), beat.column) - lag


def now(session: Session) -> dt.datetime:
    """The server's clock, in UTC."""
    text = session.dialect.timestamp_text(session.dialect.NOW, MOMENT)
    return moment(str(session.query(f"SELECT {text}")[0][0]))


def latest(session: Session, place: Place, column: str) -> dt.datetime:
    """The greatest time in a column, in UTC. Raises NoSuchObject, or PlanError where there is none."""
    found = session.dialect.describe(session, place)
    if not found:
        raise NoSuchObject(f"there is no heartbeat table {place}, or this user may not see it")
    here = next((c for c in found[0].columns if c.name.lower() == column.lower()), None)
    if here is None or here.kind is None or here.kind.name not in TIMES:
        raise PlanError(f"the heartbeat table {place} has no column {column!r} that holds times")
    text = session.dialect.text(MOMENT, f"MAX({session.dialect.quote(here.name)})", here.kind)
    sql = checked(f"SELECT {text} FROM {found[0].sql}", session.dialect)
    value = session.query(sql)[0][0]
    if value is None:
        raise PlanError(f"the heartbeat table {place} is empty: nothing proves yet what has arrived")
    return moment(str(value))


def moment(text: str) -> dt.datetime:
    """A canonical timestamp as a moment in UTC."""
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def _condition(settle: Settle, column: Column, flight: tuple[str, str], dialect: Dialect) -> str:
    name = dialect.quote(column.name)
    since, until = (dialect.moment(text) for text in flight)
    landed = f"{name} < {since} OR {name} > {until}"
    return f"({landed} OR {name} IS NULL)" if settle.nulls == "compare" else f"({landed})"
