"""Which tables are below a root of Delta Lake, and what their newest versions hold."""

from __future__ import annotations

from dialects import errors
from dialects.base import Session
from dialects.catalogue import Column, Origins, Place, Table, TableName
from dialects.delta import view
from dialects.delta.place import Root, pinned
from dialects.delta.session import DeltaSession, translated
from dialects.duckdb.catalogue import DuckDBCatalogue
from dialects.writing import Hazard


class DeltaCatalogue(DuckDBCatalogue):
    """The tables below a root."""

    def is_listed(self, place: Place) -> bool:
        return False

    def _describe_alone(self, session: Session, place: Place) -> list[Table]:
        assert isinstance(session, DeltaSession)
        if place.format not in (None, "delta", "parquet"):  # that of a path without a format
            raise errors.NoSuchObject(f"a connection to Delta tables reads no {place.format}: use one of DuckDB or Spark")
        names = [place.path] if place.path else self._find(session.root, place.parts)
        return [self._describe_lake_table(session, place, name) for name in names if session.root.has_table(name)]

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        raise errors.NoSuchObject("a connection to Delta tables reads whole tables, and no queries; read it by Spark")

    def origins(self, session: Session, table: Table) -> Origins:
        return Origins()  # a folder of files shows no other table

    def hazards(self, session: Session, table: Table) -> list[Hazard]:
        assert isinstance(session, DeltaSession)
        opened = session.open(session.name_of(table.sql))
        if opened is None:
            raise errors.NoSuchObject(f"{table.sql}: there is no such table any more")
        unreadable = [column.name for column in table.columns if column.kind is None]
        return [*session.hazards(opened), *(Hazard("storage", f"Delta with the unread column {name}") for name in unreadable)]

    def list_tables(self, session: Session) -> list[TableName]:
        assert isinstance(session, DeltaSession)
        tables = []
        with translated(session.root.uri):
            for name in session.root.folders():
                if session.root.has_table(name):
                    tables.append(TableName("", name))
                else:
                    tables += [
                        TableName(name, folder) for folder in session.root.folders(name) if session.root.has_table(f"{name}/{folder}")
                    ]
        return tables

    def _find(self, root: Root, parts: tuple[str, ...]) -> list[str]:
        """Return the folders of this name below the root, whatever the case of its letters."""
        if len(parts) > 2 or any("/" in part for part in parts):
            return []
        with translated(root.uri):
            return root.spelt(parts)

    def _describe_lake_table(self, session: DeltaSession, place: Place, name: str) -> Table:
        version = place.version
        if place.timestamp:
            with translated(name):
                table = session.open_version(name)
                table.load_as_version(place.timestamp)
                version = table.version()
        elif version is not None and not str(version).isdecimal():
            raise errors.NoSuchObject(f"{name}: version {version} is no number")
        shown = pinned(name, None if version is None else int(version))
        opened = session.open(shown)
        assert opened
        parts = (shown,) if shown.startswith("/") or "://" in shown else tuple(part for part in shown.rpartition("/")[::2] if part)
        columns = view.describe_columns(opened.snapshot, opened.types, session.dialect.types.kind)
        rows = opened.snapshot.rows
        return Table(session.dialect.names.table(*parts), columns, (), rows, () if place.path else ("", *parts)[-2:])
