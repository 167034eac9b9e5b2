"""Which tables a catalogue of Iceberg has, and what is read of them."""

from __future__ import annotations

import datetime as dt

from dialects import errors
from dialects.base import Session
from dialects.catalogue import Column, Origins, Place, Table, TableName
from dialects.duckdb.catalogue import DuckDBCatalogue
from dialects.iceberg import view
from dialects.iceberg.commits import VERSION, why_not_written
from dialects.iceberg.errors import translated
from dialects.iceberg.place import pinned
from dialects.iceberg.session import IcebergSession
from dialects.writing import Hazard


class IcebergCatalogue(DuckDBCatalogue):
    """The tables of a catalogue."""

    def is_listed(self, place: Place) -> bool:
        return False

    def _describe_alone(self, session: Session, place: Place) -> list[Table]:
        assert isinstance(session, IcebergSession)
        if place.path:
            raise errors.NoSuchObject(f"a connection to Iceberg reads the tables of a catalogue by their names, not {place.path}")
        if len(session.root.identifier(".".join(place.parts[:-1]), place.parts[-1])) == 1:
            raise errors.NoSuchObject(
                f"{place} is in no namespace: write NAMESPACE.{place}, or the namespace in the URL: iceberg://{session.root.catalog}/NAMESPACE"
            )
        names = [name for name in find_names(session, place.parts) if session.load(name) is not None]
        return [self._describe_lake_table(session, place, name) for name in names]

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        raise errors.NoSuchObject("a connection to Iceberg reads whole tables, and no queries; read it through Spark")

    def origins(self, session: Session, table: Table) -> Origins:
        return Origins()  # files show no other table

    def hazards(self, session: Session, table: Table) -> list[Hazard]:
        assert isinstance(session, IcebergSession)
        opened = session.open(session.name_of(table.sql))
        if opened is None:
            raise errors.NoSuchObject(f"{table.sql}: there is no such table any more")
        fields = opened.snapshot.schema.fields
        found = [Hazard("required", field.name) for field in fields if field.required and field.write_default is None]
        found += [Hazard("default", field.name) for field in fields if field.write_default is not None]
        found += [Hazard("storage", f"Iceberg with the unread column {one.name}") for one in opened.reading.columns if one.unreadable]
        if why := why_not_written(opened.snapshot.schema):
            found.append(Hazard("storage", f"Iceberg where {why}"))
        if opened.table.metadata.format_version != VERSION:
            found.append(Hazard("storage", f"version {opened.table.metadata.format_version} of Iceberg's format"))
        return found

    def list_tables(self, session: Session) -> list[TableName]:
        assert isinstance(session, IcebergSession)
        return [TableName(".".join(names[:-1]), names[-1], False, names[:-1] == session.root.namespace) for names in identifiers(session)]

    def _describe_lake_table(self, session: IcebergSession, place: Place, name: str) -> Table:
        version = place.version
        if place.timestamp:
            version = _snapshot_at(session, name, place.timestamp)
        elif version is not None and not str(version).isdecimal():
            raise errors.NoSuchObject(f"{name}: version {version} is no snapshot's id; a branch or tag is named in the URL: ?ref={version}")
        shown = pinned(name, None if version is None else int(version))
        opened = session.open(shown)
        assert opened
        schema, _, last = shown.rpartition("/")
        parts = (schema, last) if schema else (last,)
        columns = view.describe_columns(opened.reading, session.dialect.types.kind)
        return Table(session.dialect.names.table(*parts), columns, (), opened.snapshot.rows, ("", *parts)[-2:])


def _snapshot_at(session: IcebergSession, name: str, timestamp: str) -> int:
    """Return the id of the snapshot that was current at a time."""
    try:
        moment = dt.datetime.fromisoformat(timestamp)
    except ValueError as error:
        raise errors.NoSuchObject(f"{name}: {timestamp} is no time; write 2026-11-01T00:00:00Z") from error
    table = session.load(name)
    assert table
    at = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    with translated(name):
        found = table.snapshot_as_of_timestamp(int(at.timestamp() * 1000))
    if found is None:
        raise errors.NoSuchObject(f"{name} had no snapshot yet at {timestamp}, or it is expired")
    return int(found.snapshot_id)


def find_names(session: IcebergSession, parts: tuple[str, ...]) -> list[str]:
    """Return the names of the tables that the parts of a name lead to: spelt so, or else in other cases."""
    schema, table = ".".join(parts[:-1]), parts[-1]
    exact = f"{schema}/{table}".lstrip("/")
    if session.load(exact) is not None:
        return [exact]
    wanted = [part.lower() for part in session.root.identifier(schema, table)]
    found = [names for names in identifiers(session, tuple(wanted[:-1])) if [part.lower() for part in names] == wanted]
    return [f"{'.'.join(names[:-1])}/{names[-1]}" for names in found]


def identifiers(session: IcebergSession, folded: tuple[str, ...] | None = None) -> list[tuple[str, ...]]:
    """Return the identifiers of all tables, or of those in the namespaces of a name in small letters, whatever the case there."""
    catalog, found = session.catalog, list[tuple[str, ...]]()
    with translated(session.root.catalog):
        left: list[tuple[str, ...]] = list(catalog.list_namespaces())
        seen = set[tuple[str, ...]]()
        while left:
            namespace = left.pop(0)
            if namespace in seen:
                continue
            seen.add(namespace)
            names = tuple(part.lower() for part in namespace)
            if folded is None or folded[: len(names)] == names:
                left += list(catalog.list_namespaces(namespace))
                if folded is None or folded == names:
                    found += [tuple(one) for one in catalog.list_tables(namespace)]
    return sorted(found)
