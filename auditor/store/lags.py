"""The history of what pipelines lag behind: themselves, their targets, and each table of these.

One row holds a look at a pipeline with all of its tables, so that a pipeline writes at most one row every SPAN seconds, 2,880 a day,
however many tables it has. Looks older than FINE become one row an hour, of the maxima; rows older than KEPT are deleted.

``tables`` of a row is zlib over lines, each a JSON array: target, table ('' for the target as a whole), seconds, bytes, events a second.
A table that lacks nothing and got nothing has no line.
"""

from __future__ import annotations

import datetime as dt
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Integer, Table, and_, delete, func, insert, or_, select

from auditor.errors import StoreError
from auditor.store.database import Store
from auditor.store.schema import Moment, Real, big_integer, long_binary, metadata, short_text

lags = Table(
    "auditor_pipeline_lags",
    metadata,
    Column("pipeline", short_text(), primary_key=True),
    Column("at", Moment(), primary_key=True),
    Column("span", Integer(), nullable=False),
    Column("seconds", Real()),
    Column("byte_count", big_integer()),
    Column("rate", Real()),
    Column("tables", long_binary(), nullable=False),
)
"""How far a pipeline lagged behind from a moment on, for a span of seconds: itself, and in ``tables`` its targets and their tables."""

SPAN = 30
"""Seconds of a look: at most one is stored for each multiple of this."""

HOUR = 3600
"""Seconds of a row of maxima."""

FINE = dt.timedelta(days=1)
"""How long each look is kept."""

KEPT = dt.timedelta(days=30)
"""How long the maxima of the hours are kept."""


class Lag(NamedTuple):
    """What a pipeline, a target or a table of it lags behind."""

    seconds: float | None
    """None if it is not known."""
    bytes: int | None
    rate: float
    """Events a second: staged by the pipeline, merged into the target."""


class Point(NamedTuple):
    """A lag from a moment on, for a span of seconds; of a span longer than SPAN the maxima."""

    at: dt.datetime
    span: int
    lag: Lag


NOTHING = Lag(0.0, 0, 0.0)
"""What a table lags behind that a look does not name."""

Place = tuple[str, str]
"""Target and table; no table for the target as a whole."""


def record_lag(store: Store, pipeline: str, at: dt.datetime, whole: Lag, tables: Mapping[Place, Lag]) -> None:
    """Store a look at a pipeline, unless there is one of the same SPAN seconds. Raises StoreError."""
    values = {"pipeline": pipeline, "at": _floor(at, SPAN), "span": SPAN, **_values(whole, tables)}

    def work(connection: Connection) -> None:
        same = and_(lags.c.pipeline == pipeline, lags.c.at == values["at"])
        if connection.execute(select(lags.c.at).where(same)).one_or_none() is None:
            connection.execute(insert(lags).values(values))

    store.write(work)


def thin(store: Store, pipeline: str, now: dt.datetime) -> None:
    """Replace the looks of each hour that is older than FINE by their maxima, and delete what is older than KEPT. Raises StoreError."""
    until = _floor(now - FINE, HOUR)
    old = and_(lags.c.pipeline == pipeline, lags.c.span < HOUR, lags.c.at < until)
    while True:
        with store.reading() as connection:
            first = connection.execute(select(func.min(lags.c.at)).where(old)).scalar()
        if first is None:
            break
        _fold(store, pipeline, _floor(first, HOUR))
    store.write(lambda connection: connection.execute(delete(lags).where(lags.c.pipeline == pipeline, lags.c.at < now - KEPT)))


def _fold(store: Store, pipeline: str, hour: dt.datetime) -> None:
    """Replace the rows of an hour by one of their maxima."""
    within = and_(lags.c.pipeline == pipeline, lags.c.at >= hour, lags.c.at < hour + dt.timedelta(seconds=HOUR))

    def work(connection: Connection) -> None:
        rows = connection.execute(select(lags).where(within)).all()
        whole = _largest([Lag(row.seconds, row.byte_count, row.rate or 0.0) for row in rows])
        tables: dict[Place, Lag] = {}
        for row in rows:
            for place, lag in _unpack(row.tables).items():
                tables[place] = _largest([tables.get(place, NOTHING), lag])
        connection.execute(delete(lags).where(within))
        if rows:
            connection.execute(insert(lags).values(pipeline=pipeline, at=hour, span=HOUR, **_values(whole, tables)))

    store.write(work)


def list_lags(store: Store, pipeline: str, since: dt.datetime) -> list[Point]:
    """Return what the pipeline itself lagged behind, in order. Raises StoreError."""
    columns = (lags.c.at, lags.c.span, lags.c.seconds, lags.c.byte_count, lags.c.rate)
    with store.reading() as connection:
        rows = connection.execute(select(*columns).where(*_since(pipeline, since)).order_by(lags.c.at)).all()
    return [Point(row.at, row.span, Lag(row.seconds, row.byte_count, row.rate or 0.0)) for row in rows]


def list_table_lags(store: Store, pipeline: str, places: Iterable[Place], since: dt.datetime) -> dict[Place, list[Point]]:
    """Return what tables of targets lagged behind, each in order; '' as the table is the target as a whole. Raises StoreError."""
    points_by_place: dict[Place, list[Point]] = {place: [] for place in places}
    columns = (lags.c.at, lags.c.span, lags.c.tables)
    with store.reading() as connection:
        for row in connection.execute(select(*columns).where(*_since(pipeline, since)).order_by(lags.c.at)):
            text = _text(row.tables)
            for place, points in points_by_place.items():
                points.append(Point(row.at, row.span, _find(text, place)))
    return points_by_place


def _since(pipeline: str, since: dt.datetime) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions on rows that reach behind a moment: one of an hour may begin long before it."""
    fine, coarse = (lags.c.at > since - dt.timedelta(seconds=span) for span in (SPAN, HOUR))
    return (lags.c.pipeline == pipeline, or_(fine, and_(coarse, lags.c.span >= HOUR)))


def _largest(measured: Iterable[Lag]) -> Lag:
    """Return the maxima of each number."""
    listed = list(measured)
    return Lag(
        max((lag.seconds for lag in listed if lag.seconds is not None), default=None),
        max((lag.bytes for lag in listed if lag.bytes is not None), default=None),
        max((lag.rate for lag in listed), default=0.0),
    )


def _values(whole: Lag, tables: Mapping[Place, Lag]) -> dict[str, object]:
    lines = [json.dumps([*place, *lag], separators=(",", ":")) for place, lag in sorted(tables.items()) if lag != NOTHING]
    text = "\n".join(["", *lines, ""])
    return {"seconds": whole.seconds, "byte_count": whole.bytes, "rate": whole.rate, "tables": zlib.compress(text.encode(), 6)}


def _text(packed: bytes) -> str:
    try:
        return zlib.decompress(packed).decode()
    except zlib.error as error:
        raise StoreError("a stored look at a pipeline is corrupt; forget its history with auditor pipeline reset") from error


def _find(text: str, place: Place) -> Lag:
    """Return the lag of one place without parsing the lines of the others: JSON has no line ends within a text."""
    begin = "\n" + json.dumps(list(place), separators=(",", ":"))[:-1] + ","
    start = text.find(begin)
    return _line(text[start + 1 : text.index("\n", start + 1)])[1] if start >= 0 else NOTHING


def _unpack(packed: bytes) -> dict[Place, Lag]:
    return dict(_line(line) for line in _text(packed).splitlines() if line)


def _line(line: str) -> tuple[Place, Lag]:
    target, table, seconds, size, rate = json.loads(line)
    return (target, table), Lag(seconds, size, rate)


def _floor(at: dt.datetime, seconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at.timestamp() // seconds * seconds, dt.UTC)
