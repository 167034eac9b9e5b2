"""What the rows of a transaction have in common, and what became of those that a task saw."""

from __future__ import annotations

from dataclasses import dataclass, field

from auditor.errors import EventsMissed
from auditor.pipeline.binlog.place import Place
from auditor.pipeline.events import Position


@dataclass(slots=True)
class Stamp:
    """What the rows of a transaction have in common; of an XA transaction, of that which commits it."""

    gtid: str | None
    time: int
    """Microseconds since 1970 at which it was committed."""
    position: int
    """Where it ends."""
    file: str
    """The log's file in which that is."""
    rows: int = 0
    """Rows so far, of the chosen tables; an event whose rows are not available counts as one."""
    left_out: bool = False
    """Whether a pipeline wrote it whose transactions are left out."""
    savepoints: dict[str, int] = field(default_factory=dict)
    """How many rows there were at each of its savepoints."""

    @property
    def place(self) -> Place:
        """Where it ends, for people."""
        return Place(self.file, Position.unpack(self.position).offset)


@dataclass(slots=True)
class LogCount:
    """What a task saw of the chosen tables, and what became of it."""

    sent: int = 0
    """Rows events that the dump brought."""
    taken: int = 0
    """Those that were decoded, or noted as refused."""
    passed: int = 0
    """Those that are taken elsewhere, were taken before, or are left out because a pipeline wrote them."""
    rows: int = 0
    """Rows that were decoded."""
    refused: int = 0
    """Those of them that were then noted as refused."""

    def check(self, handed_on: int) -> None:
        """Raise EventsMissed unless each event was dealt with, and each row was handed on."""
        if self.sent != self.taken + self.passed:
            raise EventsMissed(
                f"the log sent {self.sent:,} events of the tables that are read, and {self.taken + self.passed:,} were taken"
            )
        if self.rows != handed_on + self.refused:
            raise EventsMissed(f"{self.rows:,} rows were decoded, and {handed_on + self.refused:,} handed on")
