"""The chart of what a pipeline or a table of it lagged behind, with the same numbers as a table."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from auditor.api.pages._layout import now
from auditor.report import formatting
from auditor.service.pipeline_status import condense
from auditor.shapes.lag import LagPoint

Span = Literal["hour", "day", "week", "month"]
SPANS: tuple[Span, ...] = get_args(Span)
LENGTHS: dict[Span, dt.timedelta] = {
    "hour": dt.timedelta(hours=1), "day": dt.timedelta(days=1), "week": dt.timedelta(days=7), "month": dt.timedelta(days=30),
}  # fmt: skip

MOST_POINTS = 360
"""Points of a chart at most."""

LISTED = 24
"""Rows of the table of the same numbers at most."""


@dataclass(frozen=True, slots=True)
class LagChart:
    """What a page shows of a history; ``series`` is the chart's data as JSON, empty for fewer than two points."""

    span: Span
    series: str
    listed: Sequence[LagPoint]
    """The maxima of a few stretches, newest first."""


def begin(span: Span, at: dt.datetime | None = None) -> dt.datetime:
    """Return when a chart begins."""
    return (at or now()) - LENGTHS[span]


def build_chart(points: Sequence[LagPoint], span: Span, limit: float) -> LagChart:
    """Build the chart of a history that begins as `begin` says; ``limit`` is the lag in seconds from which channels are told."""
    until = now()
    since = begin(span, until)
    drawn = list(_with_gaps(condense(points, since, until, MOST_POINTS)))
    values = {
        "from": since.timestamp(),
        "to": until.timestamp(),
        "limit": limit,
        "at": [at for at, _ in drawn],
        "seconds": [None if point is None else point.seconds for _, point in drawn],
        "says": ["" if point is None else _says(point) for _, point in drawn],
    }
    known = [point for _, point in drawn if point is not None and point.seconds is not None]
    listed = condense(points, since, until, LISTED)[::-1]
    return LagChart(span, json.dumps(values) if len(known) > 1 else "", listed)


def _with_gaps(points: Sequence[LagPoint]) -> Iterator[tuple[float, LagPoint | None]]:
    """Yield the time and point of each, with None in between where nothing was reported for longer than a point speaks for."""
    end = None
    for point in points:
        if end is not None and point.at.timestamp() > end:
            yield end, None
        yield point.at.timestamp(), point
        end = point.at.timestamp() + 2.5 * point.span


def _says(point: LagPoint) -> str:
    behind = "not known how far behind" if point.seconds is None else f"{formatting.duration(point.seconds)} behind"
    return ", ".join([behind, *([formatting.size(point.bytes)] if point.bytes is not None else []), f"{point.rate:,.1f} events a second"])
