"""What the ledger of merges says of a target: whether, when and by whom it was parted from its source."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from auditor.api_models import ApiModel


class LedgerBatch(ApiModel):
    """A merge, or several that follow each other, as the ledger has them."""

    first: int = Field(description="Number of the first of them, counted from the ledger's begin.")
    last: int
    after: str = Field(description="Place of the source's log behind which its events begin.")
    through: str = Field(description="Place of the source's log up to which they go.")
    merged_at: dt.datetime = Field(description="When the last of them was merged, by the clock of the process that merged.")
    version: str = Field(description="Version of the auditor that merged.")


class FirstEvent(ApiModel):
    """The first event of a merge that touches rows that it got wrong."""

    place: str = Field(description="Place of the source's log where its transaction ends.")
    gtid: str | None = Field(description="The transaction's GTID, if it has one.")
    time: dt.datetime = Field(description="When the source committed it.")
    kind: str = Field(description="`insert`, `update`, `delete` or `refresh`.")


class Parting(ApiModel):
    """What made rows of the target differ from the source."""

    cause: Literal["merge", "target", "log", "before", "unknown"] = Field(
        description="`merge`: a merge did otherwise than the source's log says. `target`: others changed the target."
        " `log`: the source was changed and no staged event says so, because its log did not hold it, or it was lost before it was staged."
        " `before`: they differed when the ledger began."
    )
    sentence: str
    why: str = Field(description="Why the cause cannot be told; empty if it is known.")
    partition: str = Field(description="Where the rows are, for a person.")
    keys: list[str] = Field(description="The rows' keys, where the ledger's sums name them.")
    after: str = Field(description="Place of the source's log up to which it had not happened.")
    through: str = Field(description="Place of the source's log at which it had happened.")
    after_time: dt.datetime | None = Field(description="When it had not happened yet, as far as that is known.")
    through_time: dt.datetime | None = Field(description="When it had happened, as far as that is known.")
    batch: LedgerBatch | None = Field(description="The merge that did it, or that came upon it; null if a run found it.")
    first_event: FirstEvent | None
    first_event_unknown: str = Field(description="Why the first event of a merge's is not known; empty if it is, or none is to be named.")
    lasts: bool = Field(description="Whether the rows still differ, as far as the ledger and the last run say.")
    ended: str | None = Field(description="Place of the source's log at which they no longer did; null while they do.")


class Bisection(ApiModel):
    """What a ledger says of an audit's target."""

    audit: str
    answer: Literal["equal", "different", "unknown"] = Field(
        description="`equal`: the target equals the source's log as of the last run, and no merge after it did otherwise than the log says."
        " `different`: rows differ, and each cause is known. `unknown`: it cannot be told, or not of all rows."
    )
    sentence: str
    why: str = Field(description="Why it cannot be told; empty if it can.")
    pipeline: str | None
    table: str | None = Field(description="The table as the stream calls it.")
    batches: int = Field(description="Merges that the ledger holds.")
    begins: str | None = Field(description="Place of the source's log at which the ledger begins.")
    through: str | None = Field(description="Place of the source's log up to which it goes.")
    checked: str | None = Field(description="Place of the source's log as of which a run last read the whole target.")
    checked_time: dt.datetime | None
    partings: list[Parting] = Field(description="In the order of the stream; of many, those that last come first.")
    more: int = Field(description="How many more there are than are listed.")
    exit_code: int = Field(description="0 equal, 1 different, 3 unknown.")
