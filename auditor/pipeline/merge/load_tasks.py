"""Load parts into staging tables: by tasks of Spark, one for each part, where the engine takes several sessions side by side; few events by
the merging process itself."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
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
from auditor.pipeline.merge.staged_rows import Row, few_last_changes, last_changes, staged_rows
from auditor.pipeline.merge.target_table import TargetTable
from auditor.pipeline.staged_parts import Blocks, read_part
from auditor.pipeline.worker_process import freeze_modules
from dialects import Dialect, Session


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


BYTES_WITHOUT_TASKS = 4 << 20
"""Bytes of parts, of all tables of a transaction, that the merging process reads itself: to run tasks takes longer than to read so few."""

LEAST_WITHOUT_TASKS = 64 << 10
"""Bytes of one table's parts that it always reads itself: a task for each of thousands of tables would take longer still."""


def bytes_without_tasks(tables: int) -> int:
    """Return up to how many bytes of each of so many tables' parts the merging process reads itself, where tasks would read more."""
    return max(LEAST_WITHOUT_TASKS, BYTES_WITHOUT_TASKS // max(1, tables))


FEW = 200
"""Events of one table whose last changes are rows of Python, and literals of a statement where the engine takes them: of more, it takes
longer to make them, and for the engine to read them."""

EXACT_KEYS = frozenset({"integer", "decimal", "binary", "uuid", "date", "timestamp", "timestamptz"})
"""Kinds of which two keys are equal if their texts in one schema are. Texts are compared by rules of the target's columns, and -0 is 0."""


def load_task(task: LoadTask) -> int | AuditorError:
    """Load one part in the session of this process; return the number of changes, or the error, which survives the way back."""
    freeze_modules()
    key = (task.config_file, task.connection)
    try:
        if key not in _sessions:
            _sessions[key] = open_session(task.connection, settings_of(task.config_file).connections[task.connection])
        return load_part(_sessions[key], task)
    except AuditorError as error:
        if key in _sessions:
            _sessions.pop(key).close()
        return error


def load_part(session: Session, task: LoadTask) -> int:
    """Load one part in this session, and return the number of changes. Raises AuditorError."""
    count = 0
    for rows in read_changes(task, session.dialect):
        session.loading.load(task.table.statements.stage, task.table.stage_columns, rows)
        count += rows.num_rows
    return count


def read_changes(task: LoadTask, dialect: Dialect) -> Iterator[pa.Table]:
    """Yield the changes of a part as rows of the staging table. Raises AuditorError."""
    for found in read_part(folder_at(task.root), task.part, task.after):
        yield staged_rows(_chosen(found, task), task.table, task.attempt)


@dataclass(frozen=True, slots=True)
class LastChanges:
    """The last change of each key in the parts of one table."""

    columns: Sequence[str]
    """The columns of the staging table."""
    rows: Sequence[Row] | pa.Table
    """Its rows; one by one if they are few."""
    intervals: int = 0
    """The intervals of keys that the parts have beside: nothing is to be deleted in them."""

    @property
    def count(self) -> int:
        """How many they are."""
        return self.rows.num_rows if isinstance(self.rows, pa.Table) else len(self.rows)

    def as_table(self) -> pa.Table:
        """Return them as an Arrow table of texts."""
        if isinstance(self.rows, pa.Table):
            return self.rows
        values = list(zip(*self.rows, strict=True)) or [()] * len(self.columns)
        return pa.table({name: pa.array(texts, pa.string()) for name, texts in zip(self.columns, values, strict=True)})


def read_last_changes(root: Blocks, tasks: Sequence[LoadTask], dialect: Dialect, is_new: bool = False) -> LastChanges | None:
    """Return the last change of each key in the parts of one table, read from ``root``; ``is_new``: the target's table was made for them.

    None where only the target can say which keys are equal, and where the parts have intervals of keys, whose changes all count: but for
    those that begin to fill a table that is new. Raises AuditorError.
    """
    table = tasks[0].table
    kinds = [table.columns[name] for name in table.statements.key]
    if not all(kind.name in EXACT_KEYS or (kind.is_free_text and dialect.writing.EQUAL_TEXTS_DIFFER) for kind in kinds):
        return None
    read = [_chosen(events, task) for task in tasks for events in read_part(root, task.part, task.after)]
    if not read:
        return LastChanges(list(table.stage_columns), [])
    events = read[0] if len(read) == 1 else pa.concat_batches(read)
    intervals = 0
    if "bounds" in events["kind"].unique().to_pylist():
        is_interval = pc.equal(events["kind"], "bounds")
        if not (is_new and _fills(events, is_interval)):
            return None
        intervals, events = pc.sum(is_interval).as_py(), events.filter(pc.invert(is_interval))
    choose = few_last_changes if events.num_rows <= FEW else last_changes
    return LastChanges(list(table.stage_columns), choose(events, table, tasks[0].attempt), intervals)


def _fills(events: pa.RecordBatch, is_interval: pa.Array) -> bool:
    """Return whether intervals of keys delete nothing of an empty table: each begins where the one before ended, and no other change
    comes before the last one."""
    [last] = pc.indices_nonzero(is_interval)[-1:].to_pylist()
    if not pc.all(pc.is_in(events["kind"][: last + 1], pa.array(["bounds", "refresh"]))).as_py():
        return False
    ends = [(low, high) for low, high in zip(*(events[name].filter(is_interval).to_pylist() for name in ("before", "after")), strict=True)]
    return all(low == high and any(low) for (_, high), (low, _) in pairwise(ends))


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
