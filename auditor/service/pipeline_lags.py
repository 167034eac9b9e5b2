"""The history of what a pipeline, or a table of it, lags behind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from itertools import groupby

from auditor.config import Settings
from auditor.errors import ConfigError
from auditor.store import Store, lags, parts, pipelines
from auditor.store.lags import Lag, Place, Point


def list_lags(
    settings: Settings, store: Store, name: str, table: str | None = None, since: dt.datetime | None = None
) -> dict[Place | None, list[Point]]:
    """Return the lags of a pipeline (None) and of each of its targets, or of a table in each target, since a day ago by default.

    Raises UnknownPipeline, ConfigError and StoreError.
    """
    targets, now = settings.pipeline(name).targets, dt.datetime.now(dt.UTC)
    since = min(max(since or now - lags.FINE, now - lags.KEPT), now)
    if table is not None:
        check_table(store, name, table)
    places = [(target, table or "") for target in sorted(targets)]
    found: dict[Place | None, list[Point]] = {}
    if table is None:
        found[None] = lags.list_lags(store, name, since)
    return found | lags.list_table_lags(store, name, places, since)


def check_table(store: Store, name: str, table: str) -> None:
    """Raise ConfigError unless something of a table was staged, or a target holds it."""
    known = {*parts.list_tables(store, name), *(one for reports in pipelines.list_merges(store, name).values() for one in reports)}
    if table not in known:
        shown = ", ".join(sorted(known)[:5]) + (f" and {len(known) - 5:,} more" if len(known) > 5 else "")
        raise ConfigError(f"pipeline {name!r} has staged nothing of a table {table!r}; it has of {shown or 'no table yet'}")


def condense(points: Sequence[Point], since: dt.datetime, until: dt.datetime, most: int) -> list[Point]:
    """Return at most some ``most`` points of a stretch of time, each the maxima of those that are closer together."""
    width = max(1.0, (until - since).total_seconds() / most)
    groups = groupby(points, key=lambda one: int((one.at - since).total_seconds() // width))
    return [_join(list(group), round(width)) for _, group in groups]


def _join(points: Sequence[Point], width: int) -> Point:
    seconds = [one.lag.seconds for one in points if one.lag.seconds is not None]
    sizes = [one.lag.bytes for one in points if one.lag.bytes is not None]
    lag = Lag(max(seconds, default=None), max(sizes, default=None), max(one.lag.rate for one in points))
    return Point(points[0].at, max(width, *(one.span for one in points)), lag)
