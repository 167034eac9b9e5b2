"""What lies ahead of a target in the stream of one table: events, what stops them, and statements that changed the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from auditor.model import Part, TableNote
from auditor.pipeline.table_ops import ops_of


@dataclass(frozen=True, slots=True)
class PendingParts:
    """What a target meets next of a table."""

    parts: Sequence[Part]
    """The parts that have events up to ``through``."""
    begins: int | None = None
    """The position of their first event."""
    through: int | None = None
    """Up to which position events are merged at once; None for no bound."""
    note: TableNote | None = None
    """What comes before the next event: it stops the table, or changes all rows of the target's table."""
    changes: Sequence[TableNote] = ()
    """Statements before the next event that changed the table's columns."""
    why: str = ""
    """Why the statement of ``note`` may have changed values of rows without events; '' if it has not."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Events that somebody let the target go on without: positions, and numbers in their transactions, or -1 for all in one."""


def find_pending(
    begins: int | None, parts: Sequence[Part], notes: Sequence[TableNote], target: str, hidden: Mapping[int, str] = MappingProxyType({})
) -> PendingParts:
    """Return what comes behind the position that a target holds of a table, from all that lies behind it, in order.

    ``begins`` is the position of the first event of the parts that lies behind it; None if there is none. Events that a target could not
    hold are tried again by themselves, because the target may have been altered meanwhile. ``hidden`` says by position why a statement may
    have changed values without events.
    """
    skipped = tuple((note.position, note.row) for note in notes if note.target == target and note.skip)
    stops = {position: why for position, why in hidden.items() if (position, -1) not in skipped}
    return replace(_look(begins, parts, [one for one in notes if one.target in ("", target)], stops), skipped=skipped)


def _look(begins: int | None, parts: Sequence[Part], notes: Sequence[TableNote], hidden: Mapping[int, str]) -> PendingParts:
    changes: list[TableNote] = []
    for note in (one for one in notes if one.stops or one.kind == "change"):
        if begins is not None and begins < note.position:
            return _merge(begins, parts, note.position - 1, changes)
        if note.kind == "change" and note.position in hidden:
            return PendingParts((), note=note, changes=changes, why=hidden[note.position])
        if note.target and note.kind == "poison":
            return _merge(begins, parts, note.last, changes)
        if note.stops or (note.body.get("advances") and not _does_nothing(note, changes)):
            return PendingParts((), note=note, changes=changes)
        if not note.body.get("advances"):
            changes.append(note)
    return _merge(begins, parts, None, changes)


def _does_nothing(note: TableNote, changes: Sequence[TableNote]) -> bool:
    """Return whether a statement makes a table unless it is there, and it is: the one before it changed its columns.

    The target's table gets these columns with the next event, and must not come behind that change without them.
    """
    makes = all(op["op"] == "create" and not op["sure"] for op in ops_of(note.body))
    return makes and bool(changes) and all(op["op"] != "gone" for op in ops_of(changes[-1].body))


def _merge(begins: int | None, parts: Sequence[Part], through: int | None, changes: Sequence[TableNote]) -> PendingParts:
    chosen = [] if begins is None else [part for part in parts if through is None or part.first <= through]
    return PendingParts(chosen, begins, through, changes=tuple(changes))
