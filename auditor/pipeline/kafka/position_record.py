"""What a target that is topics says of itself: up to where each topic has its table, and all of them together.

It stands in a compacted topic of one partition. Each transaction writes a record of each table whose topic it wrote into, and one of the
pipeline as a whole as its last. A reader of committed messages up to such a record therefore knows exactly what was published with it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from auditor.errors import BrokerError, BrokerUnreachable, IncarnationsDiffer
from auditor.pipeline.kafka.broker import error_of, open_admin, open_consumer, take, translated
from auditor.pipeline.kafka.topics import list_ends

if TYPE_CHECKING:
    from auditor.config import Broker

FORMAT = 1
"""The number of the form of these records; another one is refused."""

MOMENT = 0.1
"""Seconds for which messages are collected that are handed on together."""

WHOLE = b"{}"
"""The key of the record of the pipeline as a whole."""


@dataclass(frozen=True, slots=True)
class TablePosition:
    """Up to where a topic has a table."""

    position: int = 0
    """The position in the pipeline's stream; 0 for nothing."""
    schema_id: str = ""
    """The schema of the last message."""
    topic: str = ""
    topic_id: str = ""
    ends: tuple[int, ...] = ()
    """For each partition the offset behind its last message when all of ours had arrived."""
    counts: tuple[int, ...] = ()
    """For each partition how many messages were ever written into it, which is the number of the next one."""


@dataclass(frozen=True, slots=True)
class Published:
    """What a target that is topics says of itself."""

    incarnation: str = ""
    """The pipeline's; empty if nothing was ever published."""
    batch: int = 0
    """How many transactions there were."""
    position: int = 0
    """Up to where every table is published, but for those ``apart``."""
    apart: frozenset[str] = frozenset()
    tables: Mapping[str, TablePosition] = field(default_factory=dict)
    """By the names that the stream has for them."""

    def through(self, table: str) -> int:
        """Return up to where a table is published."""
        own = self.tables.get(table, NOTHING).position
        return own if table in self.apart else max(own, self.position)

    def records(self, changed: Mapping[str, TablePosition]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values of the records of a transaction after which the target says this; the last one is of the whole."""
        for table, one in sorted(changed.items()):
            yield _dumped({"table": table}), _dumped(asdict(one))
        whole = {"format": FORMAT, "incarnation": self.incarnation, "batch": self.batch, "position": self.position}
        yield WHOLE, _dumped({**whole, "apart": sorted(self.apart)})

    def take(self, key: bytes, value: bytes | None) -> Published:
        """Return what the target says after one more record. Raises BrokerError for one that this version does not write."""
        body = None if value is None else json.loads(value)
        if key != WHOLE:
            table = json.loads(key)["table"]
            tables = {name: one for name, one in self.tables.items() if name != table}
            return replace(self, tables=tables if body is None else {**tables, table: _table_position(body)})
        if body is None:
            return Published(tables=self.tables)
        if body.pop("format", None) != FORMAT:
            raise IncarnationsDiffer(
                "the positions topic was written by another version of auditor; use that version, or let the target begin anew in other"
                " topics"
            )
        return replace(self, **{**body, "apart": frozenset(body["apart"])})


NOTHING = TablePosition()


def _table_position(body: dict[str, Any]) -> TablePosition:
    return TablePosition(**{**body, "ends": tuple(body["ends"]), "counts": tuple(body["counts"])})


def _dumped(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


def read_published(broker: Broker, topic: str) -> Published:
    """Return what a positions topic says at its committed end; nothing if it is empty. Raises BrokerError, and
    IncarnationsDiffer for records that this version does not write.

    Call it once the producer has its transactions settled.
    """
    said = Published()
    for key, value in dict(read_records(broker, topic)).items():  # of each the latest one
        said = said.take(key, value)
    return said


def read_records(broker: Broker, topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the keys and values of a topic of one partition, up to its committed end now.

    Call it once the topic's producer has its transactions settled. Raises BrokerError, also where one of them is not, as after a crash of
    a broker that forgot to end it: what follows it is hidden, and would be sent twice.
    """
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

    # A partition's leader that has just begun does not list its end until it knows it, and would say that it ends earlier where it is read:
    # https://cwiki.apache.org/confluence/display/KAFKA/KIP-207
    admin = open_admin(broker)
    end, written = (list_ends(admin, [(topic, 0)], broker.timeout, committed=one)[topic, 0] for one in (True, False))
    if end < written:
        raise BrokerError(
            f"topic {topic} has a transaction at offset {end} that is neither committed nor aborted, although its producer has none under"
            " way; find it by kafka-transactions.sh find-hanging, and abort it in all topics of the target"
        )
    consumer, silent_since = open_consumer(broker, f"auditor.reader.{topic}"), time.monotonic()
    try:
        with translated(f"topic {topic}"):
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        reached = 0
        while reached < end:
            with translated(f"topic {topic}"):
                found = take(consumer, 10_000, MOMENT)
            if found:
                silent_since = time.monotonic()
            elif time.monotonic() > silent_since + broker.timeout:
                raise BrokerUnreachable(f"topic {topic} cannot be read: the broker says nothing for {broker.timeout:g} s")
            for message in found:
                reached = (message.offset() or 0) + 1
                if error := message.error():
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise error_of(f"topic {topic}", error)
                    reached -= 1  # an end has the offset at which the next message will be
                    continue
                key = message.key()
                if key is None:
                    raise BrokerError(f"topic {topic} has a message without a key, which auditor did not write; give it a topic of its own")
                yield key, message.value()
    finally:
        consumer.close()
