"""An audit of a replica says at which GTID it was read, and how far behind the replica was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.run import audit_run
from tests.binlog import LiveLog
from tests.servers import mysql
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
    assert note.startswith("target: a read-only server is read, at GTID ") and note.endswith(" or before, 0 s behind what it has received")
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
