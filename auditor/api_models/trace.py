"""Where rows of an audit were lost on their way from the source into the target: the answer of ``auditor trace``."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from auditor.api_models import ApiModel

Hop = Literal["log", "staging", "publishing", "reading", "merge"]
"""From the source into its log, from the log into the staged files, from these into a topic and from that into another pipeline's files
where there is one between, and from files into the target."""

Outcome = Literal["equal", "in_flight", "lost", "unknown"]

OUTCOME_DESCRIPTION = (
    "`equal`: both sides have the row alike by now; `in_flight`: a change of it is on its way; `lost`: `hop` is the first one at which it"
    " is wrong; `unknown`: that cannot be told, and `sentence` says why."
)


class TracedEvent(ApiModel):
    """A change of a row in the stream."""

    position: str = Field(description="Where its transaction ends in the source's log, and its number in it: `FILE:POS:ROW`.")
    time: dt.datetime = Field(description="When the source committed it.")
    kind: str = Field(
        description="`insert`, `update`, `delete`; `move` to another key; `refresh` and `absent` of a refresh; `clear` where all rows went."
    )
    file: str | None = Field(description="The staged file that has it; null of a statement that emptied the table.")
    sha256: str | None = Field(description="SHA-256 of the table's blocks in that file.")
    merged: bool = Field(description="Whether the target says that it holds everything up to there.")
    source: bool = Field(description="Whether the source's row is now as this event left it.")
    target: bool = Field(description="Whether the target's row is now as this event left it.")


class TracedRow(ApiModel):
    """A row, and the first hop at which it is wrong."""

    key: dict[str, str | None]
    outcome: Outcome = Field(description=OUTCOME_DESCRIPTION)
    hop: Hop | None = Field(description="The hop at which the row was lost; null unless `outcome` is `lost`.")
    sentence: str
    events: list[TracedEvent] = Field(description="Its last changes that are kept, the newest last.")


class Trace(ApiModel):
    """Rows of an audit, followed from the source through a pipeline into the target."""

    audit: str
    run: str | None = Field(description="The run whose differences they are; null if keys were named.")
    pipeline: str = Field(description="The pipeline that merges into the target.")
    published_by: str | None = Field(description="The pipeline that publishes the topics that it reads; null if it reads the log.")
    table: str = Field(description="The table as the stream calls it: database and table.")
    target: str = Field(description="The pipeline's name of the target.")
    staged_through: str = Field(description="Up to where the pipeline has staged its source.")
    merged_through: str | None = Field(description="Up to where the target says that it holds the table; null if it says nothing.")
    kept_from: str | None = Field(description="Up to where staged events of the table were deleted; null if none was.")
    not_compared: dict[str, str] = Field(description="Columns of which the stream does not tell what the audit compares, with why.")
    rows: list[TracedRow]
    further: int = Field(description="Differences of the run that were not traced, because there are more than were asked for.")
