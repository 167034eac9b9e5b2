"""A pipeline from topics of a live broker into one target, without Spark: batches are planned, read, staged and merged in this process."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from auditor import config
from auditor.connections.writer import open_writer, writing_dialect
from auditor.model import TableNote
from auditor.pipeline.batch_driver import BatchDriver
from auditor.pipeline.folders import folder_at
from auditor.pipeline.incarnation import packed
from auditor.pipeline.kafka.topic_sources import source_and_begin
from auditor.pipeline.merge.load_tasks import close_sessions
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.stage_task import TableRules
from auditor.pipeline.staging import Staging
from auditor.store import Store, open_store, parts, pipelines, table_notes
from tests.pipeline.road import pass_time, run_here

PIPELINE = "shop"

EVENTS = "events"
"""The name of the target that is topics, where a road has one."""


class Topics:
    """Topics of one test on a broker that others use too: their names begin with a prefix of the test's own."""

    def __init__(self, server: str, prefix: str = "") -> None:
        self.server = server
        self.prefix = prefix or f"t{uuid.uuid4().hex[:10]}"
        self.admin = AdminClient({"bootstrap.servers": server, "log_level": 0})
        self.made: set[str] = set()

    def name(self, table: str) -> str:
        """The topic of a table, ``shop.orders``."""
        return f"{self.prefix}.{table}"

    def make(self, table: str, partitions: int = 1, **settings: str) -> str:
        """Make the topic of a table, and return its name."""
        topic = self.name(table)
        properties = {name.replace("_", "."): value for name, value in settings.items()}
        [made] = self.admin.create_topics([NewTopic(topic, partitions, 1, config=properties)]).values()
        made.result()
        self.made.add(topic)
        self.wait(lambda: topic in self._ids())
        return topic

    def remove(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        [gone] = self.admin.delete_topics([topic]).values()
        gone.result()
        self.wait(lambda: topic not in self._ids())

    def _ids(self) -> set[str]:
        found = set()
        for name, answer in self.admin.describe_topics(TopicCollection(sorted(self.made))).items():
            try:
                answer.result()
                found.add(name)
            except KafkaException:
                continue
        return found

    def wait(self, reached: Callable[[], bool]) -> None:
        """Wait until the broker has done something."""
        for _ in range(2000):
            if reached():
                return
            self.admin.poll(0.02)
        raise AssertionError("the broker did not do it")

    @contextmanager
    def producing(self, **settings: Any) -> Iterator[Producer]:
        """A producer, whose messages are there at the end of the block."""
        producer = Producer({"bootstrap.servers": self.server, "log_level": 0, "linger.ms": 5, **settings})
        yield producer
        assert producer.flush(30) == 0

    def send(self, topic: str, *messages: tuple[Any, Any], partition: int | None = None) -> None:
        """Send messages: keys and values, which become JSON unless they are bytes or None."""
        with self.producing() as producer:
            for key, value in messages:
                producer.produce(topic, key=_bytes(key), value=_bytes(value), partition=-1 if partition is None else partition)
                producer.poll(0)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """What Kafka's own tools show of a consumer group: the committed offset of each partition."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        [answer] = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return {(one.topic, one.partition): one.offset for one in answer.result().topic_partitions}

    def close(self) -> None:
        """Delete the topics that are left."""
        left = sorted(self._ids()) if self.made else []
        for gone in self.admin.delete_topics(left).values() if left else ():
            gone.result()


def _bytes(value: Any) -> bytes | None:
    return value if isinstance(value, bytes | None) else json.dumps(value).encode()


class TopicRoad:
    """One pipeline from topics into one target."""

    def __init__(
        self,
        folder: Path,
        topics: Topics,
        url: str,
        empty_store: Path,
        source: str,
        more: str = "",
        brokers: str = "",
        *,
        another: str = "",
        target: str = "",
    ) -> None:
        """``source`` are the lines of the source below its broker, ``more`` further ones of the pipeline.

        ``another`` is a broker with which topics are the pipeline's second target, ``target`` what is said of it beside.
        """
        self.topics, self.folder = topics, folder
        self.schema = f"s{uuid.uuid4().hex[:8]}"
        self.config_file = folder / "auditor.yaml"
        self.group = f"auditor.{topics.prefix}"
        lines = "\n".join(f"      {line}" for line in source.strip().splitlines())
        rest = "\n".join(f"    {line}" for line in more.strip().splitlines())
        also = f"\n  another: {{servers: {another!r}}}" if another else ""
        named = f"topic: '{topics.prefix}.{{database}}.{{table}}', positions: {topics.prefix}.positions"
        events = f", {EVENTS}: {{broker: another, {named}, every: 0s{target}}}" if another else ""
        self.config_file.write_text(
            f"""\
connections:
  warehouse: {{url: "{url}", write: {{url: "{url}"}}, limits: {{lock_timeout: 2s}}}}
brokers:
  kafka: {{servers: ["{topics.server}"]{brokers}}}{also}
audits: {{}}
pipelines:
  {PIPELINE}:
    source:
      broker: kafka
      group: {self.group}
{lines}
    staging: {{path: "{folder}/staging"}}
    targets: {{wh: {{connection: warehouse, schema: {self.schema}, every: 0s}}{events}}}
{rest}
"""
        )
        self.settings = config.load(self.config_file)
        self.root = folder_at(str(folder / "staging"))
        self.root.make()
        assert self.settings.store
        shutil.copy(empty_store, folder / "auditor.db")
        self.store: Store = open_store(self.settings.store.url)
        self.loaders: list[Loader] = []
        self.driver: BatchDriver | None = None

    def begin(self, run_tasks: Callable[[Any, Sequence[Any]], list[Any]] = run_here) -> BatchDriver:
        """A driver of batches that begins where the store says, as a new process has one."""
        self.end()
        offset = pipelines.get_pipeline(self.store, PIPELINE).source_offset
        if offset is None:
            offset = source_and_begin(self.settings, PIPELINE)[1]().to_json()
            parts.record_batch(self.store, PIPELINE, [], {}, offset, topics_through=packed(offset))
        options = {"config": str(self.config_file), "pipeline": PIPELINE, "start": json.dumps(offset)}
        staging = Staging(self.store, PIPELINE, self.root, TableRules(self.settings.pipelines[PIPELINE], b"salt"))
        self.driver = BatchDriver(source_and_begin(self.settings, PIPELINE)[0], options, staging, run_tasks, 0.01)
        return self.driver

    def stage(self) -> int:
        """Stage what there is, batch after batch; return how many batches."""
        driver = self.driver or self.begin()
        before = driver.batches
        while driver._stage_next() is not None:
            pass
        return driver.batches - before

    def end(self) -> None:
        """End the driver."""
        if self.driver is not None:
            self.driver._close()
        self.driver = None

    def merge(self) -> int:
        """Merge what is staged; return how many events."""
        if not self.loaders:
            chosen = self.settings.pipelines[PIPELINE].table_targets["wh"]
            where = Where(self.store, PIPELINE, str(self.config_file), "warehouse", chosen.schema_, str(self.root), run_here, "wh", chosen)
            self.loaders.append(Loader(where, "wh", self.settings.connections["warehouse"]))
        pass_time(self.loaders[0])  # what was stopped is tried again
        return self.loaders[0].merge_all()

    def load(self) -> None:
        """Stage and merge everything that there is."""
        self.stage()
        self.merge()

    def rows(self, table: str, order: str = "1") -> list[tuple[Any, ...]]:
        """The rows of a target's table."""
        dialect = writing_dialect("warehouse", self.settings.connections["warehouse"])
        return self.query(f"SELECT * FROM {dialect.names.table(self.schema, table)} ORDER BY {order}")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """What the target answers."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            return session.query(sql)

    def notes(self) -> list[TableNote]:
        """What stops tables."""
        return [note for note in table_notes.list_notes(self.store, PIPELINE) if note.stops]

    @property
    def offset(self) -> dict[str, Any]:
        """The offset in the store."""
        found: dict[str, Any] = pipelines.get_pipeline(self.store, PIPELINE).source_offset
        return found

    def read_up_to(self) -> dict[tuple[str, int], int]:
        """By partition the next offset that is read."""
        return {(name, number): end for name, body in self.offset["topics"].items() for number, end in enumerate(body["offsets"])}

    def close(self) -> None:
        """Close everything, and drop what a shared server has of this road."""
        self.end()
        close_sessions()
        for loader in self.loaders:
            loader.close()
        self.store.close()
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            cascade = "" if session.dialect.name == "mysql" else " CASCADE"
            session.execute(f"DROP SCHEMA IF EXISTS {session.dialect.names.quote(self.schema)}{cascade}")


def plain(topics: Topics, *tables: str, **columns: str) -> str:
    """The lines of a source whose topics have plain messages with these columns, of which the first is the key."""
    listed = ", ".join(f"{name}: {kind}" for name, kind in columns.items())
    key = next(iter(columns))
    named: Iterable[str] = (f"  {topics.name(table)}: {{table: {table}, key: [{key}], columns: {{{listed}}}}}" for table in tables)
    return "\n".join(["messages: {values: plain}", "topics:", *named])
