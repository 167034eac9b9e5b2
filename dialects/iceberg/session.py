"""A session on Iceberg tables: DuckDB in memory, with a view of each table that a statement names.

Inside a snapshot, the first statement on a table decides which of the table's snapshots all later ones read, also in the sessions that
share it. Outside, each statement reads the current one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dialects import errors
from dialects.base import ColumnBatch, Dialect, Session
from dialects.data_files import FindForms, Rows
from dialects.duckdb.session import DuckDBSession
from dialects.iceberg import files, table_files
from dialects.iceberg.errors import translated
from dialects.iceberg.place import Root, unpinned
from dialects.iceberg.snapshot import Snapshot, read_snapshot
from dialects.iceberg.view import Reading, Viewer

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_NAMED = re.compile(r'\b(?:FROM|JOIN)\s+((?:"(?:[^"]|"")+"\.)?"(?:[^"]|"")+")', re.IGNORECASE)
"""Tables in a statement; its templates and dialect quote all names."""


@dataclass(slots=True)
class Opened:
    """A table at a snapshot that the session reads."""

    table: Table
    snapshot: Snapshot
    viewer: Viewer
    reading: Reading
    state: tuple[Any, ...]
    """What of the table's metadata decides what is read."""
    files: table_files.Identified | None
    """By what its files are known, and what their columns are; of a session that recalls forms."""


class IcebergSession(DuckDBSession):
    """One DuckDB in memory over the tables of a catalogue."""

    def __init__(self, dialect: Dialect, server: str, connection: Any, timeout: float, catalog: Catalog, root: Root) -> None:
        super().__init__(dialect, server, connection, timeout)
        self.catalog = catalog
        self.root = root
        self._opened: dict[str, Opened] = {}
        self._pinned: dict[str, Table] | None = None
        """Each table as the snapshot shows it; None outside of snapshots."""
        self._shown: dict[str, str] = {}
        """The names of the tables that the views show, by the views' names in small letters, in which DuckDB does not distinguish them."""
        self._stores: dict[str, Any] = {}
        self.find_forms: FindForms | None = None
        """What is known of files' columns, which spares opening all of them; None if nothing is asked for."""
        connection.register_filesystem(files.file_system(self._stores))

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
            assert isinstance(session, IcebergSession) and self._pinned is not None
            session.begin()
            session._pinned = dict(self._pinned)
        return True

    def state_read(self, table: str) -> str:
        opened = self.open(self.name_of(table))
        if opened is None:
            return ""
        version = opened.snapshot.version
        return f"snapshot {version} of {table} is read" if version is not None else f"{table} has no snapshot yet"

    # statements, each after the views that it needs

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        self._show(sql)
        return super().query(sql)

    def execute(self, sql: str) -> None:
        self._show(sql)
        super().execute(sql)

    def stream(self, sql: str) -> Iterator[ColumnBatch]:
        self._show(sql)
        return super().stream(sql)

    def query_here(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement on the session's own tables and on files."""
        return DuckDBSession.query(self, sql)

    def execute_here(self, sql: str) -> None:
        """Run a statement on the session's own tables and on files."""
        DuckDBSession.execute(self, sql)

    def close(self) -> None:
        super().close()
        self.catalog.close()

    # tables

    def name_of(self, sql: str) -> str:
        """Return the name of a table of its name as SQL text: ``namespace/table``, or ``table`` in the connection's namespace."""
        return "/".join(part.replace('""', '"') for part in re.findall(r'"((?:[^"]|"")+)"', sql))

    def identifier_of(self, name: str) -> tuple[str, ...]:
        """Return a table's identifier in the catalogue: of its name alone where neither that nor the connection has a namespace."""
        schema, _, table = unpinned(name)[0].rpartition("/")
        return self.root.identifier(schema, table)

    def load(self, name: str) -> Table | None:
        """Return a table of pyiceberg as its newest metadata have it; None if there is none. Raises errors of ``dialects.errors``."""
        identifier = self.identifier_of(name)
        if len(identifier) == 1:
            return None
        with translated(".".join(identifier)):
            from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

            try:
                return self.catalog.load_table(identifier)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def snapshot_of(self, table: Table, name: str) -> tuple[int | None, int | None]:
        """Return the id of the snapshot that is read of a table now, and the same if a person asked for it, else None."""
        wanted = unpinned(name)[1]
        if wanted is None and self.root.ref and self.root.ref in table.refs():
            wanted = table.refs()[self.root.ref].snapshot_id
        current = table.metadata.current_snapshot_id
        return (current if wanted is None else wanted), wanted

    def open(self, name: str) -> Opened | None:
        """Return a table, at the snapshot that the session reads now; None if there is none of that name.

        Raises errors of ``dialects.errors``.
        """
        table = (self._pinned or {}).get(unpinned(name)[0]) or self.load(name)
        if table is None:
            return None
        if self._pinned is not None:
            self._pinned[unpinned(name)[0]] = table
        return self.read(name, table)

    def read(self, name: str, table: Table) -> Opened:
        """Return what is read of a table as it was loaded."""
        version, wanted = self.snapshot_of(table, name)
        mapping = table.properties.get("schema.name-mapping.default", "")
        state = (table.metadata.table_uuid, version, wanted, table.metadata.current_schema_id, mapping)
        known = self._opened.get(name)
        if known is None or known.state != state:
            with translated(name):
                known = self._opened[name] = self._read(name, table, version, wanted, state)
            self._shown.pop(self._view_of(name).lower(), None)
        known.table = table
        return known

    def _read(self, name: str, table: Table, version: int | None, wanted: int | None, state: tuple[Any, ...]) -> Opened:
        snapshot = read_snapshot(table, name, version, wanted)
        viewer = self._viewer(name, table, snapshot, f"auditor {_key(name)}")
        if self.find_forms is None or not snapshot.files:
            return Opened(table, snapshot, viewer, viewer.read(), state, None)
        identified = table_files.identify(table, snapshot, name).with_layouts(self.find_forms, viewer.layouts, snapshot)
        return Opened(table, snapshot, viewer, viewer.read(identified.layouts), state, identified)

    def _viewer(self, name: str, table: Table, snapshot: Snapshot, prefix: str) -> Viewer:
        key = _key(name)
        self._stores[key] = table.io

        def paths(locations: Sequence[str]) -> list[str]:
            return [files.local_path(location) or files.path_of(key, location) for location in locations]

        return Viewer(self, table, name, snapshot, paths, prefix)

    def _view(self, name: str, opened: Opened) -> str:
        """Let the session have a view of a table as it is read now, and return its name."""
        view = self._view_of(name)
        if self._shown.get(view.lower()) != name:
            if "." in view:
                self.execute_here(f"CREATE SCHEMA IF NOT EXISTS {self.dialect.names.quote(name.rpartition('/')[0])}")
            with translated(name):
                sql = opened.viewer.select(opened.reading)
            self.execute_here(f"CREATE OR REPLACE VIEW {view} AS {sql}")
            self._shown[view.lower()] = name
        return view

    def show_files(self, name: str, paths: Sequence[str], number: str, rows: Rows) -> str:
        """Make the view of the rows of some files of a snapshot, or of those that deletes hide, and return its name as SQL text."""
        opened = self.open(name)
        assert opened is not None, "its files were listed"
        identified = self.identified(name, opened)
        places = {file.path: place for place, file in enumerate(opened.snapshot.files)}
        wanted = [places[path] for path in paths]
        some = table_files.only(opened.table, opened.snapshot, wanted)
        with translated(name):
            viewer = self._viewer(name, opened.table, some, table_files.RELATION)
            reading = viewer.read([identified.layouts[place] for place in wanted])
            sql = viewer.select_of_files(reading, number, rows)
        relation: str = self.dialect.names.quote(table_files.RELATION)
        self.execute_here(f"CREATE OR REPLACE TEMPORARY VIEW {relation} AS {sql}")
        return relation

    def identified(self, name: str, opened: Opened) -> table_files.Identified:
        """Return by what the files of a table are known, and what their columns are."""
        if opened.files is None:
            with translated(name):
                found = table_files.identify(opened.table, opened.snapshot, name)
                opened.files = found.with_layouts(self.find_forms or (lambda _: {}), opened.viewer.layouts, opened.snapshot)
        return opened.files

    def _view_of(self, name: str) -> str:
        schema, _, table = name.rpartition("/")
        quote = self.dialect.names.quote
        return f"{quote(schema)}.{quote(table)}" if schema else quote(table)

    def _show(self, sql: str) -> None:
        names = dict.fromkeys(name for table in _NAMED.findall(sql) if (name := self.name_of(table)) != table_files.RELATION)
        if any("/" not in name for name in names):  # as those of the session's own tables are
            own = {str(row[0]) for row in self.query_here("SELECT table_name FROM duckdb_tables()")}
            names = dict.fromkeys(name for name in names if "/" in name or name not in own)
        views = [self._view(name, opened).lower() for name in names if (opened := self.open(name)) is not None]
        if twice := next((view for view in views if views.count(view) > 1), None):
            raise errors.StatementRefused(
                f"a statement reads several tables {twice}, in small letters and capitals, which DuckDB takes for one"
            )


def _key(name: str) -> str:
    """Return a table's name as a part of the names of what belongs to it: DuckDB does not tell small letters from capitals in names."""
    return name.encode().hex()
