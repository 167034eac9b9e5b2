"""What DuckDB's catalogue says of tables, and of files by their path."""

from __future__ import annotations

from collections.abc import Sequence

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

    def _describe_alone(self, session: Session, place: Place) -> list[Table]:
        if not place.path:
            return super()._describe_alone(session, place)
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
        if reader == FILE_READERS["parquet"]:
            self._check_types(session, place.path, columns)
        return [Table(source, columns, (), int(session.query(f"SELECT COUNT(*) FROM {source}")[0][0]))]

    def _check_types(self, session: Session, path: str, columns: Sequence[Column]) -> None:
        """Raise StatementRefused if several Parquet files have a column in different types.

        DuckDB reads all files in the types of the first, to which it casts the values of the others: a 2.5 is 2 there.
        https://duckdb.org/docs/stable/data/multiple_files/combining_schemas
        """
        literal, named = session.dialect.names.string_literal, {column.name.lower(): column for column in columns}
        found = session.query(
            "SELECT name, MIN(types), MAX(types) FROM ("
            "SELECT file_name, LOWER(name) AS name, STRING_AGG(DISTINCT duckdb_type, ', ' ORDER BY duckdb_type) AS types"
            f" FROM parquet_schema({literal(path)}) WHERE duckdb_type IS NOT NULL GROUP BY ALL"
            ") GROUP BY name HAVING MIN(types) <> MAX(types)"
        )
        differ = {str(name): (str(least), str(most)) for name, least, most in found if name in named}
        together = FILE_READERS["parquet"].format(path=f"{literal(path)}, union_by_name = true")
        for column in self.describe_query(session, f"SELECT * FROM {together}"):  # which also sees into structs and lists
            if (first := named.get(column.name.lower())) and first.native != column.native:
                differ.setdefault(column.name.lower(), (first.native, column.native))
        if differ:
            name, (one, other) = min(differ.items())
            raise errors.StatementRefused(
                f"{path}: column {named[name].name} is {one} in some files and {other} in others, and DuckDB would cast their values to the"
                " type of the first file; write the files anew in one type, or audit a SELECT that reads them in a type that holds both"
            )

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        rows = session.query(f"DESCRIBE {query}")
        return tuple(Column(str(row[0]), str(row[1]), session.dialect.types.kind(str(row[1])), nullable=True) for row in rows)
