"""An audit of a replica says at which GTID or WAL position it was read, and how far behind the replica was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from tests.binlog import LiveLog
from tests.servers import mysql, postgres
from tests.servers.process import open_directory
from tests.servers.replicas import is_mysql, replicate, start
from tests.unit.test_throttle import wait_until

pytestmark = pytest.mark.slow
TABLE = "CREATE TABLE orders (id int PRIMARY KEY, value int NOT NULL)"


@pytest.fixture(params=[pytest.param(engine, marks=getattr(pytest.mark, engine)) for engine in ("mariadb", "mysql")])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[LiveLog, LiveLog]]:
    """A source, and its replica, which lets only replication write."""
    folder = open_directory()
    first, second = (start(request.param, number, folder) for number in (1, 2))
    source, replica = LiveLog(first.url), LiveLog(second.url)
    source.run(TABLE, *(f"INSERT INTO orders VALUES ({number}, 0)" for number in range(100)))
    replicate(source, replica)
    replica.run("SET GLOBAL read_only = 1")
    yield source, replica
    for server in (first, second):
        server.stop()
    folder.rmdir()


def has_rows(log: LiveLog, count: int) -> bool:
    """Return whether the table is there with so many rows."""
    with closing(mysql.connect(log.url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'orders'")
        if not (cursor.fetchone() or (0,))[0]:
            return False
        cursor.execute("SELECT COUNT(*) FROM orders")
        return bool((cursor.fetchone() or (0,))[0] == count)


def audit(source: LiveLog, target: LiveLog, user: str = "") -> Report:
    """Audit the tables of two servers; ``user`` logs in to the second."""
    ends = {side: {"connection": side, "table": "orders"} for side in ("source", "target")}
    second = target.url.replace("root", user, 1) if user else target.url
    connections = {"source": ConnectionSettings(url=source.url), "target": ConnectionSettings(url=second)}
    return audit_run.run("orders", Audit.model_validate(ends), connections)


def said_of(report: Report) -> list[str]:
    """Return what the report says of the servers that were read."""
    assert report.plan, report.reasons
    return [note for note in report.plan.notes if "a read-only server is read" in note]


def test_the_ids_and_the_delay_of_the_replica_are_said(servers: tuple[LiveLog, LiveLog]) -> None:
    source, replica = servers
    wait_until(lambda: has_rows(replica, 100), "the replica has all rows")
    report = audit(source, replica)
    assert report.verdict is Verdict.MATCH, report.reasons
    [note] = said_of(report)
    assert re.fullmatch(r"target: a read-only server is read, at GTID .* or before, \d+ s behind what it has received", note)
    ids = note.partition("at GTID ")[2].partition(" or before")[0]
    assert re.fullmatch(r"[0-9a-f-]{36}:1-\d+(,[0-9a-f-]{36}:\S+)*" if is_mysql(source) else r"0-1-\d+", ids), ids
    replica.run("STOP REPLICA SQL_THREAD" if is_mysql(replica) else "STOP SLAVE SQL_THREAD")
    source.run("INSERT INTO orders VALUES (1000, 1)")
    late = audit(source, replica)
    assert late.verdict is Verdict.MISMATCH
    assert said_of(late) == [f"target: a read-only server is read, at GTID {ids} or before, while its replication was stopped"]


def test_a_user_that_may_not_ask_is_said(servers: tuple[LiveLog, LiveLog]) -> None:
    source, replica = servers
    source.run("CREATE USER reader", "GRANT SELECT ON audit.* TO reader")
    wait_until(lambda: has_rows(replica, 100), "the replica has all rows")
    wait_until(lambda: can_log_in(replica), "the replica has the user")
    [note] = said_of(audit(source, replica, "reader"))
    assert note.endswith("and its lag is not known, because its user may not ask for the state of replication")


def can_log_in(log: LiveLog) -> bool:
    with closing(mysql.connect(log.url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM mysql.user WHERE user = 'reader'")
        return bool((cursor.fetchone() or (0,))[0])


@pytest.mark.postgres
def test_the_position_and_the_delay_of_a_standby_are_said() -> None:
    folder = open_directory()
    primary = postgres.cluster(folder, postgres.DEFAULT)
    replica = postgres.standby(folder, primary)
    ends = {side: {"connection": side, "table": "orders"} for side in ("source", "target")}
    connections = {"source": ConnectionSettings(url=primary.url), "target": ConnectionSettings(url=replica.url)}
    try:
        with closing(postgres.connect(primary.url)) as writer, closing(postgres.connect(replica.url)) as reader:
            write, read = writer.cursor(), reader.cursor()

            def replayed(rows: int) -> bool:
                read.execute("SELECT to_regclass('orders')")
                if read.fetchone() == (None,):
                    return False
                read.execute("SELECT COUNT(*) FROM orders")
                return bool(read.fetchone() == (rows,))

            def said() -> tuple[Verdict, list[str]]:
                report = audit_run.run("orders", Audit.model_validate(ends), connections)
                assert report.plan, report.reasons
                return report.verdict, [note for note in report.plan.notes if "standby" in note]

            write.execute(TABLE)
            write.execute("INSERT INTO orders SELECT number, 0 FROM generate_series(1, 100) AS number")
            wait_until(lambda: replayed(100), "the standby has all rows")
            read.execute("SELECT pg_wal_replay_pause(), pg_sleep(1)")
            verdict, [note] = said()
            position = re.fullmatch(
                r"target: a standby is read, at WAL position ([0-9A-F]+/[0-9A-F]+) or before, 0 s behind what it has received", note
            )
            assert verdict is Verdict.MATCH and position, note
            write.execute("INSERT INTO orders VALUES (1000, 1)")
            wait_until(lambda: has_received_more(read), "the standby has received what it does not replay")
            verdict, [note] = said()
            assert verdict is Verdict.MISMATCH and f"at WAL position {position[1]} or before, " in note and ", 0 s behind" not in note, note
    finally:
        replica.stop()
        primary.stop()
        folder.rmdir()


def has_received_more(cursor: Any) -> bool:
    cursor.execute("SELECT pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()")
    return bool(cursor.fetchone() == (True,))
