"""Statements of sides with conventions: what an engine makes of ranks, and times as numbers."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from typing import Any

import pytest

import dialects
from auditor.config import Audit
from auditor.model import Chunk
from auditor.sql import render
from dialects import Kind
from tests import tables
from tests.audits import open_plan
from tests.live import LiveEngine, LivePair, chosen_pairs, engine_params

MOMENTS = (
    dt.datetime(2026, 3, 1, 4, 5, 6, 123456),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1900, 1, 1),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    None,
)


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb", "postgres", "redshift", "duckdb", "spark"), indirect=True)
def test_microseconds_of_times_are_exact(engine: LiveEngine) -> None:
    at, clock = Kind("timestamp", scale=6), Kind("time", scale=6)
    columns: list[tuple[str, Kind]] = [("id", Kind("integer")), ("at_", at)]
    has_clocks = engine.dialect != "spark"
    rows: list[tuple[Any, ...]] = [(number, moment) for number, moment in enumerate(MOMENTS)]
    if has_clocks:
        columns.append(("clock_", clock))
        rows = [(*row, row[1] and row[1].time()) for row in rows]
    tables.make(engine, "convention_times", columns, rows)
    with closing(dialects.connect(engine.url)) as session:
        times, quote = session.dialect.times, session.dialect.names.quote
        asked = [times.microseconds(quote("at_"), at)] + ([times.microseconds(quote("clock_"), clock)] if has_clocks else [])
        found = session.query(f"SELECT {', '.join(asked)} FROM {quote('convention_times')} ORDER BY {quote('id')}")
    tables.execute(engine, "DROP TABLE convention_times")

    def micros(since: dt.timedelta) -> int:
        return since // dt.timedelta(microseconds=1)

    def midnight(moment: dt.datetime) -> dt.datetime:
        return moment.replace(hour=0, minute=0, second=0, microsecond=0)

    expected = [(moment and micros(moment - dt.datetime(1970, 1, 1)), moment and micros(moment - midnight(moment))) for moment in MOMENTS]
    assert [tuple(row) for row in found] == [pair[: len(asked)] for pair in expected]


@pytest.mark.parametrize("pair", chosen_pairs("duckdb-postgres", "duckdb-mysql"), indirect=True)
def test_index_serves_the_versions_of_a_range_of_keys(pair: LivePair) -> None:
    """A chunk, and rows fetched by their keys, rank the versions of their own keys alone."""
    tables.make(pair.source, "convention_plain", [("id", Kind("integer"))], [(number,) for number in range(5000)], ["id"])
    columns = [("id", Kind("integer")), ("version", Kind("integer"))]
    tables.make(pair.target, "convention_kept", columns, [(number, version) for number in range(5000) for version in (1, 2)])
    tables.execute(pair.target, "CREATE INDEX convention_kept_id ON convention_kept (id)")
    tables.execute(pair.target, "ANALYZE convention_kept" if pair.target.name == "postgres" else "ANALYZE TABLE convention_kept")
    audit = Audit.model_validate(
        {
            "source": {"connection": "source", "table": "convention_plain"},
            "target": {
                "connection": "target",
                "table": "convention_kept",
                "convention": {"versions": ["version"], "metadata": ["version"]},
            },
            "partition": {"strategy": "range", "size": 100},
        }
    )
    with open_plan(pair, audit) as (plan, sessions):
        session = sessions["target"]
        ranged = render.summary(plan, "target", session.dialect, Chunk(first=100, end=200))
        key, text = plan.columns[0].expression["target"], session.dialect.text.as_text
        fetched = render.rows(plan, "target", session.dialect, f"{key} IN (7, 8)", [text(key)], by_key=True)
        for statement in (ranged, fetched) if pair.target.name == "postgres" else (ranged,):
            explained = " ".join(str(row) for row in session.query(f"EXPLAIN {statement}"))
            assert "convention_kept_id" in explained
    tables.execute(pair.source, "DROP TABLE convention_plain")
    tables.execute(pair.target, "DROP TABLE convention_kept")
