"""Leaving out what is still in flight: the watermark, and the condition that rows older than it fulfil on both sides."""

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

MOMENT = Kind("timestamp", scale=6)
TIMES = frozenset({"date", "timestamp", "timestamptz"})


def settled(
    plan: Plan, settle: Settle, columns: Mapping[Side, Column], ends: Mapping[Side, Endpoint], sides: Mapping[Side, Session]
) -> Plan:
    """The plan with its watermark, and the condition on both sides that a row is older than it.

    Raises PlanError where the column holds no times, and where there is no heartbeat yet.
    """
    for side in SIDES:
        kind = columns[side].kind
        if kind is None or kind.name not in TIMES:
            raise PlanError(f"settle: the column {settle.column!r} of the {side} is {columns[side].native}, which holds no times")
    moment = watermark(settle, sides)
    text = f"{moment:%Y-%m-%d %H:%M:%S.%f}"
    changed = {
        side: dataclasses.replace(plan.sides[side], settled=_condition(settle, columns[side], text, ends[side].dialect)) for side in SIDES
    }
    return dataclasses.replace(plan, sides=changed, watermark=text)


def watermark(settle: Settle, sides: Mapping[Side, Session]) -> dt.datetime:
    """The moment (UTC) up to which rows are compared. Raises PlanError where the target has no heartbeat."""
    lag = dt.timedelta(seconds=settle.lag or 0.0)
    if settle.heartbeat is None:
        return now(sides["source"]) - lag
    beat = settle.heartbeat
    return latest(sides["target"], Place(tuple(beat.table.split("."))), beat.column) - lag


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


def _condition(settle: Settle, column: Column, text: str, dialect: Dialect) -> str:
    name = dialect.quote(column.name)
    older = f"{name} < {dialect.moment(text)}"
    return f"({older} OR {name} IS NULL)" if settle.nulls == "compare" else f"({older})"
