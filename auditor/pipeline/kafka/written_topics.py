"""Hold topics against what was written into them, so that one that was cut, restored, made again or written by others is found out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from auditor.config import Broker
from auditor.errors import BrokerUnreachable, TopicRefused
from auditor.pipeline.kafka.broker import error_of, open_consumer, take, translated
from auditor.pipeline.kafka.position_record import MOMENT, TablePosition
from auditor.pipeline.kafka.topics import Partition, Topic, describe_topics, list_begins, list_ends

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

MARKERS = 1
"""Offsets that a committed transaction takes behind its last message in a partition: its marker."""


def check_written(broker: Broker, admin: AdminClient, tables: Mapping[str, TablePosition]) -> dict[str, TopicRefused]:
    """Return by table why its topic is not the one that was written into; nothing of those that are. Raises BrokerError."""
    written = {table: one for table, one in tables.items() if one.topic}
    found = describe_topics(admin, [one.topic for one in written.values()], broker.timeout)
    refused = {
        table: TopicRefused(why)
        for table, one in written.items()
        if (why := refuse_changed(found.get(one.topic), one.topic, one.topic_id, len(one.ends)))
    }
    known = {(one.topic, number): end for table, one in written.items() if table not in refused for number, end in enumerate(one.ends)}
    ends = list_ends(admin, list(known), broker.timeout)
    whose = {one.topic: table for table, one in written.items()}
    hidden = [part for part, end in known.items() if ends[part] < end]
    written_ends = list_ends(admin, hidden, broker.timeout, committed=False)
    for topic, number in hidden:
        end = known[topic, number]
        if written_ends[topic, number] >= end:
            refused[whose[topic]] = TopicRefused(
                f"topic {topic}: partition {number} has a transaction at offset {ends[topic, number]} that is neither committed nor"
                f" aborted, and hides messages up to {end}, of which the broker said that they are committed; see to it by"
                " kafka-transactions.sh find-hanging, or let the target begin anew in other topics"
            )
        else:
            refused[whose[topic]] = TopicRefused(
                f"topic {topic}: partition {number} ends at offset {ends[topic, number]}, and messages up to {end} were written: the topic,"
                " or the broker, was restored from an earlier time; restore it, or let the target begin anew in other topics"
            )
    beyond = {part: end for part, end in known.items() if whose[part[0]] not in refused and ends[part] > end + MARKERS}
    for topic, number in _written_by_others(broker, admin, beyond):
        refused[whose[topic]] = TopicRefused(
            f"topic {topic}: partition {number} has messages that this pipeline did not write; let nobody else write there, or give the"
            " table a topic of its own (tables: name)"
        )
    return refused


def has_messages(broker: Broker, admin: AdminClient, topic: Topic) -> bool:
    """Return whether a topic has committed messages. Raises BrokerError."""
    return bool(_written_by_others(broker, admin, {(topic.name, number): 0 for number in range(topic.partitions)}))


def refuse_changed(found: Topic | None, name: str, topic_id: str, partitions: int) -> str:
    """Return why a topic is not the one of this id with so many partitions; '' if it is."""
    anew = "restore it, or let the target begin anew, and send all rows again"
    if found is None:
        return f"topic {name}, into which messages were written, is gone; {anew}"
    if found.id != topic_id:
        return f"topic {name} was deleted and made again since messages were written into it; {anew}"
    if found.partitions != partitions:
        return (
            f"topic {name} has {found.partitions} partitions now, and had {partitions}: new messages of a key would go into"
            " another partition than its earlier ones; let the target begin anew in a topic with as many (tables: name, partitions)"
        )
    return ""


def _written_by_others(broker: Broker, admin: AdminClient, beyond: Mapping[Partition, int]) -> list[Partition]:
    """Return the partitions that have committed messages from these offsets on; what else is there are markers, and what was aborted.

    Raises BrokerError.
    """
    from confluent_kafka import TopicPartition

    begins, ends = list_begins(admin, beyond, broker.timeout), list_ends(admin, beyond, broker.timeout)
    starts = {part: max(offset, begins[part]) for part, offset in beyond.items()}  # what retention deleted cannot be read
    left = {part: ends[part] for part, start in starts.items() if start < ends[part]}
    if not left:
        return []
    consumer = open_consumer(broker, "auditor.reader")
    try:
        with translated("the cluster"):
            consumer.assign([TopicPartition(topic, number, starts[topic, number]) for topic, number in left])
        return find_messages(consumer, left, broker.timeout)
    finally:
        consumer.close()


def find_messages(consumer: Consumer, left: dict[Partition, int], timeout: float) -> list[Partition]:
    """Return in which partitions there are messages before these ends.

    The end that a consumer reports is not enough: a partition's leader that has just begun may say an earlier one. Raises BrokerError.
    """
    from confluent_kafka import KafkaError

    found: list[Partition] = []
    heard = time.monotonic()
    while left:
        with translated("the cluster"):
            messages = take(consumer, 1000, MOMENT)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() > heard + timeout:
            topic, number = min(left)
            raise BrokerUnreachable(f"partition {number} of topic {topic} cannot be read: the broker says nothing for {timeout:g} s")
        for message in messages:
            part, error = (message.topic() or "", message.partition() or 0), message.error()
            if error is None and part in left:
                found.append(part)
                del left[part]
            elif error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise error_of(f"topic {part[0]}", error)
            elif error is not None and (message.offset() or 0) >= left.get(part, 0):
                left.pop(part, None)
    return found
