"""What the API answers about the lag of pipelines."""

from __future__ import annotations

from typing import TypedDict


class LagPoint(TypedDict):
    """What something lagged behind from a moment on, for a span of seconds; of a span of an hour the maxima."""

    at: str
    span: int
    seconds: float | None
    bytes: int | None
    rate: float


class LagSeries(TypedDict):
    """The lag of a pipeline, of a target of it, or of a table in a target."""

    target: str | None
    table: str | None
    points: list[LagPoint]


class LagHistory(TypedDict):
    """What a pipeline, its targets, or a table in each of these lagged behind."""

    pipeline: str
    series: list[LagSeries]
