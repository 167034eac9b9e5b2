"""Waiting for a locked table ends after lock_timeout with an error that names the lock."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest

import dialects
from auditor.api.errors import http_status
from dialects import Kind
from dialects.errors import LockTimeout
from tests import tables
from tests.live import LiveEngine, engine_params
from tests.servers import mysql, postgres

LOCKS = {
    "mysql": ["LOCK TABLES taken WRITE"],
    "postgres": ["BEGIN; LOCK TABLE taken IN ACCESS EXCLUSIVE MODE", "BEGIN; ALTER TABLE taken ADD COLUMN further INT"],
}
"""Statements that lock the table exclusively, by dialect."""

CASES = [
    pytest.param(name, lock, id=f"{name}-{number}", marks=getattr(pytest.mark, name))
    for name, dialect in (("mysql", "mysql"), ("mariadb", "mysql"), ("postgres", "postgres"))
    for number, lock in enumerate(LOCKS[dialect])
]


@pytest.mark.quick_for("postgres-1", "mysql-0")
@pytest.mark.parametrize(("engine", "lock"), CASES, indirect=["engine"])
def test_waiting_for_a_lock_times_out(engine: LiveEngine, lock: str) -> None:
    tables.make(engine, "taken", [("id", Kind("integer"))], [(1,)], key=["id"])
    other: Any = {"mysql": mysql, "postgres": postgres}[engine.dialect].connect(engine.url)
    with closing(other), closing(dialects.connect(engine.url, 60.0, 1.0)) as session:
        other.cursor().execute(lock)
        began = time.monotonic()
        with pytest.raises(LockTimeout, match=r"(?i)\block\b") as caught:
            session.query("SELECT COUNT(*) FROM taken")
        assert 0.5 < time.monotonic() - began < 30, "the limit of the lock ends the wait, not the one of the statement"
        assert caught.value.retryable and http_status(caught.value) == 504
        other.cursor().execute("UNLOCK TABLES" if engine.dialect == "mysql" else "ROLLBACK")
        assert session.query("SELECT COUNT(*) FROM taken") == [(1,)]


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
@pytest.mark.parametrize(("timeout", "seconds"), [(0.2, 1), (1.0, 1), (7.5, 8)])
def test_mysql_rounds_lock_timeouts_up_to_seconds(engine: LiveEngine, timeout: float, seconds: int) -> None:
    with closing(dialects.connect(engine.url, 60.0, timeout)) as session:
        assert session.query("SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout") == [(seconds, seconds)]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_postgres_sets_lock_timeouts_in_milliseconds(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url, 60.0, 0.25)) as session:
        assert session.query("SHOW lock_timeout") == [("250ms",)]


@pytest.mark.parametrize("name", ["redshift", "duckdb", "spark"])
def test_engines_without_lock_timeouts_ignore_the_setting(name: str) -> None:
    dialect = dialects.get(name)
    assert dialect.pin_statements(60.0, 1.0) == dialect.pin_statements(60.0, 99.0)
