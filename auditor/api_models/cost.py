"""What audits cost: the answer of ``auditor costs``."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from auditor.api_models import ApiModel

CostKey = Literal["audit", "day", "connection"]


class CostLine(ApiModel):
    """What runs cost together that have these in common; null is what they need not have in common."""

    day: dt.date | None = Field(None, description="The day in UTC on which their statements ended.")
    audit: str | None = Field(None, description="The audit; all ad-hoc runs together are `ad-hoc`.")
    connection: str | None = None
    runs: int = Field(description="Runs that spent something.")
    statements: int
    seconds: float = Field(description="Seconds of statements, added up over sessions.")
    bytes: int = Field(description="Bytes received.")
    usd: float | None = Field(
        description="US dollars, by the connections' prices when the runs ended; the sum of what is known, null where nothing is."
    )
    unpriced: tuple[str, ...] = Field(description="Connections of which some costs in US dollars are not known, and not in the sum.")


class DayBudget(ApiModel):
    """A budget of a day, and what of it is used today."""

    whose: Literal["audit", "connection"]
    name: str
    what: Literal["seconds", "statements", "bytes", "usd"]
    limit: float
    used: float
    whole_again: dt.datetime = Field(description="The next midnight in UTC, when nothing of it is used.")


class Costs(ApiModel):
    """What audits cost from one day to another, both included."""

    first: dt.date
    last: dt.date = Field(description="Today, by the store's clock in UTC.")
    lines: tuple[CostLine, ...]
    total: CostLine
    budgets: tuple[DayBudget, ...] = Field(description="The budgets of a day that are configured, as they are now.")
