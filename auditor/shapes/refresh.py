"""Refreshes: existing rows that are sent through a pipeline's stream."""

from __future__ import annotations

import datetime as dt
from typing import Literal

from pydantic import Field

from auditor.shapes._shape import Shape

RefreshState = Literal["requested", "running", "done", "failed"]
"""``done``: all rows are in the source's log; targets may still lack them."""


class Refresh(Shape):
    """Existing rows of a table that are sent through a pipeline's stream."""

    refresh: str
    pipeline: str
    table: str
    ranges: int = Field(description="Ranges of keys that were requested; with no keys either, the whole table.")
    keys: int = Field(description="Single keys that were requested.")
    state: RefreshState = Field(description="`done`: all rows are in the source's log; targets hold them once they have merged it.")
    requested_by: str
    at: dt.datetime
    ended: dt.datetime | None
    rows: int = Field(description="Rows that were written into the source's log.")
    chunks: int
    seconds: float
    longest: float = Field(description="Seconds for which rows were locked at most.")
    log_place: str | None = Field(description="File and position of the source's log up to which the rows are in it; null until then.")
    reason: str = Field(description="Why it waits or failed; empty if it does not.")
