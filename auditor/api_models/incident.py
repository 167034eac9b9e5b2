"""An incident: the time from an audit's first mismatch to its recovery, and who took it on; and what changed between two runs."""

from __future__ import annotations

import datetime as dt
from typing import Literal, TypeAlias

from pydantic import Field

from auditor.api_models import ApiModel
from auditor.api_models.run import Difference

Severity: TypeAlias = Literal["mismatch", "warning"]
"""``warning`` where the latest run differs by more than ``threshold: {warn}`` of its audit allows, and by no more than ``fail`` does."""

Covered: TypeAlias = Literal["all", "known"]
"""Which differences an acknowledgement covers: all that the incident may still have, or those of its latest run at that time."""

IncidentState: TypeAlias = Literal["open", "acknowledged", "muted", "closed"]


class Acknowledgement(ApiModel):
    """That somebody knows of an incident. It ends with the incident, at ``until``, and where it covers known differences with a new one."""

    by: str = Field(description="Who acknowledged or muted the incident.")
    at: dt.datetime
    why: str
    muted: bool = Field(description="Whether nobody is notified about the incident; else only repetitions of what is known are left out.")
    until: dt.datetime | None = Field(description="When it ends; null: with the incident.")
    differences: Covered = Field(description="`known`: it ends, too, when a run finds a differing row that the run below did not.")
    run: str = Field(description="The incident's latest run at that time.")


class Incident(ApiModel):
    """The time in which an audit does not match, from the run that found so first to the one that found everything equal again."""

    number: int = Field(description="Counts the incidents in the order in which they were opened.")
    audit: str
    state: IncidentState = Field(description="`closed` after recovery; `acknowledged` and `muted` while somebody's acknowledgement holds.")
    severity: Severity = Field(description="Of the latest run that found differences: `warning` beyond the audit's `warn` alone.")
    opened: dt.datetime
    first_run: str = Field(description="The run that opened it.")
    last_run: str = Field(description="The latest run that still found differences.")
    closed: dt.datetime | None
    closing_run: str | None = Field(description="The run that found that the audit has recovered; null while it is open.")
    acknowledgement: Acknowledgement | None = Field(description="The one that holds, or held when the incident was closed.")


class DifferenceChanges(ApiModel):
    """Which differing rows a later run found that an earlier one did not, no longer found, and found again. Rows go by their keys."""

    audit: str
    earlier: str = Field(description="The earlier run.")
    later: str = Field(description="The later run.")
    new: int = Field(description="Differing keys and ranges of the later run alone.")
    gone: int = Field(description="Those of the earlier run alone.")
    same: int = Field(description="Those of both runs.")
    certain: bool = Field(
        description="Whether these numbers are complete: both runs read all of the table and listed each row that differs."
    )
    reasons: tuple[str, ...] = Field(description="Why they are not; empty if they are.")
    new_rows: tuple[Difference, ...] = Field(description="The first of the new ones, numbered as in the later run.")
    gone_rows: tuple[Difference, ...] = Field(description="The first of those that are gone, numbered as in the earlier run.")
    same_rows: tuple[Difference, ...] = Field(description="The first of those of both runs, as the later run found them.")
