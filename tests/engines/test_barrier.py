"""Under load, with a replica that is a second late: behind a barrier only what is really lost differs, young rows among it."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pymysql
import pytest

from auditor.config import Audit, ConnectionSettings, Settings, WriteSettings
from auditor.model import Report, Verdict
from auditor.pipeline import heartbeat
from auditor.run import audit_run
from tests.binlog import LiveLog
from tests.servers import mysql
from tests.servers.process import open_directory
from tests.servers.replicas import is_mysql, replicate, start

TABLE = "CREATE TABLE live (id int PRIMARY KEY, value int NOT NULL, updated_at datetime(6) NOT NULL)"
ROWS, RUNS = 2_000, 5
LATEST = 1_000_000
"""Rows from here on are written by the test alone."""


@pytest.fixture(params=[pytest.param(engine, marks=[getattr(pytest.mark, engine), pytest.mark.slow]) for engine in ("mariadb", "mysql")])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[LiveLog, LiveLog]]:
    """A source, and a replica that applies each transaction a second late."""
    folder = open_directory()
    first, second = (start(request.param, number, folder) for number in (1, 2))
    source, replica = LiveLog(first.url), LiveLog(second.url)
    source.run(TABLE, *(f"INSERT INTO live VALUES ({number}, 0, '2026-01-01')" for number in range(ROWS)))
    replicate(source, replica)
    if is_mysql(source):
        replica.run("STOP REPLICA", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY=1", "START REPLICA")
    else:
        replica.run("STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY=1", "START SLAVE")
    yield source, replica
    for server in (first, second):
        server.stop()
    folder.rmdir()


@contextmanager
def load(source: LiveLog, settings: Settings) -> Iterator[None]:
    """Write heartbeats, and inserts, updates and deletes of rows, until the block ends."""
    stop, chance = threading.Event(), random.Random(3)

    def rows() -> None:
        with closing(mysql.connect(source.url)) as connection, connection.cursor() as cursor:
            while not stop.wait(0.003):
                key = chance.randrange(ROWS + 500)
                upsert = f"REPLACE INTO live VALUES ({key}, {chance.randrange(1_000_000)}, UTC_TIMESTAMP(6))"
                cursor.execute(f"DELETE FROM live WHERE id = {key}" if chance.random() < 0.2 else upsert)

    threads = [threading.Thread(target=rows), threading.Thread(target=heartbeat.run, args=(settings, "old", 0.2, stop))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def run_audit(settings: Settings) -> Report:
    ends = {"source": {"connection": "old", "table": "live"}, "target": {"connection": "new", "table": "live"}}
    settle = {"column": "updated_at", "heartbeat": {}, "barrier": "60s"}
    audit = Audit.model_validate({**ends, "settle": settle, "recheck": {"times": 2, "wait": "2s", "backoff": 1}})
    return audit_run.run("live", audit, settings.connections)


def lose_a_row(source: LiveLog, replica: LiveLog, key: int) -> None:
    """Write a row, and take it from the replica once that has it."""
    source.run(f"INSERT INTO live VALUES ({key}, 0, UTC_TIMESTAMP(6))")
    deadline = time.monotonic() + 60
    with closing(mysql.connect(replica.url)) as connection, connection.cursor() as cursor:
        while not cursor.execute(f"DELETE FROM live WHERE id = {key}"):
            assert time.monotonic() < deadline, "the replica does not arrive"
            time.sleep(0.05)


def test_what_is_lost_is_named_at_once_and_nothing_else(servers: tuple[LiveLog, LiveLog]) -> None:
    source, replica = servers
    connections = {
        "old": ConnectionSettings(url=source.url, write=WriteSettings(url=source.url)),
        "new": ConnectionSettings(url=replica.url),
    }
    settings, waits = Settings(connections=connections, audits={}), list[str]()
    with load(source, settings):
        deadline = time.monotonic() + 60
        while not _has_heartbeat(replica):
            assert time.monotonic() < deadline, "no heartbeat arrives"
            time.sleep(0.2)
        for number in range(RUNS):
            report = run_audit(settings)
            assert report.verdict is Verdict.MATCH, (number, report.reasons)
            waits += [note.split("reached the target after ")[1][:5] for note in report.notes if "reached the target after" in note]
        for number in range(RUNS):
            lose_a_row(source, replica, LATEST + number)
            report = run_audit(settings)
            assert report.verdict is Verdict.MISMATCH and report.differences is not None, (number, report.reasons)
            found = {one.key["id"] for one in report.differences.named if one.state == "confirmed"}
            assert found == {str(LATEST + one) for one in range(number + 1)}
    assert len(waits) == RUNS and all(float(one.strip(" s")) >= 0.5 for one in waits), f"each waited for the replica: {waits}"


def _has_heartbeat(replica: LiveLog) -> bool:
    try:
        return bool(replica.run("SELECT serial FROM auditor_heartbeat"))
    except pymysql.ProgrammingError:
        return False
