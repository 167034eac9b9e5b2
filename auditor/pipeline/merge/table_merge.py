"""Merge the parts of one table that a target lacks, in one transaction with the position that it then holds."""

from __future__ import annotations

import datetime as dt
import json
import logging
import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from auditor.connections.writer import transaction
from auditor.errors import AuditorError, ConnectionLost, MergeFailed, PartsGone, StatementRefused, TableStopped, ValuesChanged
from auditor.escaping import shell_word
from auditor.model import LiveEpoch, Part
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.merge import live_sums, merge_by_commits
from auditor.pipeline.merge.load_files import PartFiles, RunFileTasks, files_removed, folder_of, part_files, slices_of, store_files
from auditor.pipeline.merge.load_tasks import BYTES_WITHOUT_TASKS, LastChanges, LoadTask, load_part, load_task, read_last_changes
from auditor.pipeline.merge.moves_by_commits import move_by_commits
from auditor.pipeline.merge.name_collisions import check_place
from auditor.pipeline.merge.pending_parts import PendingParts
from auditor.pipeline.merge.positions import Held, Where, check_unchanged, describe, get_schema, positions_of, see, write_positions
from auditor.pipeline.merge.shared_load import SharedFile, SharedLoad, SharingFailed, StoredTables, can_share, shared_files
from auditor.pipeline.merge.shared_tables import check_alone
from auditor.pipeline.merge.staged_rows import Row, plain_message
from auditor.pipeline.merge.table_changes import EMPTIED, check_names, empty, is_move, loses_rows, migrate, move_tables
from auditor.pipeline.merge.target_ledger import Expected, LedgerFailed, Touched, compare_touched, read_touched
from auditor.pipeline.merge.target_table import StageUse, TargetTable, examine
from auditor.pipeline.staged_parts import HELD_BYTES, Blocks, read_part
from auditor.points import reach
from auditor.sql.merge import Bound, read_bounds
from auditor.store import parts, pipelines
from auditor.store.parts import StagedTable
from dialects import Session
from dialects.committing import Committing
from dialects.writing import StoredFile

log = logging.getLogger(__name__)

MESSAGE_BYTES = 1 << 20
"""Bytes of changes of many tables that are sent together, a little more."""

REPLACES = "a refresh replaces all rows in a range of keys"
"""Why a refresh is refused where others fill the same table."""

MOST_DELETED = 20_000
"""Rows that are deleted from a staging table of a session before it is made again."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What one transaction merged of a table."""

    position: int
    events: int
    time: dt.datetime | None
    """When the source committed the last of them; None if there is none."""
    held: Held
    """What the target holds now."""
    moved: bool = False
    """Whether other tables have got another position with this one."""


def merge_next(
    session: Session,
    where: Where,
    table: str,
    held: Held,
    staged: StagedTable,
    ready: dict[str, TargetTable],
    through: int | None = None,
    rows: int | None = None,
) -> Merged | None:
    """Merge the next parts of a table, as many as have one schema and fit into one transaction; None if the target lacks none.

    Events behind ``through`` are left for later; None for no bound. With ``rows``, those of the transaction at ``through`` that have lower
    numbers are merged for a trial, and that is undone: None. Where the next event is one that stops the table, raises TableStopped.

    ``ready`` are the tables that this session has made ready for rows of their schema: their staging tables are there, and empty.
    Raises AuditorError; the target is unchanged then, unless the connection was lost during the commit, which the next call finds out
    from the position in the target.
    """
    check_kept(session, where, table, held, staged)
    ahead = see(where, table, held, staged.staged_through)
    check_place(session, where, table, held, ahead.note is not None and is_move(ahead.note))
    if ahead.note and through is not None and ahead.note.position > through:
        return None
    if done := follow(session, where, table, held, ahead, ready):
        return done
    if ahead.note or not (step := plan(session, where, table, held, ahead, ready, through, rows, where.chosen.max_transaction)):
        return None
    try:
        return merge(session, where, [step], ready).get(table)
    except StepFailed as failure:
        raise failure.error from failure


def follow(session: Session, where: Where, table: str, held: Held, ahead: PendingParts, ready: dict[str, TargetTable]) -> Merged | None:
    """Do to the target's table what a statement did to the source's before the next event; None if nothing is done, or not yet.

    Raises AuditorError; the target is unchanged then.
    """
    live_sums.end(where, live_sums.ends_by(where, table, ahead.changes))
    if ahead.note:
        return _pass(session, where, table, held, ahead, ready)
    if not ahead.parts:
        return None
    first, schema_id = ahead.begins or ahead.parts[0].first, ahead.parts[0].schema_id
    if isinstance(session, Committing) and not session.CHANGES_COLUMNS:  # a person adds columns, by the statement that is printed
        check_names(where, table, held, schema_id, ahead.changes)
        return None
    if changed := migrate(session, where, table, held, schema_id, ahead.changes, first):
        ready.pop(table, None)
        return Merged(changed.position, 0, None, changed)
    return None


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction does to one table: the parts whose events it merges, up to a position."""

    table: str
    held: Held
    """What the target holds before it."""
    position: int
    """Up to where it holds the table afterwards."""
    chosen: Sequence[Part]
    target: TargetTable
    is_new: bool
    """Whether the target's table was made for it."""
    attempt: str
    """Its mark in the staging table."""
    tasks: Sequence[LoadTask]
    changes: LastChanges | None = None
    """The last change of each key, of few events; None if they are loaded by tasks."""
    rows: int | None = None
    """How many rows of the last transaction are merged for a trial, which is undone; None if it is none."""

    @property
    def now(self) -> Held:
        """What the target holds afterwards."""
        return Held(self.position, self.target.schema.id)


def plan(
    session: Session,
    where: Where,
    table: str,
    held: Held,
    ahead: PendingParts,
    ready: dict[str, TargetTable],
    through: int | None = None,
    rows: int | None = None,
    most: int | None = None,
    own_bytes: int = BYTES_WITHOUT_TASKS,
    root: Blocks | None = None,
) -> Step | None:
    """Return how the next events of a table are merged, in one transaction, and make the target's table, and staging, ready for them.

    These are all up to ``through``, or as many parts as have at most ``most`` events. Events of about ``own_bytes`` at most are read
    by this process, from ``root`` if it is given. None if there are no events up to ``through``. ``rows`` is as in `merge_next`.
    Raises AuditorError.
    """
    bound = min((one for one in (ahead.through, through) if one is not None), default=None)
    chosen = _choose([part for part in ahead.parts if bound is None or part.first <= bound], most)
    if not chosen:
        return None
    target, is_new = _make_ready(session, where, table, held, chosen, ready)
    about, attempt = (where.config_file, where.connection, where.root), secrets.token_hex(8)
    tasks = [LoadTask(*about, part, held.position, attempt, target, bound, ahead.skipped, rows) for part in chosen]
    reads_itself = session.dialect.writing.LOADS != "by files" and not isinstance(session, Committing)
    reads_itself = reads_itself and sum(_bytes_between(part, held.position, bound) for part in chosen) <= own_bytes
    read = read_last_changes(root or folder_at(where.root), tasks, session.dialect, is_new) if reads_itself else None
    staged = _stage(session, target, read is not None, ready, table)
    tasks = [replace(task, table=staged) for task in tasks]
    last = max(part.last for part in chosen)
    position = last if bound is None else min(last, bound)
    return Step(table, held, position, chosen, staged, is_new, attempt, tasks, read, rows)


def merge(
    session: Session,
    where: Where,
    steps: Sequence[Step],
    ready: dict[str, TargetTable],
    whole: Mapping[str, tuple[int, str]] | None = None,
    together: bool = False,
) -> dict[str, Merged]:
    """Merge the events of these steps, of a table each, all in one transaction; return what was merged of each table.

    ``whole`` is what the schemas of the tables then say of all tables of the target. With ``together``, the statements of steps of few
    rows are sent at once where the engine takes them. Nothing is returned of a trial. Raises StepFailed, StepsFailed for those that were
    sent together, and AuditorError where it concerns all of them; nothing was merged then.
    """
    alone = set[str]()
    if session.dialect.writing.LOADS == "by files":
        alone |= {epoch.table for epoch in live_sums.list_lasting(where) if epoch.ledger}  # whose staged keys are read before the merge
    while True:
        try:
            _merge_loaded(session, where, steps, whole, alone, together)
            break
        except LedgerFailed as failed:
            failed.end(where.store, where.pipeline)
            steps = [begun_again(step) for step in steps]
        except SharingFailed as failure:
            tables = sorted(failure.tables)
            named = tables[0] if len(tables) == 1 else f"{len(tables)} tables, {tables[0]} the first,"
            extra = {"action": "load_alone", "target": where.target, "table": tables[0], "tables": len(tables)}
            log.warning("%s: %s cannot share a COPY with others: %s", where.target, named, plain_message(str(failure.error)), extra=extra)
            alone.update(tables)
    for step in steps:
        _use(step, ready)
    return {step.table: _merged(where, step) for step in steps if step.rows is None}


def _merge_loaded(
    session: Session,
    where: Where,
    steps: Sequence[Step],
    whole: Mapping[str, tuple[int, str]] | None,
    alone: Collection[str],
    together: bool,
) -> None:
    """Merge the events of steps in one transaction, of which tables ``alone`` share nothing with others. Raises SharingFailed as well."""
    reach("merge.load")
    with _loaded(session, where, steps, alone) as loaded:
        reach("merge.merge")
        if isinstance(session, Committing):
            epochs = live_sums.list_lasting(where)
            for step in steps:
                _commit(session, where, step, loaded.load, epochs)
        elif any(step.rows is not None for step in steps):
            with suppress(_Undo), transaction(session):
                _merge(session, where, steps, [live_sums.Pending() for _ in steps], loaded)
                raise _Undo
        else:
            epochs = live_sums.list_lasting(where)
            sums = [live_sums.prepare(session, where, step.table, step.held, step.position, step.chosen, epochs) for step in steps]
            with transaction(session):
                ended = _merge(session, where, steps, sums, loaded, whole, together)
            live_sums.end(where, ended)
        reach("merge.committed")


def _use(step: Step, ready: dict[str, TargetTable]) -> None:
    """Count what a staging table held that is emptied row by row; let it be made again before deleted rows slow it down."""
    if step.changes is None or not step.target.statements.of_session:
        return
    step.target.use.deleted += step.changes.count
    if step.target.use.deleted > MOST_DELETED:
        ready.pop(step.table, None)


def _merged(where: Where, step: Step) -> Merged:
    events = sum(_count_events(where, part, step.held.position, step.position) for part in step.chosen)
    return Merged(step.position, events, max(part.time for part in step.chosen), step.now)


class StepFailed(Exception):
    """The step of a transaction at which it failed, and the error; all of it was rolled back."""

    def __init__(self, step: Step, error: AuditorError) -> None:
        super().__init__(step.table, str(error))
        self.step, self.error = step, error


class StepsFailed(Exception):
    """Steps whose statements were sent together, of which one failed by this error; all of it was rolled back."""

    def __init__(self, error: AuditorError) -> None:
        super().__init__(str(error))
        self.error = error


class _Undo(Exception):
    """Ends the transaction of a trial."""


def check_kept(session: Session, where: Where, table: str, held: Held, staged: StagedTable) -> None:
    """Raise PartsGone if parts were deleted that the target lacks."""
    if held.position < staged.pruned_through:
        raise refuse_gone(where.pipeline, table, held, staged, begins_late=not session.dialect.writing.WRITES_COMMITS)


def refuse_gone(pipeline: str, table: str, held: Held, staged: StagedTable, *, begins_late: bool = True) -> PartsGone:
    """Return the error of a target that lacks parts that were deleted; ``begins_late``: it can begin with a table behind them."""
    there = f"up to {describe(held.position)}" if held.position else "nothing"
    again = "reset the pipeline, and copy its tables again"
    if begins_late and not held.schema_id:
        again = (
            "send all its rows again, after which the target begins behind these parts:"
            f" auditor pipeline refresh {shell_word(pipeline)} --table {shell_word(table)} --apply"
        )
    return PartsGone(f"{table}: the target holds {there}, and the parts up to {describe(staged.pruned_through)} were deleted; {again}")


def _pass(session: Session, where: Where, table: str, held: Held, ahead: PendingParts, ready: dict[str, TargetTable]) -> Merged | None:
    """Do to the target's table what the source did to its own; None if another table has to come so far first."""
    note = ahead.note
    assert note
    if note.stops:
        raise TableStopped(note.reason)
    if ahead.why:
        raise ValuesChanged(f"{ahead.why}, without a word of them in the log; copy the table again, or skip this if the target may differ")
    if is_move(note) and isinstance(session, Committing) and not session.CHANGES_COLUMNS:
        raise TableStopped(
            f"{table} was renamed in the source, and a pipeline renames no tables of this target; rename the table there,"
            " then reset the pipeline and copy its tables again"
        )
    clears = not is_move(note) and (note.position, note.row) not in ahead.skipped and loses_rows(where, table, held, note)
    if clears:
        check_alone(session, where, table, "the source emptied it, or made it anew", "delete its rows there by hand, and skip this")
    if isinstance(session, Committing) and not is_move(note):
        after = note.position, held.schema_id
        about = (where.place(table), where.pipeline, table, (held.position, held.schema_id), after)
        sums = live_sums.prepare(session, where, table, held, note.position)
        live_sums.keep(where, live_sums.ended(sums, EMPTIED) if loses_rows(where, table, held, note) else sums)
        if not merge_by_commits.pass_by(session, *about, clear=clears, incarnation=where.incarnation):
            raise MergeFailed(f"{table}: another process has merged meanwhile; it is checked again")
        return Merged(note.position, 0, note.time, Held(*after))
    move = move_by_commits if isinstance(session, Committing) else move_tables
    moved = move(session, where, note) if is_move(note) else empty(session, where, table, held, note, clears)
    if moved is None:
        return None
    for name in moved:
        ready.pop(name, None)
    return Merged(note.position, 0, note.time, moved[table], moved=len(moved) > 1)


def _count_events(where: Where, part: Part, after: int, through: int) -> int:
    """Return how many events of a part stand behind one position and up to another."""
    if part.first > after and part.last <= through:
        return part.rows
    found = (pc.sum(pc.less_equal(batch["position"], through)).as_py() for batch in read_part(folder_at(where.root), part, after))
    return sum(count or 0 for count in found)


Result = TypeVar("Result")

Load: TypeAlias = Callable[[Step], int]
"""Completes, in the transaction that merges a step, what is loaded of it into its staging table; returns the intervals of keys in it."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """How what was loaded, or written to files, gets into the transaction that merges it."""

    load: Load
    shared: SharedLoad = field(default_factory=SharedLoad)
    """The tables that share a COPY, of which ``load`` loads none."""


@contextmanager
def _loaded(session: Session, where: Where, steps: Sequence[Step], alone: Collection[str]) -> Iterator[_Loaded]:
    """Yield what completes the loading of each step: rows are loaded, or written to files, before the transaction where tasks do that.

    Tables ``alone`` share no COPY with others. Raises StepFailed with the first task's error, and SharingFailed.
    """
    if session.dialect.writing.LOADS == "by files":
        folder = f"{folder_of(where.pipeline, where.schema)}/{secrets.token_hex(8)}"
        with files_removed(session, folder):
            yield _store_files(session, where.run_tasks, steps, alone, folder)
        return
    tasks = [task for step in steps if step.changes is None for task in step.tasks]
    counts: dict[tuple[str, int], int] = {}
    if session.dialect.writing.LOADS == "side by side" and tasks:
        counts = _by_part(steps, tasks, where.run_tasks(load_task, tasks))
    yield _Loaded(partial(_load_here, session, counts))


def _store_files(session: Session, run_tasks: RunFileTasks, steps: Sequence[Step], alone: Collection[str], folder: str) -> _Loaded:
    """Let tasks write the changes of steps to files below a folder: those of small tables to few that they share."""
    small = {step.table: step.tasks for step in steps if step.table not in alone and can_share(step.tasks)}
    slices = slices_of(session)
    together = shared_files(small, folder, slices)
    apart = _files_of([step for step in steps if step.table not in small], folder, slices)
    written = store_files(run_tasks, [*together, *apart])
    stored = _stored(steps, together, written)
    rows = {table: count for one in stored for table, count in one.rows.items()}
    files = _by_table(steps, apart, written[len(together) :])
    if left := [step for step in steps if step.table in small and step.table not in rows]:
        alone_after_all = _files_of(left, folder, slices)
        files |= _by_table(steps, alone_after_all, store_files(run_tasks, alone_after_all))
    numbers = {table: number for one in together for table, number in one.numbers.items()}
    shared = SharedLoad(folder, [one.file for one in stored if one.rows], numbers, rows)
    return _Loaded(partial(_load_files, session, folder, files), shared)


def _files_of(steps: Sequence[Step], folder: str, slices: int) -> list[PartFiles]:
    return [files for step in steps for files in part_files(step.tasks, f"{folder}/{step.attempt}", slices)]


def _by_table(
    steps: Sequence[Step], tasks: Sequence[PartFiles], results: Sequence[Sequence[StoredFile] | AuditorError]
) -> dict[str, list[StoredFile]]:
    """Return the files that tasks wrote by the table. Raises StepFailed with the first error."""
    found = dict[str, list[StoredFile]]()
    for task, result in zip(tasks, results, strict=True):
        if isinstance(result, AuditorError):
            raise StepFailed(next(step for step in steps if step.table == task.loads[0].part.table), result)
        found.setdefault(task.loads[0].part.table, []).extend(result)
    return found


def _stored(steps: Sequence[Step], together: Sequence[SharedFile], written: Sequence[StoredTables | AuditorError]) -> list[StoredTables]:
    """Return the files that tables share. Raises StepFailed with the first error of a table, SharingFailed, and AuditorError."""
    found: list[StoredTables] = []
    for file, result in zip(together, written, strict=False):
        if isinstance(result, StatementRefused):
            raise SharingFailed(file.tables, result)
        if isinstance(result, AuditorError):
            raise result
        for table, error in result.failed.items():
            raise StepFailed(next(step for step in steps if step.table == table), error)
        found.append(result)
    return found


def _by_part(steps: Sequence[Step], tasks: Sequence[LoadTask], results: Sequence[Result | AuditorError]) -> dict[tuple[str, int], Result]:
    """Return what tasks returned by the table and first position of their parts. Raises StepFailed with the first error."""
    found = dict[tuple[str, int], Result]()
    for task, result in zip(tasks, results, strict=True):
        if isinstance(result, AuditorError):
            raise StepFailed(next(step for step in steps if task in step.tasks), result)
        found[task.part.table, task.part.first] = result
    return found


def _load_files(session: Session, folder: str, files: Mapping[str, Sequence[StoredFile]], step: Step) -> int:
    for statement in step.target.statements.create_stage():
        session.execute(statement)
    names = [session.dialect.names.quote(name) for name in step.target.stage_columns]
    stored = files[step.table]
    session.loading.copy_stored(step.target.statements.stage, names, f"{folder}/{step.attempt}", stored)
    return _check_staged(session, step, sum(file.rows for file in stored))


def _load_here(session: Session, counts: Mapping[tuple[str, int], int], step: Step) -> int:
    if not step.target.is_staged:
        reach("merge.stage")
        session.execute_all(step.target.statements.create_stage())
    if step.changes is not None:
        count = session.loading.load(step.target.statements.stage, step.target.stage_columns, step.changes.as_table())
        if count == step.changes.count:
            return step.changes.intervals
        return _check_staged(session, step, step.changes.count)
    loaded = 0
    for task in step.tasks:
        known = counts.get((task.part.table, task.part.first))
        loaded += load_part(session, task) if known is None else known
    return _check_staged(session, step, loaded)


def _make_ready(
    session: Session, where: Where, table: str, held: Held, chosen: Sequence[Part], ready: dict[str, TargetTable]
) -> tuple[TargetTable, bool]:
    """Return the target's table for rows of the parts' schema, and whether it was made for them."""
    schema_id, known = chosen[0].schema_id, ready.get(table)
    if known and known.schema.id == schema_id and not known.is_stale:
        return known, False
    ready.pop(table, None)
    schema = get_schema(where, schema_id)
    made, statement = examine(session, where.place(table), where.pipeline, schema, _earlier(where, held, schema_id), where.keys(table))
    if statement:
        _check_new(session, where, table, held, made, statement)
        _make_table(session, made, statement)
    elif isinstance(session, Committing) and held == Held():
        _check_marked(where, table)
    return made, bool(statement)


def _stage(session: Session, target: TargetTable, is_distinct: bool, ready: dict[str, TargetTable], table: str) -> TargetTable:
    """Return the target's table with a staging table for changes of this form, which is empty, and note that it is ready."""
    writing = session.dialect.writing
    of_session = is_distinct and writing.LOADS == "side by side"
    if target.is_staged and (target.statements.is_distinct, target.statements.of_session) == (is_distinct, of_session):
        return target
    statements = replace(target.statements, is_distinct=is_distinct, of_session=of_session)
    is_staged = not writing.MERGES_LITERALS  # else the staging table is made where it is needed
    if is_staged:
        reach("merge.stage")
        for sql in statements.create_stage() if writing.LOADS != "by files" else ():
            session.execute(sql)
    ready[table] = replace(target, statements=statements, is_staged=is_staged, use=StageUse())
    return ready[table]


def _check_new(session: Session, where: Where, table: str, held: Held, target: TargetTable, statement: str) -> None:
    """Raise TableStopped if the target has had a table that it lacks: made anew, it would have the rows alone that come from now on."""
    report = pipelines.get_merge(where.store, where.pipeline, where.target, table)
    if not held.schema_id and (held.position or not report or not report.events):
        return
    again = "reset the pipeline, and copy its tables again"
    if not isinstance(session, Committing):  # whose tables no statement makes
        send = f"auditor pipeline refresh {shell_word(where.pipeline)} --table {shell_word(table)} --apply"
        again = f"make it anew ({' '.join(statement.split())}) and send its rows ({send})"
    raise TableStopped(
        f"{table}: rows of it were merged, and the target has no {target.statements.target} any more; rename it back if it has another name"
        f" there, or {again}"
    )


def _check_marked(where: Where, table: str) -> None:
    """Raise TableStopped if rows were merged into a table that carries no position now, so that it is not the one of then."""
    report = pipelines.get_merge(where.store, where.pipeline, where.target, table)
    if report and report.position and report.events:
        raise TableStopped(
            f"{table}: rows of it were merged, and the target's table does not say so: it was made anew, or restored from an earlier time;"
            " bring that table back, or reset the pipeline, and copy its tables again"
        )


def _make_table(session: Session, target: TargetTable, statement: str) -> None:
    if isinstance(session, Committing):
        session.make_table(target.statements.target, statement)
    else:
        session.execute(statement)


def _merge(
    session: Session,
    where: Where,
    steps: Sequence[Step],
    sums: Sequence[live_sums.Pending],
    loaded: _Loaded,
    whole: Mapping[str, tuple[int, str]] | None = None,
    together: bool = False,
) -> dict[str, str]:
    """Merge what is loaded, in a transaction; return why epochs of live summaries end, by id. Raises StepFailed and SharingFailed."""
    _lock(session, where, steps)
    by_ledger = {step.table: pending.expected for step, pending in zip(steps, sums, strict=True) if pending.expected}
    # Before the rows, so that who reads the target's binary log knows whose they are before it reads them.
    write_positions(session, where, {step.table: step.now for step in steps}, whole)
    sent = _send_together(session, [step for step in steps if step.table not in by_ledger]) if together else set()
    counts = loaded.shared.copy(session)
    ended: dict[str, str] = {}
    for step, pending in zip(steps, sums, strict=True):
        touched: Mapping[str, Touched] = {}
        try:
            if step.table in loaded.shared.rows:
                loaded.shared.merge(session, step.tasks[0], counts)
            elif step.table not in sent:
                touched = _merge_one(session, where, step, loaded.load, by_ledger.get(step.table, {}))
            ended |= live_sums.add(session, where, step.table, pending, touched)
        except AuditorError as error:
            raise StepFailed(step, error) from error
    loaded.shared.drop(session)
    reach("merge.merged")
    reach("merge.commit")
    return ended


def _send_together(session: Session, steps: Sequence[Step]) -> set[str]:
    """Merge steps whose rows one statement inserts, by as few messages as the server takes; return their tables. Raises StepsFailed."""
    merged, waiting, size = set[str](), list[str](), 0
    try:
        for step in steps:
            if step.changes is None or step.changes.intervals or isinstance(step.changes.rows, pa.Table) or not step.changes.rows:
                continue
            if not (statements := _statements_with_rows(session, step, step.changes.rows)):
                continue
            merged.add(step.table)
            waiting += statements
            size += sum(map(len, statements))
            if size >= MESSAGE_BYTES:
                session.execute_all(waiting)
                waiting, size = [], 0
        session.execute_all(waiting)
    except ConnectionLost:
        raise
    except AuditorError as error:
        raise StepsFailed(error) from error
    return merged


def _statements_with_rows(session: Session, step: Step, rows: Sequence[Row]) -> Sequence[str]:
    """Return the statements that merge a few changes, which stand in them; none where the engine takes none so."""
    statements, kinds, dialect = step.target.statements, step.target.kinds, session.dialect
    if not dialect.writing.MERGES_LITERALS:
        loaded = session.loading.insertion(statements.stage, step.target.stage_columns, rows)
        return [loaded, *statements.merge(step.attempt)] if loaded else []
    if not kinds.keys() >= set(statements.key):
        return []
    names, own = list(step.target.stage_columns), len(statements.change_columns)
    key = [(names.index(name), kinds[name]) for name in statements.key]
    keys = [[dialect.types.value_of_text(dialect.names.literal(row[place]), kind) for place, kind in key] for row in rows]
    op = names.index(f"{statements.prefix}op")
    come = [row[own:] for row in rows if row[op] == "i"]
    delete = statements.delete_keys(keys)
    return [delete, session.loading.insertion(statements.target, step.target.columns, come)] if come else [delete]


def begun_again(step: Step) -> Step:
    """Return a step for another transaction than the one that failed: what that loaded by tasks is still in the staging table."""
    if step.changes is not None:
        return step
    attempt = secrets.token_hex(8)
    return replace(step, attempt=attempt, tasks=[replace(task, attempt=attempt) for task in step.tasks])


def _lock(session: Session, where: Where, steps: Sequence[Step]) -> None:
    """Keep other merges off what these steps write. Raises MergeFailed if another process has merged one of the tables."""
    statements: list[str] = []
    for positions in {positions.schema: positions for positions in (positions_of(session, where, step.table) for step in steps)}.values():
        statements += positions.lock()
    for step in steps:
        statements += (*step.target.statements.lock_stage(), *step.target.statements.remains())
    session.execute_all(statements)
    check_unchanged(session, where, {step.table: step.held for step in steps})


def _merge_one(session: Session, where: Where, step: Step, load: Load, expected: Mapping[str, Expected]) -> Mapping[str, Touched]:
    """Merge a step; return the target's rows that this found and left, by the epochs that ask for them. Raises LedgerFailed."""
    intervals = load(step)
    if intervals:
        check_alone(session, where, step.table, REPLACES, "bring them by other ways, and skip this")
    bounds = _read_bounds(session, step) if intervals and step.changes is None else ()
    statements = step.target.statements
    if not expected:
        session.execute_all(statements.merge(step.attempt, bounds))
        return {}
    session.execute_all(statements.prepare(step.attempt, bounds))
    found = read_touched(session, statements, expected, bounds, "found")
    session.execute_all(statements.change(bounds))
    left = read_touched(session, statements, expected, bounds, "left")
    touched = compare_touched(session, statements, expected, found, left)
    session.execute_all(statements.clear())
    return touched


def _commit(session: Session, where: Where, step: Step, load: Load, epochs: Sequence[LiveEpoch]) -> None:
    """Merge what is loaded into a table that is written by commits. A trial of it ends once it is loaded."""
    intervals = load(step)
    if step.rows is not None:
        return
    if intervals:
        check_alone(session, where, step.table, REPLACES, "bring them by other ways, and skip this")
    bounds = _read_bounds(session, step) if intervals else []
    # A table that was not there carried no position of what was passed by.
    before, after = (0, "") if step.is_new else (step.held.position, step.held.schema_id), (step.now.position, step.now.schema_id)
    about = (where.pipeline, step.target.statements, step.attempt, before, after, where.incarnation)
    live_sums.keep(where, live_sums.prepare(session, where, step.table, step.held, step.position, step.chosen, epochs))
    if not merge_by_commits.merge(session, *about, bounds):
        raise MergeFailed(f"{step.table}: another process has merged meanwhile; it is checked again")


def _read_bounds(session: Session, step: Step) -> list[Bound]:
    statements = step.target.statements
    kinds = [step.target.kinds[name] for name in statements.key]
    return read_bounds(session.query(statements.list_bounds(step.attempt, kinds)), kinds, session.dialect)


def _check_staged(session: Session, step: Step, loaded: int) -> int:
    """Return how many intervals of keys are staged. Raises MergeFailed if changes are missing."""
    table = step.table
    count, intervals = (int(one) for one in session.query(step.target.statements.count_staged(step.attempt))[0])
    if count != loaded:
        raise MergeFailed(f"{table}: {loaded} changes were loaded, and {count} are in the staging table; they are loaded again")
    return intervals


def _choose(found: Sequence[Part], most: int | None) -> list[Part]:
    """Return the first parts of those that have one schema and no more than ``most`` events; at least one, if there is one."""
    chosen, rows = list[Part](), 0
    for part in found:
        rows += part.rows
        if chosen and (part.schema_id != chosen[0].schema_id or (most is not None and rows > most)):
            break
        chosen.append(part)
    return chosen


def _bytes_between(part: Part, after: int, bound: int | None) -> float:
    """Return about how many bytes the events of a part have that stand behind one position and up to another: as if they were even.

    A part whose blocks a reader does not hold is as large as it is.
    """
    if part.bytes > HELD_BYTES or part.last <= part.first:
        return part.bytes
    begin, end = max(after, part.first), part.last if bound is None else min(bound, part.last)
    return part.bytes * max(end - begin, 0) / (part.last - part.first)


def _earlier(where: Where, held: Held, schema_id: str) -> TableSchema | None:
    if held.schema_id in ("", schema_id):
        return None
    body = parts.get_schema(where.store, where.pipeline, held.schema_id)
    return None if body is None else TableSchema.from_json(json.dumps(body))
