"""Merge the parts of one table that a target lacks, in one transaction with the position that it then holds."""

from __future__ import annotations

import datetime as dt
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyarrow.compute as pc

from auditor.connections.writer import transaction
from auditor.errors import MergeFailed, PartsGone, TableStopped, ValuesChanged
from auditor.escaping import shell_word
from auditor.model import Part
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import folder_at
from auditor.pipeline.merge import commits, keeping
from auditor.pipeline.merge.ahead import Ahead
from auditor.pipeline.merge.files import folder_of, stored_files
from auditor.pipeline.merge.load import LoadTask, load_changes, stage_columns
from auditor.pipeline.merge.places import check_place
from auditor.pipeline.merge.positions import Held, Where, check_unchanged, describe, get_schema, positions_of, see
from auditor.pipeline.merge.sharing import check_alone
from auditor.pipeline.merge.table_changes import check_names, empty, is_move, loses_rows, migrate, move_tables
from auditor.pipeline.merge.target_table import TargetTable, examine
from auditor.pipeline.staged_parts import read_part
from auditor.points import reach
from auditor.sql.merge import Bound, read_bounds
from auditor.store import parts, pipelines
from auditor.store.parts import StagedTable
from dialects import Session
from dialects.committing import Committing

MOST_ROWS = 500_000
"""Events merged in one transaction, unless a single part has more."""


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
    _check_kept(table, held, staged)
    ahead = see(where, table, held)
    check_place(session, where, table, held, ahead.note is not None and is_move(ahead.note))
    keeping.end(where, keeping.ends_by(where, table, ahead.changes))
    if ahead.note and through is not None and ahead.note.position > through:
        return None
    if ahead.note:
        return _pass(session, where, table, held, ahead, ready)
    bound = min((one for one in (ahead.through, through) if one is not None), default=None)
    chosen = _choose([part for part in ahead.parts if bound is None or part.first <= bound])
    if not chosen:
        return None
    first = ahead.begins or chosen[0].first
    schema_id = chosen[0].schema_id
    if isinstance(session, Committing):  # a person adds columns, by the statement that is printed
        check_names(where, table, held, schema_id, ahead.changes)
    elif changed := migrate(session, where, table, held, schema_id, ahead.changes, first):
        ready.pop(table, None)
        return Merged(changed.position, 0, None, changed)
    target, is_new = _make_ready(session, where, table, held, schema_id, ready)
    attempt = secrets.token_hex(8)
    about = (where.config_file, where.connection, where.root)
    tasks = [LoadTask(*about, part, held.position, attempt, target, bound, ahead.skipped, rows) for part in chosen]
    position = max(part.last for part in chosen)
    position = position if bound is None else min(position, bound)
    reach("merge.load")
    with _loaded(session, where, target, tasks) as (loaded, copy):
        sums = keeping.Pending() if isinstance(session, Committing) else keeping.prepare(session, where, table, held, position, chosen)
        reach("merge.merge")
        if rows is not None:
            _try(session, target, attempt, where, table, held, loaded, position, copy)
            return None
        if isinstance(session, Committing):
            _check_staged(session, table, target, attempt, loaded)
            # A table that was not there carried no position of what was passed by.
            before, after = (0, "") if is_new else (held.position, held.schema_id), (position, schema_id)
            if not commits.merge(session, where.pipeline, target.statements, attempt, before, after, where.incarnation):
                raise MergeFailed(f"{table}: another process has merged meanwhile; it is looked at again")
        else:
            with transaction(session):
                ended = _merge(session, where, table, held, target, attempt, loaded, position, copy, sums)
            keeping.end(where, ended)
        reach("merge.committed")
    events = sum(_count_events(where, part, held.position, position) for part in chosen)
    return Merged(position, events, max(part.time for part in chosen), Held(position, target.schema.id))


class _Undo(Exception):
    """Ends the transaction of a trial."""


def _try(
    session: Session, target: TargetTable, attempt: str, where: Where, table: str, held: Held, loaded: int, position: int,
    copy: Callable[[], None],
) -> None:  # fmt: skip
    """Merge what was loaded, and undo it. What is written by commits was tried once it was loaded."""
    if isinstance(session, Committing):
        _check_staged(session, table, target, attempt, loaded)
    else:
        with suppress(_Undo), transaction(session):
            _merge(session, where, table, held, target, attempt, loaded, position, copy, keeping.Pending())
            raise _Undo


def _check_kept(table: str, held: Held, staged: StagedTable) -> None:
    """Raise PartsGone if parts were deleted that the target lacks."""
    if held.position < staged.pruned_through:
        there = f"up to {describe(held.position)}" if held.position else "nothing"
        raise PartsGone(
            f"{table}: the target holds {there}, and the parts up to {describe(staged.pruned_through)} were deleted;"
            " copy the table from the source again, and then let the target go on from there"
        )


def _pass(session: Session, where: Where, table: str, held: Held, ahead: Ahead, ready: dict[str, TargetTable]) -> Merged | None:
    """Do to the target's table what the source did to its own; None if another table has to come so far first."""
    note = ahead.note
    assert note
    if note.stops:
        raise TableStopped(note.reason)
    if ahead.why:
        raise ValuesChanged(f"{ahead.why}, without a word of them in the log; copy the table again, or skip this if the target may differ")
    if is_move(note) and not session.dialect.writing.CHANGES_TABLES:
        raise TableStopped(
            f"{table} was renamed in the source, and a pipeline renames no tables of {session.dialect.name}; rename the table there,"
            " then reset the pipeline and copy its tables again"
        )
    clears = not is_move(note) and (note.position, note.row) not in ahead.skipped and loses_rows(where, table, held, note)
    if clears:
        check_alone(session, where, table, "the source emptied it, or made it anew", "delete its rows there by hand, and skip this")
    if isinstance(session, Committing):
        after = note.position, held.schema_id
        about = (where.place(table), where.pipeline, table, (held.position, held.schema_id), after)
        if not commits.pass_by(session, *about, clear=clears, incarnation=where.incarnation):
            raise MergeFailed(f"{table}: another process has merged meanwhile; it is looked at again")
        return Merged(note.position, 0, note.time, Held(*after))
    moved = move_tables(session, where, note) if is_move(note) else empty(session, where, table, held, note, clears)
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


@contextmanager
def _loaded(session: Session, where: Where, target: TargetTable, tasks: Sequence[LoadTask]) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield the number of changes that were loaded, and what is still to be done for that in the transaction that merges them."""
    if session.dialect.writing.LOADS != "by files":
        yield load_changes(session, where.run_tasks, tasks), lambda: None
        return
    folder = folder_of(where.pipeline, where.schema)
    with stored_files(session, where.run_tasks, tasks, folder) as files:

        def copy() -> None:
            for statement in target.statements.create_stage():
                session.execute(statement)
            names = [session.dialect.names.quote(name) for name in stage_columns(tasks[0])]
            session.loading.copy_stored(target.statements.stage, names, f"{folder}/{tasks[0].attempt}", files)

        yield sum(file.rows for file in files), copy


def _make_ready(
    session: Session, where: Where, table: str, held: Held, schema_id: str, ready: dict[str, TargetTable]
) -> tuple[TargetTable, bool]:
    """Return the target's table for rows of this schema, with a staging table, and whether it was made for them."""
    known, is_new = ready.pop(table, None), False
    if known is None or known.schema.id != schema_id or known.is_stale:
        schema = get_schema(where, schema_id)
        earlier = _earlier(where, held, schema_id)
        known, statement = examine(session, where.place(table), where.pipeline, schema, earlier, where.keys(table))
        if statement:
            _check_new(session, where, table, held, known, statement)
            _make_table(session, known, statement)
            is_new = True
        elif isinstance(session, Committing) and held == Held():
            _check_marked(where, table)
        reach("merge.stage")
        for statement in known.statements.create_stage() if session.dialect.writing.LOADS != "by files" else ():
            session.execute(statement)
    ready[table] = known
    return known, is_new


def _check_new(session: Session, where: Where, table: str, held: Held, target: TargetTable, statement: str) -> None:
    """Raise TableStopped if the target has had a table that it lacks: made anew, it would have the rows alone that come from now on."""
    report = pipelines.list_merges(where.store, where.pipeline).get(where.target, {}).get(table)
    if not held.schema_id and (held.position or not report or not report.events):
        return
    again = "reset the pipeline, and copy its tables again"
    if session.dialect.writing.MERGES_RANGES:
        send = f"auditor pipeline refresh {shell_word(where.pipeline)} --table {shell_word(table)}"
        again = f"make it anew ({' '.join(statement.split())}) and send its rows ({send})"
    raise TableStopped(
        f"{table}: rows of it were merged, and the target has no {target.statements.target} any more; rename it back if it has another name"
        f" there, or {again}"
    )


def _check_marked(where: Where, table: str) -> None:
    """Raise TableStopped if rows were merged into a table that carries no position now, so that it is not the one of then."""
    report = pipelines.list_merges(where.store, where.pipeline).get(where.target, {}).get(table)
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
    session: Session, where: Where, table: str, held: Held, target: TargetTable, attempt: str, loaded: int, position: int,
    copy: Callable[[], None], sums: keeping.Pending,
) -> Mapping[str, str]:  # fmt: skip
    positions = positions_of(session, where, table)
    for statement in (*positions.lock(), *target.statements.lock_stage(), *target.statements.remains()):
        session.execute(statement)
    check_unchanged(session, where, table, held)
    copy()
    intervals = _check_staged(session, table, target, attempt, loaded)
    if intervals:
        check_alone(session, where, table, "a refresh replaces all rows in a range of keys", "bring them by other ways, and skip this")
    bounds = _set_bounds_aside(session, target, attempt) if intervals else ()
    # Before the rows, so that who reads the target's binary log knows whose they are before it reads them.
    for statement in (*positions.write(table, position, target.schema.id), *target.statements.merge(attempt, bounds)):
        session.execute(statement)
    ended = keeping.add(session, where, table, sums)
    reach("merge.merged")
    reach("merge.commit")
    return ended


def _set_bounds_aside(session: Session, target: TargetTable, attempt: str) -> list[Bound]:
    create, listing = target.statements.list_bounds(attempt)
    session.execute(create)
    return read_bounds(session.query(listing))


def _check_staged(session: Session, table: str, target: TargetTable, attempt: str, loaded: int) -> int:
    """Return how many intervals of keys are staged.

    Raises MergeFailed if changes are missing, and TableStopped for intervals on an engine that takes none.
    """
    count, intervals = (int(one) for one in session.query(target.statements.count_staged(attempt))[0])
    if count != loaded:
        raise MergeFailed(f"{table}: {loaded} changes were loaded, and {count} are in the staging table; they are loaded again")
    if intervals and not session.dialect.writing.MERGES_RANGES:
        raise TableStopped(
            f"{table}: its rows come anew through the stream, range by range, and {session.dialect.name} takes no ranges yet;"
            " reset the pipeline, and copy the table again"
        )
    return intervals


def _choose(found: Sequence[Part]) -> list[Part]:
    """Return the first parts of those that have one schema and no more than MOST_ROWS events; at least one, if there is one."""
    chosen: list[Part] = []
    for part in found:
        if chosen and (part.schema_id != chosen[0].schema_id or sum(one.rows for one in chosen) + part.rows > MOST_ROWS):
            break
        chosen.append(part)
    return chosen


def _earlier(where: Where, held: Held, schema_id: str) -> TableSchema | None:
    if held.schema_id in ("", schema_id):
        return None
    body = parts.get_schema(where.store, where.pipeline, held.schema_id)
    return None if body is None else TableSchema.from_json(json.dumps(body))
