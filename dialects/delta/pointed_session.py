"""A session on tables whose files a pointer lists: read by DuckDB as Delta tables are, and written by replacing the pointer.

Rows and the numbers of applications change by one replacement, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dialects import errors
from dialects.committing import Commit
from dialects.delta import commits, view
from dialects.delta.place import Root
from dialects.delta.pointed_files import SMALL, delete_files, list_files, write_files
from dialects.delta.pointer import File, Gone, Overtaken, Pointer, pointer_of
from dialects.delta.session import DeltaSession, Opened
from dialects.delta.snapshot import LakeColumn, LakeFile, Snapshot
from dialects.duckdb.session import ARROW_ROWS, DuckDBSession
from dialects.durations import durations
from dialects.url import Url
from dialects.writing import Hazard

if TYPE_CHECKING:
    from dialects.base import Dialect, Session

DAY = 86_400
"""Seconds that files of older versions stay, unless the URL says otherwise: as long as a reader may take that has listed them."""

CREATED = "auditor created"
"""The table of the session whose columns become those of a table that is made."""


class PointedRoot(Root):
    """The folder below which tables with pointers are."""

    __slots__ = ()

    def has_table(self, name: str) -> bool:
        """Return whether there is a table with a pointer of this name."""
        return pointer_of(self.uri_of(name), self.options).read() is not None


@dataclass(slots=True)
class PointedTable:
    """A table as its pointer was read; it answers as deltalake's does."""

    uri: str
    options: Mapping[str, str]
    pointer: Pointer
    known: str
    """What the pointer must still be when it is replaced."""

    def version(self) -> int:
        """Return the number of the version."""
        return self.pointer.version

    def transaction_version(self, mark: str) -> int | None:
        """Return the number of an application; None if it never wrote the table."""
        return self.pointer.marks.get(mark)

    def update_incremental(self) -> None:
        """Read the pointer again. Raises NoSuchObject if it is gone."""
        current = pointer_of(self.uri, self.options).read()
        if current is None:
            raise errors.NoSuchObject(f"{self.uri}: there is no such table any more")
        self.pointer, self.known = current

    def load_as_version(self, wanted: Any) -> None:
        """Refuse: versions before the newest have no pointer any more."""
        raise errors.NoSuchObject(f"{self.uri} keeps its newest version alone; leave timestamp ({wanted}) out")

    def replace(self, pointer: Pointer) -> None:
        """Put another pointer in the place of this one. Raises Overtaken."""
        pointer_of(self.uri, self.options).replace(pointer, self.known)


class PointedSession(DeltaSession):
    """One DuckDB in memory over the tables below a root."""

    CHANGES_COLUMNS = False

    def __init__(self, dialect: Dialect, server: str, connection: Any, timeout: float, root: Root, may_write: bool, keep: float) -> None:
        super().__init__(dialect, server, connection, timeout, root, may_write)
        self._keep = keep
        self._pointers: dict[tuple[str, int], PointedTable] = {}
        """The tables that the snapshot shows, by name and version."""

    def share_snapshot(self, sessions: Sequence[Session], table: str, helper: Session | None) -> bool:
        shared = super().share_snapshot(sessions, table, helper)
        for session in sessions:
            assert isinstance(session, PointedSession)
            session._pointers = self._pointers
        return shared

    def open_version(self, name: str, version: int | None = None) -> Any:
        if version is not None:
            if (name, version) not in self._pointers:
                raise errors.NoSuchObject(f"{name} keeps its newest version alone; leave version ({version}) out")
            return self._pointers[name, version]
        uri = self.root.uri_of(name)
        current = pointer_of(uri, self.root.options).read()
        if current is None:
            raise errors.NoSuchObject(f"{name}: there is no such table")
        table = PointedTable(uri, self.root.options, *current)
        self._pointers[name, table.version()] = replace(table)
        return table

    def entry_of(self, name: str, table: Any, version: int) -> bytes | None:
        return table.known.encode() if table.version() == version else None

    def make_table(self, table: str, statement: str) -> None:
        created = self.dialect.names.quote(CREATED)
        self._execute_here(statement.replace(table, created, 1))
        columns = {str(row[0]): str(row[1]) for row in self._query_here(f"DESCRIBE {created}")}
        self._execute_here(f"DROP TABLE {created}")
        self._make(table, columns)

    def make_like(self, table: str, like: str) -> None:
        self._make(table, self.open_version(self.name_of(like)).pointer.columns)

    def _make(self, table: str, columns: Mapping[str, str]) -> None:
        with self._writing(self.name_of(table)) as name:
            try:
                pointer_of(self.root.uri_of(name), self.root.options).replace(Pointer(0, columns), None)
            except Overtaken as error:
                raise errors.SerializationConflict(f"{name}: another process has made it meanwhile") from error

    def commit(self, commit: Commit) -> bool:
        with self._writing(self.name_of(commit.table)) as name:
            return self._on_newest(name, commit.expected, lambda table: self._merged(name, table, commit))

    def mark(self, parts: tuple[str, ...], marks: Mapping[str, int], expected: Mapping[str, int], *, clear: bool = False) -> bool:
        name = self.root.find(parts)
        if name is None:
            return True
        with self._writing(name):
            return self._on_newest(name, expected, lambda table: self._next(table.pointer, marks, files=[] if clear else None))

    def put_back(self, key: Sequence[str], marks: Mapping[str, int]) -> None:
        name = self.name_of(self._taken_out)
        opened, changes = self._end_changes(key)
        names = [column.name for column in opened.snapshot.columns]
        self.connection.register("put_back", changes)
        try:
            with self._writing(name):
                pointed: Any = opened.table
                self._replace(pointed, self._merged(name, pointed, Commit(self._taken_out, "put_back", names, key, marks, {})))
        except Overtaken as error:
            raise errors.SerializationConflict(
                f"{name}: others wrote the table while its rows were changed; nothing was written"
            ) from error
        finally:
            self.connection.unregister("put_back")

    def replace_rows(self, table: str, rows: str, condition: str, marks: Mapping[str, int], expected: Mapping[str, int]) -> bool:
        self._show(rows)
        with self._writing(self.name_of(table)) as name:
            if condition and self._query_here(f"SELECT 1 FROM ({rows}) AS r WHERE ({condition}) IS NOT TRUE LIMIT 1"):
                raise errors.StatementRefused(f"{name}: a row is to be written that lies outside of what is replaced ({condition})")
            return self._on_newest(name, expected, lambda table: self._replaced(name, table, rows, condition, marks))

    def _replaced(self, name: str, table: PointedTable, rows: str, condition: str, marks: Mapping[str, int]) -> Pointer:
        """Write the rows of a SELECT, and what stays of the files that had such rows, and return the pointer that lists them."""
        pointer, quote = table.pointer, self.dialect.names.quote
        view.refuse_taken_names(name, pointer.columns, view.PLACES)
        given = {str(row[0]).lower() for row in self._query_here(f"DESCRIBE {rows}")}
        sources = {column: f"r.{quote(column)}" if column.lower() in given else "NULL" for column in pointer.columns}
        values = ", ".join(f"CAST({sources[column]} AS {native}) AS {quote(column)}" for column, native in pointer.columns.items())
        sql, touched = f"SELECT {values} FROM ({rows}) AS r", set(range(len(pointer.files)))
        if condition and pointer.files:
            source = view.reader(self._paths(name, _snapshot(table)), self.dialect.names.string_literal)
            touched = {int(row[0]) for row in self._query_here(f"SELECT DISTINCT file_index FROM {source} WHERE {condition}")}
            old = self._select(name, table, [pointer.files[place] for place in sorted(touched)])
            sql = f"SELECT {', '.join(map(quote, pointer.columns))} FROM ({old}) AS f WHERE ({condition}) IS NOT TRUE UNION ALL {sql}"
        with self.translated():
            written = write_files(table.uri, table.options, pointer.version + 1, self.connection.sql(sql).to_arrow_reader(ARROW_ROWS))
        left = [file for place, file in enumerate(pointer.files) if place not in touched]
        return self._next(pointer, marks, [*left, *written])

    def fence(self, table: str, mark: str, number: int) -> bool:
        with self._writing(self.name_of(table)) as name:
            if self.open_version(name).transaction_version(mark) == number:
                return True
            # The pointer that another commit was begun on is gone with it.
            return not self._on_newest(name, {}, lambda table: self._fenced(table, mark, number))

    def _fenced(self, table: PointedTable, mark: str, number: int) -> Pointer | None:
        return None if table.transaction_version(mark) == number else self._next(table.pointer, {f"{mark}/void": number})

    def _add_column(self, table: str, column: str, type: str) -> None:
        [row] = self._query_here(f"DESCRIBE SELECT CAST(NULL AS {type}) AS {column}")
        with self._writing(self.name_of(table)) as name:
            added = {str(row[0]): str(row[1])}
            self._on_newest(name, {}, lambda table: replace(self._next(table.pointer, {}), columns={**table.pointer.columns, **added}))

    def _on_newest(self, name: str, expected: Mapping[str, int], change: Callable[[PointedTable], Pointer | None]) -> bool:
        """Replace the newest pointer by the one that ``change`` makes of it, and again where others are quicker.

        False unless the table carries what is expected, or if ``change`` returns none. Raises SerializationConflict.
        """
        for attempt in range(commits.ATTEMPTS):
            table = self.open_version(name)
            if any((table.transaction_version(mark) or 0) != number for mark, number in expected.items()):
                return False
            pointer = change(table)
            if pointer is None:
                return False
            try:
                self._replace(table, pointer)
                return True
            except Overtaken:
                commits.pause(attempt)
        raise errors.SerializationConflict(f"{name}: others wrote it {commits.ATTEMPTS} times while it was written; it is tried again")

    def _replace(self, table: PointedTable, pointer: Pointer) -> None:
        """Replace a pointer, and then delete what no version that is kept has. Raises Overtaken, after its new files are deleted."""
        known = {file.path for file in table.pointer.files}
        try:
            table.replace(pointer)
        except Overtaken:
            delete_files(table.uri, table.options, [file.path for file in pointer.files if file.path not in known])
            raise
        kept = {file.path for file in pointer.files} | {file.path for file in pointer.gone}
        expired = {file.path for file in table.pointer.gone} - kept
        with suppress(OSError):  # a later commit deletes them
            listed = list_files(table.uri, table.options)  # those too of processes that were killed before they replaced the pointer
            limit = time.time() - max(self._keep, durations().unfinished_file)
            expired |= {path for path, written in listed.items() if path not in kept and written < limit}
            delete_files(table.uri, table.options, sorted(expired & listed.keys()))

    def _next(self, pointer: Pointer, marks: Mapping[str, int], files: Sequence[File] | None = None) -> Pointer:
        """Return the pointer after this one, with other marks, and other files if they are given."""
        now = time.time()
        left = pointer.files if files is None else files
        stay = {file.path for file in left}
        gone = [file for file in pointer.gone if file.since > now - self._keep]
        gone += [Gone(file.path, now) for file in pointer.files if file.path not in stay]
        return Pointer(pointer.version + 1, pointer.columns, list(left), {**pointer.marks, **marks}, gone)

    def _merged(self, name: str, table: PointedTable, commit: Commit) -> Pointer:
        """Write the files that have changed rows again, with the new rows, and return the pointer that lists them."""
        pointer, quote = table.pointer, self.dialect.names.quote
        view.refuse_taken_names(name, pointer.columns, view.PLACES)
        key = ", ".join(map(quote, commit.key))
        counts = f"COUNT(*), COUNT(DISTINCT ({key})), COUNT(*) FILTER ({quote(commit.operation)} = 'i')"
        [(rows, keys, new)] = self._query_here(f"SELECT {counts} FROM {commit.changes}")
        if rows != keys:
            raise errors.StatementRefused(f"{name}: {rows} changes of {keys} keys cannot be merged; each key must have one")
        same = " AND ".join(f"f.{quote(column)} = c.{quote(column)}" for column in commit.key)
        touched: set[int] = set()
        if rows and pointer.files:
            source = view.reader(self._paths(name, _snapshot(table)), self.dialect.names.string_literal)
            rows_found = self._query_here(f"SELECT DISTINCT f.file_index FROM {source} f SEMI JOIN {commit.changes} c ON {same}")
            touched = {int(row[0]) for row in rows_found}
        if new:
            touched |= {place for place, file in enumerate(pointer.files) if file.rows < SMALL}
        if not touched and not new:
            return self._next(pointer, commit.marks)
        old = self._select(name, table, [pointer.files[place] for place in sorted(touched)])
        given = {column.lower() for column in commit.columns}
        whole = ", ".join(f"f.{quote(column)}" for column in pointer.columns)
        sides = {column: "c" if column.lower() in given else "f" for column in pointer.columns}
        values = ", ".join(
            f"CAST({sides[column]}.{quote(column)} AS {native}) AS {quote(column)}" for column, native in pointer.columns.items()
        )
        sql = (
            f"WITH old AS ({old}) SELECT {whole} FROM old f ANTI JOIN {commit.changes} c ON {same} UNION ALL"
            f" SELECT {values} FROM {commit.changes} c LEFT JOIN old f ON {same} WHERE c.{quote(commit.operation)} = 'i'"
            f" ORDER BY {key}"
        )
        with self.translated():
            batches = self.connection.sql(sql).to_arrow_reader(ARROW_ROWS)
            written = write_files(table.uri, table.options, pointer.version + 1, batches)
        left = [file for place, file in enumerate(pointer.files) if place not in touched]
        return self._next(pointer, commit.marks, [*left, *written])

    def _select(self, name: str, table: PointedTable, files: Sequence[File]) -> str:
        """Return the SELECT of the rows of some files of a table, with all its columns."""
        snapshot = _snapshot(replace(table, pointer=replace(table.pointer, files=files)))
        source = view.reader(self._paths(name, snapshot), self.dialect.names.string_literal) if files else ""
        return view.select(snapshot, source, view.types_in_files(source, self._query_here) if files else {}, "", self.dialect)

    def read_snapshot(self, table: Any, name: str) -> Snapshot:
        return _snapshot(table)

    def hazards(self, opened: Opened) -> list[Hazard]:
        return []

    def _query_here(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement on the session's own tables and on files."""
        return DuckDBSession.query(self, sql)

    def _execute_here(self, sql: str) -> None:
        DuckDBSession.execute(self, sql)


def _snapshot(table: PointedTable) -> Snapshot:
    pointer = table.pointer
    columns = [LakeColumn(name, native, native, name) for name, native in pointer.columns.items()]
    return Snapshot(
        pointer.version, columns, [LakeFile(file.path, file.size, file.rows, {}) for file in pointer.files], [], has_deletions=False
    )


def open_session(dialect: Dialect, connection: Any, timeout: float, url: Url, root: Root, may_write: bool) -> PointedSession:
    """Return a session on the tables below the root of a URL, whose option ``keep`` are seconds. Raises BadUrl."""
    import duckdb

    keep = url.integer_option("keep", DAY)
    pointed = PointedRoot(root.uri, root.options)
    return PointedSession(dialect, f"Parquet (DuckDB {duckdb.__version__})", connection, timeout, pointed, may_write, keep)
