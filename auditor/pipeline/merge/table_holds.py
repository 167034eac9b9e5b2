"""What a loader does for audits that hold a table of its target still: merge it exactly up to a position, and say so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from auditor.errors import AuditorError, ConnectionLost, MergeFailed, StoreError
from auditor.pipeline.folders import folder_at
from auditor.pipeline.live.published_epochs import publish
from auditor.pipeline.merge.merge_to_positions import merge_to_positions, state_positions
from auditor.pipeline.merge.positions import Held, Where, describe, read_positions, see
from auditor.pipeline.merge.table_changes import changes_columns
from auditor.pipeline.merge.table_merge import Merged, merge_next
from auditor.pipeline.merge.target_table import TargetTable
from auditor.store import holds, parts, pipelines
from auditor.store.holds import Hold, HoldKey
from dialects import Session

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Holding:
    """The holds of one target, as its loader has seen them."""

    where: Where
    seen: Mapping[str, Hold] = field(default_factory=dict)
    """By table; none of these tables is merged further than its hold says."""

    def is_asked(self) -> bool:
        """Return whether an audit waits for this loader, which then has to end its merges for a moment. Raises StoreError."""
        found = holds.list_holds(self.where.store, self.where.pipeline, self.where.target)
        return any(hold.state in ("intent", "wanted") for hold in found.values())

    def look(self) -> list[Hold]:
        """Look at the store, let tables that an audit wants to hold stand still, and return those to merge. Raises StoreError.

        It must not be called during a merge: a hold is frozen when this says so.
        """
        self.seen = holds.list_holds(self.where.store, self.where.pipeline, self.where.target)
        if any(hold.state == "intent" for hold in self.seen.values()):  # what begins behind it is summed up for the audits that ask
            publish(self.where.store, self.where.pipeline, folder_at(self.where.root))
        for hold in self.seen.values():
            if hold.state == "intent" and holds.set_state(self.where.store, self._key(hold), "frozen"):
                log.info("%s: %s stands still for an audit", self.where.target, hold.table, extra={"action": "held", "table": hold.table})
        return [hold for hold in self.seen.values() if hold.state == "wanted"]

    def answer(self, hold: Hold, failure: str = "") -> None:
        """Say in the store that the target holds a table as it was wanted, or why it cannot. Raises StoreError."""
        holds.set_state(self.where.store, self._key(hold), "failed" if failure else "held", reason=failure)

    def _key(self, hold: Hold) -> HoldKey:
        return HoldKey(self.where.pipeline, self.where.target, hold.table, hold.holder)


def merge_wanted(
    session: Session,
    where: Where,
    positions: Mapping[str, int],
    ready: dict[str, TargetTable],
    take: Callable[[Mapping[str, Merged]], None],
) -> dict[str, AuditorError]:
    """Merge tables exactly up to the positions where audits want them, in one transaction those that can be; return by table why it fails.

    What was merged is handed to ``take``. Raises StoreError and ConnectionLost.
    """
    together = merge_to_positions(session, where, positions, read_positions(session, where), ready)
    take(together)
    failed: dict[str, AuditorError] = {}
    for table, position in positions.items():
        if table in together:
            continue
        ready.pop(table, None)
        try:
            for merged in merge_through(session, where, table, position, ready):
                take({table: merged})
        except (StoreError, ConnectionLost):
            raise
        except AuditorError as error:
            failed[table] = error
    return failed


def merge_through(session: Session, where: Where, table: str, position: int, ready: dict[str, TargetTable]) -> list[Merged]:
    """Merge all events of a table up to a position, and let the target say that it stands there; return what was merged.

    Raises MergeFailed if the target cannot stand there, and what `merge_next` raises.
    """
    held = read_positions(session, where).get(table, Held())
    if not held.schema_id:
        raise MergeFailed(f"the target {where.target} holds nothing of {table} yet; copy its rows first")
    if held.position > position:
        raise MergeFailed(
            f"the target {where.target} holds {table} up to {describe(held.position)} already, and {describe(position)} is earlier"
        )
    done: list[Merged] = []
    staged = parts.get_table(where.store, where.pipeline, table)
    while held.position < position:
        _check_columns(where, table, held, position)
        if (merged := merge_next(session, where, table, held, staged, ready, through=position)) is None:
            break
        done.append(merged)
        held = merged.held
    if held.position > position:
        raise MergeFailed(f"{table} was moved beyond {describe(position)}, because another table was renamed")
    if held.position < position:
        state_positions(session, where, {table: held}, {table: Held(position, held.schema_id)})
        pipelines.report_merges(where.store, where.pipeline, where.target, {table: pipelines.MergeNews(position, "merged")})
    return done


def _check_columns(where: Where, table: str, held: Held, position: int) -> None:
    """Raise MergeFailed if the target would come behind a change of columns that it does not have.

    Only the next event has the schema to which the target's table is brought, and the statements are looked for behind the position.
    """
    ahead = see(where, table, held)
    if ahead.note or (ahead.begins is not None and ahead.begins <= position):
        return
    for note in ahead.changes:
        if note.position <= position and changes_columns(note):
            raise MergeFailed(
                f"a statement changed the columns of {table} at {describe(note.position)}, and the target gets them with the next event;"
                " try again once a row was written"
            )
