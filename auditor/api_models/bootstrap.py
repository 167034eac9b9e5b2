"""Bootstraps: a table, or a range of its keys, copied again and swapped in."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import ConfigDict, Field

from auditor.api_models import ApiModel

BootstrapState = Literal["running", "stopped", "failed", "done", "dropped"]
"""``running`` until it ends, ``stopped`` by a signal or ``failed``: both can be continued; ``dropped`` if its copy was dropped instead."""

BootstrapStage = Literal["copying", "swapping", "swapped", "settled"]
"""``copying`` until the copy was found equal to its snapshot; ``swapping`` while it is brought into the table; ``swapped`` once it is
there; ``settled`` once the table was audited again."""

Swap = Literal["in place", "by rename", "by commit"]
"""How the copy is brought into the table."""


class BootstrapPlan(ApiModel):
    """What a bootstrap would do now. Nothing was written."""

    audit: str
    text: str = Field(description="The plan as the command line prints it.")
    source: str = Field(description="The connection and table that is read.")
    target: str
    rows: int = Field(description="About how many rows are copied.")
    ranges: int = Field(description="In how many ranges.")
    bytes: int = Field(description="About how many bytes of text.")
    swap: Swap = Field(description="How the copy is brought into the table.")
    why: str = Field(description="Why so.")
    effects: list[str] = Field(description="What a person should know of that.")
    command: str = Field(description="The command that does it.")


class CopyProgress(ApiModel):
    """How far a copy is. It is empty again where rows have to be copied again."""

    ranges: int = Field(description="Ranges that were copied.")
    of_ranges: int
    rows: int = Field(description="Rows that were copied.")
    of_rows: int = Field(description="About how many there are.")
    bytes: int = Field(description="Bytes of text that were copied.")


class Bootstrap(ApiModel):
    """A bootstrap that was begun on the command line."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "bootstrap": "5c198e4d74164a179226ccfc2ce27565",
                    "audit": "orders",
                    "state": "done",
                    "stage": "settled",
                    "is_at_work": False,
                    "requested_by": "ada",
                    "at": "2026-03-01T07:10:00+00:00",
                    "source": "shop: orders",
                    "keys": "",
                    "swap": "in place",
                    "old": "orders_old_20260301_071000",
                    "old_dropped": False,
                    "why": "",
                    "progress": {"ranges": 5, "of_ranges": 5, "rows": 1000000, "of_rows": 1000000, "bytes": 29000000},
                    "after_run": "81900d7987874d3f9c1a5b6c7d8e9f00",
                }
            ]
        },
    )

    bootstrap: str = Field(description="The bootstrap's id.")
    audit: str
    state: BootstrapState = Field(
        description="`running`; `stopped` or `failed`, from where the same command continues; `done`; `dropped` if its copy was dropped."
    )
    stage: BootstrapStage = Field(
        description="`copying`; `swapping` once the copy was equal to its snapshot; `swapped` into the table; `settled`: audited again."
    )
    is_at_work: bool = Field(description="Whether a process works on it. One that runs and is not at work was killed.")
    requested_by: str
    at: dt.datetime
    source: str = Field(description="The connection and table that is read.")
    keys: str = Field(
        description="The ranges of keys that are copied, both ends included; empty for the whole table, `***` once forgotten."
    )
    swap: Swap
    old: str = Field(description="The table of the replaced rows; of a Delta table `the version before`.")
    old_dropped: bool
    why: str = Field(description="The error that stopped it.")
    progress: CopyProgress
    after_run: str | None = Field(description="The run that audited the copied rows again.")


class CopiedRange(ApiModel):
    """A range of keys that was copied, as the journal has it."""

    number: int
    first: int | None = Field(description="Its least key; null for no bound.")
    end: int | None = Field(description="The end of its keys, exclusive; null for no bound.")
    rows: int
    bytes: int
    sha256: str = Field(description="The digest of its lines of text.")
    snapshot: str = Field(description="The snapshot that it was read in; ranges of one snapshot are of one moment.")
