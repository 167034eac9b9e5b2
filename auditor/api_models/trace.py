"""Where rows of an audit were lost on their way from the source into the target: the answer of ``auditor trace``."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from auditor.api_models import ApiModel
from auditor.model import Verdict

Hop = Literal["log", "staging", "publishing", "reading", "merge", "capture", "sink"]
"""From the source into its log, from the log into the staged files, from these into a topic and from that into another pipeline's files
where there is one between, and from files into the target. Where somebody else fills the topic, or reads it: from the source into the topic
(``capture``), and from that into the target (``sink``)."""

Outcome = Literal["equal", "in_flight", "lost", "unknown"]

OUTCOME_DESCRIPTION = (
    "`equal`: both sides have the row alike by now; `in_flight`: a change of it is on its way; `lost`: `hop` is the first one at which it"
    " is wrong; `unknown`: that cannot be told, and `sentence` says why."
)


class TracedEvent(ApiModel):
    """A change of a row in the stream, or a message of it in a topic."""

    position: str | None = Field(
        description="Where its transaction ends in the source's log, and its number in it: `FILE:POS:ROW`; null if a message says no place."
    )
    offset: str | None = Field(description="Where the topic has it: `PARTITION:OFFSET`; null of an event that a pipeline staged.")
    gtid: str | None = Field(description="The global id of its transaction, if a message says it.")
    time: dt.datetime = Field(description="When the source committed it; of a message that does not say it, when that was written.")
    kind: str = Field(
        description="`insert`, `update`, `delete`; `move` to another key; `refresh` and `absent` of a refresh; `clear` where all rows went."
    )
    file: str | None = Field(description="The staged file that has it; null of a statement that emptied the table.")
    sha256: str | None = Field(description="SHA-256 of the table's blocks in that file.")
    merged: bool | None = Field(
        description="Whether the target says that it holds everything up to there, or what fills it that it has read it; null if unknown."
    )
    source: bool = Field(description="Whether the source's row is now as this event left it.")
    target: bool = Field(description="Whether the target's row is now as this event left it.")


class TracedRow(ApiModel):
    """A row, and the first hop at which it is wrong."""

    key: dict[str, str | None]
    outcome: Outcome = Field(description=OUTCOME_DESCRIPTION)
    hop: Hop | None = Field(description="The hop at which the row was lost; null unless `outcome` is `lost`.")
    sentence: str
    events: list[TracedEvent] = Field(description="Its last changes that are kept, the newest last.")


class TracedPartition(ApiModel):
    """A partition of a topic, as far as it was read."""

    partition: int
    begin: int = Field(description="The first offset that it has.")
    end: int = Field(description="The offset behind the last message that was read.")
    committed: int | None = Field(description="Up to which offset the sink's consumer group has read; null if that is not known.")


class TracedTopic(ApiModel):
    """The topic between the source and the target, which somebody else fills or reads."""

    label: str = Field(description="Broker and topic.")
    partitions: list[TracedPartition]
    messages: int = Field(description="How many messages were read.")
    group: str | None = Field(description="The sink's consumer group.")
    removed: str = Field(description="That messages at its beginning were removed; empty if none were.")


class AuditedHop(ApiModel):
    """What is known of the whole table at a hop of the chain, or at several together."""

    hops: list[Hop]
    source: str = Field(description="What is before it.")
    target: str = Field(description="What is behind it.")
    verdict: Verdict = Field(description="Whether both are equal; `unknown` with the reason as `sentence` where nothing compares them.")
    sentence: str
    position: str | None = Field(description="The position at which both were read, and up to where topics were; null if there is none.")


class Trace(ApiModel):
    """Rows of an audit, followed from the source into the target: through pipelines, or through a topic of somebody else."""

    audit: str
    run: str | None = Field(description="The run whose differences they are; null if keys were named.")
    pipeline: str | None = Field(description="The pipeline that merges into the target; null where rows come by a topic (`through`).")
    published_by: str | None = Field(description="The pipeline that publishes the topics that it reads; null if it reads the log.")
    table: str = Field(description="The table as the stream calls it: database and table; through a topic, as the audit calls it.")
    target: str = Field(description="The pipeline's name of the target; through a topic, the target's table.")
    topic: TracedTopic | None = Field(description="The topic, if the audit names one (`through`).")
    staged_through: str | None = Field(description="Up to where the pipeline has staged its source.")
    merged_through: str | None = Field(description="Up to where the target says that it holds the table; null if it says nothing.")
    kept_from: str | None = Field(description="Up to where staged events of the table were deleted; null if none was.")
    not_compared: dict[str, str] = Field(description="Columns of which the stream does not tell what the audit compares, with why.")
    rows: list[TracedRow]
    hops: list[AuditedHop] = Field(description="What is known of the table at each hop; empty unless that was asked for.")
    further: int = Field(description="Differences of the run that were not traced, because there are more than were asked for.")
