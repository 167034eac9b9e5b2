"""Evaluate a filter and computed values on the texts of rows, in DuckDB within the calling process."""

from __future__ import annotations

import atexit
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import dialects
from auditor.config import ComputedColumn, computed_kind
from auditor.errors import BadExpression, ValueRefused
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from auditor.sql import filter as portable
from auditor.sql.filter import Condition, FilterColumn, Operand, Value
from dialects import Column, Dialect, Kind

TRANSFORM_WAY_OUT = "or compute it by a function: transform: {function: package.module:function, ...}"
"""What to do with a value that the language cannot express."""


class RowFilter:
    """A filter over the rows of one table. Raises BadExpression if it cannot be evaluated on them."""

    def __init__(self, where: str, schema: TableSchema) -> None:
        self._table = f"{schema.database}.{schema.table}"
        self._where = where
        with portable.naming("where"):
            written = portable.parse(where)
            if portable.reads_clock(written):
                raise BadExpression(
                    "a pipeline's filter cannot contain now or today, since rows leave it without an event; write a literal"
                )
            columns, self.indexes = _columns_of(written, schema)
            condition = _renderer(columns).condition(portable.bind(written, None))
        self._sql = f"SELECT COALESCE({condition}, FALSE) FROM rows ORDER BY n"

    def select(self, texts: Mapping[int, pa.Array], count: int) -> pa.Array:
        """Return for each of ``count`` rows whether it passes; ``texts`` are the columns that the filter reads, by index.

        Raises ValueRefused for a value that cannot be compared, such as the date 2024-00-10.
        """
        what = f"where: {self._where} cannot be evaluated on a row of {self._table}"
        [passed] = _evaluate(self._sql, {index: texts[index] for index in self.indexes}, count, what)
        return passed


class ComputedColumns:
    """Values that are computed from each row of one table. Raises BadExpression if one cannot be."""

    def __init__(self, compute: Mapping[str, ComputedColumn], schema: TableSchema) -> None:
        self._table = f"{schema.database}.{schema.table}"
        self.columns: list[ColumnSchema] = []
        """The columns of the values."""
        self.indexes: list[int] = []
        """The columns of the table that they read."""
        values: list[str] = []
        self._names = ", ".join(compute)
        for name, column in compute.items():
            kind = computed_kind(column.kind)
            with portable.naming(f"compute {name}: {column.expr}", TRANSFORM_WAY_OUT):
                written = portable.parse_value(column.expr)
                columns, indexes = _columns_of(written, schema)
                value = portable.of_kind(_renderer(columns).value(portable.bind_value(written)), kind, dialects.get("duckdb"))
            values.append(_text_of(value, kind))
            read = tuple(f"{schema.columns[index].name} {schema.columns[index].type}" for index in indexes)
            self.columns.append(computed_column(name, kind, column.expr, read))
            self.indexes += [index for index in indexes if index not in self.indexes]
        self._sql = f"SELECT {', '.join(values)} FROM rows ORDER BY n"

    def compute(self, texts: Mapping[int, pa.Array], count: int) -> list[pa.Array]:
        """Return the texts of each column's values; ``texts`` are the columns that are read, by index. Raises ValueRefused."""
        what = f"compute: {self._names} cannot be computed of a row of {self._table}"
        found = _evaluate(self._sql, {index: texts[index] for index in self.indexes}, count, what)
        return [check_text(values, column, self._table) for values, column in zip(found, self.columns, strict=True)]


def texts_of(values: pa.Array, kind: Kind, what: str) -> pa.Array:
    """Return the texts that events hold of values of a kind. Raises ValueRefused, which says ``what`` failed."""
    [texts] = _evaluate(f"SELECT {_text_of(Value('c0', kind), kind)} FROM rows ORDER BY n", {0: values}, len(values), what)
    return texts


def computed_column(name: str, kind: Kind, computed: str, inputs: tuple[str, ...] = ()) -> ColumnSchema:
    """Return the column of computed values, with the type that a source's column of that kind would have."""
    charset = "utf8mb4" if kind.name == "text" else None
    match kind.name:
        case "integer":
            native = "bigint"
        case "text":
            native = f"varchar({kind.digits})" if kind.digits else "longtext"
        case "timestamp":
            native = f"datetime({kind.scale})" if kind.scale else "datetime"
        case "decimal":
            native = f"decimal({kind.digits},{kind.scale})"
        case _:
            native = kind.name
    return ColumnSchema(name, native, True, charset, computed, inputs)


def check_text(values: pa.Array, column: ColumnSchema, table: str) -> pa.Array:
    """Return the texts of a computed column. Raises ValueRefused for one that its type does not hold."""
    if column.type.startswith("date") and pc.any(pc.match_like(values, "-inf%")).as_py():
        raise ValueRefused(f"compute: {column.name} of {table} is a zero date in a row, which is no date elsewhere")
    if column.type.startswith("varchar") and len(values):
        longest = pc.max(pc.utf8_length(values)).as_py() or 0
        if longest > int(column.type[len("varchar(") : -1]):
            raise ValueRefused(f"compute: {column.name} of {table} has {longest} characters in a row, and is {column.type}")
    return values


def _text_of(value: Value, kind: Kind) -> str:
    """Return SQL of the text that events hold of a value of a kind; an error of the engine where the kind does not hold it."""
    match kind.name:
        case "integer":
            return f"CAST(CAST({value.sql} AS BIGINT) AS VARCHAR)"
        case "decimal":
            return f"CAST(CAST({value.sql} AS DECIMAL({kind.digits},{kind.scale})) AS VARCHAR)"
        case "date":
            return f"CAST({value.sql} AS VARCHAR)"
        case "timestamp":
            length = 20 + kind.scale if kind.scale else 19
            return f"LEFT(STRFTIME({value.sql}, '%Y-%m-%d %H:%M:%S.%f'), {length})"
    return value.sql


def _columns_of(written: Condition | Operand, schema: TableSchema) -> tuple[dict[str, FilterColumn], list[int]]:
    """Return the columns that an expression names, and their places in the table. Raises BadExpression for one that is not there."""
    columns = {column.name.lower(): (index, column) for index, column in enumerate(schema.columns)}
    found: dict[str, FilterColumn] = {}
    indexes: list[int] = []
    for name in portable.column_names(written):
        if name.lower() not in columns:
            known = ", ".join(column.name for column in schema.columns)
            raise BadExpression(f"{schema.database}.{schema.table} has no column {name!r}; its columns are {known}")
        index, column = columns[name.lower()]
        found[name] = _filter_column(column, f"c{index}", dialects.get("duckdb"))
        indexes.append(index)
    return found, indexes


def _renderer(columns: Mapping[str, FilterColumn]) -> portable.Renderer:
    return portable.Renderer(columns, "target", dialects.get("duckdb"))


def _evaluate(sql: str, texts: Mapping[int, pa.Array], count: int, what: str) -> Sequence[pa.Array]:
    """Return the columns that a statement selects from rows. Raises ValueRefused, which says ``what`` failed and holds no value."""
    import duckdb

    rows = pa.table({"n": pa.array(np.arange(count)), **{f"c{index}": text for index, text in texts.items()}})
    connection = _connection()
    connection.register("rows", rows)
    try:
        return [column.combine_chunks() for column in connection.sql(sql).to_arrow_table().columns]
    except duckdb.Error as error:
        reason = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", str(error).strip().splitlines()[0])  # it quotes a value
        raise ValueRefused(f"{what}: {reason}") from error
    finally:
        connection.unregister("rows")


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
        raise BadExpression(f"{column.name} is {column.type}, and a pipeline computes with 38 digits at most")
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
