"""What a change stream says of a table beside its rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

NoteKind = Literal["poison", "change"]
"""``poison``: events that could not be decoded, staged or merged. ``change``: a statement that changed the table itself."""


@dataclass(frozen=True, slots=True)
class Skip:
    """Who let a stopped table go on without some events, when and why."""

    by: str
    at: dt.datetime
    reason: str


@dataclass(frozen=True, slots=True)
class TableNote:
    """Something that happened to a table between two transactions of the stream, given by their positions, both inclusive."""

    table: str
    """Database and table, with a point between."""
    kind: NoteKind
    position: int
    last: int
    events: int
    """Of poison, how many events cannot be had: rows where these could be told apart, else events of the log, which hold several."""
    time: dt.datetime
    """When the source committed it."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """Of poison its ``stage`` (decoding, staging, merge) and ``reason``, and, of an event that a target cannot hold, how many events ``of``
    its table the transaction has; of a change its ``ops``, as `auditor.pipeline.ddl` reads them."""
    target: str = ""
    """The target that cannot hold the events; '' if no target can have them."""
    row: int = -1
    """Of poison, the number that its first event has in the transaction at ``position``; -1 for all of the table's events there."""
    skip: Skip | None = None
    """Why it no longer stops its table; None if it does, or never did."""

    @property
    def reason(self) -> str:
        """Why the table stops here; '' for a change that does not stop it."""
        return str(self.body.get("reason", ""))

    @property
    def stops(self) -> bool:
        """Whether the table does not go on behind this."""
        return bool(self.reason) and self.skip is None
