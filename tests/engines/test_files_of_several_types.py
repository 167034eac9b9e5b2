"""Parquet files that have a column in different types: DuckDB casts what the later ones hold to the type of the first."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import auditor
import dialects
from dialects import Place, errors

INTEGERS = pa.array([1], pa.int32())


def write(folder: Path, *columns: Any) -> str:
    """Write a file for each of these columns of one value, and return the pattern that finds them."""
    for number, column in enumerate(columns):
        pq.write_table(pa.table({"id": pa.array([number], pa.int64()), "V": column}), folder / f"{number}.parquet")
    return f"{folder}/*.parquet"


def test_a_value_that_the_first_files_type_does_not_hold_is_no_match(tmp_path: Path) -> None:
    pattern = write(tmp_path, INTEGERS, pa.array([2.5], pa.float64()))
    with duckdb.connect(str(tmp_path / "source.duckdb")) as source:
        source.execute("CREATE TABLE t AS SELECT * FROM (VALUES (0, 1), (1, 2)) AS held (id, v)")
        assert source.execute(f"SELECT list(v ORDER BY id) FROM '{pattern}'").fetchall() == [([1, 2],)], "else nothing is to be refused"
    report = auditor.audit((f"duckdb:///{tmp_path}/source.duckdb", "t"), ("duckdb://", pattern), key=["id"])
    assert report.verdict is auditor.Verdict.UNKNOWN
    assert "column V is DOUBLE in some files and INTEGER in others" in " ".join(report.reasons)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1.5], pa.float64()), pa.array([2**53 + 1], pa.int64())),  # a type that is taken for wider, and is not
        (pa.array([1], pa.date32()), pa.array([1], pa.timestamp("us"))),
        (pa.array([1], pa.timestamp("us")), pa.array([1], pa.timestamp("ns"))),
        (pa.array([{"a": 1}], pa.struct({"a": pa.int32()})), pa.array([{"a": 1.5}], pa.struct({"a": pa.float64()}))),
        (pa.array([[1]], pa.list_(pa.int32())), pa.array([[1.5]], pa.list_(pa.float64()))),
    ],
    ids=["double-bigint", "date-timestamp", "microseconds-nanoseconds", "struct", "list"],
)
def test_types_that_differ_are_refused_by_name(tmp_path: Path, first: Any, second: Any) -> None:
    place = Place((), path=write(tmp_path, first, second))
    with closing(dialects.connect("duckdb://")) as session, pytest.raises(errors.StatementRefused, match=r"column V is .* in some files"):
        session.dialect.catalogue.describe(session, place)


def test_files_of_the_same_types_are_read_whatever_else_they_have(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([7], pa.int64()), "more": ["x"], "v": pa.array([7], pa.int32())}), tmp_path / "z.parquet")
    place = Place((), path=write(tmp_path, INTEGERS, INTEGERS))
    with closing(dialects.connect("duckdb://")) as session:
        [table] = session.dialect.catalogue.describe(session, place)
        assert [(column.name, column.native) for column in table.columns] == [("id", "BIGINT"), ("V", "INTEGER")]
        assert session.query(f'SELECT SUM("V") FROM {table.sql}') == [(9,)]
