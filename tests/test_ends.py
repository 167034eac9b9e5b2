"""A run that is ended, held up or disturbed by people and by load, from outside its process.

The tables are read through views that sleep at one row, or crawl over some, as long as a test holds a lock of that name.
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

from tests import processes
from tests.engines import Engines
from tests.processes import command, configure, found
from tests.servers import mysql, postgres

pytestmark = [pytest.mark.mariadb, pytest.mark.postgres]

ROWS = 20_000
MIDDLE = 12_000
"""The row at which a view sleeps while its brake is on."""

MARIADB_VIEW = f"""CREATE VIEW ends_view AS SELECT id, v FROM ends
WHERE (id <> {MIDDLE} OR IS_FREE_LOCK('ends_brake') OR SLEEP(600) = 1) AND (id > 3000 OR IS_FREE_LOCK('ends_crawl') OR SLEEP(0.001) = 0)"""
POSTGRES_VIEW = f"""CREATE VIEW ends_view AS SELECT id, v FROM ends
WHERE id <> {MIDDLE} OR NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 77) OR pg_sleep(600) IS NULL"""

RUNNING = {
    "source": "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%ends_view%' AND STATE = 'User sleep'",
    "target": "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND wait_event = 'PgSleep'",
}
KILLS = {
    "KILL QUERY": ("source", "KILL QUERY {}"),
    "KILL": ("source", "KILL {}"),
    "pg_cancel_backend": ("target", "SELECT pg_cancel_backend({})"),
    "pg_terminate_backend": ("target", "SELECT pg_terminate_backend({})"),
}


@dataclass
class Both:
    """Both databases, and what a run of the audit that nobody disturbs finds."""

    source: str
    target: str
    folder: Path
    undisturbed: dict[str, Any]

    def query(self, side: str, sql: str) -> list[Any]:
        """The first column of a statement's rows."""
        connection: Any = mysql.connect(self.source) if side == "source" else postgres.connect(self.target)
        with connection.cursor() as cursor:
            cursor.execute(sql)
            rows = [row[0] for row in cursor.fetchall()] if cursor.description else []
        connection.close()
        return rows

    @contextmanager
    def locked(self, side: str, name: str = "ends_brake") -> Iterator[Callable[[], None]]:
        """Hold a lock, until the block ends or what it is given is called."""
        connection: Any = mysql.connect(self.source) if side == "source" else postgres.connect(self.target)
        with ExitStack() as stack:
            stack.callback(connection.close)
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT GET_LOCK('{name}', 10)" if side == "source" else "SELECT pg_advisory_lock(77)")
            yield stack.close

    def asleep(self, side: str) -> list[Any]:
        """The sessions whose statement sleeps at the brake, once there is one."""
        until = time.monotonic() + processes.PATIENCE
        while not (found := self.query(side, RUNNING[side])):
            assert time.monotonic() < until, "no statement ever slept"
            time.sleep(0.05)
        return found

    def ends_well(self, process: processes.Process) -> dict[str, Any]:
        report = process.report()
        assert report["state"] == "done", (report["reasons"], process.said)
        assert found(report) == self.undisturbed
        return report


@pytest.fixture(scope="module")
def both(engines: Engines, tmp_path_factory: pytest.TempPathFactory) -> Both:
    made = Both(engines.live("mariadb").url, engines.live("postgres").url, tmp_path_factory.mktemp("ends"), {})
    for statement in (
        "DROP VIEW IF EXISTS ends_view",
        "DROP TABLE IF EXISTS ends",
        "CREATE TABLE ends (id BIGINT PRIMARY KEY, v VARCHAR(50) CHARACTER SET utf8mb4)",
        f"INSERT INTO ends SELECT seq, CONCAT('row ', seq) FROM seq_1_to_{ROWS}",
        MARIADB_VIEW,
    ):
        made.query("source", statement)
    for statement in (
        "DROP VIEW IF EXISTS ends_view",
        "DROP TABLE IF EXISTS ends",
        "CREATE TABLE ends (id BIGINT PRIMARY KEY, v TEXT)",
        f"INSERT INTO ends SELECT i, 'row ' || i FROM generate_series(1, {ROWS}) AS i",
        "UPDATE ends SET v = 'mangled' WHERE id IN (5, 8000, 19999)",
        POSTGRES_VIEW,
    ):
        made.query("target", statement)
    configure(made.folder, made.source, made.target, table="ends_view", partition={"size": 250})
    made.undisturbed = found(processes.run(made.folder).report())
    assert made.undisturbed["changed"] == 3
    return made


@pytest.fixture
def folder(both: Both, tmp_path: Path) -> Path:
    """A configuration of this test alone."""
    configure(tmp_path, both.source, both.target, table="ends_view", partition={"size": 250})
    return tmp_path


@contextmanager
def held(both: Both, folder: Path, side: str) -> Iterator[tuple[processes.Process, Callable[[], None]]]:
    """A run of which a side's statement sleeps, and what lets the next one pass."""
    process = processes.run(folder, settings=processes.PAUSING)
    assert process.says("planned"), process.said
    with both.locked(side) as release:
        process.go()
        both.asleep(side)
        yield process, release


def resumed(both: Both, folder: Path) -> None:
    newest = processes.runs(folder)[0]
    assert newest["resumable"], newest
    both.ends_well(processes.Process(folder, "resume", newest["run"][:8], "--format", "json"))


@pytest.mark.parametrize("how", ["cancel", "SIGINT", "SIGTERM"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_run_that_is_ended_ends_its_statements(both: Both, folder: Path, side: str, how: str) -> None:
    with held(both, folder, side) as (process, _):
        if how == "cancel":
            cancelled = command(folder, "cancel", processes.runs(folder)[0]["run"])
            assert cancelled.end() == 0 and "cancelled" in cancelled.out, (cancelled.out, cancelled.said)
        else:
            process.send(signal.Signals[how])
        report = process.report()
        assert (report["state"], report["verdict"], process.end()) == ("cancelled", "unknown", 3)
        assert both.query(side, RUNNING[side]) == []
    newest = processes.runs(folder)[0]
    assert newest["state"] == "cancelled"
    resumed(both, folder)


@pytest.mark.parametrize("kill", list(KILLS))
def test_a_statement_that_an_administrator_ends_is_asked_again(both: Both, folder: Path, kill: str) -> None:
    side, statement = KILLS[kill]
    with held(both, folder, side) as (process, release):
        asleep = both.asleep(side)
        release()
        for session in asleep:
            both.query(side, statement.format(session))
        report = both.ends_well(process)
    assert report["retries"] >= 1


def test_a_chunk_that_takes_too_long_is_halved(both: Both, tmp_path: Path) -> None:
    configure(tmp_path, both.source, both.target, table="ends_view", partition={"size": 250}, limits={"statement_timeout": "1s"})
    process = processes.run(tmp_path, settings=processes.PAUSING)
    assert process.says("planned"), process.said
    with both.locked("source", "ends_crawl"):
        process.go()
        report = both.ends_well(process)
    quick = both.ends_well(processes.run(tmp_path))
    assert report["cost"]["source"]["statements"] > quick["cost"]["source"]["statements"]


@contextmanager
def busy(both: Both, sessions: int) -> Iterator[None]:
    """So many sessions that run a statement."""
    connections = [mysql.connect(both.source) for _ in range(sessions)]

    def sleep(connection: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("DO SLEEP(600)")

    threads = [threading.Thread(target=sleep, args=(one,)) for one in connections]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for number in both.query("source", "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'DO SLEEP(600)'"):
            both.query("source", f"KILL QUERY {number}")
        for thread in threads:
            thread.join()
        for one in connections:
            one.close()


LIMIT = {"pause_when": {"threads_running": 4}}


def test_a_busy_source_is_not_read(both: Both, tmp_path: Path) -> None:
    configure(tmp_path, both.source, both.target, table="ends_view", partition={"size": 250}, limits=LIMIT)
    with busy(both, 8):
        process = processes.run(tmp_path)
        assert process.says("source: waits: Threads_running is "), process.said
        [run] = processes.runs(tmp_path)
        assert run["state"] == "running" and "more than 4" in run["progress"]["source"]["doing"]
        assert "waits: Threads_running is" in command(tmp_path, "show", run["run"]).out
        assert not any("source: summarising" in line for line in process.said)
    both.ends_well(process)


def test_a_source_that_stays_busy_is_given_up(both: Both, tmp_path: Path) -> None:
    patient = {"pause_when": {"threads_running": 4, "give_up": "2s"}}
    configure(tmp_path, both.source, both.target, table="ends_view", partition={"size": 250}, limits=patient)
    process = processes.run(tmp_path, settings={**processes.PAUSING, "auditor.guest.PERIOD": 0.05})
    assert process.says("planned"), process.said
    with busy(both, 8):
        process.go()
        report = process.report()
    assert (report["state"], report["verdict"], process.end()) == ("failed", "unknown", 3)
    assert "for 2 s; start a new run" in report["reasons"][0] and report["resumable"], report["reasons"]
    resumed(both, tmp_path)
