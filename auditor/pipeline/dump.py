"""Dump a source's table to Parquet files by a task of Spark, in one snapshot, from which ranges of keys are read side by side.

The rows go from the source to the files in the task's process: neither the driver nor Java sees one. The task opens the connections that
its connection's ``connections`` allow, and lets them join its snapshot where the engine shares one; else one connection reads all ranges.
Each range is one file, written in groups of rows, so that memory depends on the width of a row and not on the number of rows.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from auditor import config
from auditor.config import Audit
from auditor.connections.connection import Connection
from auditor.errors import AuditorError, ConfigError
from auditor.model import SIDES, ColumnPlan, Side
from auditor.pipeline.dump_columns import DumpColumn, dump_columns, schema, to_arrow
from auditor.pipeline.dump_snapshot import DumpSnapshot, open_snapshot
from auditor.pipeline.folders import FILE_MODE
from auditor.pipeline.spark import translate
from auditor.planning import introspect, watermark
from auditor.planning.proxy import AS_OF
from auditor.sql import dumps, render
from dialects import Session, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_ROWS = 1 << 19
"""About how many rows a file has."""

GROUP_ROWS = 1 << 14
"""Rows of a group, which is what a connection holds in memory."""

POSITION = "auditor.position"
"""Key in a file's metadata: where in the source's stream of changes its snapshot is, where that is known."""


@dataclass(frozen=True, slots=True)
class DumpTask:
    """A dump to write; it carries the name of an audit, never a URL."""

    config_file: str
    audit: str
    folder: str


@dataclass(frozen=True, slots=True)
class Dumped:
    """What was dumped."""

    rows: int
    files: int
    as_of: dt.datetime
    """The source's clock (UTC) when the snapshot was open."""
    position: str
    """Where in the stream of changes the snapshot is; empty if that is not known."""
    why_unknown: str
    """Why the position is not known, as a clause; empty if it is."""
    connections: int
    """Connections that read the snapshot side by side."""
    memory: int
    """The most memory of the task's process, in bytes."""


def dump(spark: SparkSession, task: DumpTask) -> Dumped:
    """Write a dump by a task of Spark. Raises AuditorError."""
    try:
        answers = spark.sparkContext.parallelize([task], 1).map(write_dump).collect()
    except Exception as error:  # of Python or of Java
        raise translate(error) from error
    answer = answers[0]
    if isinstance(answer, AuditorError):
        raise answer
    assert isinstance(answer, Dumped)
    return answer


def write_dump(task: DumpTask) -> Dumped | AuditorError:
    """Write a dump in this process; return what was dumped, or the error, which survives the way back."""
    try:
        return _write(task)
    except AuditorError as error:
        return error


def _write(task: DumpTask) -> Dumped:
    settings = config.load(Path(task.config_file))
    audit = settings.audit(task.audit)
    source = audit.one_source("a dump")
    connection = Connection("source", source.connection, settings.connections[source.connection], lambda *_: None, threading.Event())
    connection.open_first()
    try:
        table = connection.run_once(lambda session: introspect.describe_table(audit, "source", session).table)
        with open_snapshot(connection, table.sql) as snapshot:
            return _Writing(audit, table, snapshot, Path(task.folder)).write()
    finally:
        connection.close()


class _Writing:
    """The files of one dump, while they are written."""

    def __init__(self, audit: Audit, table: Table, snapshot: DumpSnapshot, folder: Path) -> None:
        main = snapshot.readers[0]
        self.table, self.snapshot, self.readers, self.folder = table, snapshot, snapshot.readers, folder
        self.dialect = main.session.dialect
        excluded = {name.lower() for name in audit.columns.exclude}
        self.columns: list[DumpColumn] = dump_columns(
            self.dialect, [column for column in table.columns if column.name.lower() not in excluded]
        )
        if not self.columns:
            raise ConfigError(f"audit excludes every column of {table.sql}; leave some to be dumped")
        self.as_of = main.run_once(watermark.read_clock)
        self.ranges: SimpleQueue[tuple[int, str]] = SimpleQueue()
        self.key = audit.key or table.primary_key

    def write(self) -> Dumped:
        """Write all ranges, side by side, and return what was written. Raises the first error; nothing is read again after one."""
        conditions = self.readers[0].run_once(self._cut)
        for place in enumerate(conditions):
            self.ranges.put(place)
        with ThreadPoolExecutor(len(self.readers), thread_name_prefix="dump") as pool:
            tasks = [pool.submit(self._write_files, reader) for reader in self.readers]
        rows = sum(task.result() for task in tasks)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        position, why = self.snapshot.position, self.snapshot.why_unknown
        return Dumped(rows, len(conditions), self.as_of, position, why, len(self.readers), memory)

    def _cut(self, session: Session) -> list[str]:
        """Return the conditions of ranges of the key that hold about FILE_ROWS rows each, and together every row once."""
        column = next((column for column in self.table.columns if [column.name.lower()] == [name.lower() for name in self.key]), None)
        everything = ["1 = 1"]
        if column is None or column.kind is None or column.kind.name != "integer":
            return everything
        key = self.dialect.quote(column.name)
        sides: dict[Side, str] = dict.fromkeys(SIDES, key)
        kinds = dict.fromkeys(SIDES, column.kind)
        plan = ColumnPlan(name=column.name, kind=column.kind, native=kinds, expression=sides, types=dict.fromkeys(SIDES, ""), why="")
        least, greatest = session.query(render.bounds(plan, "source", self.dialect, self.table.sql, "1 = 1"))[0]
        rows = int(session.query(render.count(self.dialect, self.table.sql, "1 = 1"))[0][0])
        if least is None or rows <= FILE_ROWS // 8:
            return everything
        first, end = int(least), int(greatest) + 1
        pieces = max(len(self.readers), math.ceil(rows / FILE_ROWS))
        width = max(1, math.ceil((end - first) / pieces))
        starts = list(range(first + width, end, width))
        bounds = [*zip([None, *starts], [*starts, None], strict=True)]
        conditions = [" AND ".join(_bounds(key, low, high)) or "1 = 1" for low, high in bounds]
        return conditions + ([f"{key} IS NULL"] if column.nullable and starts else [])

    def _write_files(self, reader: Connection) -> int:
        """Write files by one connection until no range is left, and return how many rows they have."""
        rows = 0
        while True:
            try:
                number, condition = self.ranges.get_nowait()
            except Empty:
                return rows
            try:
                rows += reader.run_once(lambda session, n=number, where=condition: self._write_file(session, n, where))  # type: ignore[misc]
            except BaseException:
                self._drop_rest()
                raise

    def _drop_rest(self) -> None:
        """Leave what no connection has begun."""
        while not self.ranges.empty():
            self.ranges.get_nowait()

    def _write_file(self, session: Session, number: int, condition: str) -> int:
        statement = dumps.read_rows(self.dialect, self.table.sql, [column.value for column in self.columns], condition)
        said = {AS_OF: self.as_of.isoformat(), **({POSITION: position} if (position := self.snapshot.position) else {})}
        files, rows = schema(self.columns, said), 0
        path = self.folder / f"part-{number:05}.parquet"
        private = os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, FILE_MODE), "wb")
        with private as file, pq.ParquetWriter(file, files, compression="zstd") as writer:
            waiting: list[pa.RecordBatch] = []
            waiting_rows = 0
            for batch in session.stream(statement):
                arrays = [to_arrow(column, values) for column, values in zip(self.columns, batch, strict=True)]
                waiting.append(pa.RecordBatch.from_arrays(arrays, schema=files))
                waiting_rows += len(waiting[-1])
                if waiting_rows >= GROUP_ROWS:
                    writer.write_table(pa.Table.from_batches(waiting), waiting_rows)
                    rows, waiting_rows, waiting = rows + waiting_rows, 0, []
            if waiting:
                writer.write_table(pa.Table.from_batches(waiting), waiting_rows)
        return rows + waiting_rows


def _bounds(key: str, low: int | None, high: int | None) -> list[str]:
    conditions = [] if low is None else [f"{key} >= {low}"]
    return conditions if high is None else [*conditions, f"{key} < {high}"]
