"""Settings of how an audit runs: when it is due, what is settled and rechecked, how much each run reads, and what may deviate."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Literal

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from auditor.config._base import Duration, Share, Strict, Zone
from auditor.config._connection import Heartbeat
from auditor.model import Method


def _check_cron(text: str) -> str:
    try:
        CronSim(text, dt.datetime(2000, 1, 1, tzinfo=dt.UTC))
    except CronSimError as error:
        raise ValueError(f"{text!r} is not a cron expression ({error}); write minute, hour, day, month, weekday: '30 6 * * 1-5'") from None
    return text


class Schedule(Strict):
    """When an audit is due: a cron expression in a time zone, which may have daylight saving time."""

    cron: Annotated[str, AfterValidator(_check_cron)]
    """Minute, hour, day, month and weekday, as in cron: ``30 6 * * 1-5``."""
    timezone: Zone = "UTC"
    """The time zone of the expression."""
    jitter: Duration = 0.0
    """Maximum delay of each tick, in seconds. It depends on the audit's name, so that audits due at the same time do not start together."""
    catch_up: Literal["last", "none"] = "last"
    """Whether the last of the ticks missed while no scheduler was running is run, or none."""
    bootstrap: Annotated[str, AfterValidator(_check_cron)] | None = None
    """When the target is copied again, as a cron expression: by ``auditor bootstrap --due`` alone. By default never."""


def _from_cron(value: Any) -> Any:
    return {"cron": value} if isinstance(value, str) else value


ScheduleField = Annotated[Schedule, BeforeValidator(_from_cron)]


class Settle(Strict):
    """Leave out rows of both sides that may still be in flight: those whose ``column`` is not older than the watermark.

    The watermark is the source's clock minus ``lag``, or the latest heartbeat that has reached the target, minus ``lag``. A row whose
    time is more than a day ahead of the source's clock is compared, because its time must be wrong. A deleted row has no time: until
    the delete arrives at the target it is reported as extra, unless the audit also has a ``recheck``.
    """

    column: str
    """The time of a row's last change, by the source's name."""
    lag: Duration | None = None
    """How long a change may take to arrive."""
    heartbeat: Heartbeat | None = None
    """A table by which the target shows how far it has come."""
    barrier: Duration | None = None
    """How long a run waits until a ``heartbeat`` reaches the target that was written after the source's snapshot was opened; the watermark
    is then the source's clock right before that, minus ``lag``. Only for targets that get the transactions of all tables in order."""
    nulls: Literal["compare", "leave_out"] = "compare"
    """Whether rows whose ``column`` is NULL are compared or left out."""

    @model_validator(mode="after")
    def _some_watermark(self) -> Settle:
        if self.lag is None and self.heartbeat is None:
            raise ValueError(
                "settle needs a watermark; add lag (lag: 15m), or the source's heartbeat (heartbeat: {table: ..., column: ...})"
            )
        if self.barrier is not None and self.heartbeat is None:
            raise ValueError("barrier waits for a heartbeat, and none is given; add the source's (heartbeat: {})")
        return self


class Recheck(Strict):
    """Confirm a difference only if it is still found at up to ``times`` rechecks. Each wait is ``backoff`` times the one before."""

    times: int = Field(3, ge=1, le=10)
    """Rechecks at most."""
    wait: Duration = 30.0
    """Time before the first recheck."""
    backoff: float = Field(2.0, ge=1, le=10)
    """Factor by which each wait is longer than the one before."""


class Rolling(Strict):
    """Read only some partitions in each run: those that were read least recently."""

    per_run: Share | None = None
    """Share of the table that a run reads."""
    budget: Duration | None = None
    """Seconds after which a run starts no further chunks."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Rolling:
        if (self.per_run is None) == (self.budget is None):
            raise ValueError("rolling needs exactly one of per_run (per_run: 5%) and budget (budget: 10m)")
        if self.per_run == 0:
            raise ValueError("per_run: 0 would read nothing; write a larger share")
        return self


class Ladder(Strict):
    """Methods from cheapest to most expensive: a run starts with the first, and escalates to the next when it finds a difference."""

    levels: tuple[Method, ...] = Field(min_length=2)
    """The methods, in this order; a list in place of these settings is the same."""
    every: int = Field(10, ge=0)
    """Every n-th run executes all levels, whatever the lower ones find; 0: never."""

    @model_validator(mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        return {"levels": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _upwards(self) -> Ladder:
        order = ["counts", "signature", "minhash", "exact"]
        places = [order.index(level) for level in self.levels]
        if sorted(set(places)) != places:
            raise ValueError(f"the levels are not in order; write them from cheapest to most expensive: {', '.join(order)}")
        return self


class Histogram(Strict):
    """Count the values of a column in ``buckets`` of equal width between its least and greatest value."""

    column: str
    """A column of numbers, dates or timestamps."""
    buckets: int = Field(20, ge=2, le=1000)
    """Number of buckets."""


class Counts(Strict):
    """What the method counts measures in addition to counts and sums, and which deviations are allowed."""

    classes: tuple[str, ...] = ()
    """Columns whose rows are counted for each distinct value."""
    most_classes: int = Field(1000, ge=1, le=100_000)
    """Maximum distinct values of a column; of one with more, only the most frequent are compared."""
    histogram: tuple[Histogram, ...] = ()
    """Histograms that are compared."""
    allow: dict[str, str | float] = {}
    """Allowed deviation from the source by measure: a number, or a percentage. A measure is ``rows``, ``column measure``
    (``price sum``) or ``* measure`` (``* nulls``)."""

    @model_validator(mode="before")
    @classmethod
    def _one_histogram(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("histogram"), dict):
            return {**value, "histogram": [value["histogram"]]}
        return value

    @model_validator(mode="after")
    def _numbers(self) -> Counts:
        invalid = [str(text) for text in self.allow.values() if not re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?%?", str(text).strip())]
        if invalid:
            raise ValueError(f"{invalid[0]!r} is not a deviation; write a number (10) or a percentage ('0.1%')")
        return self


class Tolerance(Strict):
    """How far two values of a column may differ and still count as equal; ``time`` is in seconds."""

    absolute: float | None = Field(None, gt=0)
    """The greatest difference of two numbers."""
    relative: float | None = Field(None, gt=0, lt=1)
    """The greatest difference as a share of the greater number."""
    time: Duration | None = Field(None, gt=0)
    """The greatest difference of two times."""

    @model_validator(mode="after")
    def _one(self) -> Tolerance:
        if sum(value is not None for value in (self.absolute, self.relative, self.time)) != 1:
            raise ValueError("tolerance needs exactly one of absolute (absolute: 0.01), relative (relative: 0.000001) and time (time: 1s)")
        return self


class Threshold(Strict):
    """What still counts as a match: at least this ``score``, or at most this many differing ``rows``, or this ``share`` of them.

    Rows are counted, not keys: a key that the target holds 5,000 times too often is 5,000 rows.
    """

    score: float = Field(1.0, ge=0, le=1)
    """The least similarity."""
    rows: int | None = Field(None, ge=0)
    """The most rows that may differ."""
    share: Share | None = None
    """The greatest share of rows that may differ."""


def _from_number(value: Any) -> Any:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"score": value}
    return value


ThresholdField = Annotated[Threshold, BeforeValidator(_from_number)]


class Proxy(Strict):
    """A proxy: a dump that stands in for the source, and is audited against it itself."""

    connection: str
    """The connection that reads the dump."""
    table: str
    """The dump: a table, or the path of files."""
    format: Literal["parquet", "csv", "delta", "iceberg"] | None = None
    """The format of the files at a path; by default that of the file's ending, else Parquet."""
    as_of: dt.datetime | None = None
    """The time of the data in the dump; by default the time that the dump states, or the modification time of its file."""
    keep: int = Field(2, ge=1)
    """Dumps that ``auditor dump`` keeps, the newest of which stands in for the source."""
