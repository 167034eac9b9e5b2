"""Load parts into a staging table: a task of its own for each part where the engine takes several sessions side by side."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from auditor import config
from auditor.connections.writer import open_session
from auditor.errors import AuditorError
from auditor.model import Part
from auditor.pipeline.merge.staged_rows import staged_rows
from auditor.pipeline.merge.target_table import TargetTable
from auditor.pipeline.staged_parts import read_part
from auditor.sql.merge import CHANGE_COLUMNS
from dialects import Session


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
    skipped: tuple[int, ...] = ()
    """Positions of events that somebody let the target go on without."""


RunTasks: TypeAlias = Callable[[Callable[[LoadTask], int | AuditorError], Sequence[LoadTask]], Sequence[int | AuditorError]]
"""Runs a function on tasks, wherever, and returns its results in order."""


def load_side_by_side(run_tasks: RunTasks, tasks: Sequence[LoadTask]) -> int:
    """Load parts by tasks of their own, and return the number of changes. Raises the first task's AuditorError."""
    results = run_tasks(load_task, tasks)
    for result in results:
        if isinstance(result, AuditorError):
            raise result
    return sum(result for result in results if isinstance(result, int))


def load_task(task: LoadTask) -> int | AuditorError:
    """Load one part in the session of this process; return the number of changes, or the error, which survives the way back."""
    key = (task.config_file, task.connection)
    try:
        if key not in _sessions:
            _sessions[key] = open_session(task.connection, _settings(task.config_file).connections[task.connection])
        return load_part(_sessions[key], task)
    except AuditorError as error:
        if key in _sessions:
            _sessions.pop(key).close()
        return error


def load_part(session: Session, task: LoadTask) -> int:
    """Load one part in this session, and return the number of changes. Raises AuditorError."""
    table, count = task.table, 0
    columns = {**CHANGE_COLUMNS, **table.columns}
    for found in read_part(Path(task.root), task.part, task.after):
        events = _chosen(found, task)
        rows = staged_rows(events, table.schema, table.names, session.dialect, task.attempt)
        session.load(table.statements.stage, columns, rows)
        count += rows.num_rows
    return count


def _chosen(events: pa.RecordBatch, task: LoadTask) -> pa.RecordBatch:
    if task.through is not None and task.part.last > task.through:
        events = events.filter(pc.less_equal(events["position"], task.through))
    if any(task.part.first <= position <= task.part.last for position in task.skipped):
        events = events.filter(pc.invert(pc.is_in(events["position"], pa.array(task.skipped, pa.int64()))))
    return events


_sessions: dict[tuple[str, str], Session] = {}
"""The sessions of this process, by configuration and connection: a worker of Spark runs one task at a time, and thousands in its life."""


def close_sessions() -> None:
    """Close the sessions that tasks in this process kept."""
    while _sessions:
        _sessions.popitem()[1].close()


atexit.register(close_sessions)


@cache
def _settings(config_file: str) -> Any:
    return config.load(Path(config_file))
