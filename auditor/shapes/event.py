"""The log of requests that changed something."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import Field

from auditor.shapes._shape import Shape


class Event(Shape):
    """An entry of the log of requests that changed something."""

    number: int
    at: dt.datetime
    actor: str = Field(description="The token's name, or the address of a failed login.")
    action: str = Field(examples=["run requested"])
    subject: str = Field(description="What was acted on: a run's id, or the name of an audit or token.")
    detail: dict[str, Any]
