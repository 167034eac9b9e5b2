"""The real Debezium, a broker and a plain sink of somebody else: every type is traced as equal, and every fault to its hop."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from auditor.api_models.trace import TracedRow
from auditor.config import load
from auditor.model import Verdict
from auditor.service import running
from auditor.service.certify.log_columns import KINDS
from auditor.service.trace import Asked, trace
from auditor.store import open_store
from tests.binlog import LiveLog
from tests.pipeline.kafka.test_debezium_topics import debezium
from tests.pipeline.messages.debezium import LOG_OPTIONS, NEEDS
from tests.pipeline.read_topics.plain_sink import PlainSink
from tests.pipeline.read_topics.test_debezium_types import written
from tests.pipeline.read_topics.topics import Topics
from tests.servers import mysql
from tests.servers.process import Server, Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.mysql, *NEEDS]

ROWS, FAULTS_OF_EACH = 120, 4


@pytest.fixture
def prefixed(topics: Topics) -> Topics:
    """Topics, of which one takes what Debezium says of statements."""
    [made] = topics.admin.create_topics([NewTopic(topics.prefix, 1, 1)]).values()
    made.result()
    topics.made.add(topics.prefix)
    return topics


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        found = mysql.start_private(tmp_path_factory.mktemp("log"), LOG_OPTIONS)
    except Unavailable as error:
        pytest.skip(str(error))
    yield found
    found.stop()


def configuration(folder: Path, url: str, server: str, store: Path, audits: str) -> Path:
    path = folder / "auditor.yaml"
    path.write_text(
        f"""\
connections:
  shop: {{url: "{url}"}}
  warehouse: {{url: "duckdb:///{folder}/warehouse.duckdb"}}
store: {{url: "sqlite:///{store}"}}
brokers: {{kafka: {{servers: "{server}"}}}}
audits: {{{audits}}}
"""
    )
    return path


def audit(name: str, topic: str, target: str, more: str = "") -> str:
    through = f"through: {{broker: kafka, topic: {topic}{more}}}"
    return f"{name}: {{source: {{connection: shop, table: {name}}}, target: {target}, {through}}}"


def wait_for(topics: Topics, topic: str, count: int) -> None:
    """Wait until a topic of one partition has so many messages."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": topics.server, "group.id": "waiting"})
    deadline = time.monotonic() + 90
    while consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1] < count:
        assert time.monotonic() < deadline, f"Debezium did not write {count} messages into {topic}"
        time.sleep(0.2)
    consumer.close()


class _Changing(threading.Event):
    """What is waited for while another row of a table is changed."""

    def __init__(self, log: LiveLog, sql: str) -> None:
        super().__init__()
        self.log, self.sql = log, sql

    def wait(self, timeout: float | None = None) -> bool:
        time.sleep(1.1)
        self.log.run(self.sql)
        time.sleep(0.5)
        return False


def test_each_fault_is_traced_to_its_hop(server: Server, prefixed: Topics, tmp_path: Path, empty_store: Path) -> None:
    topics, log, numbers = prefixed, LiveLog(server.url), random.Random(4410)
    log.run("DROP TABLE IF EXISTS orders", "CREATE TABLE orders (id int PRIMARY KEY, item varchar(40), price decimal(8,2))")
    topics.make("audit.orders")
    topic, lossy = topics.name("audit.orders"), topics.make("lossy.orders")
    group = f"{topics.prefix}.sink"
    sink = PlainSink(topics.server, lossy, group, tmp_path / "warehouse.duckdb")
    keys = numbers.sample(range(ROWS), 5 * FAULTS_OF_EACH)
    names = ("unpublished", "swapped", "unapplied", "repeated", "edited")
    faults = {key: names[number // FAULTS_OF_EACH] for number, key in enumerate(keys)}
    expected = {"unpublished": "capture", "swapped": "capture", "unapplied": "sink", "repeated": "sink", "edited": "sink"}
    with debezium(tmp_path, server.url, topics.server, topics.prefix, schemas=True):
        log.run(*(f"INSERT INTO orders VALUES ({key}, 'first', {key})" for key in range(ROWS)))
        log.run(*(f"UPDATE orders SET item = 'second', price = price + 1 WHERE id = {key}" for key in numbers.sample(range(ROWS), ROWS)))
        wait_for(topics, topic, 2 * ROWS)
        # the topic of the audit has what somebody between lost, or brought out of order
        copied = Copy(topics, topic, lossy)
        copied.copy({key: fault for key, fault in faults.items() if expected[fault] == "capture"})
        first: dict[int, Any] = {}

        def lose(messages: list[Any]) -> list[Any]:
            kept = []
            for message in messages:
                key = key_of(message)
                fault = faults.get(key)
                if fault == "unapplied" and key in first:
                    continue
                kept.append(message)
                if fault == "repeated" and key in first:
                    kept.append(first[key])
                first.setdefault(key, message)
            return kept

        sink.apply(copied.written, lose)
        sink.execute(*(f"UPDATE orders SET price = -1 WHERE id = {key}" for key, fault in faults.items() if fault == "edited"))
        path = configuration(
            tmp_path,
            log.url,
            topics.server,
            empty_store,
            audit("orders", lossy, "{connection: warehouse, table: orders}", f", group: {group}"),
        )
        settings, store = load(path), open_store(f"sqlite:///{empty_store}")
        report = running.run_audit(settings, "orders", store=store)
        assert report.verdict is Verdict.MISMATCH and report.differences and report.differences.changed == len(faults)
        changing = _Copying(log, copied)
        found = trace(settings, store, "orders", Asked(limit=100, stopped=changing))
        rows: dict[int, TracedRow] = {int(row.key["id"] or ""): row for row in found.rows}
        hops = {key: (faults[key], row.outcome, row.hop, row.sentence) for key, row in rows.items()}
        wrong = {key: one for key, one in hops.items() if one[1:3] != ("lost", expected[one[0]])}
        assert rows.keys() == faults.keys() and not wrong
        event = next(row for key, row in rows.items() if faults[key] == "unapplied").events[-1]
        assert event.position and event.gtid and event.offset
        store.close()
    sink.close()


def key_of(message: Any) -> int:
    import json

    body = json.loads(message.key())
    return int(body.get("payload", body)["id"])


class Copy:
    """Copies a topic of Debezium into another one, and may lose messages of keys, or bring their last one before their first."""

    def __init__(self, topics: Topics, topic: str, into: str) -> None:
        self.topics, self.topic, self.into = topics, topic, into
        self.read = self.written = 0

    def copy(self, faults: dict[int, str]) -> None:
        from tests.pipeline.kafka.topic_road import read

        messages = read(self.topics.server, self.topic)[self.read :]
        self.read += len(messages)
        held: dict[int, Any] = {}
        kept: list[Any] = []
        for message in messages:
            key = key_of(message)
            fault = faults.get(key)
            if fault and key not in held:
                held[key] = message
                if fault == "unpublished":
                    kept.append(message)
            elif fault == "swapped":
                kept += [message, held[key]]
            elif fault != "unpublished":
                kept.append(message)
        self.topics.send(self.into, *((one.key(), one.value()) for one in kept))
        self.written += len(kept)


class _Copying(_Changing):
    """What is waited for while another row is changed, and what Debezium writes of it is copied."""

    def __init__(self, log: LiveLog, copied: Copy) -> None:
        super().__init__(log, "REPLACE INTO orders VALUES (100000, UUID(), 1)")
        self.copied = copied

    def wait(self, timeout: float | None = None) -> bool:
        super().wait(timeout)
        self.copied.copy({})
        return False


def test_rows_of_every_type_are_told_to_be_as_the_source_has_them(
    server: Server, prefixed: Topics, tmp_path: Path, empty_store: Path
) -> None:
    topics, log = prefixed, LiveLog(server.url)
    samples = {f"t_{kinds}": written(kinds, "duckdb") for kinds in KINDS}
    rows: dict[str, list[str]] = {}
    for name, some in samples.items():
        log.run(
            f"DROP TABLE IF EXISTS {name}",
            f"CREATE TABLE {name} (id int PRIMARY KEY, {', '.join(f'c{number} {one.type}' for number, one in enumerate(some))})",
        )
        depth = max(len(one.values) for one in some)
        rows[name] = [", ".join(one.values[row % len(one.values)] for one in some) for row in range(depth)]
        topics.make(f"audit.{name}")
    with debezium(tmp_path, server.url, topics.server, topics.prefix, schemas=True):
        for name, values in rows.items():
            log.run(*(f"INSERT INTO {name} VALUES ({row}, {one})" for row, one in enumerate(values)))
        for name, values in rows.items():
            wait_for(topics, topics.name(f"audit.{name}"), len(values))
    # against itself: nothing but the topic can differ
    target = "{{connection: shop, table: {0}}}"
    audits = [audit(name, topics.name(f"audit.{name}"), target.format(f"copy_of_{name}")) for name in rows]
    log.run(*(f"DROP TABLE IF EXISTS copy_of_{name}" for name in rows))
    log.run(*(f"CREATE TABLE copy_of_{name} LIKE {name}" for name in rows))
    settings, store = (
        load(configuration(tmp_path, log.url, topics.server, empty_store, ", ".join(audits))),
        open_store(f"sqlite:///{empty_store}"),
    )
    wrong: dict[str, Any] = {}
    not_told: set[str] = set()
    for name, values in rows.items():
        found = trace(settings, store, name, Asked([str(row) for row in range(len(values))]))
        not_told |= {f"{samples[name][int(column[1:])].type}: {why}" for column, why in found.not_compared.items()}
        for row, value in zip(found.rows, values, strict=True):
            if not row.events or not row.events[-1].source:
                wrong[f"{name} {row.key['id']}"] = value
    print(*sorted(not_told), sep="\n")
    assert not wrong, wrong
    store.close()
