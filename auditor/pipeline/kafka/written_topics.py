"""Hold topics against what was written into them, so that one that was cut, restored, made again or written by others is found out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from auditor.config import Broker
from auditor.errors import TopicRefused
from auditor.pipeline.kafka.broker import error_of, open_consumer, translated
from auditor.pipeline.kafka.position_record import MOMENT, TablePosition
from auditor.pipeline.kafka.topics import Topic, describe_topics

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

MARKERS = 1
"""Offsets that a committed transaction takes behind its last message in a partition: its marker."""

Part = tuple[str, int]
"""A topic's name, and a partition of it."""


def check_written(broker: Broker, admin: AdminClient, tables: Mapping[str, TablePosition]) -> dict[str, TopicRefused]:
    """Return by table why its topic is not the one that was written into; nothing of those that are. Raises BrokerError."""
    written = {table: one for table, one in tables.items() if one.topic}
    found = describe_topics(admin, [one.topic for one in written.values()], broker.timeout)
    refused = {table: TopicRefused(why) for table, one in written.items() if (why := _refuse(found.get(one.topic), one))}
    known = {(one.topic, number): end for table, one in written.items() if table not in refused for number, end in enumerate(one.ends)}
    ends = list_ends(admin, list(known), broker.timeout)
    whose = {one.topic: table for table, one in written.items()}
    for (topic, number), end in known.items():
        if ends[topic, number] < end:
            refused[whose[topic]] = TopicRefused(
                f"topic {topic}: partition {number} ends at offset {ends[topic, number]}, and messages up to {end} were written: the topic,"
                " or the broker, was restored from an earlier time; restore it, or let the target begin anew in other topics"
            )
    beyond = {part: end for part, end in known.items() if whose[part[0]] not in refused and ends[part] > end + MARKERS}
    for topic, number in _written_by_others(broker, beyond):
        refused[whose[topic]] = TopicRefused(
            f"topic {topic}: partition {number} has messages that this pipeline did not write; let nobody else write there, or give the"
            " table a topic of its own (tables: name)"
        )
    return refused


def has_messages(broker: Broker, topic: Topic) -> bool:
    """Return whether a topic has committed messages. Raises BrokerError."""
    return bool(_written_by_others(broker, {(topic.name, number): 0 for number in range(topic.partitions)}))


def _refuse(topic: Topic | None, written: TablePosition) -> str:
    anew = "restore it, or let the target begin anew, and send all rows again"
    if topic is None:
        return f"topic {written.topic}, into which messages were written, is gone; {anew}"
    if topic.id != written.topic_id:
        return f"topic {written.topic} was deleted and made again since messages were written into it; {anew}"
    if topic.partitions != len(written.ends):
        return (
            f"topic {written.topic} has {topic.partitions} partitions now, and had {len(written.ends)}: new messages of a key would go into"
            " another partition than its earlier ones; let the target begin anew in a topic with as many (tables: name, partitions)"
        )
    return ""


def list_ends(admin: AdminClient, wanted: list[Part], timeout: float) -> dict[Part, int]:
    """Return the offsets at which the committed messages of partitions end. Raises BrokerError."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    if not wanted:
        return {}
    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    with translated("the cluster"):
        asked = admin.list_offsets(
            {TopicPartition(topic, number): latest for topic, number in wanted},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=timeout,
        )
    found: dict[Part, int] = {}
    for place, answer in asked.items():
        try:
            found[place.topic, place.partition] = answer.result().offset
        except KafkaException as error:
            raise error_of(f"topic {place.topic}", error.args[0]) from error
    return found


def _written_by_others(broker: Broker, beyond: Mapping[Part, int]) -> list[Part]:
    """Return the partitions that have committed messages from these offsets on; what else is there are markers, and what was aborted."""
    if not beyond:
        return []
    from confluent_kafka import TopicPartition

    consumer = open_consumer(broker, "auditor.reader")
    try:
        with translated("the cluster"):
            consumer.assign([TopicPartition(topic, number, offset) for (topic, number), offset in beyond.items()])
        return _read_to_ends(consumer, set(beyond))
    finally:
        consumer.close()


def _read_to_ends(consumer: Consumer, left: set[Part]) -> list[Part]:
    from confluent_kafka import KafkaError

    found: list[Part] = []
    while left:
        with translated("the cluster"):
            messages = consumer.consume(1000, MOMENT)
        for message in messages:
            part, error = (message.topic() or "", message.partition() or 0), message.error()
            if error is None and part in left:
                found.append(part)
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise error_of(f"topic {part[0]}", error)
            left.discard(part)
    return found
