"""The SELECT of DuckDB that shows the rows of one version of a Delta table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from dialects import errors
from dialects.catalogue import Column
from dialects.delta.snapshot import EXACT, LakeColumn, Snapshot
from dialects.duckdb.catalogue import PARQUET_OPTIONS
from dialects.kinds import Kind

Query = Callable[[str], Sequence[tuple[Any, ...]]]

PLACES = ("file_index", "file_row_number")
"""DuckDB's own columns that say where a row stands; a table's column of such a name hides them."""

OPERATION = "auditor_op"
"""The column of a commit's changes that says whether a row is written or deleted."""


def refuse_taken_names(name: str, columns: Iterable[str], taken: Collection[str]) -> None:
    """Raise StatementRefused if a table to be written has a column with one of the names that writing it needs."""
    for column in columns:
        if column.lower() in taken:
            raise errors.StatementRefused(f"{name} has a column {column}, a name that writing this table needs; rename the column")


def reader(paths: Sequence[str], literal: Callable[[str], str]) -> str:
    """Return the table function that reads files by their own columns, and nothing by their folders."""
    options = f"union_by_name = true, hive_partitioning = false, binary_as_string = false, {PARQUET_OPTIONS}"
    return f"READ_PARQUET([{', '.join(map(literal, paths))}], {options})"


def types_in_files(source: str, query: Query) -> Mapping[str, str]:
    """Return DuckDB's types of the files' columns, by their names in lower case."""
    return {str(row[0]).lower(): str(row[1]) for row in query(f"DESCRIBE SELECT * FROM {source}")}


def describe_columns(snapshot: Snapshot, physical: Mapping[str, str], kind: Callable[[str], Kind | None]) -> tuple[Column, ...]:
    """Return the table's columns; one that the files hold in another form than the table says has no kind, and says so in its type."""
    columns = []
    for column in snapshot.columns:
        why = why_unreadable(column, snapshot, physical)
        native = f"{column.native or column.declared}{f' ({why})' if why else ''}"
        columns.append(Column(column.name, native, None if why else kind(native), nullable=True))
    return tuple(columns)


def why_unreadable(column: LakeColumn, snapshot: Snapshot, physical: Mapping[str, str]) -> str:
    """Return why a column cannot be read exactly; '' if it can."""
    if not column.native:
        return "read by Spark only"
    if column.name in snapshot.partitioned_by:
        return "a partition's bytes are not read" if column.native == "BLOB" else ""
    native = physical.get(column.physical.lower())
    if native in (None, column.native, *EXACT.get(column.native, ())):
        return ""
    return f"its files hold {native}"


def select(snapshot: Snapshot, source: str, physical: Mapping[str, str], deleted: str, dialect: Any) -> str:
    """Return the SELECT of the readable columns; ``deleted`` is the table of the rows that deletion vectors hide, or ''."""
    columns = [column for column in snapshot.columns if not why_unreadable(column, snapshot, physical)]
    if not snapshot.files:
        empty = ", ".join(f"CAST(NULL AS {column.native}) AS {dialect.names.quote(column.name)}" for column in columns)
        return f"SELECT {empty} WHERE 1 = 0"
    values = ", ".join(
        f"{_value(column, snapshot, physical, physical, dialect)} AS {dialect.names.quote(column.name)}" for column in columns
    )
    return f"SELECT {values} FROM {source} AS f{f' WHERE NOT EXISTS ({_hidden(deleted)})' if deleted else ''}"


def select_of_files(
    some: Snapshot, source: str, types: Mapping[str, str], whole: Mapping[str, str], number: str, hidden: str, dialect: Any
) -> str:
    """Return the SELECT of the columns that are readable in a table, of some of its files, and of the number of each row's file.

    ``types`` are those of the columns in these files, ``whole`` those in all of the table: values become these first, as they do where all
    files are read. ``hidden`` is the table of the rows that are shown, or '' for all.
    """
    columns = [column for column in some.columns if not why_unreadable(column, some, whole)]
    values = [f"{_value(column, some, types, whole, dialect)} AS {dialect.names.quote(column.name)}" for column in columns]
    shown = f" WHERE EXISTS ({_hidden(hidden)})" if hidden else ""
    return f"SELECT {', '.join(values)}, CAST(f.file_index AS BIGINT) AS {number} FROM {source} AS f{shown}"


def _hidden(rows: str) -> str:
    return f"SELECT 1 FROM {rows} AS d WHERE d.file = f.file_index AND d.row = f.file_row_number"


def _value(column: LakeColumn, snapshot: Snapshot, physical: Mapping[str, str], whole: Mapping[str, str], dialect: Any) -> str:
    if column.name in snapshot.partitioned_by:
        texts = ", ".join(_literal(file.partition.get(column.name), dialect) for file in snapshot.files)
        return f"CAST(LIST_EXTRACT(CAST([{texts}] AS VARCHAR[]), CAST(f.file_index AS BIGINT) + 1) AS {column.native})"
    native = physical.get(column.physical.lower())
    if native is None:  # a column that is younger than the files
        return f"CAST(NULL AS {column.native})"
    name, united = f"f.{dialect.names.quote(column.physical)}", whole.get(column.physical.lower(), native)
    name = name if native == united else f"CAST({name} AS {united})"
    return name if united == column.native else f"CAST({name} AS {column.native})"


def _literal(value: Any, dialect: Any) -> str:
    """Return the text of a partition's value, as a cast to the column's type reads it."""
    return "NULL" if value is None else str(dialect.names.string_literal(str(value)))
