"""The JSON of bootstraps, as types."""

from __future__ import annotations

from typing import TypedDict


class BootstrapPlan(TypedDict):
    """What a bootstrap would do."""

    audit: str
    text: str
    source: str
    target: str
    rows: int
    ranges: int
    bytes: int
    swap: str
    why: str
    effects: list[str]
    command: str


class CopyProgress(TypedDict):
    """How far a copy is."""

    ranges: int
    of_ranges: int
    rows: int
    of_rows: int
    bytes: int


class Bootstrap(TypedDict):
    """A bootstrap that was begun on the command line."""

    bootstrap: str
    audit: str
    state: str
    stage: str
    is_at_work: bool
    requested_by: str
    at: str
    source: str
    keys: str
    swap: str
    old: str
    old_dropped: bool
    why: str
    progress: CopyProgress
    after_run: str | None


class CopiedRange(TypedDict):
    """A range of keys that was copied."""

    number: int
    first: int | None
    end: int | None
    rows: int
    bytes: int
    sha256: str
    snapshot: str
