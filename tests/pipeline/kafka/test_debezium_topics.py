"""Topics are those of the real Debezium: the same messages of each key in the same partition and order, but for what docs/kafka.md names.

What is in their values is compared by tests/pipeline/messages/test_debezium.py. Debezium runs embedded, from the folder of jars that
AUDITOR_TEST_DEBEZIUM names, into the same broker, and reads the log of the same MySQL.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient, NewTopic

from tests.binlog import LiveLog
from tests.pipeline.kafka.topic_road import Made, headers_of, read
from tests.servers import mysql
from tests.servers.process import Unavailable

VARIABLE = "AUDITOR_TEST_DEBEZIUM"
PROGRAM = Path(__file__).parents[3] / "benchmarks" / "DebeziumTopics.java"
TABLES = ("orders", "pairs", "log", "done")
PARTITIONS = 3
NAMES = ("__debezium.newkey", "__debezium.oldkey")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kafka,
    pytest.mark.mysql,
    pytest.mark.skipif(VARIABLE not in os.environ, reason=f"Debezium is not installed: name a folder of its jars in {VARIABLE}"),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java 17 here, which runs Debezium"),
]

Told = tuple[int | None, str | None, str, dict[str, Any]]
"""Of a message its partition, its key, its op, and its headers of keys that changed."""


@contextmanager
def debezium(folder: Path, url: str, broker: str, prefix: str, *, schemas: bool = False) -> Iterator[None]:
    """Run Debezium for the block, from where the log ends; its messages may have their schemas beside them."""
    given = {
        "name": "engine", "connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": prefix,
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "database.hostname": "127.0.0.1",
        "database.port": str(urlsplit(url).port), "database.user": "root", "database.password": "", "database.server.id": "5556",
        "database.include.list": "audit", "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "snapshot.mode": "no_data", "snapshot.locking.mode": "none", "database.ssl.mode": "disabled",
        "driver.allowPublicKeyRetrieval": "true", "converter.schemas.enable": str(schemas).lower(),
    }  # fmt: skip
    settings, errors = folder / "connector.properties", folder / "errors.txt"
    settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    command = ["java", "-Xmx600m", "-XX:TieredStopAtLevel=1", "-cp", f"{os.environ[VARIABLE]}/*", str(PROGRAM), str(settings), broker]
    with errors.open("wb") as log:
        engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    assert engine.stdin
    try:
        deadline = time.monotonic() + 120
        while "Connected to 127.0.0.1" not in errors.read_text():
            assert engine.poll() is None and time.monotonic() < deadline, errors.read_text()[-2000:]
            time.sleep(0.2)
        yield
    finally:
        engine.stdin.close()
        engine.wait(60)


def write(log: LiveLog) -> None:
    """Insert, update, delete and move rows of each table."""
    for number in range(60):
        log.run(
            f"INSERT INTO orders VALUES ({number}, 'item {number}'), ({-number - 1}, NULL)",
            f"UPDATE orders SET item = 'changed' WHERE id = {number}",
            f"INSERT INTO pairs VALUES ('k{number % 7}', {number}, 1.5)",
            f"UPDATE pairs SET k = 'moved' WHERE n = {number // 2}",
            f"DELETE FROM orders WHERE id = {number // 3}",
            f"INSERT INTO log VALUES ({number}), ({number})",
        )
    log.run("DELETE FROM log LIMIT 5", "INSERT INTO done VALUES (1)")


def test_topics_are_those_of_debezium(made: Made, tmp_path: Path) -> None:
    try:
        server = mysql.start_private(tmp_path, ("--gtid-mode=ON", "--enforce-gtid-consistency=ON"))
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        log = LiveLog(server.url)
        log.run(
            "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR(40))",
            "CREATE TABLE pairs (k VARCHAR(20), n BIGINT, v DOUBLE, PRIMARY KEY (n, k))",
            "CREATE TABLE log (line INT)",
            "CREATE TABLE done (id INT PRIMARY KEY)",
        )
        road = made.road(partitions=PARTITIONS, cleanup="delete")
        prefix, admin = f"{road.prefix}-debezium", AdminClient({"bootstrap.servers": made.broker})
        wanted = [NewTopic(f"{prefix}.audit.{name}", PARTITIONS) for name in TABLES] + [NewTopic(prefix, 1)]
        for answer in admin.create_topics(wanted).values():
            answer.result(20)
        start = log.end()
        with debezium(tmp_path, server.url, made.broker, prefix):
            write(log)
            deadline = time.monotonic() + 60
            while not read(made.broker, f"{prefix}.audit.done"):
                assert time.monotonic() < deadline, "Debezium does not arrive"
        for log_range in log.scan(start):
            road.stage_task(*log.reading(list(TABLES)).batches(log_range))
        road.publish()
        for name in TABLES:
            ours, theirs = (told(read(made.broker, f"{one}.audit.{name}")) for one in (road.prefix, prefix))
            if name == "log":  # Debezium has a tombstone without a key, which forgets nothing, and any partition for what has no key
                assert {partition for partition, *_ in ours} == {0}
                ours, theirs = [(None, *one[1:]) for one in ours], [(None, *one[1:]) for one in theirs if one[2] != "tombstone"]
                assert sorted(map(str, ours)) == sorted(map(str, theirs))
                continue
            assert by_key(ours) == by_key(theirs), name
            assert len(ours) == len(theirs) and ours
    finally:
        server.stop()


def told(messages: list[Message]) -> list[Told]:
    """Return what is compared of messages."""
    found: list[Told] = []
    for message in messages:
        key, value = message.key(), message.value()
        headers = {name: json.loads(text) for name, text in headers_of(message).items() if name in NAMES}
        op = "tombstone" if value is None else json.loads(value)["op"]
        found.append((message.partition(), None if key is None else json.dumps(json.loads(key), sort_keys=True), op, headers))
    return found


def by_key(messages: list[Told]) -> dict[str | None, list[Told]]:
    """Return the messages of each key in their order."""
    found: dict[str | None, list[Told]] = {}
    for one in messages:
        found.setdefault(one[1], []).append(one)
    return found
