"""NaN in Parquet files, whose statistics leave it out: read and filtered as on any other engine, whoever wrote the files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

import dialects
from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from tests.live import LiveEngine, engine_params

VALUES = [1.5, 2.5, math.nan, None, 4.0, 5.0, math.inf, -math.inf, -0.0, 9.0]


def rows(damaged: bool = False) -> pa.Table:
    values = [7.0 if damaged and value is not None and math.isnan(value) else value for value in VALUES]
    return pa.table({"id": pa.array(range(10), pa.int64()), "v": pa.array(values, pa.float64()), "f": pa.array(values, pa.float32())})


def run(tmp_path: Path, target: ConnectionSettings, table: Any, **more: Any) -> Report:
    file = tmp_path / "nan.duckdb"
    if not file.exists():
        with duckdb.connect(str(file)) as connection:
            held = rows()
            connection.register("held", held)
            connection.execute("CREATE TABLE t AS SELECT * FROM held")
    audit = Audit.model_validate(
        {"source": {"connection": "source", "table": "t"}, "target": {"connection": "target", **table}, "key": ["id"], **more}
    )
    return audit_run.run("t", audit, {"source": ConnectionSettings(url=f"duckdb:///{file}"), "target": target})


@pytest.mark.quick_for("{'where': 'v > 100'}", "{'method': 'counts'}")
@pytest.mark.parametrize("how", ["parquet", "delta"])
@pytest.mark.parametrize("more", [{}, {"where": "v > 100"}, {"where": "f > 100"}, {"where": "v <> 4"}, {"method": "counts"}], ids=str)
@pytest.mark.few
def test_nan_that_statistics_leave_out_is_read(tmp_path: Path, how: str, more: dict[str, Any]) -> None:
    for damaged in (False, True):
        if how == "parquet":
            pq.write_table(rows(damaged), tmp_path / "t.parquet")
            target, table = ConnectionSettings(url="duckdb://"), {"table": str(tmp_path / "t.parquet")}
        else:
            write_deltalake(tmp_path / "lake" / "t", rows(damaged), mode="overwrite")
            target, table = ConnectionSettings(url=f"delta://{tmp_path / 'lake'}"), {"table": "t"}
        report = run(tmp_path, target, table, **more)
        assert report.verdict is (Verdict.MISMATCH if damaged else Verdict.MATCH), report.reasons


@pytest.mark.slow
@pytest.mark.closes_files
@pytest.mark.parametrize("engine", engine_params("spark"), indirect=True)
@pytest.mark.parametrize(
    "more",
    [pytest.param({}, marks=pytest.mark.slow), pytest.param({"where": "v > 100"}, marks=pytest.mark.slow), {"where": "f > 100"}],
    ids=str,
)
def test_spark_reads_it_too(engine: LiveEngine, tmp_path: Path, more: dict[str, Any]) -> None:
    pq.write_table(rows(), tmp_path / "t.parquet")
    report = run(tmp_path, ConnectionSettings(url=engine.url), {"table": str(tmp_path / "t.parquet")}, **more)
    assert report.verdict is Verdict.MATCH, report.reasons


def test_null_and_nan_of_numbers_are_told_apart_in_what_is_streamed(tmp_path: Path) -> None:
    """A dump is written from such batches."""
    session = dialects.connect(f"duckdb:///{tmp_path / 'empty.duckdb'}?access_mode=read_write")
    try:
        statement = "SELECT v, CAST(v AS FLOAT) AS f FROM (VALUES (1.5), (CAST('nan' AS DOUBLE)), (NULL)) AS held(v)"
        for column in next(iter(session.stream(statement))):
            assert (column[0], math.isnan(column[1]), column[2]) == (1.5, True, None)
        whole = next(iter(session.stream("SELECT n FROM (VALUES (9007199254740993), (NULL)) AS held(n)")))[0]
        assert list(whole) == [9007199254740993, None]
    finally:
        session.close()
