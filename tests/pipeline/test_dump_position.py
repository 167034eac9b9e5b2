"""Where a dump's snapshot of MySQL stands: at the position that it names, every transaction up to there is in it, and none behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest

from auditor.config import ConnectionSettings
from auditor.connections.connection import Connection
from auditor.pipeline import dump
from auditor.pipeline.dump import DumpSnapshot, open_snapshot
from tests.binlog import LiveLog
from tests.live import LiveEngine, engine_params
from tests.servers import mysql

pytestmark = [pytest.mark.alone, pytest.mark.parametrize("engine", engine_params("mysql"), indirect=True)]  # counts the server's ids
TABLE = "dump_counted"


@pytest.fixture
def log(engine: LiveEngine) -> LiveLog:
    """The log of a server with a table of one row, which every transaction from now on counts up."""
    found = LiveLog(engine.url)
    found.run(f"DROP TABLE IF EXISTS {TABLE}", f"CREATE TABLE {TABLE} (id int PRIMARY KEY, n int)", f"INSERT INTO {TABLE} VALUES (1, 0)")
    return found


def connect(url: str, connections: int = 1) -> Connection:
    settings = ConnectionSettings(url=url, connections=connections)
    made = Connection("source", "shop", settings, lambda *_: None, threading.Event())
    made.open_first()
    return made


@contextmanager
def counting(url: str, pause: float) -> Iterator[None]:
    """Count up in a thread for the block."""
    stopped = threading.Event()

    def count() -> None:
        with closing(mysql.connect(url)) as connection, connection.cursor() as cursor:
            while not stopped.wait(pause):
                cursor.execute(f"UPDATE {TABLE} SET n = n + 1")

    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def last_id(text: str) -> int:
    """The number of the last of a server's transactions."""
    return int(text.rpartition(":")[2].rpartition("-")[2])


def seen(snapshot: DumpSnapshot) -> list[int]:
    """What each connection reads in the snapshot."""
    return [int(one.run_once(lambda session: session.query(f"SELECT n FROM {TABLE}"))[0][0]) for one in snapshot.readers]


def test_ids_name_exactly_what_the_snapshot_holds(log: LiveLog) -> None:
    before, named = last_id(log.run("SELECT @@GLOBAL.gtid_executed")[0][0]), 0
    with counting(log.url, 0.01), closing(connect(log.url)) as main:
        for _ in range(20):
            with open_snapshot(main, TABLE) as snapshot:
                assert snapshot.position and not snapshot.why_unknown
                if snapshot.position.startswith("GTIDs "):
                    named += 1
                    assert seen(snapshot) == [last_id(snapshot.position) - before]
            main.end_snapshot()
    assert named


@pytest.mark.parametrize("connections", [1, 3])
def test_a_place_in_the_log_names_exactly_what_the_snapshot_holds(log: LiveLog, connections: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "ATTEMPTS", 0)  # as where it is written to all the time
    start, placed = log.end(), []
    with counting(log.url, 0.01), closing(connect(log.url, connections)) as main:
        for _ in range(5):
            with open_snapshot(main, TABLE) as snapshot:
                assert len(snapshot.readers) == connections
                placed.append((snapshot.position, seen(snapshot)))
            main.end_snapshot()
            main.may_lock = True  # a run locks once, and a dump is a run
    ends = [int(row[4]) for row in log.run(f"SHOW BINLOG EVENTS IN '{start.file}' FROM {start.offset}") if row[2] == "Xid"]
    for position, values in placed:
        file, _, offset = position.rpartition(":")
        assert file == start.file and values == [sum(end <= int(offset) for end in ends)] * connections


def test_earlier_ids_do_not_count_where_not_every_transaction_gets_one(log: LiveLog) -> None:
    log.run("SET GLOBAL gtid_mode = ON_PERMISSIVE")
    try:
        with closing(connect(log.url)) as main, open_snapshot(main, TABLE) as snapshot:
            assert snapshot.position.startswith("binlog.")
    finally:
        log.run("SET GLOBAL gtid_mode = ON")


def test_why_a_position_is_not_known(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
    place = urlsplit(log.url)
    log.run("DROP USER IF EXISTS dumper", "CREATE USER dumper IDENTIFIED BY 'choose-1-Password'", "GRANT SELECT ON *.* TO dumper")
    url = f"mysql://dumper:choose-1-Password@{place.hostname}:{place.port}{place.path}"
    try:
        with closing(connect(url)) as main, open_snapshot(main, TABLE) as snapshot:
            assert snapshot.position.startswith("GTIDs ")  # no further right is needed for them
        monkeypatch.setattr(dump, "ATTEMPTS", 0)
        for connections in (1, 2):
            with closing(connect(url, connections)) as main, open_snapshot(main, TABLE) as snapshot:
                assert (snapshot.position, seen(snapshot)) == ("", [0])
                assert snapshot.why_unknown.startswith("the source is written to too often, or without GTIDs (source (shop): ")
                assert snapshot.why_unknown.endswith("grant LOCK TABLES and REPLICATION CLIENT")
        log.run("GRANT LOCK TABLES ON *.* TO dumper")
        with closing(connect(url, 2)) as main, open_snapshot(main, TABLE) as snapshot:
            assert (snapshot.position, seen(snapshot)) == ("", [0, 0])
            assert snapshot.why_unknown.endswith("grant REPLICATION CLIENT")
        log.run("GRANT REPLICATION CLIENT ON *.* TO dumper")
        with closing(mysql.connect(log.url)) as writer, writer.cursor() as cursor, closing(connect(url)) as main:
            cursor.execute("BEGIN")
            cursor.execute(f"UPDATE {TABLE} SET n = 0")
            with open_snapshot(main, TABLE) as snapshot:
                assert snapshot.why_unknown.startswith("the source is written to too often (")
    finally:
        log.run("DROP USER dumper")
