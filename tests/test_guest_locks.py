"""A table that another session has locked is waited for as long as lock_timeout says, and the error says what was waited for."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest

import dialects
from dialects import Kind
from dialects._errors import LockTimeout
from tests import tables
from tests.engines import LiveEngine, engine_params
from tests.servers import mysql, postgres

LOCKS = {
    "mysql": ["LOCK TABLES taken WRITE"],
    "postgres": ["BEGIN; LOCK TABLE taken IN ACCESS EXCLUSIVE MODE", "BEGIN; ALTER TABLE taken ADD COLUMN further INT"],
}
"""Statements after which a session alone may read the table, by dialect."""

CASES = [
    pytest.param(name, lock, id=f"{name}-{number}", marks=getattr(pytest.mark, name))
    for name, dialect in (("mysql", "mysql"), ("mariadb", "mysql"), ("postgres", "postgres"))
    for number, lock in enumerate(LOCKS[dialect])
]


@pytest.mark.parametrize(("engine", "lock"), CASES, indirect=["engine"])
def test_a_lock_is_waited_for_no_longer_than_asked(engine: LiveEngine, lock: str) -> None:
    tables.make(engine, "taken", [("id", Kind("integer"))], [(1,)], key=["id"])
    other: Any = {"mysql": mysql, "postgres": postgres}[engine.dialect].connect(engine.url)
    with closing(other), closing(dialects.connect(engine.url, 60.0, 1.0)) as session:
        other.cursor().execute(lock)
        began = time.monotonic()
        with pytest.raises(LockTimeout, match=r"(?i)\block\b") as caught:
            session.query("SELECT COUNT(*) FROM taken")
        assert 0.5 < time.monotonic() - began < 4
        assert caught.value.retryable and caught.value.http_status == 504
        other.cursor().execute("UNLOCK TABLES" if engine.dialect == "mysql" else "ROLLBACK")
        assert session.query("SELECT COUNT(*) FROM taken") == [(1,)]


@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
@pytest.mark.parametrize(("asked", "held"), [(0.2, 1), (1.0, 1), (7.5, 8)])
def test_mysqls_limits_are_whole_seconds(engine: LiveEngine, asked: float, held: int) -> None:
    with closing(dialects.connect(engine.url, 60.0, asked)) as session:
        assert session.query("SELECT @@lock_wait_timeout, @@innodb_lock_wait_timeout") == [(held, held)]


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
def test_postgres_counts_milliseconds(engine: LiveEngine) -> None:
    with closing(dialects.connect(engine.url, 60.0, 0.25)) as session:
        assert session.query("SHOW lock_timeout") == [("250ms",)]


@pytest.mark.parametrize("name", ["redshift", "duckdb", "spark"])
def test_engines_that_have_no_such_limit_are_not_given_one(name: str) -> None:
    dialect = dialects.get(name)
    assert dialect.pins(60.0, 1.0) == dialect.pins(60.0, 99.0)
