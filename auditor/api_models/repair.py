"""What makes a target right again: repairs that were recorded, and patches with their rows."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

from pydantic import ConfigDict, Field

from auditor.api_models import ApiModel
from auditor.model import DifferenceKind

RepairKind = Literal["patch", "bootstrap", "other"]
"""Rows were patched, the table was copied again, or whatever the note says."""

KIND_DESCRIPTION = "`patch`: rows were corrected; `bootstrap`: the table was copied again; `other`: see the note."

REPAIR_EXAMPLE: Any = {"kind": "patch", "note": "copied the lost order again", "rows": 1, "keys": [{"id": "700"}]}


class Repair(ApiModel):
    """A recorded repair."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "repair": "3c5e7f90a1b2c3d4e5f60718293a4b5c",
                    "run": "9f1c2d3e4a5b60718293a4b5c6d7e8f9",
                    "audit": "orders",
                    "state": "recorded",
                    **REPAIR_EXAMPLE,
                    "recorded_by": "ops",
                    "recorded_at": "2026-03-01T07:10:00+00:00",
                }
            ]
        }
    )

    repair: str = Field(description="The repair's id.")
    run: str = Field(description="The run after which the target was corrected; it may have been deleted.")
    audit: str
    kind: RepairKind = Field(description=KIND_DESCRIPTION)
    state: Literal["recorded"] = Field(description="Always `recorded`: what was done is not verified before the audit's next run.")
    note: str
    rows: int | None
    keys: list[dict[str, str | None]]
    recorded_by: str = Field(description="The name of the token that recorded it.")
    recorded_at: dt.datetime


DrillStepName = Literal["canary", "damaged", "found", "reported", "repaired", "dropped"]
"""What a drill does, in this order; of one that fails, the steps that need it are left out."""


class DrillStep(ApiModel):
    """A step of a drill."""

    name: DrillStepName
    passed: bool
    seconds: float
    detail: str = Field(description="What was done, or why it failed.")


class DrillPlan(ApiModel):
    """What a drill would do: the answer of ``auditor drill`` without ``--apply``."""

    audit: str = Field(description="The audit beside whose tables the drill would be held.")
    steps: list[str] = Field(description="What it would do, one step after the other, for a person.")


class Drill(ApiModel):
    """How the alarms of an audit stood a drill: a damaged row of a canary table, found, reported and repaired."""

    audit: str
    passed: bool = Field(description="Whether every step passed.")
    failed_at: DrillStepName | None = Field(description="The first step that failed.")
    steps: list[DrillStep]


PatchState = Literal["proposed", "waiting", "running", "done", "failed", "undone"]
"""``proposed`` over HTTP, and ``waiting`` for a process once somebody asked to apply it; ``running`` until it ends; ``failed`` if a batch
could not be written; ``undone`` once another patch took it back."""

PatchOutcome = Literal["", "written", "left", "taken back", "not written"]
"""What became of a row: nothing yet, or as the journal has it; ``not written`` where the patch ended without a batch of it."""

Texts = dict[str, str | None]
"""The readable texts of a row's columns by the source's names; ``***`` for a masked one, None for NULL."""


class PatchProgress(ApiModel):
    """How far a patch is."""

    done: int = Field(description="Rows that were written or left so far.")
    total: int


class Patch(ApiModel):
    """A patch of a run's target: proposed, applied, or undoing another one."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "patch": "85527af373cd4c6189fa5c27ab939db2",
                    "run": "9f1c2d3e4a5b60718293a4b5c6d7e8f9",
                    "audit": "orders",
                    "state": "done",
                    "undoes": None,
                    "undone_by": None,
                    "requested_by": "ops",
                    "proposed_by": "ada",
                    "applied_by": "ops",
                    "at": "2026-03-01T07:10:00+00:00",
                    "rows": 3,
                    "kinds": {"missing": 1, "changed": 1, "extra": 1},
                    "cannot_apply": "",
                    "progress": {"done": 3, "total": 3},
                    "counts": {"updated": 1, "inserted": 1, "deleted": 1, "left": 0, "taken back": 0, "equal": 0},
                    "undoable": True,
                    "why": "",
                    "after_run": "81900d7987874d3f9c1a5b6c7d8e9f00",
                    "not_audited": "",
                }
            ]
        }
    )

    patch: str = Field(description="The patch's id.")
    run: str = Field(description="The run whose differences it is made of; it may have been deleted.")
    audit: str
    state: PatchState = Field(
        description="`proposed`; `waiting` and `running` once it is to be applied; `done`, or `failed` with `why`; `undone` by another one."
    )
    undoes: str | None = Field(description="The patch that this one takes back.")
    undone_by: str | None = Field(description="The patch that takes this one back, or is about to.")
    requested_by: str = Field(description="Who proposed it or, once that was asked for, had it applied.")
    proposed_by: str | None = Field(description="Who proposed it over HTTP.")
    applied_by: str | None = Field(description="Who asked over HTTP for it to be applied.")
    at: dt.datetime
    rows: int = Field(description="Rows that it changes.")
    kinds: dict[DifferenceKind, int] = Field(description="The same by kind; empty for a patch that was not proposed over HTTP.")
    cannot_apply: str = Field(description="Why it can only be read; empty if it can be applied.")
    progress: PatchProgress
    counts: dict[str, int] = Field(
        description="Rows by what became of them: `updated`, `inserted`, `deleted`; `left` as they changed since; `taken back` as the"
        " source changed meanwhile; `equal` by then."
    )
    undoable: bool = Field(description="Whether its journal has all rows as they were.")
    why: str = Field(description="Why it failed, or was stopped before its end.")
    after_run: str | None = Field(description="The run that audited the touched rows again.")
    not_audited: str = Field(description="Why no run did.")


class PatchRow(ApiModel):
    """A row that a patch changes. Texts are canonical; `***` stands for the value of a masked column."""

    number: int = Field(description="Its place in the patch, from 1.")
    kind: DifferenceKind = Field(description="`missing`: inserted; `changed`: updated; `extra`: deleted.")
    key: Texts
    columns: list[str] = Field(description="The columns that change.")
    old: Texts | None = Field(description="The target's row as it was read; null if there was none.")
    new: Texts | None = Field(description="The row as it should be; null if there should be none.")
    sql: str | None = Field(description="The statement; null where a column is masked, and for a patch that was not proposed over HTTP.")
    outcome: PatchOutcome = Field(description="What became of it; empty before.")
