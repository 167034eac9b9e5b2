"""How the values of a source stand in the Parquet files of a dump: in a type of Parquet where it holds all of them, else as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor.canonical import FLOATS
from auditor.errors import ColumnRefused
from auditor.sql.table_copy import dump_value
from dialects import Column, Dialect, Kind

MAX_DIGITS = 38
"""The most digits of Parquet's decimals. https://arrow.apache.org/docs/format/Columnar.html"""


@dataclass(frozen=True, slots=True)
class DumpColumn:
    """A column of a dump."""

    name: str
    native: Kind | None
    """The kind in the source; None if it has no canonical text."""
    stored: Kind
    """The kind that the dump has."""
    value: str
    """SQL of the value."""

    @property
    def type(self) -> pa.DataType:
        """Return the type of its values in the files."""
        return _type(self.stored)


def dump_columns(dialect: Dialect, columns: Sequence[Column]) -> list[DumpColumn]:
    """Return how these columns of a table are dumped."""
    dumped = []
    for column in columns:
        stored = _stored(column.kind)
        dumped.append(DumpColumn(column.name, column.kind, stored, dump_value(dialect, dialect.quote(column.name), column.kind, stored)))
    return dumped


def schema(columns: Sequence[DumpColumn], metadata: dict[str, str]) -> pa.Schema:
    """Return the files' schema, with what they say of themselves."""
    return pa.schema([(column.name, column.type) for column in columns], metadata=metadata)


def to_arrow(column: DumpColumn, values: Sequence[Any]) -> pa.Array:
    """Return the values of a batch in the type of the files. Raises ColumnRefused for a value that the type does not hold."""
    try:
        if column.native is not None and column.native.name in FLOATS:
            return pa.array([None if value is None else float(value) for value in values], column.type)
        texts = [None if value is None else str(value) for value in values]
        if column.stored.name == "binary":
            return pa.array([None if text is None else bytes.fromhex(text) for text in texts], column.type)
        text_array = pa.array(texts, pa.string())
        if column.stored.name == "time":
            moments = pc.binary_join_element_wise("1970-01-01", text_array, " ")
            return moments.cast(pa.timestamp("us")).cast(column.type)
        if column.stored.name == "timestamptz":
            return text_array.cast(pa.timestamp("us")).cast(column.type)
        return text_array.cast(column.type)
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise ColumnRefused(
            f"the column {column.name!r} holds a value that Parquet's {column.type} does not hold, such as a day or a time that is none;"
            " exclude it from the audit, or correct the value"
        ) from error


def _stored(kind: Kind | None) -> Kind:
    """Return the kind in which a dump stores a column: its own if Parquet has a type of its range, else text."""
    if kind is None:
        return Kind("text")
    if kind.name == "year":
        return Kind("integer")
    if kind.name == "decimal" and (kind.scale is None or (kind.digits or MAX_DIGITS + 1) > MAX_DIGITS):
        return Kind("text")
    if kind.name in ("timestamp", "timestamptz") and (kind.scale or 0) <= 6:
        return Kind(kind.name, scale=6)
    if kind.name in ("integer", "decimal", "boolean", "date", "float32", "float64", "binary", "timestamp"):
        return kind
    return Kind("time", scale=6) if kind.name == "time" else Kind("text")


def _type(kind: Kind) -> pa.DataType:
    match kind.name:
        case "integer":
            return pa.uint64() if kind.unsigned else pa.int64()
        case "decimal":
            return pa.decimal128(kind.digits or MAX_DIGITS, kind.scale or 0)
        case "timestamp":
            return pa.timestamp("us" if (kind.scale or 0) <= 6 else "ns")
        case "timestamptz":
            return pa.timestamp("us", tz="UTC")
        case "time":
            return pa.time64("us")
    simple = {
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "float32": pa.float32(),
        "float64": pa.float64(),
        "binary": pa.binary(),
    }
    return simple.get(kind.name, pa.string())
