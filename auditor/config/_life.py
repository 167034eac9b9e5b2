"""How an audit lives with tables that change: what is settled, what is looked at again, how often how much is read."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from auditor.config._base import Duration, Share, Strict
from auditor.config._connection import Heartbeat
from auditor.model import Method


class Settle(Strict):
    """Leave out on both sides what may still be in flight: rows whose ``column`` is not older than the watermark.

    The watermark is the source's clock less ``lag``, or the latest heartbeat that has reached the target, less ``lag``. A time more
    than a day ahead of the source's clock is a wrong one, and such a row is compared. A row that was deleted carries no time: until
    the delete arrives it is told as extra, unless the audit has a ``recheck`` too.
    """

    column: str
    lag: Duration | None = None
    heartbeat: Heartbeat | None = None
    nulls: Literal["compare", "leave_out"] = "compare"
    """What is done with rows whose ``column`` is NULL."""

    @model_validator(mode="after")
    def _some_watermark(self) -> Settle:
        if self.lag is None and self.heartbeat is None:
            raise ValueError("write a lag (lag: 15m), or the heartbeat that the source writes (heartbeat: {table: ..., column: ...})")
        return self


class Recheck(Strict):
    """Believe a difference only if it is still there after it was looked at ``times`` more, each wait longer by ``backoff``."""

    times: int = Field(3, ge=1, le=10)
    wait: Duration = 30.0
    backoff: float = Field(2.0, ge=1, le=10)


class Rolling(Strict):
    """Audit a part of the table in each run, the part that was not looked at for longest."""

    per_run: Share | None = None
    budget: Duration | None = None
    """Stop to begin further chunks after this time."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Rolling:
        if (self.per_run is None) == (self.budget is None):
            raise ValueError("write either per_run (per_run: 5%) or budget (budget: 10m)")
        if self.per_run == 0:
            raise ValueError("per_run: 0 would never read anything")
        return self


class Ladder(Strict):
    """Methods from the cheapest to the dearest: a run begins with the first, and goes up when one finds a difference."""

    levels: tuple[Method, ...] = Field(min_length=2)
    every: int = Field(10, ge=0)
    """Every so many runs all levels are run whatever the lower ones find; 0: never."""

    @model_validator(mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return {"levels": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _upwards(self) -> Ladder:
        order = ["counts", "signature", "minhash", "exact"]
        places = [order.index(level) for level in self.levels]
        if sorted(set(places)) != places:
            raise ValueError(f"write the levels from the cheapest to the dearest: {', '.join(order)}")
        return self


class Histogram(Strict):
    """Count the values of a column between its least and greatest in ``buckets`` of equal width."""

    column: str
    buckets: int = Field(20, ge=2, le=1000)


class Counts(Strict):
    """What the method counts measures beside its counts and sums, and which deviations are allowed."""

    classes: tuple[str, ...] = ()
    """Columns of which each value's rows are counted."""
    most_classes: int = Field(1000, ge=1, le=100_000)
    histogram: tuple[Histogram, ...] = ()
    allow: dict[str, str | float] = {}
    """Deviation of a measure from the source's that is no difference: a number, or a percentage. The name is ``rows``,
    ``column measure`` (``price sum``) or ``* measure`` (``* nulls``)."""

    @model_validator(mode="before")
    @classmethod
    def _one_histogram(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("histogram"), dict):
            return {**value, "histogram": [value["histogram"]]}
        return value

    @model_validator(mode="after")
    def _numbers(self) -> Counts:
        wrong = [str(text) for text in self.allow.values() if not re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?%?", str(text).strip())]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is no deviation; write a number (10) or a percentage ('0.1%')")
        return self


class Tolerance(Strict):
    """How far two values of a column may be apart and count as equal."""

    absolute: float | None = Field(None, gt=0)
    relative: float | None = Field(None, gt=0, lt=1)
    time: Duration | None = Field(None, gt=0)

    @model_validator(mode="after")
    def _one(self) -> Tolerance:
        if sum(value is not None for value in (self.absolute, self.relative, self.time)) != 1:
            raise ValueError("write one of absolute (absolute: 0.01), relative (relative: 0.000001) and time (time: 1s)")
        return self


class Threshold(Strict):
    """What is still a match: a score not below ``score``, or not more differing rows than ``rows`` or than their ``share``."""

    score: float = Field(1.0, ge=0, le=1)
    rows: int | None = Field(None, ge=0)
    share: Share | None = None


def _threshold(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"score": value}
    return value


Thresholds = Annotated[Threshold, BeforeValidator(_threshold)]


class Proxy(Strict):
    """A dump that stands in for the source between two of its own audits."""

    connection: str
    table: str
    format: Literal["parquet", "csv", "delta", "iceberg"] | None = None
    as_of: dt.datetime | None = None
    """The moment that the dump stands for; without it, what the dump says of itself, or when its file was written."""
