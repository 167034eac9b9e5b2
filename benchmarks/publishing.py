"""Part publish: from the binary log into topics of Kafka as `auditor pipeline run` does it, beside Debezium embedded, into the same broker.

Both follow the log of the same changes of a table of ten columns, once they have published a first row, and write JSON without schemas into
one partition: ours in transactions and with the position, Debezium at least once. The start of neither counts. Debezium needs a folder of
its jars, which AUDITOR_TEST_DEBEZIUM names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from auditor.store import Store, open_store, pipelines
from benchmarks import road, stream
from benchmarks.servers import Servers
from tests.servers import kafka, mysql
from tests.servers.process import Unavailable

ENGINES = ("mysql",)
OURS, DEBEZIUM = "auditor", "Debezium embedded"
VARIABLE = "AUDITOR_TEST_DEBEZIUM"
PROGRAM = Path(__file__).parent / "DebeziumTopics.java"

CONFIGURATION = """\
connections:
  source: {{url: "{source}"}}
brokers:
  kafka: {{servers: "{broker}"}}
audits: {{}}
pipelines:
  {pipeline}:
    source: {{connection: source, tables: [{table}]}}
    staging: {{path: "{folder}/staging"}}
    targets: {{events: {{broker: kafka, every: 0s, messages: {{tombstones: false}}}}}}
"""


@dataclass
class Publication:
    """One tool's way from the log into a topic; ``why`` has the reason if it did not run.

    ``seconds`` are those in which the messages came, ``cpu`` the seconds of CPU time by group of processes.
    """

    engine: str
    tool: str
    events: int = 0
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    why: str = ""

    @property
    def per_cpu_second(self) -> float:
        """Events per second of CPU time of all its processes."""
        return self.events / total if (total := sum(self.cpu.values())) else 0.0


def measure(servers: Servers, engine: str, rows: int) -> list[Publication]:
    """Measure both with ``rows`` rows."""
    found = [Publication(engine, OURS), Publication(engine, DEBEZIUM)]
    try:
        source = servers[engine].url
        broker = kafka.start_private(servers.directory)
    except Unavailable as reason:
        for one in found:
            one.why = str(reason)
        return found
    try:
        for one, run in zip(found, (_publish, _publish_by_debezium), strict=True):
            print(f"publish: {engine}: {one.tool}", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix="publish-", dir=servers.directory) as folder:
                try:
                    run(one, Path(folder), source, broker.server, rows)
                except Unavailable as reason:
                    one.why = str(reason)
    finally:
        broker.stop()
    return found


def _publish(found: Publication, folder: Path, source: str, broker: str, rows: int) -> None:
    """Let a pipeline follow the log while it is written."""
    values = {"source": source, "broker": broker, "folder": folder, "pipeline": road.PIPELINE, "table": stream.TABLE_NAME}
    (folder / "auditor.yaml").write_text(CONFIGURATION.format(**values))
    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor:
        stream.make_table(cursor)
        with closing(open_store(f"sqlite:///{folder}/auditor.db")) as store, road.running(folder, road.PIPELINE, {}) as pipeline:
            road.wait(lambda: pipelines.get_pipeline(store, road.PIPELINE).source_offset is not None, pipeline)
            _follow(found, cursor, rows, pipeline, lambda: _published(store))


def _publish_by_debezium(found: Publication, folder: Path, source: str, broker: str, rows: int) -> None:
    """Let Debezium follow the log while it is written."""
    topic = f"debezium.audit.{stream.TABLE_NAME}"
    admin = AdminClient({"bootstrap.servers": broker, "log_level": 0})
    for name in (topic, "debezium"):
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)
    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor:
        stream.make_table(cursor)
        with _debezium(folder, source, broker) as engine:
            _follow(found, cursor, rows, engine, lambda: _count(admin, topic))
    found.cpu = {"Java": sum(found.cpu.values())}


def _follow(found: Publication, cursor: Any, rows: int, tool: subprocess.Popen[bytes], published: Callable[[], int]) -> None:
    """Write one row, and once that is published the others, and measure until they are, too."""
    cursor.execute(f"INSERT INTO {stream.TABLE_NAME} (id, customer) VALUES (-1, 1)")
    road.wait(lambda: published() >= 1, tool)
    watched = road.Road(found.engine, found.tool)
    with road.watching(tool.pid, watched):
        time.sleep(2 * road.SAMPLING)
        before = Counter(watched.cpu)
        began = time.monotonic()
        found.events = stream.write_rows(cursor, rows)
        road.wait(lambda: published() > found.events, tool)
        found.seconds = time.monotonic() - began
        time.sleep(2 * road.SAMPLING)  # so that the last sample has all of it
    found.cpu = {group: seconds - before[group] for group, seconds in watched.cpu.items()}


@contextmanager
def _debezium(folder: Path, source: str, broker: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run Debezium for the block, from where the log ends. Raises Unavailable."""
    if VARIABLE not in os.environ:
        raise Unavailable(f"Debezium is not installed: name a folder of its jars in {VARIABLE}")
    place, settings, errors = urlsplit(source), folder / "connector.properties", folder / "errors"
    given = {
        "name": "engine", "connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "debezium",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "database.hostname": "127.0.0.1",
        "database.port": str(place.port), "database.user": place.username or "root", "database.password": place.password or "",
        "database.server.id": "50004", "table.include.list": f"audit.{stream.TABLE_NAME}", "snapshot.mode": "no_data",
        "snapshot.locking.mode": "none", "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "database.ssl.mode": "disabled", "driver.allowPublicKeyRetrieval": "true", "tombstones.on.delete": "false",
        "converter.schemas.enable": "false",
    }  # fmt: skip
    settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    command = ["java", "-Xmx1g", "-cp", f"{os.environ[VARIABLE]}/*", str(PROGRAM), str(settings), broker]
    with errors.open("wb") as log:
        engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
    try:
        road.wait(lambda: b"Connected to 127.0.0.1" in errors.read_bytes(), engine)
        yield engine
    finally:
        assert engine.stdin
        engine.stdin.close()
        try:
            engine.wait(60)
        except subprocess.TimeoutExpired:
            engine.kill()
            engine.wait()


def _published(store: Store) -> int:
    """Return how many events the pipeline has published."""
    return sum(report.events for report in pipelines.list_merges(store, road.PIPELINE).get("events", {}).values())


def _count(admin: AdminClient, topic: str) -> int:
    """Return how many messages a topic of one partition has."""
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    [answer] = admin.list_offsets({TopicPartition(topic, 0): latest}).values()
    return int(answer.result(10).offset)
