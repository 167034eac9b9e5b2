"""A pipeline with topics as its target, whose parts are made by hand, and a consumer that shares no code with it."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from auditor import config
from auditor.model import Part, TableNote
from auditor.pipeline.folders import folder_at
from auditor.pipeline.part_writer import write_parts
from auditor.pipeline.publisher import Publisher
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.pipeline.staging import Staging
from auditor.service import pipelines as service
from auditor.store import Store, open_store, parts, pipelines

PIPELINE = "feed"
TARGET = "events"


class TopicRoad:
    """One pipeline into the topics of one target."""

    def __init__(
        self, folder: Path, broker: str, empty_store: Path, prefix: str, registry: str = "", cluster: Any = None, **target: Any
    ) -> None:
        self.folder, self.server, self.prefix = folder, broker, prefix
        self.config_file = folder / "auditor.yaml"
        chosen = {"broker": "kafka", "topic": f"{prefix}.{{database}}.{{table}}", "schema_changes": f"{prefix}.changes", "every": "0s"}
        chosen |= {"positions": f"{prefix}.positions", **target}
        values = {
            "connections": {"source": {"url": "mysql://nobody@localhost/shop"}},
            "brokers": {"kafka": cluster or {"servers": broker, **({"registry": {"url": registry}} if registry else {})}},
            "audits": {},
            "pipelines": {
                PIPELINE: {
                    "source": {"connection": "source", "tables": ["*"]},
                    "staging": {"path": f"{folder}/staging"},
                    "targets": {TARGET: chosen},
                }
            },
        }
        self.config_file.write_text(json.dumps(values))
        self.settings = config.load(self.config_file)
        self.root = folder / "staging"
        assert self.settings.store
        shutil.copy(empty_store, folder / "auditor.db")
        self.store: Store = open_store(self.settings.store.url)
        self.publishers: list[Publisher] = []

    def close(self) -> None:
        """Leave the broker, and close the store."""
        for publisher in self.publishers:
            publisher.close()
        self.store.close()

    def publisher(self) -> Publisher:
        """A publisher, which is left at the end; what failed is tried again whenever it publishes."""
        self.publishers.append(Publisher(self.settings, self.store, PIPELINE, TARGET))
        self.publishers[-1].clock = itertools.count(0.0, 100.0).__next__
        return self.publishers[-1]

    def publish(self, anew: bool = False) -> int:
        """Let the last publisher publish, or with ``anew`` one that begins now, as after a restart; return the number of events."""
        if anew and self.publishers:
            self.publishers[-1].close()
        return (self.publisher() if anew or not self.publishers else self.publishers[-1]).publish_all()

    def configure(self, **target: Any) -> None:
        """Change the target's configuration, for publishers that begin from now on."""
        values = json.loads(self.config_file.read_text())
        values["pipelines"][PIPELINE]["targets"][TARGET] |= target
        self.config_file.write_text(json.dumps(values))
        self.settings = config.load(self.config_file)

    def report(self, table: str = "shop.orders") -> tuple[str, str]:
        """How a table stands, and why it does not go on."""
        found = pipelines.list_merges(self.store, PIPELINE, TARGET)[TARGET][table]
        return found.state, found.reason

    def skip(self, position: int, table: str = "shop.orders", row: int | None = None) -> None:
        """Let a table go on without the events at a position, or one of them, or a statement there."""
        place = f"binlog.000000:{position}" if row is None else f"binlog.000000:{position}:{row}"
        service.skip(self.settings, self.store, PIPELINE, table, place, "the test's own", by="ada")

    def stage(self, *batches: pa.RecordBatch) -> list[Part]:
        """Stage batches, each of one table, as one batch of the stream."""
        written = [one for batch in batches for one in write_parts(folder_at(str(self.root)), [batch])]
        found = [one.part for one in written if one.part.rows]
        schemas = {one.part.schema_id: json.loads(one.schema_json) for one in written if one.schema_json}
        parts.record_batch(self.store, PIPELINE, found, schemas)
        return found

    def stage_task(self, *batches: pa.RecordBatch) -> list[TableNote]:
        """Stage batches as a task of the stream does, with their notes."""
        rules = TableRules(self.settings.pipelines[PIPELINE], b"salt")
        rows = [row for one in stage_task(str(self.root), rules, batches) for row in one.to_pylist()]
        found, notes = read_entries(rows)
        Staging(self.store, PIPELINE, folder_at(str(self.root)), rules).record_batch(found, {"file": "binlog.000000", "position": 0}, notes)
        return notes

    def messages(self, topic: str = "shop.orders") -> list[Message]:
        """The committed messages of a topic, whose prefix is added, by partition and offset."""
        return read(self.server, f"{self.prefix}.{topic}")

    def values(self, topic: str = "shop.orders") -> list[Any]:
        """What is in the values of a topic's messages."""
        return [None if (value := message.value()) is None else json.loads(value) for message in self.messages(topic)]

    def whole(self) -> Mapping[str, Any]:
        """The last record of the pipeline as a whole in the positions topic."""
        found = [message.value() for message in self.messages("positions") if message.key() == b"{}"]
        body: Mapping[str, Any] = json.loads(found[-1] or b"")
        return body

    def table(self, topic: str = "shop.orders") -> dict[str, Mapping[str, Any]]:
        """The rows that a plain consumer of Debezium's messages has in the end, by their keys."""
        return rebuild(self.messages(topic))


def number_of(message: Message) -> int:
    """Return the number of a message in its partition, as its publisher counted it."""
    return int(headers_of(message)["auditor"].split(".")[3])


def headers_of(message: Message) -> dict[str, str]:
    """Return a message's headers as texts."""
    found: Any = message.headers() or ()
    return {name: value.decode() for name, value in found}


def read(server: str, topic: str, partitions: Sequence[int] | None = None) -> list[Message]:
    """Return the committed messages of a topic, by partition and offset."""
    with consumer(server) as client:
        known = client.list_topics(topic, timeout=10).topics[topic]
        numbers = sorted(known.partitions) if partitions is None else partitions
        client.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
        found, left = list[Message](), set(numbers)
        while left:
            message = client.poll(10)
            assert message is not None, f"the broker says nothing of {topic}"
            if (error := message.error()) is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise AssertionError(error)
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


@contextmanager
def consumer(server: str) -> Iterator[Consumer]:
    """A consumer of committed messages."""
    client = Consumer(
        {
            "bootstrap.servers": server,
            "group.id": "tests",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,  # after which a broker says that a partition ends
            "log_level": 0,
        }
    )
    try:
        yield client
    finally:
        client.close()


def rebuild(messages: Sequence[Message]) -> dict[str, Mapping[str, Any]]:
    """Return the rows that messages in Debezium's JSON leave, by their keys; each partition by itself, as a consumer's state is."""
    rows: dict[int, dict[str, Mapping[str, Any]]] = {}
    for message in messages:
        of_partition = rows.setdefault(message.partition() or 0, {})
        key, value = message.key(), message.value()
        if value is None:
            assert key is not None
            of_partition.pop(key.decode(), None)
            continue
        body = json.loads(value)
        if body["op"] == "t":
            of_partition.clear()
        elif body["op"] == "d":
            of_partition.pop((key or b"").decode(), None)
        else:
            of_partition[(key or b"").decode()] = body["after"]
    found: dict[str, Mapping[str, Any]] = {}
    for of_partition in rows.values():
        assert not found.keys() & of_partition.keys(), "a key is in two partitions"
        found |= of_partition
    return found


@dataclass
class Made:
    """What makes roads, each with topics of its own."""

    folder: Path
    broker: str
    registry: str
    empty_store: Path
    cluster: Any = None
    """What auditor.yaml says of the broker, if that is more than where it is."""
    roads: list[TopicRoad] = field(default_factory=list)

    def road(self, **target: Any) -> TopicRoad:
        """A new pipeline with a target that is so configured."""
        number = len(self.roads)
        folder = self.folder / f"road{number}"
        folder.mkdir()
        prefix = f"{self.folder.name}-{number}"
        self.roads.append(TopicRoad(folder, self.broker, self.empty_store, prefix, self.registry, self.cluster, **target))
        return self.roads[-1]
