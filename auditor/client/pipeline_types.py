"""What the API answers about bootstraps of pipelines."""

from __future__ import annotations

from typing import TypedDict


class BootstrapEntry(TypedDict):
    """A bootstrap of a table of a pipeline."""

    refresh: str
    pipeline: str
    table: str
    ranges: int
    keys: int
    state: str
    who: str
    at: str
    ended: str | None
    rows: int
    chunks: int
    seconds: float
    longest: float
    reason: str
