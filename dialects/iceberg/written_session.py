"""A session that writes Iceberg tables, each by commits of it alone.

A merge writes the files again that have a changed row, and the new rows into files of their own. Where small files have gathered, it writes
these again, too, so that many small merges do not leave many small files.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dialects import errors
from dialects.base import Dialect
from dialects.committing import Commit, Committing, WrittenVersion
from dialects.duckdb.session import ARROW_ROWS
from dialects.duckdb.writing import DuckDBLoading, file_values, read_files
from dialects.iceberg import commits
from dialects.iceberg.catalogue import find_names
from dialects.iceberg.data_files import FILE_ROWS, make_schema, stored_value, write_files
from dialects.iceberg.errors import translated
from dialects.iceberg.place import Root
from dialects.iceberg.session import IcebergSession, Opened
from dialects.iceberg.snapshot import LakeFile
from dialects.kinds import Kind

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

SMALL = FILE_ROWS // 4
"""A file of fewer rows is small."""

GATHERED = 16
"""So many small files are written again as one by the next merge."""

BEFORE = "auditor before"
"""The rows that were taken out of a table, as they were."""

CREATED = "auditor created"
"""The table by which DuckDB reads a CREATE TABLE."""

PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true", "format-version": str(commits.VERSION)}
"""Properties of tables that are made: old metadata are deleted, of which each commit leaves one file."""


class WritableIcebergSession(IcebergSession, Committing):
    """One DuckDB in memory over the tables of a catalogue, which may write them."""

    def __init__(
        self, dialect: Dialect, server: str, connection: Any, timeout: float, catalog: Catalog, root: Root, may_write: bool
    ) -> None:
        super().__init__(dialect, server, connection, timeout, catalog, root)
        self.loading = IcebergLoading(self)
        self._may_write = may_write
        self._taken_out = ""
        """The table, as SQL text, in whose place a transaction has some of its rows; empty if there is none."""

    def execute(self, sql: str) -> None:
        super().execute(sql)
        if sql == "ROLLBACK":  # and with it the views and tables that were made since
            self._taken_out = ""
            self._opened.clear()
            self._shown.clear()

    def open(self, name: str) -> Opened | None:
        if self._taken_out and name == self.name_of(self._taken_out):
            return self._opened[name]
        return super().open(name)

    # what a table carries

    def read_marks(self, parts: tuple[str, ...], names: Sequence[str]) -> Sequence[int]:
        name = self._find(parts)
        if name is not None and self.root.ref:
            raise errors.StatementRefused(f"{name} carries numbers on its main branch alone: leave ref out of the URL")
        opened = self.open(name) if name is not None and self._pinned is not None else None
        table = opened.table if opened else None if name is None else self.load(name)
        return [0] * len(names) if table is None else commits.read_marks(table, str(name), names)

    def versions_since(self, parts: tuple[str, ...], mark: str, number: int, most: int) -> Sequence[WrittenVersion]:
        name = self._find(parts)
        table = None if name is None else self.load(name)
        found = []
        for snapshot, held in commits.marks_since(table, mark, number, most) if table else ():
            at = dt.datetime.fromtimestamp(snapshot.timestamp_ms / 1000, dt.UTC)
            operation = snapshot.summary.operation.value if snapshot.summary else "unknown"
            found.append(WrittenVersion(snapshot.snapshot_id, at, operation, held))
        return found

    def mark(self, parts: tuple[str, ...], marks: Mapping[str, int], expected: Mapping[str, int], *, clear: bool = False) -> bool:
        name = self._find(parts)
        if name is None:
            return True

        def write(opened: Opened) -> None:
            commits.write(opened.table, marks, gone=[file.entry for file in opened.snapshot.files] if clear else ())

        with self._writing(name):
            return self._on_newest(name, expected, write)

    def fence(self, table: str, mark: str, number: int) -> bool:
        with self._writing(self.name_of(table)) as name:
            for attempt in range(commits.ATTEMPTS):
                newest = self._newest(name)
                if commits.read_marks(newest, name, [mark]) == [number]:
                    return True
                try:  # the snapshot of which another commit was begun is not the newest any more then
                    commits.write(newest, {f"{mark}/void": number})
                except commits.Overtaken:
                    commits.pause(attempt)
                else:
                    return False
        raise errors.SerializationConflict(f"{name}: others wrote it {commits.ATTEMPTS} times while its commits were looked at")

    # tables

    def make_table(self, table: str, statement: str) -> None:
        created = self.dialect.names.quote(CREATED)
        self.execute_here(statement.replace(table, created, 1))
        columns = {str(row[0]): str(row[1]) for row in self.query_here(f"DESCRIBE {created}")}
        self.execute_here(f"DROP TABLE {created}")
        with self._writing(self.name_of(table)) as name:
            identifier = self.identifier_of(name)
            self.catalog.create_namespace_if_not_exists(identifier[:-1])
            self.catalog.create_table(identifier, make_schema(columns), properties=PROPERTIES)

    def make_like(self, table: str, like: str) -> None:
        model = self._newest(self.name_of(like))
        with self._writing(self.name_of(table)) as name:
            identifier = self.identifier_of(name)
            self.catalog.create_namespace_if_not_exists(identifier[:-1])
            self.catalog.create_table(identifier, model.schema(), partition_spec=model.spec(), properties=PROPERTIES)

    def drop_table(self, table: str) -> None:
        with self._writing(self.name_of(table)) as name:
            if self.load(name) is not None:
                self.catalog.purge_table(self.identifier_of(name))
            self._opened.pop(name, None)

    def partitioned_by(self, table: str) -> Sequence[str]:
        opened = self.open(self.name_of(table))
        if opened is None:
            return ()
        schema = opened.table.schema()
        return [str(schema.find_column_name(part.source_id)) for part in opened.table.spec().fields]

    # rows

    def commit(self, commit: Commit) -> bool:
        with self._writing(self.name_of(commit.table)) as name:
            return self._on_newest(name, commit.expected, lambda opened: self._merge(name, opened, commit))

    def take_out(self, table: str, condition: str) -> None:
        name = self.name_of(table)
        if self.open(name) is None:
            raise errors.NoSuchObject(f"{name}: there is no such table any more")
        self._show(f"FROM {table}")
        before = self.dialect.names.quote(BEFORE)
        self.execute_here(f"CREATE TEMPORARY TABLE {before} AS SELECT * FROM {table} WHERE {condition}")
        self.execute_here(f"DROP VIEW {table}")
        self.execute_here(f"CREATE TABLE {table} AS SELECT * FROM {before}")
        self._taken_out = table

    def put_back(self, key: Sequence[str], marks: Mapping[str, int]) -> None:
        table, before, quote = self._taken_out, self.dialect.names.quote(BEFORE), self.dialect.names.quote
        name = self.name_of(table)
        version = self._opened[name].table
        same = " AND ".join(f"b.{quote(column)} = t.{quote(column)}" for column in key)
        gone = f"SELECT 'd' AS auditor_op, * FROM {before} AS b WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE {same})"
        with self.translated():
            changes = self.connection.sql(f"SELECT 'i' AS auditor_op, * FROM {table} UNION ALL {gone}").to_arrow_table()
        self.execute("ROLLBACK")
        columns = [field.name for field in version.schema().fields]
        self.connection.register("put_back", changes)
        try:
            with self._writing(name):
                self._merge(name, self.read(name, version), Commit(table, "put_back", columns, key, marks, {}))
        except commits.Overtaken as error:
            raise errors.SerializationConflict(
                f"{name}: others wrote the table while its rows were changed; nothing was written"
            ) from error
        finally:
            self.connection.unregister("put_back")

    def replace_rows(self, table: str, rows: str, condition: str, marks: Mapping[str, int], expected: Mapping[str, int]) -> bool:
        self._show(rows)
        with self._writing(self.name_of(table)) as name:
            if condition and self.query_here(f"SELECT 1 FROM ({rows}) AS r WHERE ({condition}) IS NOT TRUE LIMIT 1"):
                raise errors.StatementRefused(f"{name}: a row is to be written that lies outside of what is replaced ({condition})")
            return self._on_newest(name, expected, lambda opened: self._replace(name, opened, rows, condition, marks))

    def _replace(self, name: str, opened: Opened, rows: str, condition: str, marks: Mapping[str, int]) -> None:
        quote = self.dialect.names.quote
        self._check_written(name, opened)
        given = {str(row[0]).lower() for row in self.query_here(f"DESCRIBE {rows}")}
        columns = [column.name for column in opened.reading.columns]
        values = ", ".join(f"r.{quote(one)}" if one.lower() in given else f"NULL AS {quote(one)}" for one in columns)
        sql, gone = f"SELECT {values} FROM ({rows}) AS r", list(opened.snapshot.files)
        if condition and gone:
            places = opened.viewer.find_places(opened.reading, condition)
            gone = [opened.snapshot.files[place] for place in sorted(places)]
            old = opened.viewer.select(opened.reading, places)
            sql = f"SELECT {', '.join(map(quote, columns))} FROM ({old}) AS f WHERE ({condition}) IS NOT TRUE UNION ALL {sql}"
        self._write(opened.table, sql, gone, marks)

    def rewrite(self, table: str, rows: str, marks: Mapping[str, int], expected: Mapping[str, int]) -> bool:
        self._show(rows)
        name = self.name_of(table)
        opened = self.open(name)
        if opened is None:
            raise errors.NoSuchObject(f"{name}: there is no such table any more")
        if commits.read_marks(opened.table, name, list(expected)) != list(expected.values()):
            return False
        natives = {column.name: column.native for column in opened.reading.columns}
        items = commits.read_form(rows, table)
        try:
            with self._writing(name):
                if items is not None and commits.in_metadata(items, natives):
                    commits.write(opened.table, marks, form=lambda transaction: commits.evolve(transaction, items, natives))
                else:
                    columns = {str(row[0]): str(row[1]) for row in self.query_here(f"DESCRIBE {rows}")}
                    self._check_written(name, opened)
                    form = None if columns == natives else lambda transaction: commits.replace_columns(transaction, columns)
                    self._write(opened.table, rows, opened.snapshot.files, marks, form)
        except commits.Overtaken as error:
            raise errors.SerializationConflict(
                f"{name}: others wrote the table while its columns were changed; nothing was written"
            ) from error
        return True

    def _merge(self, name: str, opened: Opened, commit: Commit) -> None:
        """Write the files that have changed rows again, with the new rows, as the next snapshot. Raises Overtaken."""
        quote, snapshot = self.dialect.names.quote, opened.snapshot
        self._check_written(name, opened)
        key = ", ".join(map(quote, commit.key))
        counts = f"COUNT(*), COUNT(DISTINCT ({key})), COUNT(*) FILTER ({quote(commit.operation)} = 'i')"
        [(rows, keys, new)] = self.query_here(f"SELECT {counts} FROM {commit.changes}")
        if rows != keys:
            raise errors.StatementRefused(f"{name}: {rows} changes of {keys} keys cannot be merged; each key must have one")
        touched = set[int]()
        if rows:
            same = " AND ".join(f"t.{quote(column)} = c.{quote(column)}" for column in commit.key)
            touched = opened.viewer.find_places(opened.reading, f"EXISTS (SELECT 1 FROM {commit.changes} AS c WHERE {same})")
        small = {place for place, file in enumerate(snapshot.files) if file.rows < SMALL}
        if new and len(small) >= GATHERED:
            touched |= small
        if not touched and not new:
            commits.write(opened.table, commit.marks)
            return
        same = " AND ".join(f"f.{quote(column)} = c.{quote(column)}" for column in commit.key)
        given = {column.lower() for column in commit.columns}
        columns = [column.name for column in opened.reading.columns]
        whole = ", ".join(f"f.{quote(column)}" for column in columns)
        sides = ", ".join(f"{'c' if column.lower() in given else 'f'}.{quote(column)} AS {quote(column)}" for column in columns)
        old = opened.viewer.select(opened.reading, touched)
        sql = (
            f"WITH old AS ({old}) SELECT {whole} FROM old f ANTI JOIN {commit.changes} c ON {same} UNION ALL"
            f" SELECT {sides} FROM {commit.changes} c LEFT JOIN old f ON {same} WHERE c.{quote(commit.operation)} = 'i'"
            f" ORDER BY {key}"
        )
        self._write(opened.table, sql, [snapshot.files[place] for place in sorted(touched)], commit.marks)

    def _write(
        self,
        table: Table,
        sql: str,
        gone: Iterable[LakeFile],
        marks: Mapping[str, int],
        form: Callable[[Any], None] | None = None,
    ) -> None:
        """Make a snapshot with the rows of a SELECT in place of some files. Raises Overtaken."""
        quote = self.dialect.names.quote

        def make(metadata: Any) -> Sequence[Any]:
            values = [f"{stored_value(one.field_type, quote(one.name), quote)} AS {quote(one.name)}" for one in metadata.schema().fields]
            with self.translated():
                batches: Iterable[pa.RecordBatch] = self.connection.sql(f"SELECT {', '.join(values)} FROM ({sql}) AS w").to_arrow_reader(
                    ARROW_ROWS
                )
                return write_files(metadata, table.io, batches)

        commits.write(table, marks, [file.entry for file in gone], make, form)

    def _check_written(self, name: str, opened: Opened) -> None:
        why = commits.why_not_written(opened.snapshot.schema)
        unread = [f"its column {one.name} is not read: {one.unreadable}" for one in opened.reading.columns if one.unreadable]
        if why or unread:
            raise errors.StatementRefused(f"{name}: rows are not written again where {why or unread[0]}; write it through Spark")

    # how a commit is made

    def _find(self, parts: tuple[str, ...]) -> str | None:
        names = find_names(self, parts)
        return names[0] if names else None

    def _newest(self, name: str) -> Table:
        table = self.load(name)
        if table is None:
            raise errors.NoSuchObject(f"{name}: there is no such table any more")
        return table

    def _on_newest(self, name: str, expected: Mapping[str, int], write: Callable[[Opened], None]) -> bool:
        """Make a commit of the newest snapshot, and again where others are quicker; False unless that carries what is expected."""
        for attempt in range(commits.ATTEMPTS):
            table = self._newest(name)
            if commits.read_marks(table, name, list(expected)) != list(expected.values()):
                return False
            try:
                write(self.read(name, table))
                return True
            except commits.Overtaken:
                commits.pause(attempt)
        raise errors.SerializationConflict(f"{name}: others wrote it {commits.ATTEMPTS} times while it was written; it is tried again")

    @contextmanager
    def _writing(self, name: str) -> Iterator[str]:
        """Yield the name of a table that is written in the block."""
        if not self._may_write:
            raise errors.StatementRefused(f"{name} may only be read by this session")
        if self.root.ref:
            raise errors.StatementRefused(f"{name} is written to its main branch alone: leave ref out of the URL that writes")
        with translated(name):
            yield name


class IcebergLoading(DuckDBLoading):
    """How rows are written to Iceberg tables."""

    def __init__(self, session: WritableIcebergSession) -> None:
        super().__init__(session)
        self.lake = session

    def write(self, sql: str) -> int:
        self.lake._show(sql)
        return super().write(sql)

    def load_files(self, table: str, columns: Mapping[str, Kind], paths: Sequence[str], folder: str) -> None:
        """Put the rows of files of lines in place of all rows, by one commit."""
        opened = self.lake.open(self.lake.name_of(table))
        if opened is None:
            raise errors.NoSuchObject(f"{table}: there is no such table any more")
        natives = {self.lake.dialect.names.quote(column.name): column.native for column in opened.reading.columns}
        values = [f"CAST({value} AS {natives[name]}) AS {name}" for name, value in zip(columns, file_values(columns), strict=True)]
        lines = f"SELECT {', '.join(values)} FROM {read_files(self.lake.dialect, columns, paths)}" if paths else ""
        self.lake.replace_rows(table, lines or f"SELECT * FROM {table} WHERE 1 = 0", "", {}, {})
