"""Read the heartbeats that a side has, and wait until one reaches the target that was written after the source's snapshot was opened."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from functools import partial

from auditor.config import Heartbeat, Settle
from auditor.connections.reader import Reader
from auditor.errors import HeartbeatUnusable, NoSuchObject, PlanError, StatementCancelled
from auditor.model import parse_time
from auditor.sql.user_sql import checked
from auditor.waits import waits
from dialects import Kind, Place, Session

MOMENT = Kind("timestamp", scale=6)
TIMES = frozenset({"date", "timestamp", "timestamptz"})
"""Kinds of columns that can show how young a row is."""


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
    text = session.dialect.canonical_text(MOMENT, f"MAX({session.dialect.quote(beat.name)})", beat.kind)
    value = session.query_row(checked(f"SELECT {text} FROM {tables[0].sql}", session.dialect))[0]
    if value is None:
        raise PlanError(f"the heartbeat table {place} is empty: nothing proves yet what has arrived")
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
        if reader.stopped.wait(waits().heartbeat_poll):
            raise StatementCancelled
    return time.monotonic() - began
