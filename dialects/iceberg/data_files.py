"""Files of rows that are written: rows of DuckDB as Parquet files of an Iceberg table, which no snapshot has yet.

pyiceberg 0.12 writes files without making a snapshot of them only by `_dataframe_to_data_files`, which is none of its public functions.
"""

from __future__ import annotations

import itertools
import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dialects import errors
from dialects.iceberg.layout import native_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

log = logging.getLogger(__name__)

FILE_ROWS = 1_000_000
"""Rows of a file at most: what a merge writes again for one changed row."""

FORMAT_TYPES = {
    "BOOLEAN": "BooleanType", "TINYINT": "IntegerType", "SMALLINT": "IntegerType", "INTEGER": "IntegerType", "UTINYINT": "IntegerType",
    "USMALLINT": "IntegerType", "UINTEGER": "LongType", "BIGINT": "LongType", "FLOAT": "FloatType", "DOUBLE": "DoubleType",
    "DATE": "DateType", "TIME": "TimeType", "TIMESTAMP": "TimestampType", "TIMESTAMP_S": "TimestampType", "TIMESTAMP_MS": "TimestampType",
    "TIMESTAMP WITH TIME ZONE": "TimestamptzType", "VARCHAR": "StringType", "UUID": "UUIDType", "BLOB": "BinaryType",
}  # fmt: skip
"""Classes of types of the format, as pyiceberg names them, by those of DuckDB that columns are made of."""


def make_schema(columns: Mapping[str, str]) -> Schema:
    """Return the schema of a new table of columns of DuckDB's types. Raises StatementRefused."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    return Schema(*(NestedField(number, name, format_type(name, native)) for number, (name, native) in enumerate(columns.items(), 1)))


def format_type(name: str, native: str) -> Any:
    """Return the type of a column as pyiceberg has it, of DuckDB's type. Raises StatementRefused where the format has none."""
    from pyiceberg import types

    if native == "UBIGINT":
        return types.DecimalType(20, 0)
    if decimal := re.fullmatch(r"DECIMAL\((\d+), ?(\d+)\)", native):
        return types.DecimalType(int(decimal[1]), int(decimal[2]))
    if native not in FORMAT_TYPES:
        raise errors.StatementRefused(f"Iceberg has no type for the column {name}, which is {native}; leave it out")
    return getattr(types, FORMAT_TYPES[native])()


def stored_value(kind: Any, value: str, quote: Any) -> str:
    """Return SQL of a value as Arrow takes it for a column of a type of the format."""
    if str(kind) == "uuid":
        return f"UNHEX(REPLACE(CAST({value} AS VARCHAR), '-', ''))"
    return f"CAST({value} AS {native_type(kind, quote)})"


def write_files(metadata: TableMetadata, io: FileIO, batches: Iterable[pa.RecordBatch]) -> list[DataFile]:
    """Write rows as files of a table; none without rows. The columns are those of its schema, as `stored_value` has them."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    written: list[DataFile] = []
    counter, own = itertools.count(), uuid.uuid4()
    try:
        for rows in _chunks(metadata.schema(), batches):
            written += _dataframe_to_data_files(metadata, rows, io, own, counter)
    except BaseException:
        delete_files(io, written)
        raise
    return written


def delete_files(io: FileIO, files: Iterable[DataFile]) -> None:
    """Delete files that no snapshot has."""
    for file in files:
        try:
            io.delete(file.file_path)
        except Exception as error:  # it belongs to no table, and what removes orphan files deletes it
            log.warning("%s belongs to no snapshot and could not be deleted: %s", file.file_path, error)


def _chunks(schema: Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    import pyarrow as pa

    gathered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            rows += batch.num_rows
        if rows >= FILE_ROWS:
            yield _as_format_has_it(schema, pa.Table.from_batches(gathered))
            gathered, rows = [], 0
    if gathered:
        yield _as_format_has_it(schema, pa.Table.from_batches(gathered))


def _as_format_has_it(schema: Schema, rows: pa.Table) -> pa.Table:
    """Return rows with the Arrow types that pyiceberg takes for a schema. Raises StatementRefused for NULL where there may be none."""
    import pyarrow as pa

    arrays, fields = [], []
    for field in schema.fields:
        column, text = rows[field.name], str(field.field_type)
        if field.required and column.null_count:
            raise errors.StatementRefused(f"the column {field.name} may not be NULL, and {column.null_count} rows have NULL in it")
        if text == "uuid":
            stored = column.cast(pa.binary(16)).combine_chunks()
            column = pa.ExtensionArray.from_storage(pa.uuid(), stored)
        elif fixed := re.fullmatch(r"fixed\[(\d+)\]", text):
            column = column.cast(pa.binary(int(fixed[1])))
        arrays.append(column)
        fields.append(pa.field(field.name, column.type, nullable=not field.required))
    return pa.table(arrays, schema=pa.schema(fields))
