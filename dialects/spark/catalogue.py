"""What Spark's catalogue says of tables, and of files by their path."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from dialects import errors, versions
from dialects.base import Catalogue, Dialect, Session
from dialects.catalogue import UNKNOWN_ORIGINS, Column, Origins, Place, Table, TableName
from dialects.spark import jars

CSV_OPTIONS = {"header": "true", "inferSchema": "true", "escape": '"', "multiLine": "true"}
"""How CSV is read, as DuckDB detects it: a header, types, doubled quotes and lines within quotes."""

VIEW_OF_CSV = "auditor_csv_"
"""How the names of views begin that show CSV files with their columns."""


class SparkCatalogue(Catalogue):
    """The catalogue of Spark."""

    SYSTEM_SCHEMAS = frozenset({"information_schema", "system"})

    def is_listed(self, place: Place) -> bool:
        return False

    def _describe_alone(self, session: Session, place: Place) -> list[Table]:
        if not place.path and any("/" in part for part in place.parts):
            return []  # no table has such a name, but Spark would read parquet.`/path` as files
        sql = self._from(session.dialect, place)
        try:
            if place.path and place.format == "csv":
                sql = self._view_of_csv(session, place.path)
            rows = session.query(f"DESCRIBE QUERY SELECT * FROM {sql}" if place.path else f"DESCRIBE TABLE {sql}")
        except errors.NoSuchObject as error:
            if place.path and place.format and "TABLE_OR_VIEW_NOT_FOUND" in str(error):  # a name for Spark, which knows no such format
                raise errors.JarsDoNotFit(jars.missing(f"Spark finds no {place.format} table at {place.path}")) from error
            return []
        return [Table(sql, self._columns(session, rows), (), int(session.query(f"SELECT COUNT(*) FROM {sql}")[0][0]))]

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        return self._columns(session, session.query(f"DESCRIBE QUERY {query}"))

    def _columns(self, session: Session, rows: list[tuple[Any, ...]]) -> tuple[Column, ...]:
        """Return columns of what a DESCRIBE lists."""
        columns: list[Column] = []
        for name, native, *_ in rows:
            if not native:  # the heading of what DESCRIBE TABLE lists below the columns
                break
            collation = re.search(r" collate (\S+)", str(native), re.IGNORECASE)
            loose = collation.group(1) if collation and collation.group(1).upper() != "UTF8_BINARY" else None
            kind = session.dialect.types.kind(str(native))
            if kind and kind.name == "time" and not writes_times(session.server):
                kind = None
            columns.append(Column(str(name), str(native), kind, nullable=True, collation=loose))
        return tuple(columns)

    def _view_of_csv(self, session: Session, path: str) -> str:
        """Return the name of a view of CSV files that takes columns and types from them: ``csv.`path``` has texts without names alone.

        All sessions of an application see it. https://spark.apache.org/docs/latest/sql-data-sources-csv.html
        """
        name = f"{VIEW_OF_CSV}{hashlib.sha256(path.encode()).hexdigest()[:16]}"
        options = ", ".join(f"{option} {session.dialect.names.literal(value)}" for option, value in {"path": path, **CSV_OPTIONS}.items())
        session.execute(f"CREATE OR REPLACE GLOBAL TEMPORARY VIEW {name} USING csv OPTIONS ({options})")
        return f"global_temp.{session.dialect.names.quote(name)}"

    def origins(self, session: Session, table: Table) -> Origins:
        try:
            rows = session.query(f"DESCRIBE TABLE EXTENDED {table.sql}")
        except errors.AuditorError:  # of files by their path
            return Origins()
        if VIEW_OF_CSV in table.sql:  # made by this session, of files
            return Origins()
        types = {str(value).upper() for name, value, *_ in rows if name == "Type"}
        if types & {"MANAGED", "EXTERNAL"}:
            return Origins()
        return Origins(is_view=True, unknown=UNKNOWN_ORIGINS["view"])

    def list_tables(self, session: Session) -> list[TableName]:
        rows = session.query(session.dialect.catalogue_query("tables", {}))
        return [TableName(str(schema), str(name)) for schema, name, is_temporary in rows if not is_temporary]

    def _from(self, dialect: Dialect, place: Place) -> str:
        name = f"{place.format or 'parquet'}.{dialect.names.quote(place.path)}" if place.path else dialect.names.table(*place.parts)
        if place.version is not None:
            return f"{name} VERSION AS OF {dialect.names.literal(place.version)}"
        return f"{name} TIMESTAMP AS OF {dialect.names.literal(place.timestamp)}" if place.timestamp else name


def writes_times(server: str) -> bool:
    """Return whether a Spark, named with its version, can format values of TIME: 4.1 and 4.2 have the type, and no function for it."""
    return tuple(map(int, versions.parse(server)[1].split("."))) >= (4, 3)
