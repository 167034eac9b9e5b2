"""What a service answers, as its API description says it. Times are ISO 8601 in UTC; None is unknown or not applicable."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from auditor.history.standing import Status
from auditor.model import Method, Side
from auditor.report.difference_rows import DifferenceRow
from auditor.report.json_types import PlanJson

__all__ = [
    "Audit",
    "AuditDetails",
    "ConsoleScripts",
    "Difference",
    "Partition",
    "PauseState",
    "PlanJson",
    "Run",
]

StateName = Literal["pending", "running", "done", "failed", "cancelled"]
VerdictName = Literal["match", "mismatch", "unknown"]


class Score(TypedDict):
    """How similar both tables are, 0 to 1."""

    value: float | None
    lower: float | None
    upper: float | None
    published: float | None


class SideProgress(TypedDict):
    """Progress of a run on one side, in rows."""

    doing: str
    done: int
    total: int
    statements: int
    running: int


class Run(TypedDict):
    """One run of an audit: its progress and its result."""

    run: str
    audit: str
    state: StateName
    verdict: VerdictName
    exit_code: int | None
    method: Method | None
    began: str
    ended: str | None
    seconds: float | None
    score: Score
    coverage: float | None
    rows: dict[Side, int] | None
    partitions: int | None
    unequal: int | None
    missing: int | None
    extra: int | None
    changed: int | None
    unsettled: int | None
    reasons: list[str]
    reason: str
    requested_by: str
    overrides: dict[str, Any]
    other_settings: str | None
    keys: dict[str, int] | None
    times: dict[str, str] | None
    definition: dict[str, Any] | None
    resumable: bool
    cancel_requested: bool
    progress: dict[Side, SideProgress]
    waiting_for: dict[Side, str]
    verified_through: str | None
    within_threshold: bool
    within_threshold_through: str | None


class TrendPoint(TypedDict):
    """A run of the last 30 days."""

    run: str
    at: str
    verdict: VerdictName
    score: float | None
    lower: float | None
    upper: float | None


class LastRun(TypedDict):
    """The run of an audit that ended last."""

    run: str
    state: StateName
    ended: str | None
    note: str


class ThresholdValues(TypedDict):
    """What a threshold allows."""

    score: float
    rows: int | None
    share: float | None


class Standing(TypedDict):
    """An audit's status."""

    status: Status
    reasons: list[str]
    verdict: VerdictName | None
    within_threshold: bool
    run: str | None
    ended: str | None
    threshold: ThresholdValues | None
    last_run: LastRun | None
    verified_through: str | None
    within_threshold_through: str | None
    stream_through: str | None


class Audit(TypedDict):
    """An audit and its standing."""

    name: str
    source: str
    target: str
    method: str
    threshold: float
    defined_over_http: bool
    paused: bool
    next_due: str | None
    standing: Standing
    verified_through: str | None
    latest_run: Run | None
    active_run: Run | None


class AuditDetails(Audit):
    """An audit with its runs of the last 30 days and its definition."""

    trend: list[TrendPoint]
    definition: dict[str, Any]


class PauseState(TypedDict):
    """Whether the schedule skips an audit."""

    name: str
    paused: bool


class ConsoleScripts(TypedDict):
    """SQL scripts to paste into each side's console; None for a side that was not asked for."""

    source: str | None
    target: str | None


class Partition(TypedDict):
    """One partition of the table, as compared by a run."""

    partition: int | None
    label: str
    state: str
    similarity: float | None
    rows: dict[Side, int]
    least: str | None
    greatest: str | None


class Difference(DifferenceRow):
    """A row that is not equal, or a range of rows that one side lacks."""

    number: int
