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
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor import config
from auditor.canonical import FLOATS
from auditor.config import Audit
from auditor.connections.connection import Connection
from auditor.errors import AccessDenied, AuditorError, ColumnRefused, ConfigError, LockTimeout
from auditor.model import SIDES, ColumnPlan, Side
from auditor.pipeline.folders import FILE_MODE
from auditor.pipeline.spark import translate
from auditor.planning import introspect, watermark
from auditor.planning.proxy import AS_OF
from auditor.sql import render, table_copy
from dialects import Column, Dialect, Kind, Session, Table
from dialects.log_places import PlacedSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MAX_DIGITS = 38
"""The most digits of Parquet's decimals. https://arrow.apache.org/docs/format/Columnar.html"""


@dataclass(frozen=True, slots=True)
class DumpColumn:
    """A column of a dump."""

    name: str
    native: Kind | None
    """The kind in the source; None if it has no canonical text."""
    stored: Kind
    """The kind that the dump has."""
    value: str
    """SQL of the value."""

    @property
    def type(self) -> pa.DataType:
        """Return the type of its values in the files."""
        return _type(self.stored)


def dump_columns(dialect: Dialect, columns: Sequence[Column]) -> list[DumpColumn]:
    """Return how these columns of a table are dumped."""
    dumped = []
    for column in columns:
        stored = _stored(column.kind)
        dumped.append(
            DumpColumn(
                column.name, column.kind, stored, table_copy.dump_value(dialect, dialect.names.quote(column.name), column.kind, stored)
            )
        )
    return dumped


def schema(columns: Sequence[DumpColumn], metadata: dict[str, str]) -> pa.Schema:
    """Return the files' schema, with what they say of themselves."""
    return pa.schema([(column.name, column.type) for column in columns], metadata=metadata)


def to_arrow(column: DumpColumn, values: Sequence[Any]) -> pa.Array:
    """Return the values of a batch in the type of the files. Raises ColumnRefused for a value that the type does not hold."""
    try:
        if column.native is not None and column.native.name in FLOATS:
            return pa.array([None if value is None else float(value) for value in values], column.type)
        texts = [None if value is None else str(value) for value in values]
        if column.stored.name == "binary":
            return pa.array([None if text is None else bytes.fromhex(text) for text in texts], column.type)
        text_array = pa.array(texts, pa.string())
        if column.stored.name == "time":
            moments = pc.binary_join_element_wise("1970-01-01", text_array, " ")
            return moments.cast(pa.timestamp("us")).cast(column.type)
        if column.stored.name == "timestamptz":
            return text_array.cast(pa.timestamp("us")).cast(column.type)
        return text_array.cast(column.type)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ColumnRefused(
            f"the column {column.name!r} holds a value that Parquet's {column.type} does not hold, such as a day or a time that is none;"
            " exclude it from the audit, or correct the value"
        ) from error


def _stored(kind: Kind | None) -> Kind:
    """Return the kind in which a dump stores a column: its own if Parquet has a type of its range, else text."""
    if kind is None:
        return Kind("text")
    if kind.name == "year":
        return Kind("integer")
    if kind.name == "decimal" and (kind.scale is None or (kind.digits or MAX_DIGITS + 1) > MAX_DIGITS):
        return Kind("text")
    if kind.name in ("timestamp", "timestamptz") and (kind.scale or 0) <= 6:
        return Kind(kind.name, scale=6)
    if kind.name in ("integer", "decimal", "boolean", "date", "float32", "float64", "binary", "timestamp"):
        return kind
    return Kind("time", scale=6) if kind.name == "time" else Kind("text")


def _type(kind: Kind) -> pa.DataType:
    match kind.name:
        case "integer":
            return pa.uint64() if kind.unsigned else pa.int64()
        case "decimal":
            return pa.decimal128(kind.digits or MAX_DIGITS, kind.scale or 0)
        case "timestamp":
            return pa.timestamp("us" if (kind.scale or 0) <= 6 else "ns")
        case "timestamptz":
            return pa.timestamp("us", tz="UTC")
        case "time":
            return pa.time64("us")
    simple = {
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "binary": pa.binary(),
    }
    return simple.get(kind.name, pa.string())


ATTEMPTS = 20
"""How often a snapshot is tried whose place the transactions' ids prove; each takes some milliseconds."""


@dataclass(frozen=True, slots=True)
class DumpSnapshot:
    """One snapshot, and the connections that read it."""

    readers: list[Connection]
    position: str
    """Where it is, as the server's tools write it; empty if that is not known."""
    why_unknown: str = ""
    """Why the position is not known, as a clause; empty if it is."""


@contextmanager
def open_snapshot(main: Connection, table: str) -> Iterator[DumpSnapshot]:
    """Yield a snapshot of a table until the end of the block, read by several connections where the engine and its user can share it.

    Raises SessionSwitched at the end of the block if what was read may be of several sessions.
    """
    wanted = main.settings.connections - 1
    siblings = main.open_siblings(wanted) if wanted else []
    try:
        yield (_share(main, siblings, table) if siblings else None) or _open_alone(main, table)
        for reader in (main, *siblings):
            reader.end_snapshot()
    finally:
        for sibling in siblings:
            sibling.close()


def _share(main: Connection, siblings: list[Connection], table: str) -> DumpSnapshot | None:
    """Return a snapshot that all of these connections read; None, and none is open, if it cannot be shared."""
    main.begin_snapshot()
    try:
        if main.share_snapshot(siblings, table):
            position = _position(main)
            may_not = "the source's user may not see where the log ends, or there is none; grant REPLICATION CLIENT"
            return DumpSnapshot([main, *siblings], position, "" if position else may_not)
    except LockTimeout:
        pass  # one connection reads all, in a snapshot of its own
    main.end_snapshot()
    return None


def _open_alone(main: Connection, table: str) -> DumpSnapshot:
    if not isinstance(main.session, PlacedSession):
        main.begin_snapshot()
        position = _position(main)
        return DumpSnapshot([main], position, "" if position else "this engine does not tell where a snapshot is")
    if place := main.begin_snapshot_by(lambda session: _placed(session).begin_placed()):
        return DumpSnapshot([main], place)
    main.end_snapshot()
    if ids := _begin_by_ids(main):
        return DumpSnapshot([main], f"GTIDs {ids}")
    try:
        place = _begin_by_lock(main, table)
        why = "the server keeps no binary log"
    except LockTimeout as error:
        place, why = "", f"the source is written to too often ({error})"
    except AccessDenied as error:
        place, why = "", f"the source is written to too often, or without GTIDs ({error}); grant LOCK TABLES and REPLICATION CLIENT"
    main.begin_snapshot()  # unless one is open
    return DumpSnapshot([main], place, "" if place else why)


def _begin_by_ids(main: Connection) -> str:
    """Open a snapshot that shows exactly the transactions of these ids, and return them; '', and none is open, if that cannot be."""
    for _ in range(ATTEMPTS):
        before = main.run(lambda session: _placed(session).executed_ids())
        if not before:
            return ""
        main.begin_snapshot()
        owned = main.run_once(lambda session: _placed(session).owned_ids())  # first: what it does not list any more is executed
        if not owned and main.run_once(lambda session: _placed(session).executed_ids()) == before:
            return before
        main.end_snapshot()
    return ""


def _begin_by_lock(main: Connection, table: str) -> str:
    """Open a snapshot while writers are kept off the table, and return where the log ends then. Raises LockTimeout and AccessDenied."""
    [helper] = main.open_siblings(1)
    try:
        return main.begin_snapshot_by(lambda session: _placed(session).begin_locked(table, helper.session, _placed(session).log_end))
    finally:
        helper.close()


def _position(main: Connection) -> str:
    return main.run_once(lambda session: session.snapshot_position())


def _placed(session: Session) -> PlacedSession:
    assert isinstance(session, PlacedSession)
    return session


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
        key = self.dialect.names.quote(column.name)
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
        statement = table_copy.read_rows(self.dialect, self.table.sql, [column.value for column in self.columns], condition)
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
