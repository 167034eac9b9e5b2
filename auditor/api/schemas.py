"""Response models of the API, and how they are built from stored runs and audits.

Times are ISO 8601 in UTC. A null means that the value is not known or does not apply.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from auditor.history import standing as standings
from auditor.history.standing import Status
from auditor.model import SLICES, Method, Side, State, Verdict
from auditor.report import history
from auditor.service.audits import Overview
from auditor.service.definitions import own_definition
from auditor.store.runs import StoredRun

VERIFIED = "Everything that the source held up to this time was seen equal in the target."
STREAM = "Up to this time the target was seen equal to the stream of its source, which live summaries say; null without them."
WITHIN = "Up to this time everything was equal, or differed no more than the audit allows; null unless later than `verified_through`."
RUN_ID_EXAMPLE = "9f1c2d3e4a5b60718293a4b5c6d7e8f9"


class Score(BaseModel):
    """How similar both tables are, between 0 and 1; null where the run computed no score."""

    value: float | None
    lower: float | None = Field(description="Lower bound; equal to the value if every difference was named.")
    upper: float | None = Field(description="Upper bound.")
    published: float | None = Field(description="The published score, computed over partitions.")


class SideProgress(BaseModel):
    """Progress of a run on one side."""

    doing: str = Field(description="The current activity.")
    done: int = Field(description="Rows read so far.")
    total: int = Field(description="Estimated number of rows; 0 if not known.")
    statements: int = Field(0, description="Statements of this run that have ended on this side.")
    running: int = Field(0, description="Statements of this run that are running on this side now.")


class Run(BaseModel):
    """One run of an audit: its progress and its result."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "run": RUN_ID_EXAMPLE, "audit": "orders", "state": "done", "verdict": "mismatch", "exit_code": 1, "method": "exact",
                    "began": "2026-03-01T06:30:00+00:00", "ended": "2026-03-01T06:31:10+00:00", "seconds": 70.2,
                    "score": {"value": 0.99998, "lower": 0.99998, "upper": 0.99998, "published": 0.98}, "coverage": 1.0,
                    "rows": {"source": 100000, "target": 99999}, "partitions": 33, "unequal": 2, "missing": 1, "extra": 0, "changed": 1,
                    "unsettled": 0, "reasons": ["2 rows differ"], "reason": "", "requested_by": "schedule", "overrides": {},
                    "other_settings": None, "within_threshold": False, "within_threshold_through": None,
                    "keys": None, "times": None, "definition": None,
                    "resumable": False, "cancel_requested": False, "progress": {}, "waiting_for": {}, "verified_through": None,
                }
            ]
        }
    )  # fmt: skip

    run: str = Field(description="The run's id.")
    audit: str
    state: State = Field(description="How far the run is; `done`, `failed` and `cancelled` are final unless it is resumed.")
    verdict: Verdict = Field(description="The result; `unknown` until the run has one, and if it could not compare everything.")
    exit_code: int | None = Field(description="Exit code of `auditor run` for this result; null until the run ends.")
    method: Method | None
    began: dt.datetime
    ended: dt.datetime | None
    seconds: float | None = Field(description="Duration of the run.")
    score: Score
    coverage: float | None = Field(description="Share of rows, between 0 and 1, that were compared.")
    rows: dict[Side, int] | None = Field(description="Rows compared on each side.")
    partitions: int | None = Field(description="Partitions compared.")
    unequal: int | None = Field(description="Partitions that are not equal.")
    missing: int | None = Field(description="Rows that only the source has.")
    extra: int | None = Field(description="Rows that only the target has.")
    changed: int | None = Field(description="Rows whose key both sides have and whose columns differ.")
    unsettled: int | None = Field(
        description="Rows that differ but were still changing when last rechecked, or were not; not counted above."
    )
    reasons: list[str] = Field(description="Why the verdict is what it is.")
    reason: str = Field(description="Why the run was requested, as given in the request.")
    requested_by: str = Field(description="The token's name, `schedule`, or the user who ran the command line.")
    overrides: dict[str, Any] = Field(description="Settings of this run that differ from its audit's.")
    other_settings: str | None = Field(
        description="The same for display, such as `threshold 0`: a one-off run, which changes nothing of its audit's status. Null: "
        "the audit's own run."
    )
    keys: dict[Literal["from", "to"], int] | None = Field(
        description="The keys to which the run is restricted, both ends included. Null: all keys."
    )
    times: dict[Literal["from", "to"], str] | None = Field(
        description="The times to which the run is restricted, as requested: `from` included, `to` excluded. Null: all times."
    )
    definition: dict[str, Any] | None = Field(description="The audit of an ad-hoc run; null for a run of a named audit.")
    resumable: bool
    cancel_requested: bool
    progress: dict[Side, SideProgress] = Field(description="Progress of a pending or running run; empty once it has ended.")
    waiting_for: dict[Side, str] = Field(description="What each waiting side waits for; sides that are not waiting are left out.")
    verified_through: dt.datetime | None = Field(description=VERIFIED)
    within_threshold: bool = Field(description="Whether the verdict is match although something differs, which the audit allows.")
    within_threshold_through: dt.datetime | None = Field(description=WITHIN)


def run_from(one: StoredRun) -> Run:
    """Return the API's representation of a stored run."""
    progress = one.progress if one.state in (State.PENDING, State.RUNNING) else {}
    waiting = {side: now["doing"] for side, now in progress.items() if str(now.get("doing", "")).startswith("waits")}
    slice = {name: one.overrides.get(name) for name in SLICES}
    own = own_definition(one) if one.is_ad_hoc else None
    values = {"definition": own, "exit_code": one.exit_code, "progress": dict(progress), "waiting_for": waiting}
    return Run.model_validate({**history.run_json(one), **slice, **values})


class TrendPoint(BaseModel):
    """A run of the last 30 days."""

    model_config = ConfigDict(from_attributes=True)

    run: str
    at: dt.datetime
    verdict: Verdict
    score: float | None
    lower: float | None
    upper: float | None


class LastRun(BaseModel):
    """The run of an audit that ended last, with or without a verdict."""

    run: str
    state: State
    ended: dt.datetime | None
    note: str = Field(description="A sentence on it if it failed or was cancelled after the last verdict, else empty.")


class ThresholdValues(BaseModel):
    """What a threshold allows: at least this score, or at most this many differing rows, or this share of them."""

    model_config = ConfigDict(from_attributes=True)

    score: float
    rows: int | None
    share: float | None


class Standing(BaseModel):
    """An audit's status. One-off runs, with other settings than the audit's, change nothing of it."""

    status: Status = Field(
        description="The last verdict; `within_threshold` for a match although something differs, `stale` for a match that is too old,"
        " `running` and `never` before the first verdict."
    )
    reasons: list[str] = Field(description="Why.")
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


def _standing_from(found: standings.Standing) -> Standing:
    last = found.last and LastRun(run=found.last.run, state=found.last.state, ended=found.last.ended, note=found.last_run)
    same = ("status", "verdict", "within_threshold", "verified_through", "within_threshold_through", "stream_through")
    return Standing(
        **{name: getattr(found, name) for name in same},
        reasons=list(found.reasons),
        run=found.run.run if found.run else None,
        ended=found.run.ended if found.run else None,
        threshold=ThresholdValues.model_validate(found.threshold) if found.threshold else None,
        last_run=last,
    )


class AuditListItem(BaseModel):
    """An audit and its standing. Each leg of an audit via a dump is an audit here."""

    name: str = Field(examples=["orders"])
    source: str
    target: str
    method: str
    threshold: float = Field(description="The score below which a run is a mismatch; 1 if no score below is allowed.")
    defined_over_http: bool = Field(description="Whether the audit was defined over HTTP rather than in auditor.yaml.")
    paused: bool = Field(description="Whether the schedule skips the audit.")
    next_due: dt.datetime | None = Field(description="When the schedule requests the next run.")
    standing: Standing = Field(description="The audit's status.")
    verified_through: dt.datetime | None = Field(description=VERIFIED)
    latest_run: Run | None = Field(description="The newest run with the audit's own settings that has begun, or else waits.")
    active_run: Run | None = Field(description="The running run, else the one that waits for a worker.")


class AuditDetails(AuditListItem):
    """An audit with its standing, its runs of the last 30 days and its definition."""

    trend: list[TrendPoint]
    definition: dict[str, Any] = Field(description="The audit's settings that differ from their defaults.")


def audit_from(one: Overview) -> AuditListItem:
    """Return the API's representation of an audit in a list."""
    names = ("name", "source", "target", "method", "paused", "next_due")
    standing = one.standing
    return AuditListItem(
        **{name: getattr(one, name) for name in names},
        threshold=one.threshold.score,
        defined_over_http=one.defined,
        standing=_standing_from(standing),
        verified_through=standing.verified_through,
        latest_run=run_from(standing.newest) if standing.newest else None,
        active_run=run_from(standing.active) if standing.active else None,
    )


class Partition(BaseModel):
    """One partition of the table, as compared by a run."""

    partition: int | None = Field(
        description="The partition's id; null for rows whose key holds a NULL, and where it would reveal a masked value."
    )
    label: str = Field(description="The partition's keys, for display.")
    state: Literal["equal", "accounted", "listed", "refined", "estimated", "unequal", "source_only", "target_only", "skipped"]
    similarity: float | None = Field(description="Share of the partition's rows, between 0 and 1, that are equal on both sides.")
    rows: dict[Side, int]
    least: str | None = Field(description="The least key of a partition that is not equal; null if keys have no order or are masked.")
    greatest: str | None = Field(description="The greatest key, likewise.")


class ColumnValues(BaseModel):
    """A column of a changed row, as canonical texts; null is NULL."""

    name: str
    source: str | None
    target: str | None
    reason: str = Field(description="Why two texts that look the same differ, e.g. `Unicode form`; empty for others.")


class RowRange(BaseModel):
    """Consecutive rows that one side lacks entirely."""

    label: str = Field(description="The range's keys, for display.")
    first: str | None = Field(description="The first key.")
    last: str | None = Field(description="The last key.")
    rows: int
    partitions: int


class Recheck(BaseModel):
    """When a difference was read again, and what was found."""

    at: dt.datetime
    seen: str


class Difference(BaseModel):
    """A row that is not equal, or a range of rows that one side lacks."""

    number: int = Field(description="Position in the run's list of differences, ascending.")
    kind: Literal["missing", "extra", "changed"]
    state: Literal["confirmed", "unsettled"] = Field(description="`unsettled`: still changing when last rechecked.")
    key: dict[str, str | None] | None = Field(description="The key's columns; null for a range.")
    range: RowRange | None
    rows: dict[Side, int] = Field(description="For each side, how many such rows it has beyond those of the other.")
    columns: list[ColumnValues] = Field(description="The columns of a changed row that differ.")
    rechecks: list[Recheck] = Field(description="The rechecks of this difference.")
    shards: list[str] = Field(description="The shards that hold the source's rows; empty for a source of one table.")
    doubled: bool = Field(description="Whether several shards hold the key, of which each row should be on one.")
