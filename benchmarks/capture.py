"""Part capture: following the binary log as `auditor pipeline run` does it, beside Debezium embedded, on the same machine.

Both follow the log of the same changes of a table of ten columns, once they have carried a first row:

- *alone*: ours stages the events in files, Debezium hands them to a sink that does nothing, as Java's structs or as JSON;
- *into a topic* of one partition, as JSON without schemas: ours in transactions and with the position, Debezium at least once;
- *into PostgreSQL*: ours exactly once, Debezium by a sink that merges each batch by COPY, DELETE and INSERT, at least once.

The processor's time is that of the tools' own processes, after their start. Debezium needs a folder of its jars, which
AUDITOR_TEST_DEBEZIUM names, and Java 17.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka.admin import AdminClient, NewTopic

from auditor.store import Store, open_store, pipelines
from benchmarks import road, stream
from benchmarks.servers import Servers
from tests.servers import kafka, mysql, postgres
from tests.servers.process import Unavailable

ENGINES = ("mysql",)
OURS, DEBEZIUM, AS_JSON = "auditor", "Debezium embedded", "Debezium embedded, as JSON"
ALONE, TOPIC, TABLE = "alone", "into a topic", "into PostgreSQL"
TOOLS = {ALONE: (OURS, DEBEZIUM, AS_JSON), TOPIC: (OURS, DEBEZIUM), TABLE: (OURS, DEBEZIUM)}
VARIABLE = "AUDITOR_TEST_DEBEZIUM"
PROGRAM = Path(__file__).parent / "DebeziumSinks.java"
COLUMNS = {
    "id": "bigint PRIMARY KEY", "customer": "int", "status": "text", "price": "numeric(12,2)", "quantity": "smallint",
    "title": "varchar(80)", "note": "varchar(200)", "created": "timestamp(6)", "updated": "timestamptz(3)", "weight": "double precision",
}  # fmt: skip
"""Those of the table into which Debezium's sink merges, and their types."""

CONFIGURATION = """\
connections:
  source: {{url: "{source}"}}
  pg: {{url: "{target}", write: {{url: "{target}"}}}}
brokers:
  kafka: {{servers: "{broker}"}}
audits: {{}}
pipelines:
  {pipeline}:
    source: {{connection: source, tables: [{table}]}}
    staging: {{path: "{folder}/staging"}}
    targets: {{{sink}}}
"""

SINKS = {
    ALONE: f"pg: {{connection: pg, schema: {road.SCHEMA}, every: 10h, merge_at: {{rows: 1000000000}}}}",
    TOPIC: "events: {broker: kafka, every: 0s, messages: {tombstones: false}}",
    TABLE: f"pg: {{connection: pg, schema: {road.SCHEMA}, every: 0s}}",
}


@dataclass
class Captured:
    """How one tool followed the log on one road; ``why`` has the reason if it did not run.

    ``start`` is the seconds until the first row was carried, ``seconds`` those in which all others were; ``cpu`` the seconds of CPU time
    of these by group of processes, ``memory`` the PSS bytes of all processes when they had most. ``latencies`` are the seconds from the
    commit of a single row to where PostgreSQL shows it.
    """

    engine: str
    road: str
    tool: str
    events: int = 0
    start: float = 0.0
    seconds: float = 0.0
    cpu: dict[str, float] = field(default_factory=dict)
    memory: int = 0
    latencies: list[float] = field(default_factory=list)
    why: str = ""

    @property
    def per_cpu_second(self) -> float:
        """Events per second of CPU time of all its processes."""
        return self.events / total if (total := sum(self.cpu.values())) else 0.0


@dataclass(frozen=True)
class _Places:
    """Where a tool reads and writes: the URLs of the source and the target, the address of the broker, and a folder of its own."""

    source: str
    target: str
    broker: str
    folder: Path


def measure(servers: Servers, engine: str, rows: int, words: Sequence[str] = ()) -> list[Captured]:
    """Measure each tool on each road, or those whose name has one of these words, with ``rows`` rows."""
    wanted = [name for name in TOOLS if not words or any(word in name for word in words)]
    found = [Captured(engine, name, tool) for name in wanted for tool in TOOLS[name]]
    try:
        source, target = servers[engine].url, servers["postgres"].url
        broker = kafka.start_private(servers.directory)
    except Unavailable as reason:
        for one in found:
            one.why = str(reason)
        return found
    try:
        for one in found:
            print(f"capture: {engine}: {one.road}: {one.tool}", file=sys.stderr, flush=True)
            road.drop(target)
            with tempfile.TemporaryDirectory(prefix="capture-", dir=servers.directory) as folder:
                places = _Places(source, target, broker.server, Path(folder))
                try:
                    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor:
                        stream.make_table(cursor)
                        (_by_auditor if one.tool == OURS else _by_debezium)(one, places, cursor, rows)
                        if one.road == TABLE:
                            _check(cursor, target)
                except Unavailable as reason:
                    one.why = str(reason)
    finally:
        road.drop(target)
        broker.stop()
    return found


def _by_auditor(found: Captured, places: _Places, cursor: Any, rows: int) -> None:
    values = {"source": places.source, "target": places.target, "broker": places.broker, "folder": places.folder}
    text = CONFIGURATION.format(**values, pipeline=road.PIPELINE, table=stream.TABLE_NAME, sink=SINKS[found.road])
    (places.folder / "auditor.yaml").write_text(text)
    began = time.monotonic()
    with closing(open_store(f"sqlite:///{places.folder}/auditor.db")) as store, road.running(places.folder, road.PIPELINE, {}) as pipeline:
        road.wait(lambda: pipelines.get_pipeline(store, road.PIPELINE).source_offset is not None, pipeline)
        log = (places.folder / "log").open("rb")
        with closing(log):
            carried = _StagedEvents(log) if found.road == ALONE else lambda: _merged(store)
            _follow(found, places, cursor, rows, pipeline, carried, began)


class _StagedEvents:
    """Counts the events that a pipeline's log says were staged."""

    def __init__(self, log: Any) -> None:
        self._log, self._rest, self._count = log, b"", 0

    def __call__(self) -> int:
        """Return how many there are by now."""
        *lines, self._rest = (self._rest + self._log.read()).split(b"\n")
        self._count += sum(int(json.loads(line)["events"]) for line in lines if b'"action": "staged"' in line)
        return self._count


def _merged(store: Store) -> int:
    """Return how many events the pipeline's one target has."""
    return sum(report.events for reports in pipelines.list_merges(store, road.PIPELINE).values() for report in reports.values())


def _by_debezium(found: Captured, places: _Places, cursor: Any, rows: int) -> None:
    sink = ["json" if found.tool == AS_JSON else "structs"]
    if found.road == TOPIC:
        admin = AdminClient({"bootstrap.servers": places.broker, "log_level": 0})
        for name in (f"debezium.audit.{stream.TABLE_NAME}", "debezium"):
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)
        sink = ["topic", places.broker]
    if found.road == TABLE:
        _make_target(places.target)
        place = urlsplit(places.target)
        url = f"jdbc:postgresql://127.0.0.1:{place.port}{place.path}?user={place.username}&password={place.password or ''}"
        sink = ["table", url, f"{road.SCHEMA}.{stream.TABLE_NAME}", *COLUMNS]
    began = time.monotonic()
    with _debezium(places, sink) as engine:
        counts = places.folder / "counts"

        def carried() -> int:
            lines = counts.read_bytes().rpartition(b"\n")[0].splitlines()
            return int(lines[-1]) if lines else 0

        _follow(found, places, cursor, rows, engine, carried, began)
    found.cpu = {"Java": sum(found.cpu.values())}


def _follow(
    found: Captured, places: _Places, cursor: Any, rows: int, tool: subprocess.Popen[bytes], carried: Callable[[], int], began: float
) -> None:
    """Write one row, and once that is carried the others, and measure until they are, too."""
    cursor.execute(f"INSERT INTO {stream.TABLE_NAME} (id, customer) VALUES (-1000, 1)")
    road.wait(lambda: carried() >= 1, tool)
    found.start = time.monotonic() - began
    watched = road.Road(found.engine, found.tool)
    with road.watching(tool.pid, watched):
        time.sleep(2 * road.SAMPLING)
        before = Counter(watched.cpu)
        began = time.monotonic()
        found.events = stream.write_rows(cursor, rows)
        road.wait(lambda: carried() > found.events, tool)
        found.seconds = time.monotonic() - began
        time.sleep(2 * road.SAMPLING)  # so that the last sample has all of it
    found.cpu = {group: seconds - before[group] for group, seconds in watched.cpu.items()}
    found.memory = sum(watched.memory.values())
    if found.road == TABLE:
        found.latencies = road.time_rows(cursor, places.target)


@contextmanager
def _debezium(places: _Places, sink: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run Debezium for the block, from where the log ends. Raises Unavailable."""
    if VARIABLE not in os.environ or shutil.which("java") is None:
        raise Unavailable(f"Debezium is not installed: name a folder of its jars in {VARIABLE}, and install Java 17")
    place, settings, errors = urlsplit(places.source), places.folder / "connector.properties", places.folder / "errors"
    given = {
        "name": "engine", "connector.class": "io.debezium.connector.mysql.MySqlConnector", "topic.prefix": "debezium",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "database.hostname": "127.0.0.1",
        "database.port": str(place.port), "database.user": place.username or "root", "database.password": place.password or "",
        "database.server.id": "50004", "table.include.list": f"audit.{stream.TABLE_NAME}", "snapshot.mode": "no_data",
        "snapshot.locking.mode": "none", "schema.history.internal": "io.debezium.relational.history.MemorySchemaHistory",
        "database.ssl.mode": "disabled", "driver.allowPublicKeyRetrieval": "true", "tombstones.on.delete": "false",
        "converter.schemas.enable": "false", "decimal.handling.mode": "string", "max.batch.size": "20480", "max.queue.size": "81920",
    }  # fmt: skip
    settings.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    command = ["java", "-Xmx1g", "-cp", f"{os.environ[VARIABLE]}/*", str(PROGRAM), str(settings), *sink]
    with errors.open("wb") as log, (places.folder / "counts").open("wb") as counts:
        engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=counts, stderr=log)
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


def _make_target(target: str) -> None:
    """Make the table into which Debezium's sink merges."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    with closing(postgres.connect(target)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE SCHEMA {road.SCHEMA}")
        cursor.execute(f"CREATE TABLE {road.SCHEMA}.{stream.TABLE_NAME} ({columns})")


def _check(cursor: Any, target: str) -> None:
    """Compare what both tables hold. Raises RuntimeError where a tool lost something."""
    question = "SELECT COUNT(*), SUM(id), SUM(quantity), SUM(price), SUM(CHAR_LENGTH(note)) FROM"
    with closing(postgres.connect(target)) as connection, connection.cursor() as reader:
        cursor.execute(f"{question} {stream.TABLE_NAME}")
        reader.execute(f"{question} {road.SCHEMA}.{stream.TABLE_NAME}")
        held, found = (" ".join(map(str, row or ())) for row in (cursor.fetchone(), reader.fetchone()))
    if held != found:
        raise RuntimeError(f"the source holds {held}, the target {found}")
