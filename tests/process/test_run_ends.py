"""Cancel, delay and disturb runs from outside their process: signals, killed statements, slow views, server load.

The tables are read through views that sleep at one row, or slow down over a range of rows, while a test holds the lock of that name.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.live import Engines
from tests.programs import processes
from tests.programs.processes import comparable_result, run_command, write_config
from tests.servers import mysql, postgres

pytestmark = [pytest.mark.clock, pytest.mark.mariadb, pytest.mark.postgres]

ROWS = 20_000
MIDDLE = 12_000
"""The row at which a view sleeps while the lock ``ends_brake`` is held."""

MARIADB_VIEW = f"""CREATE VIEW ends_view AS SELECT id, v FROM ends
WHERE (id <> {MIDDLE} OR IS_FREE_LOCK('ends_brake') OR SLEEP(600) = 1) AND (id > 2000 OR IS_FREE_LOCK('ends_crawl') OR SLEEP(0.001) = 0)"""
POSTGRES_VIEW = f"""CREATE VIEW ends_view AS SELECT id, v FROM ends
WHERE id <> {MIDDLE} OR NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 77) OR pg_sleep(600) IS NULL"""

RUNNING = {
    "source": "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%ends_view%' AND STATE = 'User sleep'",
    "target": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND wait_event = 'PgSleep'",
}
KILLS = {
    "KILL QUERY": ("source", "KILL QUERY {}"),
    "KILL": ("source", "KILL {}"),
    "pg_cancel_backend": ("target", "SELECT pg_cancel_backend({})"),
    "pg_terminate_backend": ("target", "SELECT pg_terminate_backend({})"),
}


@dataclass
class Databases:
    """Both databases, and the result of an undisturbed run."""

    source: str
    target: str
    folder: Path
    expected: dict[str, Any]

    def query(self, side: str, sql: str) -> list[Any]:
        """Run a statement and return the first column of its rows."""
        connection: Any = mysql.connect(self.source) if side == "source" else postgres.connect(self.target)
        with connection.cursor() as cursor:
            cursor.execute(sql)
            rows = [row[0] for row in cursor.fetchall()] if cursor.description else []
        connection.close()
        return rows

    @contextmanager
    def hold_lock(self, side: str, name: str = "ends_brake") -> Iterator[Callable[[], None]]:
        """Hold a lock until the block ends or the yielded function is called."""
        connection: Any = mysql.connect(self.source) if side == "source" else postgres.connect(self.target)
        with ExitStack() as stack:
            stack.callback(connection.close)
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT GET_LOCK('{name}', 10)" if side == "source" else "SELECT pg_advisory_lock(77)")
            yield stack.close

    def wait_for_sleeping(self, side: str) -> list[Any]:
        """Wait for statements that sleep at the locked row and return the ids of their sessions."""
        until = time.monotonic() + processes.PATIENCE
        while not (sessions := self.query(side, RUNNING[side])):
            assert time.monotonic() < until, "no statement slept at the locked row"
            time.sleep(0.05)
        return sessions

    def assert_same_result(self, process: processes.Process) -> dict[str, Any]:
        report = process.report()
        assert report["state"] == "done", (report["reasons"], process.stderr_lines)
        assert comparable_result(report) == self.expected
        return report


@pytest.fixture(scope="module")
def databases(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Databases:
    databases = Databases(engines.live("mariadb").url, engines.live("postgres").url, tmp_path_factory.mktemp("ends"), {})
    for statement in (
        "DROP VIEW IF EXISTS ends_view",
        "DROP TABLE IF EXISTS ends",
        "CREATE TABLE ends (id BIGINT PRIMARY KEY, v VARCHAR(50) CHARACTER SET utf8mb4)",
        f"INSERT INTO ends SELECT seq, CONCAT('row ', seq) FROM seq_1_to_{ROWS}",
        MARIADB_VIEW,
    ):
        databases.query("source", statement)
    for statement in (
        "DROP VIEW IF EXISTS ends_view",
        "DROP TABLE IF EXISTS ends",
        "CREATE TABLE ends (id BIGINT PRIMARY KEY, v TEXT)",
        f"INSERT INTO ends SELECT i, 'row ' || i FROM generate_series(1, {ROWS}) AS i",
        "UPDATE ends SET v = 'mangled' WHERE id IN (5, 8000, 19999)",
        POSTGRES_VIEW,
    ):
        databases.query("target", statement)
    write_config(databases.folder, databases.source, databases.target, table="ends_view", partition={"size": 250})
    databases.expected = comparable_result(processes.start_run(databases.folder).report())
    assert databases.expected["changed"] == 3
    return databases


@pytest.fixture
def folder(databases: Databases, tmp_path: Path) -> Path:
    """A folder with a configuration for one test."""
    write_config(tmp_path, databases.source, databases.target, table="ends_view", partition={"size": 250})
    return tmp_path


@contextmanager
def sleeping_run(databases: Databases, folder: Path, side: str) -> Iterator[tuple[processes.Process, Callable[[], None]]]:
    """Start a run whose statement sleeps on one side; yield the process and a function that releases the lock."""
    process = processes.start_run(folder, settings=processes.PAUSING)
    assert process.wait_for_output("planned"), process.stderr_lines
    with databases.hold_lock(side) as release:
        process.release()
        databases.wait_for_sleeping(side)
        yield process, release


def assert_resumes(databases: Databases, folder: Path) -> None:
    newest = processes.list_runs(folder)[0]
    assert newest["resumable"], newest
    databases.assert_same_result(processes.Process(folder, "resume", newest["run"][:8], "--format", "json"))


@pytest.mark.quick_for("source-cancel", "target-SIGINT")
@pytest.mark.parametrize(
    ("side", "how"),
    [
        ("source", "cancel"),
        ("target", "SIGINT"),
        ("source", "SIGTERM"),
        pytest.param("target", "cancel", marks=pytest.mark.slow),
        pytest.param("source", "SIGINT", marks=pytest.mark.slow),
        pytest.param("target", "SIGTERM", marks=pytest.mark.slow),
    ],
)
def test_cancelled_run_cancels_its_statements_and_can_be_resumed(databases: Databases, folder: Path, side: str, how: str) -> None:
    with sleeping_run(databases, folder, side) as (process, _):
        if how == "cancel":
            cancelled = run_command(folder, "cancel", processes.list_runs(folder)[0]["run"])
            assert cancelled.wait() == 0 and "cancelled" in cancelled.stdout, (cancelled.stdout, cancelled.stderr_lines)
        else:
            process.send(signal.Signals[how])
        report = process.report()
        assert (report["state"], report["verdict"], process.wait()) == ("cancelled", "unknown", 3)
        assert databases.query(side, RUNNING[side]) == []
    newest = processes.list_runs(folder)[0]
    assert newest["state"] == "cancelled"
    assert_resumes(databases, folder)


@pytest.mark.quick_for("pg_cancel_backend", "KILL")
@pytest.mark.parametrize("kill", list(KILLS))
def test_statement_killed_by_an_administrator_is_retried(databases: Databases, folder: Path, kill: str) -> None:
    side, statement = KILLS[kill]
    with sleeping_run(databases, folder, side) as (process, release):
        sessions = databases.wait_for_sleeping(side)
        release()
        for session in sessions:
            databases.query(side, statement.format(session))
        report = databases.assert_same_result(process)
    assert report["retries"] >= 1


@pytest.mark.slow
def test_chunk_that_times_out_is_split(databases: Databases, tmp_path: Path) -> None:
    write_config(
        tmp_path, databases.source, databases.target, table="ends_view", partition={"size": 250}, limits={"statement_timeout": "1s"}
    )
    process = processes.start_run(tmp_path, settings=processes.PAUSING)
    assert process.wait_for_output("planned"), process.stderr_lines
    with databases.hold_lock("source", "ends_crawl"):
        process.release()
        report = databases.assert_same_result(process)
    undelayed = databases.assert_same_result(processes.start_run(tmp_path))
    assert report["cost"]["source"]["statements"] > undelayed["cost"]["source"]["statements"]


@contextmanager
def busy_sessions(databases: Databases, sessions: int) -> Iterator[None]:
    """Keep this many sessions of the source running a statement throughout the block."""
    connections = [mysql.connect(databases.source) for _ in range(sessions)]

    def sleep(connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DO SLEEP(600)")

    threads = [threading.Thread(target=sleep, args=(one,)) for one in connections]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for number in databases.query("source", "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'DO SLEEP(600)'"):
            databases.query("source", f"KILL QUERY {number}")
        for thread in threads:
            thread.join()
        for one in connections:
            one.close()


def wait_for_stored_wait(folder: Path, side: str) -> dict[str, Any]:
    """Return the only run, once it is stored that this side waits; that happens with a heartbeat, after it is shown."""
    deadline = time.monotonic() + processes.PATIENCE
    while "waits" not in (run := processes.list_runs(folder)[0])["progress"].get(side, {}).get("doing", ""):
        assert time.monotonic() < deadline, run
        time.sleep(0.05)
    return run


LIMIT = {"pause_when": {"threads_running": 4}}


def test_run_waits_while_the_source_is_busy(databases: Databases, tmp_path: Path) -> None:
    write_config(tmp_path, databases.source, databases.target, table="ends_view", partition={"size": 250}, limits=LIMIT)
    with busy_sessions(databases, 8):
        process = processes.start_run(tmp_path)
        assert process.wait_for_output("source: waits: Threads_running is "), process.stderr_lines
        run = wait_for_stored_wait(tmp_path, "source")
        assert run["state"] == "running" and "more than 4" in run["progress"]["source"]["doing"]
        assert "waits: Threads_running is" in run_command(tmp_path, "show", run["run"]).stdout
        assert not any("source: summarising" in line or "source: comparing digests" in line for line in process.stderr_lines)
    databases.assert_same_result(process)


@pytest.mark.slow
def test_run_fails_when_the_source_stays_busy_beyond_give_up(databases: Databases, tmp_path: Path) -> None:
    limits_with_give_up = {"pause_when": {"threads_running": 4, "give_up": "4s"}}
    write_config(tmp_path, databases.source, databases.target, table="ends_view", partition={"size": 250}, limits=limits_with_give_up)
    process = processes.start_run(tmp_path, settings={**processes.PAUSING, "durations.load_probe": 0.05})
    assert process.wait_for_output("planned"), process.stderr_lines
    with busy_sessions(databases, 8):
        process.release()
        report = process.report()
    assert (report["state"], report["verdict"], process.wait()) == ("failed", "unknown", 3)
    assert "for 4 s; start a new run" in report["reasons"][0], report["reasons"]
    assert report["resumable"], "the target was read meanwhile"
    assert_resumes(databases, tmp_path)
