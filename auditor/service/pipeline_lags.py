"""The history of what a pipeline, or a table of it, lags behind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import groupby

from auditor.config import Settings
from auditor.errors import ConfigError
from auditor.shapes.lag import LagHistory, LagPoint, LagSeries
from auditor.store import Store, lags, parts, pipelines
from auditor.store.lags import Point


def list_lags(settings: Settings, store: Store, name: str, table: str | None = None, since: dt.datetime | None = None) -> LagHistory:
    """Return the lags of a pipeline and of each of its targets, or of a table in each target, since a day ago by default.

    Raises UnknownPipeline, ConfigError and StoreError.
    """
    targets, now = settings.pipeline(name).targets, dt.datetime.now(dt.UTC)
    since = min(max(since or now - lags.FINE, now - lags.KEPT), now)
    if table is not None:
        check_table(store, name, table)
    places = [(target, table or "") for target in sorted(targets)]
    whole = [_series(None, None, lags.list_lags(store, name, since))] if table is None else []
    tables = lags.list_table_lags(store, name, places, since)
    return LagHistory(pipeline=name, series=[*whole, *(_series(target, table, points) for (target, _), points in tables.items())])


def _series(target: str | None, table: str | None, points: Sequence[Point]) -> LagSeries:
    listed = [LagPoint(at=point.at, span=point.span, **point.lag._asdict()) for point in points]
    return LagSeries(target=target, table=table, points=listed)


def check_table(store: Store, name: str, table: str) -> None:
    """Raise ConfigError unless something of a table was staged, or a target holds it."""
    known = {
        *parts.list_tables(store, name),
        *(merged_table for reports in pipelines.list_merges(store, name).values() for merged_table in reports),
    }
    if table not in known:
        shown = ", ".join(sorted(known)[:5]) + (f" and {len(known) - 5:,} more" if len(known) > 5 else "")
        raise ConfigError(f"pipeline {name!r} has staged nothing of a table {table!r}; it has of {shown or 'no table yet'}")


def condense(points: Sequence[LagPoint], since: dt.datetime, until: dt.datetime, most: int) -> list[LagPoint]:
    """Return at most some ``most`` points of a stretch of time, each the maxima of those that are closer together."""
    width = max(1.0, (until - since).total_seconds() / most)
    groups = groupby(points, key=lambda point: int((point.at - since).total_seconds() // width))
    return [_join(list(group), round(width)) for _, group in groups]


def _join(points: Sequence[LagPoint], width: int) -> LagPoint:
    return LagPoint(
        at=points[0].at,
        span=max(width, *(point.span for point in points)),
        seconds=max((point.seconds for point in points if point.seconds is not None), default=None),
        bytes=max((point.bytes for point in points if point.bytes is not None), default=None),
        rate=max(point.rate for point in points),
    )
