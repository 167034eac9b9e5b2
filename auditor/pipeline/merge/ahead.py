"""What lies ahead of a target in the stream of one table: events, what stops them, and statements that changed the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.model import Part, TableNote


@dataclass(frozen=True, slots=True)
class Ahead:
    """What a target meets next of a table."""

    parts: Sequence[Part]
    """The parts that have events up to ``through``."""
    through: int | None = None
    """Up to which position events are merged at once; None for no bound."""
    note: TableNote | None = None
    """What comes before the next event: it stops the table, or changes all rows of the target's table."""
    changes: Sequence[TableNote] = ()
    """Statements before the next event that changed the table's columns."""

    @property
    def first(self) -> int | None:
        """The position of the next event, or one before it behind the target's position; None if there is none."""
        return self.parts[0].first if self.parts else None


def look_ahead(held: int, parts: Sequence[Part], notes: Sequence[TableNote], target: str) -> Ahead:
    """Return what comes behind the position that a target holds of a table, from all that lies behind it, in order.

    Events that a target could not hold are tried again by themselves, because the target may have been altered meanwhile.
    """
    changes: list[TableNote] = []
    for note in (one for one in notes if one.target in ("", target) and (one.stops or one.kind == "change")):
        if parts and held < note.position - 1 and parts[0].first < note.position:
            return _merge(parts, note.position - 1, changes)
        if note.target:
            return _merge(parts, note.last, changes)
        if note.stops or note.body.get("advances"):
            return Ahead((), note=note, changes=changes)
        changes.append(note)
    return _merge(parts, None, changes)


def _merge(parts: Sequence[Part], through: int | None, changes: Sequence[TableNote]) -> Ahead:
    chosen = [part for part in parts if through is None or part.first <= through]
    return Ahead(chosen, through, changes=tuple(changes))
