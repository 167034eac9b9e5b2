"""An audit with its status: its last verdict, how old that is, and its runs."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import Field

from auditor.model import State, Status, Verdict
from auditor.shapes._shape import Shape
from auditor.shapes.run import VERIFIED, WITHIN, Run

STREAM = "Up to this time the target was seen equal to the stream of its source, which live summaries say; null without them."


class TrendPoint(Shape):
    """A run of the last 30 days."""

    run: str
    at: dt.datetime
    verdict: Verdict
    score: float | None
    lower: float | None
    upper: float | None


class LastRun(Shape):
    """The run of an audit that ended last, with or without a verdict."""

    run: str
    state: State
    ended: dt.datetime | None
    note: str = Field(description="A sentence on it if it failed or was cancelled after the last verdict, else empty.")


class ThresholdValues(Shape):
    """What a threshold allows: at least this score, or at most this many differing rows, or this share of them."""

    score: float
    rows: int | None
    share: float | None


class AuditStatus(Shape):
    """An audit's status. One-off runs, with other settings than the audit's, change nothing of it."""

    status: Status = Field(
        description="The last verdict; `within_threshold` for a match although something differs, `stale` for a match that is too old,"
        " `running` and `never` before the first verdict."
    )
    reasons: tuple[str, ...] = Field(description="Why.")
    verdict: Verdict | None = Field(
        description="The last verdict; of a rolling audit that of its whole table. Runs without one do not count."
    )
    within_threshold: bool = Field(description="Whether that is a match although something differs, which the audit allows.")
    run: str | None = Field(description="The run of the last verdict; of a rolling audit the last part.")
    ended: dt.datetime | None = Field(description="When that run ended.")
    threshold: ThresholdValues | None = Field(description="The threshold under which that verdict was reached.")
    last_run: LastRun | None = Field(description="The run that ended last; failed and cancelled runs stand beside the last verdict.")
    verified_through: dt.datetime | None = Field(description=VERIFIED)
    within_threshold_through: dt.datetime | None = Field(description=WITHIN)
    stream_through: dt.datetime | None = Field(description=STREAM)


class Audit(Shape):
    """An audit and its status. Each leg of an audit via a dump is an audit here."""

    name: str = Field(examples=["orders"])
    source: str
    target: str
    method: str
    threshold: float = Field(description="The score below which a run is a mismatch; 1 if no score below is allowed.")
    defined_over_http: bool = Field(description="Whether the audit was defined over HTTP rather than in auditor.yaml.")
    paused: bool = Field(description="Whether the schedule skips the audit.")
    next_due: dt.datetime | None = Field(description="When the schedule requests the next run.")
    status: AuditStatus = Field(description="The audit's status.")
    verified_through: dt.datetime | None = Field(description=VERIFIED)
    latest_run: Run | None = Field(description="The newest run with the audit's own settings that has begun, or else waits.")
    active_run: Run | None = Field(description="The running run, else the one that waits for a worker.")


class AuditDetails(Audit):
    """An audit with its status, its runs of the last 30 days and its definition."""

    trend: tuple[TrendPoint, ...]
    definition: dict[str, Any] = Field(description="The audit's settings that differ from their defaults.")


class PauseState(Shape):
    """Whether the schedule skips an audit."""

    name: str
    paused: bool


class ListedAudit(Shape):
    """A line of the list of audits, of tables or of segments."""

    audit: str
    source: str
    target: str
    status: Status
    verdict: Verdict | None
    reasons: tuple[str, ...]
    run: str | None = Field(description="The run of the last verdict.")
    age: float | None = Field(description="Seconds since that run ended.")
    next_due: dt.datetime | None
    paused: bool
    active_run: str | None
    last_run: str = Field(description="A sentence on a last run that failed or was cancelled after the last verdict, else empty.")
