"""A pipeline goes on from a replica once its source is dead: nothing is lost or read twice, and where rows may be missing it is refused."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from auditor import config
from auditor.errors import FailoverRefused
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.failover import find_failover
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.service import failovers
from auditor.store import Store, open_store, parts, pipelines
from tests.binlog import LiveLog
from tests.servers import mariadb, mysql
from tests.servers._process import Server, find_program, open_directory, own_directory, run

PIPELINE = "shop"
TABLE = "CREATE TABLE orders (id int PRIMARY KEY, value int NOT NULL)"
KIND = {"insert": "after", "update": "after", "delete": "before"}


def start(engine: str, number: int, folder: Path) -> Server:
    """Start a server of one's own, which can be killed."""
    home = own_directory(folder, f"{engine}{number}")
    own = [f"--server-id={number}", "--log-replica-updates=ON" if engine == "mysql" else "--log-slave-updates=ON"]
    if engine == "mysql":
        program, how = mysql._program()
        assert program, "there is no MySQL here: run scripts/engines.sh"
        run([program, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", "--initialize-insecure", *mysql.OWN_OPTIONS], home)
        ids = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]
        return mysql.start_local("mysql", home, [program, "--no-defaults", *mysql.OWN_OPTIONS, *own, *ids], how)
    program, install = find_program("mariadbd"), find_program("mariadb-install-db")
    assert program and install, "there is no MariaDB here: run scripts/engines.sh"
    account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
    run([install, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", f"--tmpdir={home}", *account], home)
    options = [one for one in mariadb.OWN_OPTIONS if not one.startswith("--server-id")]
    return mysql.start_local("mariadb", home, [program, "--no-defaults", *options, *own], "local binary")


@pytest.fixture(
    params=[pytest.param("mariadb", marks=pytest.mark.mariadb), pytest.param("mysql", marks=[pytest.mark.mysql, pytest.mark.slow])]
)
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[LiveLog, LiveLog]]:
    """A source and its replica, each with an empty table ``orders``."""
    folder = open_directory()
    first = start(request.param, 1, folder)
    second = start(request.param, 2, folder)
    source, replica = LiveLog(first.url), LiveLog(second.url)
    port = urlsplit(first.url).port
    if request.param == "mysql":
        replica.run(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='root', SOURCE_AUTO_POSITION=1,"
            " GET_SOURCE_PUBLIC_KEY=1",
            "START REPLICA",
        )
    else:
        replica.run(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', MASTER_USE_GTID=slave_pos", "START SLAVE"
        )
    source.run(TABLE)
    yield source, replica
    for server in (first, second):
        server.stop()


def write(log: LiveLog, chance: random.Random, transactions: int) -> None:
    """Write random transactions of one to three changes; no id is inserted twice."""
    for _ in range(transactions):
        changes = []
        for _ in range(chance.randint(1, 3)):
            write.ids += 1  # type: ignore[attr-defined]
            known = chance.randint(1, write.ids)  # type: ignore[attr-defined]
            insert = f"INSERT INTO orders VALUES ({write.ids}, 0)"  # type: ignore[attr-defined]
            update = f"UPDATE orders SET value = value + 1 WHERE id = {known}"
            changes.append(chance.choice([insert, insert, update, f"DELETE FROM orders WHERE id = {known}"]))
        log.run("BEGIN", *changes, "COMMIT")


def arrived(replica: LiveLog, source: LiveLog) -> None:
    """Wait until the replica has all that the source wrote."""
    deadline = time.monotonic() + 60
    while _rows(replica) != _rows(source):
        assert time.monotonic() < deadline, "the replica does not arrive"
        time.sleep(0.05)


class Reader:
    """Stages nothing, but takes note of the events, and records where it stands as a pipeline does."""

    def __init__(self, path: Path, store: Store) -> None:
        self.path, self.store = path, store
        self.rows: dict[str, str] = {}
        self.inserted: Counter[str] = Counter()
        self.positions: list[int] = []

    def read(self, max_bytes: int | None = None) -> None:
        """Read to the end of the log, or one batch of so many bytes."""
        source = config.load(self.path).pipeline(PIPELINE).source
        offset = pipelines.get_pipeline(self.store, PIPELINE).source_offset
        options = {
            "config": str(self.path),
            "connection": source.connection,
            "tables": ",".join(source.tables),
            "start": json.dumps(offset),
        }
        stream: Any = MySQLBinlog(options).streamReader(EVENT_TYPE)
        begin = stream.initialOffset()
        end = stream.latestOffset(begin, ReadMaxBytes(max_bytes) if max_bytes else ReadAllAvailable())
        for part in stream.partitions(begin, end):
            for batch in stream.read(part):
                for event in batch.to_pylist():
                    self._take(event)
        parts.record_batch(self.store, PIPELINE, [], {}, end)
        stream.stop()

    def _take(self, event: dict[str, Any]) -> None:
        if event["kind"] == "schema":
            return
        self.positions.append(event["position"])
        key, value = event[KIND[event["kind"]]]
        if event["kind"] == "delete":
            del self.rows[key]
        else:
            self.inserted[key] += event["kind"] == "insert"
            self.rows[key] = value


def kill(log: LiveLog) -> None:
    """End a server as a power failure would."""
    [(_, path)] = log.run("SHOW GLOBAL VARIABLES LIKE 'pid_file'")
    [(_, folder)] = log.run("SHOW GLOBAL VARIABLES LIKE 'datadir'")
    os.kill(int((Path(folder) / path).read_text()), signal.SIGKILL)


def test_a_pipeline_goes_on_from_a_replica(servers: tuple[LiveLog, LiveLog], tmp_path: Path) -> None:
    source, replica = servers
    chance, write.ids = random.Random(11), 0  # type: ignore[attr-defined]
    path = tmp_path / "auditor.yaml"
    path.write_text(
        f"""\
# what stays
connections:
  old: {{url: "{source.url}"}}
  new: {{url: "{replica.url}"}}
  duck: {{url: "duckdb:///{tmp_path}/d.duckdb", write: {{url: "duckdb:///{tmp_path}/d.duckdb"}}}}
audits: {{}}
pipelines:
  shop:
    source: {{connection: old, tables: [orders]}}  # the server
    staging: {{path: "{tmp_path}/staging"}}
    targets: {{duck: {{connection: duck, schema: main}}}}
"""
    )
    settings = config.load(path)
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        reader = Reader(path, store)
        begin: Any = MySQLBinlog(
            {"config": str(path), "connection": "old", "tables": "orders", "start": str(source.end())}
        ).streamReader(EVENT_TYPE)  # fmt: skip
        parts.record_batch(store, PIPELINE, [], {}, begin.initialOffset())
        with pytest.raises(FailoverRefused, match="no global id is known of the last transaction before"):
            _fail_over(settings, path, store)
        write(source, chance, 60)
        reader.read()
        arrived(replica, source)
        source.run("CREATE TABLE other (id int PRIMARY KEY)", "INSERT INTO other VALUES (1)")

        is_mysql = "mysql" in source.url.partition(":")[0]
        replica.run("STOP REPLICA" if is_mysql else "STOP SLAVE")
        write(source, chance, 10)
        reader.read()
        with pytest.raises(
            FailoverRefused, match=r"the log lacks transaction \S+, which was read last, at .+; fail over with --accept-gap"
        ):
            _fail_over(settings, path, store)
        replica.run("CREATE TABLE elsewhere (id int PRIMARY KEY)", "INSERT INTO elsewhere VALUES (1)")
        replica.run("START REPLICA" if is_mysql else "START SLAVE")
        write(source, chance, 60)
        arrived(replica, source)
        reader.read(max_bytes=4_000)
        assert reader.rows != _rows(source), "something is left to be read from the replica"

        offset = pipelines.get_pipeline(store, PIPELINE).source_offset
        told = find_failover(offset, replica.source, Selection(["*"], "audit"))
        assert len(told.gaps) == 1 and "itself, before" in told.gaps[0] and told.gaps[0].endswith("with rows of audit.elsewhere")
        kill(source)
        assert _fail_over(settings, path, store, dry_run=True).gaps == () and "connection: old" in path.read_text()
        found = _fail_over(settings, path, store)
        assert found.transaction == offset["gtid"] and found.gaps == ()
        assert "connection: new" in path.read_text() and path.read_text().startswith("# what stays") and "# the server" in path.read_text()

        write(replica, chance, 20)
        reader.read()
        assert reader.rows == _rows(replica)
        assert set(reader.inserted.values()) == {1}, "each insert was read once"
        assert reader.positions == sorted(reader.positions), "positions keep growing"
        after = pipelines.get_pipeline(store, PIPELINE).source_offset
        assert after["epoch"] == offset["epoch"] + 1 and after["known"] and after["server"] != offset["server"]


def _rows(log: LiveLog) -> dict[str, str]:
    return {str(key): str(value) for key, value in log.run("SELECT id, value FROM orders")}


def _fail_over(settings: config.Settings, path: Path, store: Store, dry_run: bool = False) -> failovers.FailedOver:
    return failovers.fail_over(settings, path, store, PIPELINE, "new", accept_gap=False, dry_run=dry_run, by="me")
