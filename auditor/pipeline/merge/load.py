"""Load parts into a staging table: a task of its own for each part where the engine takes several sessions side by side."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from auditor import config
from auditor.config import Settings
from auditor.connections.writer import open_session
from auditor.errors import AuditorError
from auditor.model import Part
from auditor.pipeline.folders import folder_at
from auditor.pipeline.merge.staged_rows import staged_rows
from auditor.pipeline.merge.target_table import TargetTable
from auditor.pipeline.staged_parts import read_part
from auditor.pipeline.worker_process import freeze_modules
from dialects import Dialect, Kind, Session


@dataclass(frozen=True, slots=True)
class LoadTask:
    """One part to load; it carries the name of a connection, never its URL."""

    config_file: str
    connection: str
    root: str
    part: Part
    after: int
    """Events up to this position are left out."""
    attempt: str
    table: TargetTable
    through: int | None = None
    """Events behind this position are left out; None for no bound."""
    skipped: tuple[tuple[int, int], ...] = ()
    """Events that somebody let the target go on without: positions, and numbers in their transactions, or -1 for all in one."""
    rows: int | None = None
    """How many rows of the transaction at ``through`` are loaded, for a trial; None for all."""


RunTasks: TypeAlias = Callable[[Callable[[LoadTask], int | AuditorError], Sequence[LoadTask]], Sequence[int | AuditorError]]
"""Runs a function on tasks, wherever, and returns its results in order."""


ALONE_BYTES = 4 << 20
"""Bytes of parts that a loader loads by its own session, although tasks could: running these takes longer than loading so little."""


def load_changes(session: Session, run_tasks: RunTasks, tasks: Sequence[LoadTask]) -> int:
    """Load parts into a staging table, and return the number of changes. Raises the first part's AuditorError."""
    if session.dialect.writing.LOADS == "side by side" and sum(task.part.bytes for task in tasks) > ALONE_BYTES:
        return _load_side_by_side(run_tasks, tasks)
    return sum(_load_part(session, task) for task in tasks)


def _load_side_by_side(run_tasks: RunTasks, tasks: Sequence[LoadTask]) -> int:
    """Load parts by tasks of their own, and return the number of changes. Raises the first task's AuditorError."""
    results = run_tasks(load_task, tasks)
    for result in results:
        if isinstance(result, AuditorError):
            raise result
    return sum(result for result in results if isinstance(result, int))


def load_task(task: LoadTask) -> int | AuditorError:
    """Load one part in the session of this process; return the number of changes, or the error, which survives the way back."""
    freeze_modules()
    key = (task.config_file, task.connection)
    try:
        if key not in _sessions:
            _sessions[key] = open_session(task.connection, settings_of(task.config_file).connections[task.connection])
        return _load_part(_sessions[key], task)
    except AuditorError as error:
        if key in _sessions:
            _sessions.pop(key).close()
        return error


def _load_part(session: Session, task: LoadTask) -> int:
    """Load one part in this session, and return the number of changes. Raises AuditorError."""
    count = 0
    for rows in read_changes(task, session.dialect):
        session.loading.load(task.table.statements.stage, stage_columns(task), rows)
        count += rows.num_rows
    return count


def read_changes(task: LoadTask, dialect: Dialect) -> Iterator[pa.Table]:
    """Yield the changes of a part as rows of the staging table. Raises AuditorError."""
    table = task.table
    for found in read_part(folder_at(task.root), task.part, task.after):
        yield staged_rows(_chosen(found, task), table.schema, table.names, dialect, task.attempt, table.longest, table.statements.prefix)


def stage_columns(task: LoadTask) -> dict[str, Kind]:
    """Return the columns of the staging table with the kinds of their texts."""
    return {**task.table.statements.change_columns, **task.table.columns}


def _chosen(events: pa.RecordBatch, task: LoadTask) -> pa.RecordBatch:
    if task.through is not None and task.part.last > task.through:
        events = events.filter(pc.less_equal(events["position"], task.through))
    if task.rows is not None:
        events = events.filter(pc.or_(pc.less(events["position"], task.through), pc.less(events["row"], task.rows)))
    for position, row in task.skipped:
        if task.part.first <= position <= task.part.last:
            at = pc.equal(events["position"], position)
            events = events.filter(pc.invert(at if row < 0 else pc.and_(at, pc.equal(events["row"], row))))
    return events


_sessions: dict[tuple[str, str], Session] = {}
"""The sessions of this process, by configuration and connection: a worker of Spark runs one task at a time, and thousands in its life."""


def close_sessions() -> None:
    """Close the sessions that tasks in this process kept."""
    while _sessions:
        _sessions.popitem()[1].close()


atexit.register(close_sessions)


@cache
def settings_of(config_file: str) -> Settings:
    """Return the settings of a file, which this process reads once."""
    return config.load(Path(config_file))
