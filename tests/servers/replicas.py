"""A source and its replica, each a server of one's own that can be killed, and a reader that stands in for a pipeline."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pymysql
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from auditor import config
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.store import Store, parts, pipelines
from tests.binlog import LiveLog
from tests.servers import mariadb, mysql
from tests.servers.process import Server, find_program, own_directory, run

PIPELINE = "shop"
TABLE = "CREATE TABLE orders (id int PRIMARY KEY, value int NOT NULL)"
KIND = {"insert": "after", "update": "after", "delete": "before"}
GLOBAL_IDS = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")
"""Options of MySQL; MariaDB always has global ids."""


def start(engine: str, number: int, folder: Path, ids: Sequence[str] = GLOBAL_IDS) -> Server:
    """Start a server of one's own, which can be killed; ``ids`` are MySQL's options about global ids."""
    home = own_directory(folder, f"{engine}{number}")
    own = [f"--server-id={number}", "--log-replica-updates=ON" if engine == "mysql" else "--log-slave-updates=ON"]
    if engine == "mysql":
        program, how = mysql.find_server()
        assert program, "there is no MySQL here: run scripts/engines.sh"
        run([program, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", "--initialize-insecure", *mysql.OWN_OPTIONS], home)
        return mysql.start_local("mysql", home, [program, "--no-defaults", *mysql.OWN_OPTIONS, *own, *ids], how)
    program, install = find_program("mariadbd"), find_program("mariadb-install-db")
    assert program and install, "there is no MariaDB here: run scripts/engines.sh"
    account = ["--auth-root-authentication-method=normal", "--skip-test-db"]
    run([install, "--no-defaults", *mysql.as_root(), f"--datadir={home}/data", f"--tmpdir={home}", *account], home)
    options = [one for one in mariadb.OWN_OPTIONS if not one.startswith("--server-id")]
    return mysql.start_local("mariadb", home, [program, "--no-defaults", *options, *own], "local binary")


def replicate(source: LiveLog, replica: LiveLog, by_ids: bool = True) -> None:
    """Let a server replicate all of another: by global ids, or by file and position."""
    port = urlsplit(source.url).port
    if is_mysql(source):
        where = f"SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='root', GET_SOURCE_PUBLIC_KEY=1"
        replica.run(f"CHANGE REPLICATION SOURCE TO {where}, SOURCE_AUTO_POSITION={int(by_ids)}", "START REPLICA")
    else:
        how = "MASTER_USE_GTID=slave_pos" if by_ids else "MASTER_USE_GTID=no, MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4"
        replica.run(f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='root', {how}", "START SLAVE")


def is_mysql(log: LiveLog) -> bool:
    return log.url.startswith("mysql:")


def status_of(replica: LiveLog) -> dict[str, Any]:
    """Return what a replica says of its replication."""
    with closing(mysql.connect(replica.url)) as connection, connection.cursor(pymysql.cursors.DictCursor) as cursor:
        cursor.execute("SHOW REPLICA STATUS" if is_mysql(replica) else "SHOW SLAVE STATUS")
        found = cursor.fetchone()
        assert found, "it replicates from nobody"
        return found


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
    while rows_of(replica) != rows_of(source):
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
        pipeline = config.load(self.path).pipeline(PIPELINE)
        offset = pipelines.get_pipeline(self.store, PIPELINE).source_offset
        options = {
            "config": str(self.path),
            "connection": pipeline.source_name,
            "tables": ",".join(pipeline.source.tables),
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
    """End a server as a power failure would, and wait until it writes no file any more."""
    [(_, path)] = log.run("SHOW GLOBAL VARIABLES LIKE 'pid_file'")
    [(_, folder)] = log.run("SHOW GLOBAL VARIABLES LIKE 'datadir'")
    number = (Path(folder) / path).read_text().strip()
    os.kill(int(number), signal.SIGKILL)
    state = ["ps", "-o", "stat=", "-p", number]
    while subprocess.run(state, capture_output=True, text=True, check=False).stdout.strip()[:1] not in ("", "Z"):
        time.sleep(0.02)


def rows_of(log: LiveLog) -> dict[str, str]:
    return {str(key): str(value) for key, value in log.run("SELECT id, value FROM orders")}
