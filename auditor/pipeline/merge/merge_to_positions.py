"""Merge several tables in one transaction, each exactly up to a position of its own: those that audits hold, and those that were held."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from auditor.connections.writer import transaction
from auditor.errors import AuditorError, ConnectionLost, MergeFailed, StoreError
from auditor.pipeline.merge import live_sums, merge_by_commits
from auditor.pipeline.merge.load_tasks import bytes_without_tasks
from auditor.pipeline.merge.name_collisions import check_place
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.positions import MOST_LISTED, Held, Where, check_unchanged, positions_of, see, write_positions
from auditor.pipeline.merge.table_merge import Merged, Step, StepFailed, StepsFailed, check_kept, merge, plan
from auditor.pipeline.merge.target_table import TargetTable
from auditor.store import parts
from auditor.store.parts import StagedTable
from dialects import Session
from dialects.committing import Committing

log = logging.getLogger(__name__)


def merge_to_positions(
    session: Session, where: Where, positions: Mapping[str, int], held: Mapping[str, Held], ready: dict[str, TargetTable]
) -> dict[str, Merged]:
    """Merge all events of each of these tables up to its position, where the target then says that it is; return what was merged.

    All of them are merged in one transaction, and those of which there are no events in one more. A table is left out that has to be
    merged by itself: one that a statement changed before its position, of which the target holds nothing yet or more, whose events do not
    fit into the transaction, or that fails; if the transaction fails, all are. Raises StoreError and ConnectionLost.
    """
    if isinstance(session, Committing):
        return {}
    staged = parts.list_tables(where.store, where.pipeline)
    pending, rows = dict[str, PendingParts](), 0
    for table, position in positions.items():
        ahead = _look(session, where, table, held.get(table, Held()), position, staged)
        size = 0 if ahead is None else sum(part.rows for part in ahead.parts if part.first <= position)
        if ahead is not None and rows + size <= where.chosen.max_transaction:
            pending[table] = ahead
            rows += size
    steps = _plan(session, where, pending, positions, held, ready)
    quiet = {table: held[table] for table in pending.keys() - steps.keys() if not _has_events(pending[table], positions[table])}
    merged = _unless_failed(lambda: merge(session, where, list(steps.values()), ready, together=len(steps) > 1) if steps else {}, where)
    return {**merged, **_unless_failed(lambda: _pass_quiet(session, where, quiet, positions), where)}


def _unless_failed(work: Callable[[], dict[str, Merged]], where: Where) -> dict[str, Merged]:
    """Return what was merged; nothing if that failed, because the reason is reported when the tables are merged by themselves."""
    try:
        return work()
    except (StepFailed, StepsFailed) as failure:
        error = failure.error
    except AuditorError as failed:
        error = failed
    if isinstance(error, (StoreError, ConnectionLost)):
        raise error
    log.info("%s: tables are merged one by one, because they cannot be together", where.target, extra={"action": "merge_alone"})
    return {}


def _look(session: Session, where: Where, table: str, held: Held, position: int, staged: Mapping[str, StagedTable]) -> PendingParts | None:
    """Return what lies ahead of a table that can be merged up to a position with others; None for one that has to be merged by itself."""
    if not held.schema_id or held.position > position or table not in staged:
        return None
    try:
        check_kept(session, where, table, held, staged[table])
        ahead = see(where, table, held, staged[table].staged_through)
        check_place(session, where, table, held, is_moved=False)
    except (StoreError, ConnectionLost):
        raise
    except AuditorError:
        return None  # it is reported when the table is merged by itself
    stop = ahead.note.position if ahead.note else None if ahead.through is None else ahead.through + 1
    is_whole = len(ahead.parts) < MOST_LISTED - 1 or ahead.parts[-1].last >= position
    is_of_schema = all(part.schema_id == held.schema_id for part in ahead.parts if part.first <= position)
    return ahead if is_whole and is_of_schema and not ahead.changes and (stop is None or stop > position) else None


def _has_events(ahead: PendingParts, position: int) -> bool:
    return ahead.begins is not None and ahead.begins <= position


def _plan(
    session: Session,
    where: Where,
    pending: Mapping[str, PendingParts],
    positions: Mapping[str, int],
    held: Mapping[str, Held],
    ready: dict[str, TargetTable],
) -> dict[str, Step]:
    """Return by table how its events are merged; without those that have none, or fail."""
    steps: dict[str, Step] = {}
    due = [table for table, ahead in pending.items() if _has_events(ahead, positions[table])]
    own_bytes = bytes_without_tasks(len(due))
    for table in due:
        try:
            step = plan(session, where, table, held[table], pending[table], ready, positions[table], own_bytes=own_bytes)
        except (StoreError, ConnectionLost):
            raise
        except AuditorError:
            ready.pop(table, None)
            continue  # it is reported when the table is merged by itself
        if step:
            steps[table] = replace(step, position=positions[table])
    return steps


def _pass_quiet(session: Session, where: Where, quiet: Mapping[str, Held], positions: Mapping[str, int]) -> dict[str, Merged]:
    """Let the target say that it holds tables up to positions up to which they have no events."""
    now = {table: Held(positions[table], held.schema_id) for table, held in quiet.items() if held.position < positions[table]}
    if now:
        state_positions(session, where, {table: quiet[table] for table in now}, now)
    return {table: Merged(positions[table], 0, None, Held(positions[table], held.schema_id)) for table, held in quiet.items()}


def state_positions(session: Session, where: Where, before: Mapping[str, Held], now: Mapping[str, Held]) -> None:
    """Let the target say in one transaction that it holds tables up to other positions, up to which there is nothing to merge."""
    epochs = live_sums.list_lasting(where)
    sums = {table: live_sums.prepare(session, where, table, before[table], held.position, lasting=epochs) for table, held in now.items()}
    if isinstance(session, Committing):
        for table, held in now.items():
            _state_by_commit(session, where, table, before[table], held, sums[table])
        return
    ended: dict[str, str] = {}
    with transaction(session):
        for positions in {one.schema: one for one in (positions_of(session, where, table) for table in now)}.values():
            session.execute_all(positions.lock())
        check_unchanged(session, where, before)
        write_positions(session, where, now)
        for table, pending in sums.items():
            ended |= live_sums.add(session, where, table, pending)
    live_sums.end(where, ended)


def _state_by_commit(session: Committing, where: Where, table: str, before: Held, now: Held, sums: live_sums.Pending) -> None:
    """Do that to one table by a commit without rows. Raises MergeFailed."""
    live_sums.keep(where, sums)
    about = (where.place(table), where.pipeline, table, (before.position, before.schema_id), (now.position, now.schema_id))
    if not merge_by_commits.pass_by(session, *about, clear=False, incarnation=where.incarnation):
        raise MergeFailed(f"{table}: another process has merged meanwhile; it is checked again")
