"""Evaluate a pipeline's filter on the texts of rows, in DuckDB within the calling process."""

from __future__ import annotations

import atexit
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

import dialects
from auditor.errors import BadExpression, ValueRefused
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from auditor.sql import filter as portable
from auditor.sql.filter import FilterColumn
from dialects import Column, Dialect


class RowFilter:
    """A filter over the rows of one table. Raises BadExpression if it cannot be evaluated on them."""

    def __init__(self, where: str, schema: TableSchema) -> None:
        written = portable.parse(where)
        if portable.reads_clock(written):
            raise BadExpression(
                "where: a pipeline's filter cannot contain now or today, since rows leave it without an event; write a literal"
            )
        columns = {column.name.lower(): (index, column) for index, column in enumerate(schema.columns)}
        filter_columns: dict[str, FilterColumn] = {}
        self._where = where
        self._table = f"{schema.database}.{schema.table}"
        self.indexes: list[int] = []
        """The columns of the table that it reads."""
        for name in portable.column_names(written):
            if name.lower() not in columns:
                raise BadExpression(
                    f"where: {self._table} has no column {name!r}; its columns are {', '.join(c.name for c in schema.columns)}"
                )
            index, column = columns[name.lower()]
            filter_columns[name] = _filter_column(column, f"c{index}", dialects.get("duckdb"))
            self.indexes.append(index)
        condition = portable.Renderer(filter_columns, "target", dialects.get("duckdb")).condition(portable.bind(written, None))
        self._sql = f"SELECT COALESCE({condition}, FALSE) FROM rows ORDER BY n"

    def select(self, texts: Mapping[int, pa.Array], count: int) -> pa.Array:
        """Return for each of ``count`` rows whether it passes; ``texts`` are the columns that the filter reads, by index.

        Raises ValueRefused for a value that cannot be compared, such as the date 2024-00-10.
        """
        import duckdb

        rows = pa.table({"n": pa.array(np.arange(count)), **{f"c{index}": texts[index] for index in self.indexes}})
        connection = _connection()
        connection.register("rows", rows)
        try:
            passed = connection.sql(self._sql).to_arrow_table().column(0).combine_chunks()
        except duckdb.Error as error:
            reason = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", str(error).strip().splitlines()[0])  # it quotes a value
            raise ValueRefused(f"where: {self._where} cannot be evaluated on a row of {self._table}: {reason}") from error
        finally:
            connection.unregister("rows")
        return passed


@cache
def _connection() -> Any:
    """Return the process's DuckDB, which holds no table."""
    import duckdb

    connection = duckdb.connect(":memory:")
    connection.execute("SET threads = 1").fetchall()
    for statement in dialects.get("duckdb").pin_statements(0):
        connection.execute(statement).fetchall()
    atexit.register(_connection.cache_clear)  # while the library is still loaded
    return connection


def _filter_column(column: ColumnSchema, name: str, dialect: Dialect) -> FilterColumn:
    kind = source_kind(column)
    if kind is None:
        return _as_seen(column, name, Column(column.name, column.type, None, column.nullable), "VARCHAR", dialect)
    try:
        native = dialect.types.native_type(kind)
    except LookupError:
        native = "VARCHAR"
    if kind.name == "decimal" and (kind.digits or 0) > dialect.types.MAX_DECIMAL_DIGITS:
        raise BadExpression(f"where: {column.name} is {column.type}, and a filter of a pipeline computes with 38 digits at most")
    value = f"CAST({name} AS {native})"
    if kind.name in ("date", "timestamp", "timestamptz"):
        # The date 0000-00-00 is less than every other on MySQL.
        zero = f"CASE WHEN {name} LIKE '0000-00-00%' THEN CAST('-infinity' AS {native}) ELSE {value} END"
        value = f"({zero})"
    elif kind.name == "binary":
        value = f"UNHEX({name})"
    return _as_seen(column, value, Column(column.name, column.type, kind, column.nullable), native, dialect)


def _as_seen(column: ColumnSchema, value: str, source: Column, native: str, dialect: Dialect) -> FilterColumn:
    target = Column(column.name, native.lower(), dialect.types.kind(native) if source.kind else None, column.nullable)
    return FilterColumn(column.name, {"source": value, "target": value}, {"source": source, "target": target})
