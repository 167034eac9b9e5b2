"""The report of a day, on all audits."""

from __future__ import annotations

import datetime as dt

from pydantic import Field

from auditor.model import State, Status, Verdict
from auditor.shapes._shape import Shape
from auditor.shapes.audit_status import ThresholdValues, TrendPoint
from auditor.shapes.report import RunReport


class DayScore(Shape):
    """The score of a run; its bounds are null if the method gives none."""

    value: float
    lower: float | None
    upper: float | None


class CombinedVerdict(Shape):
    """The verdict on source and target, combined from both legs of an audit by way of a dump; the hard bounds are certain."""

    verdict: Verdict
    reasons: tuple[str, ...]
    lower: float
    upper: float
    hard_lower: float
    hard_upper: float
    leg_ages_seconds: tuple[float | None, float | None]
    dump_age_seconds: float | None


class DayLastRun(Shape):
    """The run of an audit that ended last, and how: `done`, or `failed` or `cancelled` without a verdict."""

    run: str
    state: State
    ended: dt.datetime | None


class DayAudit(Shape):
    """One audit of a day. Ages and durations are in seconds."""

    audit: str
    status: Status
    configured: bool
    paused: bool
    reasons: tuple[str, ...]
    run: str | None = Field(description="The run of the last verdict, or else the last run.")
    began: dt.datetime | None
    age_seconds: float | None
    running: str | None
    verdict: Verdict | None
    score: DayScore | None
    threshold: ThresholdValues | None
    streak: int
    streak_since: dt.datetime | None
    verified_through: dt.datetime | None
    verified_age_seconds: float | None
    within_threshold: bool
    within_threshold_through: dt.datetime | None
    last_run: DayLastRun | None
    not_compared: tuple[str, ...]
    report: RunReport | None = Field(description="The report of `run`; null for audits of which nothing differs.")
    trend: tuple[TrendPoint, ...]
    combined: CombinedVerdict | None
    legs: tuple[DayAudit, ...]


class DayReport(Shape):
    """The report of a day."""

    date: dt.date
    at: dt.datetime
    counts: dict[Status, int] = Field(description="Numbers of configured audits by status.")
    audits: tuple[DayAudit, ...] = Field(description="The most urgent first.")
