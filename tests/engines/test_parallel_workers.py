"""Several processes of PostgreSQL run one summary where the connection allows it, and find what one process finds."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

import dialects
from auditor.config import ConnectionSettings, GuestLimits
from auditor.connections.connection import Connection
from auditor.errors import ConfigError
from auditor.model import Chunk
from auditor.sql import render
from tests import tables
from tests.live import LiveEngine, engine_params
from tests.pairs.test_exact import ensure_oracle_table, make_plan, oracle_rows

CHEAP = ("SET min_parallel_table_scan_size TO 0", "SET parallel_setup_cost TO 0", "SET parallel_tuple_cost TO 0")
"""Settings with which PostgreSQL finds parallel workers worth their cost even for a small table."""


def open_connection(url: str, workers: int | None) -> Connection:
    settings = ConnectionSettings(url=url, limits=GuestLimits(parallel_workers=workers))
    connection = Connection("source", "here", settings, lambda side, text: None, threading.Event(), True)
    connection.open()
    return connection


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
@pytest.mark.parametrize("strategy", ["range", "hash"])
def test_allowed_workers_read_a_summary(engine: LiveEngine, strategy: str) -> None:
    ensure_oracle_table(engine, oracle_rows())
    tables.execute(engine, "ALTER TABLE exact_oracle SET (parallel_workers = 2)")  # otherwise by its size
    partition = {"range": {"size": 16}, "hash": {"buckets": 5}}[strategy]
    plans, results = {}, {}
    for workers in (0, 2):
        with closing(open_connection(engine.url, workers)) as connection:
            session = connection.session
            for setting in CHEAP:
                session.execute(setting)
            sql = render.summary(make_plan(session, {"strategy": strategy, **partition}, 3, 60), "source", session.dialect, Chunk())
            plans[workers] = "\n".join(str(row[0]) for row in session.query(f"EXPLAIN (ANALYZE) {sql}"))
            session.begin()
            results[workers] = [list(column) for batch in session.summarise(sql) for column in batch]
            open_cursors = list(session.summarise("SELECT COUNT(*) FROM pg_cursors"))
            assert open_cursors == [[(0 if workers else 1,)]], "what a cursor reads is never read in parallel"
            session.end()
    assert "Workers Launched: 2" in plans[2], plans[2]
    assert "Gather" not in plans[0]
    assert results[2] == results[0] and results[0]


@pytest.mark.parametrize("name", ["mysql", "redshift", "duckdb", "spark"])
def test_engines_without_parallel_workers_have_no_setting(name: str) -> None:
    assert not dialects.get(name).PARALLEL_WORKERS


@pytest.mark.parametrize("engine", engine_params("mysql", "redshift"), indirect=True)
def test_workers_on_another_engine_are_refused(engine: LiveEngine) -> None:
    with pytest.raises(ConfigError, match="remove limits: parallel_workers from the connection here"):
        open_connection(engine.url, 2)
