"""What DuckDB's catalogue says of tables, and of files by their path."""

from __future__ import annotations

from dialects import errors
from dialects.base import Catalogue, Session
from dialects.catalogue import Column, Place, Table

PARQUET_OPTIONS = "can_have_nan = true"
"""What every reader of Parquet files says. Their statistics leave NaN out, by which DuckDB would skip rows with one, and expressions over
them. https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift (Statistics)"""

FILE_READERS = {
    "parquet": f"read_parquet({{path}}, {PARQUET_OPTIONS})",
    "csv": "read_csv({path})",
    "delta": "delta_scan({path})",
    "iceberg": "iceberg_scan({path})",
}
"""Table function by file format."""


class DuckDBCatalogue(Catalogue):
    """The catalogue of DuckDB."""

    SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog"})

    def describe(self, session: Session, place: Place) -> list[Table]:
        if not place.path:
            return super().describe(session, place)
        if place.version is not None or place.timestamp:
            raise errors.NoSuchObject(f"DuckDB cannot read past versions of {place.path}; use a Spark connection to audit a version")
        reader = FILE_READERS.get(place.format or "parquet")
        if not reader:
            raise errors.NoSuchObject(f"DuckDB cannot read format {place.format}; use one of {', '.join(FILE_READERS)}")
        source = reader.format(path=session.dialect.names.string_literal(place.path))
        if session.query("SELECT current_setting('enable_external_access')")[0][0] is False:
            raise errors.NoSuchObject(
                f"a connection to a DuckDB file reads its tables alone: read {place.path} by one with the url duckdb://"
            )
        columns = self.describe_query(session, f"SELECT * FROM {source}")
        return [Table(source, columns, (), int(session.query(f"SELECT COUNT(*) FROM {source}")[0][0]))]

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        rows = session.query(f"DESCRIBE {query}")
        return tuple(Column(str(row[0]), str(row[1]), session.dialect.types.kind(str(row[1])), nullable=True) for row in rows)
