"""Load the changes of all small tables of a transaction by one COPY, where each takes a second or more whatever it loads.

Tasks write the last change of each key of many tables to few files. One COPY loads them into one staging table of the session, as texts,
from which the statements of each table read their own. What a table cannot share is loaded by a COPY of its own: many rows or columns,
values that no text of the staging table holds, keys of which only the target knows whether they are equal, and intervals of keys.

No table stops because of what it shares: one whose statements fail, or all of them if the COPY fails, which names no table, are loaded
by COPYs of their own, so that it is found which one fails, and why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from auditor.errors import AuditorError, ConnectionLost, MergeFailed, StatementRefused
from auditor.pipeline.folders import folder_at
from auditor.pipeline.merge.load_files import EXPANSION, count_files, pack, target_of
from auditor.pipeline.merge.load_tasks import BYTES_WITHOUT_TASKS, LoadTask, read_last_changes
from auditor.pipeline.staged_parts import read_ahead
from auditor.sql.shared_stage import COLUMNS, MOST_COLUMNS, SharedStage
from dialects import Dialect, Session
from dialects.writing import StoredFile

SHARED_BYTES = 1 << 20
"""Bytes of one table's parts up to which it shares a COPY: to cast so few values from texts takes less time than a COPY, and one task
holds all of them in memory."""

FILE_BYTES = BYTES_WITHOUT_TASKS
"""Bytes of the parts that one file is made of, at least: to run one more task takes longer than to read so few."""

TablesTasks: TypeAlias = Mapping[str, Sequence[LoadTask]]
"""The parts to load of each table."""


class SharingFailed(Exception):
    """Tables whose changes could not be merged from the staging table that they shared, so that they have to be loaded by themselves."""

    def __init__(self, tables: Collection[str], error: AuditorError) -> None:
        super().__init__(str(error))
        self.tables, self.error = tables, error


@dataclass(frozen=True, slots=True)
class StoredTables:
    """A file with the changes of several tables."""

    file: StoredFile
    rows: Mapping[str, int]
    """How many changes it has of each table. Those that cannot share the file are not among them."""
    failed: Mapping[str, AuditorError]


@dataclass(frozen=True, slots=True)
class SharedFile:
    """The changes of several tables, each with its number, to be written to a file of this name in a folder."""

    tables: TablesTasks
    numbers: Mapping[str, int]
    folder: str
    name: str

    def store(self) -> StoredTables:
        """Write the file. Raises AuditorError."""
        dialect, url = target_of(next(iter(self.tables.values()))[0])
        assert dialect.writing.files
        rows, failed = dict[str, int](), dict[str, AuditorError]()
        file = dialect.writing.files.store_lines(url, self.folder, self.name, COLUMNS, self._changes(dialect, rows, failed))
        return StoredTables(file, rows, failed)

    def _changes(self, dialect: Dialect, rows: dict[str, int], failed: dict[str, AuditorError]) -> Iterator[pa.Table]:
        """Yield the changes of each table as rows of the staging table, and note how many they are, or why there are none."""
        longest, every = SharedStage(dialect).longest, [task for tasks in self.tables.values() for task in tasks]
        read = read_ahead(folder_at(every[0].root), [task.part for task in every])
        for table, tasks in self.tables.items():
            try:
                found = read_last_changes(read, tasks, dialect)
            except AuditorError as error:
                failed[table] = error
                continue
            if found is None:
                continue
            changes = found.as_table()
            if all((pc.max(pc.binary_length(column)).as_py() or 0) <= longest for column in changes.columns):
                rows[table] = changes.num_rows
                yield _as_texts(self.numbers[table], changes, tasks[0])


def _as_texts(number: int, changes: pa.Table, task: LoadTask) -> pa.Table:
    """Return the changes of a table as rows of the staging table."""
    statements, count = task.table.statements, changes.num_rows
    own = [pa.array([str(number)] * count, pa.string()), changes[f"{statements.prefix}op"], *(changes[name] for name in statements.columns)]
    absent = [pa.nulls(count, pa.string())] * (len(COLUMNS) - len(own))
    return pa.table(dict(zip(COLUMNS, [*own, *absent], strict=True)))


def can_share(tasks: Sequence[LoadTask]) -> bool:
    """Return whether what is to be loaded of a table is small enough to be loaded with others."""
    return sum(task.part.bytes for task in tasks) <= SHARED_BYTES and len(tasks[0].table.statements.columns) <= MOST_COLUMNS


def shared_files(tables: TablesTasks, folder: str, slices: int) -> list[SharedFile]:
    """Return the files to write for these tables: as many as ``slices`` load best."""
    numbers = {table: number for number, table in enumerate(tables)}
    sizes = {table: sum(task.part.bytes for task in tasks) for table, tasks in tables.items()}
    count = count_files(sum(sizes.values()) * EXPANSION, slices, FILE_BYTES * EXPANSION)
    packed = pack(list(tables), count, sizes.__getitem__)
    return [
        SharedFile({table: tables[table] for table in some}, {table: numbers[table] for table in some}, folder, f"shared-{number:06}.txt")
        for number, some in enumerate(packed)
    ]


@dataclass(frozen=True, slots=True)
class SharedLoad:
    """What was written of the tables that share a COPY; none of them where engines are loaded otherwise."""

    folder: str = ""
    files: Sequence[StoredFile] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    """The number of each table in the staging table."""
    rows: Mapping[str, int] = field(default_factory=dict)
    """How many changes were written of each table."""

    def copy(self, session: Session) -> dict[int, int]:
        """Load the files into the staging table, in the transaction that merges them; return how many changes it has, by table's number.

        Raises SharingFailed if that is refused, and AuditorError where tables are not the reason.
        """
        if not self.rows:
            return {}
        stage = SharedStage(session.dialect)
        session.execute(stage.create())
        try:
            session.loading.copy_stored(stage.name, stage.columns, f"{self.folder}/shared", self.files)
        except StatementRefused as error:
            raise SharingFailed(self.rows, error) from error
        return {int(number): int(count) for number, count in session.query(stage.count())}

    def merge(self, session: Session, task: LoadTask, counts: Mapping[int, int]) -> None:
        """Merge the changes of a table, to which a task belongs, from the staging table. Raises SharingFailed and AuditorError."""
        table, number = task.part.table, self.numbers[task.part.table]
        if (found := counts.get(number, 0)) != self.rows[table]:
            raise MergeFailed(
                f"{table}: {self.rows[table]} changes were loaded, and {found} are in the staging table; they are loaded again"
            )
        try:
            session.execute_all(SharedStage(session.dialect).merge(number, task.table.statements, task.table.kinds))
        except ConnectionLost:
            raise
        except AuditorError as error:
            if error.retryable:
                raise
            raise SharingFailed([table], error) from error

    def drop(self, session: Session) -> None:
        """Drop the staging table once all its tables are merged."""
        if self.rows:
            session.execute(SharedStage(session.dialect).drop())
