"""A session on Delta tables: DuckDB in memory, with a view of each table that a statement names.

A snapshot is a version: inside one, the first statement on a table decides which version all later ones read, also in the sessions that
share the snapshot. Outside, each statement reads the latest.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from dialects import errors
from dialects.base import ColumnBatch, Dialect, Session
from dialects.committing import Commit, Committing, WrittenVersion
from dialects.data_files import FindForms
from dialects.delta import commits, files, table_files, view
from dialects.delta.place import Root, unpinned
from dialects.delta.snapshot import Snapshot, deleted_rows, find_hazards, read_snapshot
from dialects.duckdb.session import ARROW_ROWS, DuckDBSession
from dialects.duckdb.writing import DuckDBLoading, file_values, read_files
from dialects.kinds import Kind
from dialects.writing import Hazard

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa
    from deltalake import DeltaTable

_NAMED = re.compile(r'\b(?:FROM|JOIN)\s+((?:"(?:[^"]|"")+"\.)?"(?:[^"]|"")+")', re.IGNORECASE)
"""Tables in a statement; its templates and dialect quote all names."""


BEFORE = "auditor before"
"""The rows that were taken out of a table, as they were."""


@dataclass(slots=True)
class Opened:
    """A version of a table that the session reads."""

    table: DeltaTable
    snapshot: Snapshot
    types: Mapping[str, str]
    """DuckDB's types of the files' columns."""
    hidden: Mapping[int, npt.NDArray[np.int64]]
    """The places of the rows that deletion vectors hide, by the file's place in the snapshot."""
    identities: Sequence[str] = ()
    """By what each file is known, and what its columns are; of a session that recalls forms."""
    forms: Sequence[str] = ()
    entry: bytes | None = None
    """What the log has of the version; None if that is not known."""


class Pin(NamedTuple):
    """The version of a table that a snapshot shows."""

    version: int
    entry: bytes | None


class DeltaSession(DuckDBSession, Committing):
    """One DuckDB in memory over the tables below a root."""

    def __init__(self, dialect: Dialect, server: str, connection: Any, timeout: float, root: Root, may_write: bool) -> None:
        super().__init__(dialect, server, connection, timeout)
        self.loading = DeltaLoading(self)
        self.root = root
        self._may_write = may_write
        self._opened: dict[str, Opened] = {}
        self._pinned: dict[str, Pin] | None = None
        """The version of each table that the snapshot shows, and what the log has of it; None outside of snapshots."""
        self._taken_out = ""
        """The table, as SQL text, in whose place a transaction has some of its rows; empty if there is none."""
        self._shown: dict[str, Opened] = {}
        """What the views show, by the views' names in small letters, in which DuckDB does not distinguish them."""
        self._stores: dict[str, Any] = {}
        self._sizes: dict[str, dict[str, int]] = {}
        """Sizes of files by their paths, by the table: each spares a request."""
        self.find_forms: FindForms | None = None
        """What is known of files' columns, which spares opening all of them; None if nothing is asked for."""
        if not root.is_local:
            connection.register_filesystem(files.file_system(self._stores.__getitem__))

    # snapshots

    def begin(self) -> None:
        super().begin()
        self._pinned = {}

    def end(self) -> None:
        self._pinned = None
        super().end()

    def share_snapshot(self, sessions: Sequence[Session], table: str, helper: Session | None) -> bool:
        self._show(f"FROM {table}")
        for session in sessions:
            assert isinstance(session, DeltaSession) and self._pinned is not None
            session.begin()
            session._pinned = dict(self._pinned)
        return True

    def state_read(self, table: str) -> str:
        opened = self.open(self.name_of(table))
        return f"version {opened.snapshot.version} of {table} is read" if opened else ""

    # statements, each after the views that it needs

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        self._show(sql)
        return super().query(sql)

    def execute(self, sql: str) -> None:
        self._show(sql)
        if sql == "ROLLBACK":  # and with it the views that were made since
            self._taken_out = ""
            self._shown.clear()
        if added := commits.ADD_COLUMN.fullmatch(sql):
            self._add_column(**added.groupdict())
        else:
            super().execute(sql)

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        self._show(sql)
        return super().stream(sql)

    # commits

    def read_marks(self, parts: tuple[str, ...], names: Sequence[str]) -> Sequence[int]:
        name = self.root.find(parts)
        if name is None:
            return [0] * len(names)
        with translated(name):
            opened = self.open(name) if self._pinned is not None else None
            table = opened.table if opened else self.open_version(name)
            return [table.transaction_version(name) or 0 for name in names]

    def versions_since(self, parts: tuple[str, ...], mark: str, number: int, most: int) -> Sequence[WrittenVersion]:
        # https://github.com/delta-io/delta/blob/master/PROTOCOL.md#commit-provenance-information
        name, found = self.root.find(parts), list[WrittenVersion]()
        if name is None:
            return found
        with translated(name):
            for entry in self.open_version(name).history(most):
                carried = self.open_version(name, int(entry["version"])).transaction_version(mark) or 0
                if carried < number:
                    return found[::-1]
                at = dt.datetime.fromtimestamp(int(entry["timestamp"]) / 1000, dt.UTC)
                found.append(WrittenVersion(int(entry["version"]), at, str(entry.get("operation", "unknown")), carried))
        return found[::-1] if found and found[-1].version == 0 else []

    def mark(self, parts: tuple[str, ...], marks: Mapping[str, int], expected: Mapping[str, int], *, clear: bool = False) -> bool:
        name = self.root.find(parts)
        if name is None:
            return True
        with self._writing(name):
            return commits.mark(lambda: self.open_version(name), name, marks, expected, clear)

    def make_table(self, table: str, statement: str) -> None:
        schema, _, _ = table.rpartition('"."')
        if schema:
            super().execute(f'CREATE SCHEMA IF NOT EXISTS {schema}"')
        super().execute(statement)
        columns = self.arrow(f"SELECT * FROM {table} LIMIT 0").schema
        super().execute(f"DROP TABLE {table}")
        with self._writing(self.name_of(table)) as name:
            commits.create(self.root.uri_of(name), self.root.options, columns)

    def commit(self, commit: Commit) -> bool:
        with self._writing(self.name_of(commit.table)) as name:
            columns = ", ".join(self.dialect.names.quote(column) for column in (commit.operation, *commit.columns))
            changes = self.arrow(f"SELECT {columns} FROM {commit.changes}")
            return commits.commit_changes(lambda: self.open_version(name), name, changes, commit)

    def take_out(self, table: str, condition: str) -> None:
        name = self.name_of(table)
        opened = self.open(name)
        if opened is None:
            raise errors.NoSuchObject(f"{name}: there is no such table any more")
        view.refuse_taken_names(name, (column.name for column in opened.snapshot.columns), (view.OPERATION,))
        self._show(f"FROM {table}")
        before = self.dialect.names.quote(BEFORE)
        super().execute(f"CREATE TEMPORARY TABLE {before} AS SELECT * FROM {table} WHERE {condition}")
        super().execute(f"DROP VIEW {table}")
        super().execute(f"CREATE TABLE {table} AS SELECT * FROM {before}")
        self._taken_out = table

    def put_back(self, key: Sequence[str], marks: Mapping[str, int]) -> None:
        name = self.name_of(self._taken_out)
        opened, changes = self._end_changes(key)
        names = [column.name for column in opened.snapshot.columns]
        with self._writing(name):
            commits.commit_on(opened.table, name, changes, Commit(self._taken_out, "", names, key, marks, {}))

    def _end_changes(self, key: Sequence[str]) -> tuple[Opened, pa.Table]:
        """Roll back what was done to the rows that were taken out; return their table, and what would be changed in it."""
        table, before, quote = self._taken_out, self.dialect.names.quote(BEFORE), self.dialect.names.quote
        same = " AND ".join(f"b.{quote(column)} = t.{quote(column)}" for column in key)
        gone = f"SELECT 'd' AS auditor_op, * FROM {before} AS b WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE {same})"
        changes = self.arrow(f"SELECT 'i' AS auditor_op, * FROM {table} UNION ALL {gone}")
        self.execute("ROLLBACK")
        return self._opened[self.name_of(table)], changes

    def make_like(self, table: str, like: str) -> None:
        with self._writing(self.name_of(table)) as name:
            commits.create_like(self.root.uri_of(name), self.open_version(self.name_of(like)), self.root.options)

    def drop_table(self, table: str) -> None:
        with self._writing(self.name_of(table)) as name:
            self._opened.pop(name, None)
            files.delete_table(self.root, name)

    def replace_rows(self, table: str, rows: str, condition: str, marks: Mapping[str, int], expected: Mapping[str, int]) -> bool:
        self._show(rows)
        with self._writing(self.name_of(table)) as name, self.translated():
            newest = partial(self.open_version, name)
            return commits.replace_rows(
                newest, name, lambda: self.connection.sql(rows).to_arrow_reader(ARROW_ROWS), condition, marks, expected
            )

    def rewrite(self, table: str, rows: str, marks: Mapping[str, int], expected: Mapping[str, int]) -> bool:
        self._show(rows)
        name = self.name_of(table)
        opened = self.open(name)
        if opened is None:
            raise errors.NoSuchObject(f"{name}: there is no such table any more")
        if any((opened.table.transaction_version(mark) or 0) != number for mark, number in expected.items()):
            return False
        with self._writing(name), self.translated():
            commits.rewrite(opened.table, name, self.connection.sql(rows).to_arrow_reader(ARROW_ROWS), marks)
        return True

    def partitioned_by(self, table: str) -> Sequence[str]:
        opened = self.open(self.name_of(table))
        return opened.snapshot.partitioned_by if opened else ()

    def fence(self, table: str, mark: str, number: int) -> bool:
        with self._writing(self.name_of(table)) as name:
            return commits.fence(lambda: self.open_version(name), name, mark, number)

    def _add_column(self, table: str, column: str, type: str) -> None:
        columns = self.arrow(f"SELECT CAST(NULL AS {type}) AS {column} LIMIT 0").schema
        with self._writing(self.name_of(table)) as name:
            commits.add_columns(self.open_version(name), columns)

    @contextmanager
    def _writing(self, name: str) -> Iterator[str]:
        """Yield the name of a table that is written in the block."""
        if not self._may_write:
            raise errors.StatementRefused(f"{name} may only be read by this session")
        with translated(name):
            yield name

    def arrow(self, sql: str) -> pa.Table:
        """Return the result of a statement on the session's own tables as an Arrow table."""
        with self.translated():
            return self.connection.sql(sql).to_arrow_table()

    # tables

    def name_of(self, sql: str) -> str:
        """Return the name of a table, relative to the root, of its name as SQL text."""
        parts = re.findall(r'"((?:[^"]|"")+)"', sql)
        return "/".join(part.replace('""', '"') for part in parts)

    def open(self, name: str) -> Opened | None:
        """Return a table, at the version that the session reads now; None if there is none of that name.

        Raises errors of ``dialects.errors``.
        """
        with translated(name):
            bare, version = unpinned(name)
            known = self._opened.get(name)
            if known and self._taken_out and name == self.name_of(self._taken_out):
                return known
            if known is None and not self.root.has_table(bare):
                return None
            pin = (self._pinned or {}).get(name)
            wanted = version if version is not None else pin.version if pin else None
            if known is None or wanted is None or known.snapshot.version != wanted or not self._is_same(bare, known, pin):
                table = self.open_version(bare, wanted) if known is None or wanted is not None else self._newest(bare, known)
                if known is None or table is not known.table or int(table.version()) != known.snapshot.version:
                    self._opened[name] = replace(self._read(name, table), entry=self.entry_of(bare, table, int(table.version())))
            opened = self._opened[name]
            if pin and pin.entry is not None and pin.entry != opened.entry:
                raise errors.SnapshotLost(f"{name} was made anew while it was read")
            if self._pinned is not None:
                self._pinned[name] = Pin(opened.snapshot.version, opened.entry)
            return opened

    def _newest(self, name: str, known: Opened) -> DeltaTable:
        """Return a table at its latest version: what is new in the log, or all of it if the table was made anew."""
        from deltalake.exceptions import DeltaError

        try:
            known.table.update_incremental()
        except DeltaError:  # the log has fewer versions than there were
            return self.open_version(name)
        return known.table if self._is_same(name, known, None) else self.open_version(name)

    def _is_same(self, name: str, known: Opened, pin: Pin | None) -> bool:
        """Return whether the version that is known is the one that the snapshot shows, or else the log still has."""
        if pin:
            return pin.entry == known.entry
        return known.entry is not None and self.entry_of(name, known.table, known.snapshot.version) == known.entry

    def entry_of(self, name: str, table: DeltaTable, version: int) -> bytes | None:
        """Return what tells a version of a table from those of others of the same name; None if that is not known (any more).

        A table that was deleted and made anew has versions of the same numbers.
        """
        return files.read_log_entry(self.root, name, version)

    def open_version(self, name: str, version: int | None = None) -> DeltaTable:
        """Open a table of deltalake, at its latest version or at this one."""
        from deltalake import DeltaTable

        return DeltaTable(self.root.uri_of(name), version=version, storage_options=dict(self.root.options))

    def _show(self, sql: str) -> None:
        names = dict.fromkeys(name for table in _NAMED.findall(sql) if (name := self.name_of(table)) != table_files.RELATION)
        views = [self._view(name, opened).lower() for name in names if (opened := self.open(name))]
        if twice := next((view for view in views if views.count(view) > 1), None):
            raise errors.StatementRefused(
                f"a statement reads several tables {twice}, in small letters and capitals, which DuckDB takes for one"
            )

    def _read(self, name: str, table: DeltaTable) -> Opened:
        """Return a version of a table, whose files have the types that they have together."""
        snapshot = self._as_duckdb_writes(self.read_snapshot(table, name))
        hidden = deleted_rows(table, snapshot) if snapshot.has_deletions else {}
        paths = self._paths(name, snapshot)
        identities: Sequence[str] = ()
        forms: Sequence[str] = ()
        if self.find_forms and snapshot.files:
            identities = table_files.identify(self.root, unpinned(name)[0], snapshot)
            forms = self._find_forms(identities, paths)
            of_form = sorted(zip(paths, forms, strict=True), reverse=True)
            paths = list({form: path for path, form in of_form}.values())  # the first file of each form
        literal = self.dialect.names.string_literal
        types = view.types_in_files(view.reader(paths, literal), super().query) if snapshot.files else {}
        return Opened(table, snapshot, types, hidden, identities, forms)

    def _find_forms(self, identities: Sequence[str], paths: Sequence[str]) -> list[str]:
        """Return what the columns of each file are: of those that are not known from earlier, as their own footers say it."""
        assert self.find_forms
        known = dict(self.find_forms(identities))
        unknown = {path: identity for identity, path in zip(identities, paths, strict=True) if not known.get(identity)}
        if unknown:
            listed = ", ".join(map(self.dialect.names.string_literal, unknown))
            columns = "name, type, type_length, num_children, converted_type, scale, precision, logical_type, duckdb_type"
            text = f"STRING_AGG(CAST(ROW({columns}) AS VARCHAR), '|' ORDER BY column_id)"
            rows = super().query(f"SELECT file_name, SHA256({text}) FROM PARQUET_SCHEMA([{listed}]) GROUP BY file_name")
            said = {str(path): str(form) for path, form in rows}
            known |= {identity: said[_unescaped(path)] for path, identity in unknown.items()}
        return [known[identity] for identity in identities]

    def _view(self, name: str, opened: Opened) -> str:
        """Let the session have a view of a version of a table, and return its name."""
        snapshot, quote = opened.snapshot, self.dialect.names.quote
        schema, _, last = name.rpartition("/") if not name.startswith("/") and "://" not in name else ("", "", name)
        shown = f"{quote(schema)}.{quote(last)}" if schema else quote(last)
        if self._shown.get(shown.lower()) is opened:
            return shown
        source = view.reader(self._paths(name, snapshot), self.dialect.names.string_literal)
        deleted = self._hide(f"auditor deleted {name}", opened.hidden) if snapshot.has_deletions else ""
        taken = {column.physical.lower() for column in snapshot.columns}.intersection(view.PLACES)
        if taken and (deleted or snapshot.partitioned_by):
            raise errors.StatementRefused(
                f"{name} has a column {taken.pop()}, a name that DuckDB needs to read this table; audit it on Spark"
            )
        if schema:
            super().execute(f"CREATE SCHEMA IF NOT EXISTS {quote(schema)}")
        super().execute(f"CREATE OR REPLACE VIEW {shown} AS {view.select(snapshot, source, opened.types, deleted, self.dialect)}")
        self._shown[shown.lower()] = opened
        return shown

    def show_files(self, name: str, paths: Sequence[str], number: str, hidden: bool) -> str:
        """Make the view of the rows of some files of a version, or of those that deletion vectors hide, and return its name as SQL text."""
        opened = self.open(name)
        assert opened is not None, "its files were listed"
        places = {file.path: place for place, file in enumerate(opened.snapshot.files)}
        some = replace(opened.snapshot, files=[opened.snapshot.files[places[path]] for path in paths])
        source = view.reader(self._paths(name, some), self.dialect.names.string_literal)
        rows = {index: opened.hidden[places[path]] for index, path in enumerate(paths) if places[path] in opened.hidden}
        table = self._hide("auditor hidden rows", rows) if hidden else ""
        types = view.types_in_files(source, super().query)
        sql = view.select_of_files(some, source, types, opened.types, number, table, self.dialect)
        relation = self.dialect.names.quote(table_files.RELATION)
        super().execute(f"CREATE OR REPLACE TEMPORARY VIEW {relation} AS {sql}")
        return relation

    def read_snapshot(self, table: Any, name: str) -> Snapshot:
        """Return what a version of a table consists of. Raises StatementRefused."""
        return read_snapshot(table, name)

    def hazards(self, opened: Opened) -> list[Hazard]:
        """Return what decides what a write does to the columns of a table."""
        return find_hazards(opened.table)

    def _as_duckdb_writes(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with its columns' types spelt as DuckDB describes those of files."""
        natives = [column.native for column in snapshot.columns if column.native]
        casts = ", ".join(f"CAST(NULL AS {native}) AS c{place}" for place, native in enumerate(natives))
        spelt = iter([str(row[1]) for row in super().query(f"DESCRIBE SELECT {casts}")] if natives else [])
        return replace(snapshot, columns=[replace(column, native=next(spelt) if column.native else "") for column in snapshot.columns])

    def _paths(self, name: str, snapshot: Snapshot) -> list[str]:
        uri = self.root.uri_of(unpinned(name)[0])
        if self.root.is_local:
            return [re.sub(r"([*?\[])", r"[\1]", f"{uri}/{file.path}") for file in snapshot.files]
        key = uri.encode().hex()
        sizes = self._sizes.setdefault(key, {})
        sizes.update({file.path: file.size for file in snapshot.files})
        self._stores[key] = files.table_files(uri, self.root.options, sizes)
        return [files.path_of(key, file.path) for file in snapshot.files]

    def _hide(self, name: str, rows: Mapping[int, npt.NDArray[np.int64]]) -> str:
        """Make the table of rows that deletion vectors hide, by the file's number, and return its name as SQL text."""
        import numpy as np
        import pyarrow as pa

        nothing, hidden = np.zeros(0, np.int64), self.dialect.names.quote(name)
        files = np.concatenate([nothing, *(np.full(len(places), number, np.int64) for number, places in rows.items())])
        deleted = pa.table({"file": pa.array(files), "row": pa.array(np.concatenate([nothing, *rows.values()]))})
        self.connection.register("deleted_rows", deleted)
        try:
            super().execute(f"CREATE OR REPLACE TEMPORARY TABLE {hidden} AS SELECT * FROM deleted_rows")
        finally:
            self.connection.unregister("deleted_rows")
        return hidden


def _unescaped(path: str) -> str:
    """Return the path that DuckDB reports of a file whose path is written as a pattern of this one file."""
    return re.sub(r"\[([*?\[])\]", r"\1", path)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Raise errors of ``dialects.errors`` in place of those of deltalake."""
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

    try:
        yield
    except TableNotFoundError as error:
        raise errors.NoSuchObject(f"{name}: {_first_line(error)}") from error
    except CommitFailedError as error:
        raise errors.SerializationConflict(f"{name}: {_first_line(error)}") from error
    except DeltaError as error:
        raise errors.StatementRefused(f"{name}: {_first_line(error)}") from error
    except OSError as error:  # of the object store's client
        raise errors.Unreachable(f"{name}: {_first_line(error)}; check the bucket, the network and the rights") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


class DeltaLoading(DuckDBLoading):
    """How rows are written to Delta tables, and to those of files that a pointer lists."""

    def __init__(self, session: DeltaSession) -> None:
        super().__init__(session)
        self.delta = session

    def write(self, sql: str) -> int:
        self.delta._show(sql)
        return super().write(sql)

    def load_files(self, table: str, columns: Mapping[str, Kind], paths: Sequence[str], folder: str) -> None:
        """Put the rows of files of lines in place of all rows, by one commit."""
        opened = self.delta.open(self.delta.name_of(table))
        if opened is None:
            raise errors.NoSuchObject(f"{table}: there is no such table any more")
        natives = {self.delta.dialect.names.quote(column.name): column.native for column in opened.snapshot.columns}
        values = [f"CAST({value} AS {natives[name]}) AS {name}" for name, value in zip(columns, file_values(columns), strict=True)]
        lines = f"SELECT {', '.join(values)} FROM {read_files(self.delta.dialect, columns, paths)}" if paths else ""
        self.delta.replace_rows(table, lines or f"SELECT * FROM {table} WHERE 1 = 0", "", {}, {})
