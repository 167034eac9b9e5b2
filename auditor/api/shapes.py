"""What the answers look like."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from auditor.model import SECTIONS, Method, Side, State, Verdict
from auditor.report import history
from auditor.service.audits import Overview
from auditor.store.runs import StoredRun

RUN = "9f1c2d3e4a5b60718293a4b5c6d7e8f9"


class Score(BaseModel):
    """How similar both tables are, between 0 and 1; null where it was not told."""

    value: float | None
    lower: float | None = Field(description="The bounds; equal to the value where every difference was named.")
    upper: float | None
    published: float | None = Field(description="The published score, of partitions.")


class Step(BaseModel):
    """How far one side of a run is."""

    doing: str
    done: int = Field(description="Rows that are read.")
    total: int = Field(description="About how many rows there are; 0 where that is not known.")
    statements: int = Field(0, description="Statements of the whole run that have ended on this side.")
    running: int = Field(0, description="Statements that are under way there now.")


class Run(BaseModel):
    """One run of an audit: how far it is, and what it found."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "run": RUN, "audit": "orders", "state": "done", "verdict": "mismatch", "exit_code": 1, "method": "exact",
                    "began": "2026-03-01T06:30:00+00:00", "ended": "2026-03-01T06:31:10+00:00", "seconds": 70.2,
                    "score": {"value": 0.99998, "lower": 0.99998, "upper": 0.99998, "published": 0.98}, "coverage": 1.0,
                    "rows": {"source": 100000, "target": 99999}, "partitions": 33, "unequal": 2, "missing": 1, "extra": 0, "changed": 1,
                    "unsettled": 0, "reasons": ["2 rows differ"], "reason": "", "requested_by": "schedule", "overrides": {},
                    "keys": None, "times": None, "definition": None,
                    "resumable": False, "cancel_asked": False, "progress": {}, "waits": {}, "verified_through": None,
                }
            ]
        }
    )  # fmt: skip

    run: str
    audit: str
    state: State = Field(description="Whether the work ended.")
    verdict: Verdict = Field(description="What was found; `unknown` as long as nothing is claimed.")
    exit_code: int | None = Field(description="What `auditor run` would have exited with; null until the run ends.")
    method: Method | None
    began: dt.datetime
    ended: dt.datetime | None
    seconds: float | None
    score: Score
    coverage: float | None = Field(description="The share of rows that the verdict speaks for.")
    rows: dict[Side, int] | None
    partitions: int | None
    unequal: int | None
    missing: int | None
    extra: int | None
    changed: int | None
    unsettled: int | None
    reasons: list[str]
    reason: str = Field(description="Why it was requested.")
    requested_by: str
    overrides: dict[str, Any]
    keys: dict[Literal["from", "to"], int] | None = Field(
        description="The keys that the run looks at alone, both included; all that it found is about these. Null: all keys."
    )
    times: dict[Literal["from", "to"], str] | None = Field(
        description="The times that it looks at alone, from the one on and before the other, as they were requested. Null: all times."
    )
    definition: dict[str, Any] | None = Field(description="What an ad-hoc run compares; null where the run is of an audit with a name.")
    resumable: bool
    cancel_asked: bool
    progress: dict[Side, Step]
    waits: dict[Side, str] = Field(description="What the sides wait for, if they do.")
    verified_through: dt.datetime | None


def run(one: StoredRun) -> dict[str, Any]:
    """A run as `Run` describes it."""
    progress = one.progress if one.state in (State.PENDING, State.RUNNING) else {}
    waits = {side: told["doing"] for side, told in progress.items() if str(told.get("doing", "")).startswith("waits")}
    section = {name: one.overrides.get(name) for name in SECTIONS}
    own = one.definition if one.is_ad_hoc else None
    return {**history.as_json(one), **section, "definition": own, "exit_code": one.exit_code, "progress": dict(progress), "waits": waits}


class Point(BaseModel):
    """One run of the last 30 days."""

    model_config = ConfigDict(from_attributes=True)

    run: str
    at: dt.datetime
    verdict: Verdict
    score: float | None
    lower: float | None
    upper: float | None


class AuditLine(BaseModel):
    """An audit and how it stands. Each leg of an audit by way of a dump is an audit here."""

    name: str = Field(examples=["orders"])
    source: str
    target: str
    method: str
    threshold: float
    defined: bool = Field(description="Whether it was defined over HTTP.")
    paused: bool
    next_due: dt.datetime | None
    verified_through: dt.datetime | None
    latest: Run | None = Field(description="The newest run of the whole table that has begun.")
    running: Run | None = Field(description="The run that runs, or else waits.")


class AuditWhole(AuditLine):
    """An audit, how it stands, how it went, and how it is defined."""

    trend: list[Point]
    definition: dict[str, Any] = Field(description="What of its settings is not as it is by default.")


def line(one: Overview) -> dict[str, Any]:
    """An audit as `AuditLine` describes it."""
    names = ("name", "source", "target", "method", "threshold", "defined", "paused", "next_due", "verified_through")
    whole = {name: getattr(one, name) for name in names}
    return {**whole, "latest": one.latest and run(one.latest), "running": one.running and run(one.running)}


class Partition(BaseModel):
    """One partition of the table, as a run found it."""

    partition: int | None = Field(description="Its id; null for rows whose key holds a NULL, and where it would tell a masked value.")
    label: str
    state: Literal["equal", "accounted", "listed", "refined", "estimated", "unequal", "source_only", "target_only", "skipped"]
    similarity: float | None
    rows: dict[Side, int]
    least: str | None = Field(description="Its least key, of a partition that is not equal and whose keys have an order.")
    greatest: str | None


class Column(BaseModel):
    """A column of a changed row, as canonical texts; null is NULL."""

    name: str
    source: str | None
    target: str | None


class Range(BaseModel):
    """Neighbouring rows that one side lacks altogether."""

    label: str
    first: str | None
    last: str | None
    rows: int
    partitions: int


class Look(BaseModel):
    """When a difference was looked at again, and what was seen."""

    at: dt.datetime
    seen: str


class DifferenceLine(BaseModel):
    """A row that is not equal, or a range of rows that one side lacks."""

    number: int = Field(description="Its place in the run's differences.")
    kind: Literal["missing", "extra", "changed"]
    state: Literal["confirmed", "unsettled"]
    key: dict[str, str | None] | None = Field(description="The key's columns; null for a range.")
    range: Range | None
    rows: dict[Side, int] = Field(description="How many rows each side has over.")
    columns: list[Column]
    looks: list[Look]


class Event(BaseModel):
    """Something that somebody did."""

    number: int
    at: dt.datetime
    who: str
    what: str = Field(examples=["run requested"])
    subject: str
    detail: dict[str, Any]
