"""How far the tables of a target can be merged together, so that it is always at one moment of the source.

All of them are merged up to one position, in one transaction. That position is the end of a transaction of the source, and lies before
everything that one table has to do by itself: a statement of the source that changed it, or its next event of another schema.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.errors import AuditorError, StagingFailed, StoreError
from auditor.model import Part, TableNote
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.positions import Held, StreamReader, see_in
from auditor.store import parts, table_notes
from auditor.store.parts import StagedTable

MOST_PARTS = 10_000
"""Parts that are looked at for one transaction."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What one table lacks."""

    table: str
    held: Held
    ahead: PendingParts
    stop: int | None
    """The position of the next thing that it has to do by itself; None if there is none among the parts that were looked at."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What lies before a target's tables."""

    pending: Mapping[str, Pending]
    through: int
    """Up to which position all tables can be merged together."""
    rows: int = 0
    """How many events that are, counting parts of which some events come later as a whole."""
    failed: Mapping[str, AuditorError] = field(default_factory=dict)
    """Tables that stay behind, because it cannot be seen what they lack."""

    def stopping(self) -> list[Pending]:
        """Return the tables that have something to do by themselves before the others go on."""
        return [one for one in self.pending.values() if one.stop is not None and one.stop <= self.through + 1]


def look(
    where: StreamReader,
    tables: Mapping[str, Held],
    after: int,
    staged: Mapping[str, StagedTable],
    most: int,
    settled: Collection[tuple[str, int]] = (),
) -> Outlook:
    """Return what these tables lack, all of which hold everything up to ``after``, of what was staged: about ``most`` events.

    ``settled`` are tables, and positions, at which nothing has to be done by themselves although their schema changes there. A few queries
    of the store, whatever the number of tables. Raises StoreError.
    """
    through = max(table.staged_through for table in staged.values())
    listed = parts.list_parts_of_all(where.store, where.pipeline, after, through, MOST_PARTS)
    is_whole = len(listed) < MOST_PARTS
    if not is_whole:
        through = min(through, listed[-1].first - 1)
    by_table: dict[str, list[Part]] = {}
    for part in listed:
        if part.table in tables and part.last > tables[part.table].position:
            by_table.setdefault(part.table, []).append(part)
    notes: dict[str, list[TableNote]] = {}
    for note in table_notes.list_notes(where.store, where.pipeline, after=min((held.position for held in tables.values()), default=0)):
        if note.table in tables and note.last > tables[note.table].position:
            notes.setdefault(note.table, []).append(note)
    pending, failed = dict[str, Pending](), dict[str, AuditorError]()
    for table, held in sorted(tables.items()):
        until = staged[table].staged_through if is_whole else 0
        try:
            ahead = see_in(where, table, held, by_table.get(table, ()), notes.get(table, ()), until)
        except (StoreError, StagingFailed):
            raise
        except AuditorError as error:
            failed[table] = error
        else:
            if table in by_table or table in notes:
                pending[table] = Pending(table, held, ahead, _stop(table, held, ahead, settled))
    stops = [one.stop - 1 for one in pending.values() if one.stop is not None]
    due = [part for table in pending for part in by_table.get(table, ())]
    through = _bounded(min([through, *stops]), due, most)
    return Outlook(pending, through, sum(part.rows for part in due if part.first <= through), failed)


def _stop(table: str, held: Held, ahead: PendingParts, settled: Collection[tuple[str, int]]) -> int | None:
    if ahead.note:
        return ahead.note.position
    stops = [] if ahead.through is None else [ahead.through + 1]
    if ahead.parts:
        first, schema_id = ahead.begins or ahead.parts[0].first, ahead.parts[0].schema_id
        if held.schema_id and (held.schema_id != schema_id or ahead.changes) and (table, first) not in settled:
            stops.append(first)
        stops += [part.first for part in ahead.parts if part.schema_id != schema_id][:1]
    return min(stops, default=None)


def _bounded(through: int, found: Sequence[Part], most: int) -> int:
    """Return the last position, of those at which a part ends, up to which parts have no more than ``most`` events, or the first one."""
    rows, bound = 0, through
    for part in sorted((part for part in found if part.first <= through), key=lambda part: part.last):
        if rows and part.last > bound and rows + part.rows > most:
            return bound
        rows, bound = rows + part.rows, min(part.last, through)
    return through
