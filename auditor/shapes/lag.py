"""The history of what a pipeline, its targets and their tables lagged behind."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from auditor.shapes._shape import Shape


class LagPoint(Shape):
    """What something lagged behind from a moment on, for a span of seconds; of a span of an hour the maxima."""

    at: dt.datetime
    span: int = Field(description="Seconds: 30 within the last day, 3600 before.", examples=[30])
    seconds: float | None = Field(description="Null if it was not known.", examples=[1.5])
    bytes: int | None = Field(description="Bytes of the source's log that were not staged, or of parts that were missing in the target.")
    rate: float = Field(description="Events a second that were staged, or merged.", examples=[120.0])


class LagSeries(Shape):
    """The lag of a pipeline, of a target of it, or of a table in a target."""

    target: str | None = Field(description="Null for the pipeline itself: how far staging lags behind the source.", examples=["wh"])
    table: str | None = Field(description="Null for all tables together.", examples=["shop.orders"])
    points: list[LagPoint] = Field(description="In the order of time. While no process of the pipeline runs, there is none.")


class LagHistory(Shape):
    """What a pipeline, its targets, or a table in each of these lagged behind."""

    pipeline: str = Field(examples=["shop"])
    series: list[LagSeries]

    def points_of(self, target: str | None) -> list[LagPoint]:
        """Return the points of a target, or of the pipeline itself (None)."""
        return next(target_lags.points for target_lags in self.series if target_lags.target == target)
