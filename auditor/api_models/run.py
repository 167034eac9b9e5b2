"""A run, as it is listed: its progress, its result, its partitions and its differences."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import ConfigDict, Field

from auditor.api_models import ApiModel
from auditor.model import DifferenceKind, Method, Settling, Side, State, Verdict

VERIFIED = "Everything that the source held up to this time was seen equal in the target."
WITHIN = "Up to this time everything was equal, or differed no more than the audit allows; null unless later than `verified_through`."
RUN_ID_EXAMPLE = "9f1c2d3e4a5b60718293a4b5c6d7e8f9"

PartitionState = Literal["equal", "accounted", "listed", "refined", "estimated", "unequal", "source_only", "target_only", "skipped"]


class RunScore(ApiModel):
    """How similar both tables are, between 0 and 1; null where the run computed no score."""

    value: float | None
    lower: float | None = Field(description="Lower bound; equal to the value if every difference was named.")
    upper: float | None = Field(description="Upper bound.")
    published: float | None = Field(description="The published score, computed over partitions.")


class SideProgress(ApiModel):
    """Progress of a run on one side."""

    doing: str = Field(description="The current activity.")
    done: int = Field(description="Rows read so far.")
    total: int = Field(description="Estimated number of rows; 0 if not known.")
    statements: int = Field(0, description="Statements of this run that have ended on this side.")
    running: int = Field(0, description="Statements of this run that are running on this side now.")


class Run(ApiModel):
    """One run of an audit: its progress and its result."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "run": RUN_ID_EXAMPLE,
                    "audit": "orders",
                    "state": "done",
                    "verdict": "mismatch",
                    "exit_code": 1,
                    "method": "exact",
                    "began": "2026-03-01T06:30:00Z",
                    "ended": "2026-03-01T06:31:10Z",
                    "seconds": 70.2,
                    "score": {"value": 0.99998, "lower": 0.99998, "upper": 0.99998, "published": 0.98},
                    "coverage": 1.0,
                    "rows": {"source": 100000, "target": 99999},
                    "partitions": 33,
                    "unequal": 2,
                    "missing": 1,
                    "extra": 0,
                    "changed": 1,
                    "unsettled": 0,
                    "reasons": ["2 of 100,000 rows differ: 1 missing, 1 changed (price)"],
                    "reason": "",
                    "requested_by": "schedule",
                    "overrides": {},
                    "other_settings": None,
                    "within_threshold": False,
                    "within_threshold_through": None,
                    "keys": None,
                    "times": None,
                    "definition": None,
                    "resumable": False,
                    "cancel_requested": False,
                    "progress": {},
                    "waiting_for": {},
                    "verified_through": None,
                }
            ]
        }
    )

    run: str = Field(description="The run's id.")
    audit: str
    state: State = Field(description="How far the run is; `done`, `failed` and `cancelled` are final unless it is resumed.")
    verdict: Verdict = Field(description="The result; `unknown` until the run has one, and if it could not compare everything.")
    exit_code: int | None = Field(description="Exit code of `auditor run` for this result; null until the run ends.")
    method: Method | None
    began: dt.datetime
    ended: dt.datetime | None
    seconds: float | None = Field(description="Duration of the run.")
    score: RunScore
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
    reasons: tuple[str, ...] = Field(description="Why the verdict is what it is.")
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


SIMILARITY_ERROR = "How far the similarity may be off, as published: 1 / sqrt(k) of k minhashes; null where it is exact, or not known."


class Partition(ApiModel):
    """One partition of the table, as compared by a run."""

    partition: int | None = Field(
        description="The partition's id; null for rows whose key holds a NULL, and where it would reveal a masked value."
    )
    label: str = Field(description="The partition's keys, for display.")
    state: PartitionState
    similarity: float | None = Field(description="Share of the partition's rows, between 0 and 1, that are equal on both sides.")
    similarity_error: float | None = Field(description=SIMILARITY_ERROR)
    rows: dict[Side, int]
    least: str | None = Field(description="The least key of a partition that is not equal; null if keys have no order or are masked.")
    greatest: str | None = Field(description="The greatest key, likewise.")


UNSETTLED = "`unsettled`: still changing when last rechecked."


class ColumnValues(ApiModel):
    """A column of a changed row, as canonical texts; null is NULL."""

    name: str
    source: str | None
    target: str | None
    reason: str = Field(description="Why two texts that look the same differ, e.g. `Unicode form`; empty for others.")


class Recheck(ApiModel):
    """When a difference was read again, and what was found."""

    at: dt.datetime
    outcome: str = Field(description="`same` as before, `moved` (changed since the last recheck), `in flight`, or `equal` by now.")


class RowRange(ApiModel):
    """Consecutive rows that one side lacks entirely."""

    label: str = Field(description="The range's keys, for display.")
    first: str | None = Field(description="The first key.")
    last: str | None = Field(description="The last key.")
    rows: int
    partitions: int


class Difference(ApiModel):
    """A row that is not equal, or a range of rows that one side lacks."""

    number: int = Field(description="Position in the run's list of differences, ascending.")
    kind: DifferenceKind
    state: Settling = Field(description=UNSETTLED)
    key: dict[str, str | None] | None = Field(description="The key's columns; null for a range.")
    range: RowRange | None
    rows: dict[Side, int] = Field(description="For each side, how many such rows it has beyond those of the other.")
    columns: tuple[ColumnValues, ...] = Field(description="The columns of a changed row that differ.")
    rechecks: tuple[Recheck, ...] = Field(description="The rechecks of this difference.")
    shards: tuple[str, ...] = Field(description="The shards that hold the source's rows; empty for a source of one table.")
    doubled: bool = Field(description="Whether several shards hold the key, of which each row should be on one.")
