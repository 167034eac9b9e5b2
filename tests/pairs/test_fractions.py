"""Finer times against coarser ones: what the target's own engine stored matches, and what a loader did otherwise is recognised."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import SIDES, Report, Verdict
from auditor.run import audit_run
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, LivePair, chosen_pairs

pytestmark = pytest.mark.engines_in_turn

FINE = [
    ("id", Kind("integer")),
    ("stamp", Kind("timestamp", scale=6)),
    ("clock", Kind("time", scale=6)),
    ("day", Kind("timestamp", scale=6)),
    ("moment", Kind("timestamptz", scale=6)),
]
COARSE = {
    "mysql": {"stamp": "DATETIME", "clock": "TIME", "day": "DATE", "moment": "TIMESTAMP(3)"},
    "mariadb": {"stamp": "DATETIME", "clock": "TIME", "day": "DATE", "moment": "TIMESTAMP(3)"},
    "postgres": {"stamp": "TIMESTAMP(0)", "clock": "TIME(0)", "day": "DATE", "moment": "TIMESTAMP(3) WITH TIME ZONE"},
    "duckdb": {"stamp": "TIMESTAMP_S", "clock": "TIME", "day": "DATE", "moment": "TIMESTAMPTZ"},
}
ENDS = [
    dt.datetime(2024, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1999, 12, 31, 23, 59, 58, 500000),
    dt.datetime(1969, 12, 31, 23, 59, 58, 500000),
    dt.datetime(2024, 2, 28, 23, 59, 59, 500000),
    dt.datetime(2024, 5, 6, 7, 8, 9),
]
PAIRS = chosen_pairs("mysql-postgres", "postgres-mysql", "postgres-mariadb", "mariadb-duckdb", "redshift-mysql")
TIMES = [*ENDS, *(dt.datetime(2024, 1, 1) + dt.timedelta(hours=7 * n, microseconds=37_037 * n * n + 500_500) for n in range(120))]


def fine_rows() -> list[list[Any]]:
    rows: list[list[Any]] = [[n, at, at.time(), at, at.replace(year=max(at.year, 1971), tzinfo=dt.UTC)] for n, at in enumerate(TIMES)]
    return [*rows, [len(rows), None, None, None, None]]


def store_coarse(engine: LiveEngine) -> None:
    """Let the engine itself store the fine values in coarser columns."""
    tables.make(engine, "fraction_stage", FINE, fine_rows())
    columns = ", ".join(f"{name} {native}" for name, native in COARSE[engine.name].items())
    tables.execute(
        engine,
        "DROP TABLE IF EXISTS fraction_target",
        f"CREATE TABLE fraction_target (id BIGINT PRIMARY KEY, {columns})",
        "INSERT INTO fraction_target SELECT * FROM fraction_stage",
    )


def run(pair: LivePair, fraction: str | None = None, **more: Any) -> Report:
    names = ("stamp", "clock", "day", "moment")
    override = {"override": {name: {"fraction": fraction} for name in names}} if fraction else {}
    ends = {"source": {"connection": "source", "table": "fraction_source"}, "target": {"connection": "target", "table": "fraction_target"}}
    audit = Audit.model_validate({**ends, "key": ["id"], "columns": override, **more})
    return audit_run.run("fractions", audit, {side: ConnectionSettings(url=getattr(pair, side).url) for side in SIDES})


@pytest.mark.quick_for("mysql-postgres", "mariadb-duckdb")
@pytest.mark.parametrize("pair", PAIRS, indirect=True)
def test_what_the_target_stored_itself_matches(pair: LivePair) -> None:
    """Times that are rounded into the next second, day or year are in the target's partition of time, on both sides."""
    tables.make(pair.source, "fraction_source", FINE, fine_rows())
    store_coarse(pair.target)
    by_day, by_month = ({"partition": {"column": name, "unit": unit}} for name, unit in (("stamp", "day"), ("day", "month")))
    counts = {"method": "counts", "counts": {"histogram": {"column": "stamp"}, "classes": ["day"]}}
    for more in ({}, counts, by_day, by_month):
        report = run(pair, **more)
        assert report.verdict is Verdict.MATCH, (more, report.reasons, report.differences and report.differences.named[:3])
    assert report.plan
    cuts = pair.target.name == "mariadb"
    told = {(one.column, one.how) for one in report.plan.not_compared}
    assert {("stamp", "cut" if cuts else "rounded"), ("day", "cut")} <= told
    other = run(pair, "round" if cuts else "cut")
    assert other.verdict is Verdict.MISMATCH
    (hint,) = [note for note in other.notes if note.startswith("stamp:")]
    assert f"fraction: {'cut' if cuts else 'round'}" in hint


@pytest.mark.slow
@pytest.mark.parametrize("pair", chosen_pairs("spark-mysql"), indirect=True)
def test_spark_rounds_as_its_target(pair: LivePair) -> None:
    tables.make(pair.source, "fraction_source", [*FINE[:2], *FINE[3:]], [[*row[:2], *row[3:]] for row in fine_rows()])
    store_coarse(pair.target)
    report = run(pair, partition={"column": "stamp", "unit": "day"})
    assert report.verdict is Verdict.MATCH, report.reasons
