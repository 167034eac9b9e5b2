"""Topics as a cluster has them: described, made, and held against what the configuration says of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from auditor.errors import TopicRefused
from auditor.pipeline.kafka.broker import error_of, translated

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, OffsetSpec

ALREADY_THERE = "TOPIC_ALREADY_EXISTS"

POLL = 0.05
"""Seconds between two looks whether a topic that was made is known, or a partition has a leader."""

MISSING = ("UNKNOWN_TOPIC_OR_PART", "UNKNOWN_TOPIC_ID")

WITHOUT_LEADER = {
    "NOT_LEADER_FOR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "UNKNOWN_TOPIC_OR_PART",
    "UNKNOWN_LEADER_EPOCH",
    "FENCED_LEADER_EPOCH",
}
"""What a broker says of a partition while it, or the client, has not heard who leads it, as of a topic that was made just now."""

LONGEST_MESSAGE = "max.message.bytes"

LEAST_BYTES = 200_000
"""Bytes of a batch that a topic has to take, in which several messages are sent together."""

FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1"}
"""Settings of a topic of which nothing is deleted."""


Partition = tuple[str, int]
"""A topic's name, and a partition of it."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a cluster."""

    name: str
    id: str
    """What Kafka calls this life of the topic: one that is deleted and made again has another."""
    partitions: int
    longest_message: int = 1 << 20
    """Bytes of a message that it takes."""


def describe_topics(admin: AdminClient, names: Collection[str], timeout: float) -> dict[str, Topic]:
    """Return the topics that exist, of those with these names. Raises BrokerError."""
    from confluent_kafka import KafkaException, TopicCollection

    if not names:
        return {}
    found: dict[str, Topic] = {}
    with translated("the cluster"):
        asked = admin.describe_topics(TopicCollection(sorted(names)), request_timeout=timeout)
    for name, answer in asked.items():
        try:
            described = answer.result()
        except KafkaException as error:
            if error.args[0].name() in MISSING:
                continue
            raise error_of(f"topic {name}", error.args[0]) from error
        found[name] = Topic(name, str(described.topic_id), len(described.partitions))
    return found


def make_topic(
    admin: AdminClient, name: str, partitions: int, replication: int | None, settings: Mapping[str, str], timeout: float
) -> Topic:
    """Return a topic that is made now; one that another process has made meanwhile is taken as it is. Raises BrokerError."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import NewTopic

    new = NewTopic(name, num_partitions=partitions, replication_factor=replication or -1, config=dict(settings))
    with translated(f"topic {name}"):
        asked = admin.create_topics([new], operation_timeout=timeout, request_timeout=timeout)
    try:
        asked[name].result()
    except KafkaException as error:
        if error.args[0].name() != ALREADY_THERE:
            raise error_of(f"topic {name} cannot be made", error.args[0]) from error
    until = time.monotonic() + timeout
    while (made := describe_topics(admin, [name], timeout).get(name)) is None:
        if time.monotonic() > until:
            raise TopicRefused(f"topic {name} was made, and the cluster does not have it after {timeout:g} s; look at its log")
        time.sleep(POLL)  # until the broker that is asked has heard of it
    return made


def read_settings(admin: AdminClient, names: Collection[str], timeout: float) -> dict[str, dict[str, str]]:
    """Return the settings of topics, by their names. Raises BrokerError."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource

    found: dict[str, dict[str, str]] = {}
    with translated("the cluster"):
        asked = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name) for name in names], request_timeout=timeout)
    for resource, answer in asked.items():
        try:
            found[resource.name] = {name: str(entry.value) for name, entry in answer.result().items()}
        except KafkaException as error:
            raise error_of(f"topic {resource.name}", error.args[0]) from error
    return found


def list_begins(admin: AdminClient, wanted: Iterable[Partition], timeout: float) -> dict[Partition, int]:
    """Return the first offset that each partition has. Raises BrokerError."""
    from confluent_kafka.admin import OffsetSpec

    earliest: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    return list_offsets(admin, dict.fromkeys(wanted, earliest), timeout)


def list_ends(admin: AdminClient, wanted: Iterable[Partition], timeout: float, *, committed: bool = True) -> dict[Partition, int]:
    """Return the offsets at which the messages of partitions end, up to the first one whose transaction is under way, or all.

    Raises BrokerError.
    """
    from confluent_kafka.admin import OffsetSpec

    latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    return list_offsets(admin, dict.fromkeys(wanted, latest), timeout, committed=committed)


def list_offsets(
    admin: AdminClient, wanted: Mapping[Partition, OffsetSpec], timeout: float, *, committed: bool = True
) -> dict[Partition, int]:
    """Return the offset that each partition has for what is asked of it, once it has a leader that knows of it. Raises BrokerError."""
    from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    found: dict[Partition, int] = {}
    until = time.monotonic() + timeout
    while left := {TopicPartition(*part): spec for part, spec in wanted.items() if part not in found}:
        with translated("the cluster"):
            answers = admin.list_offsets(left, isolation_level=level, request_timeout=timeout)
        for place, answer in answers.items():
            try:
                found[place.topic, place.partition] = int(answer.result().offset)
            except KafkaException as error:
                if error.args[0].name() not in WITHOUT_LEADER or time.monotonic() > until:
                    raise error_of(f"partition {place.partition} of topic {place.topic}", error.args[0]) from error
        if len(found) < len(wanted):
            time.sleep(POLL)
    return found


def refuse_settings(topic: Topic, found: Mapping[str, str], partitions: int, wanted: Mapping[str, str]) -> str:
    """Return in what a topic is otherwise than the configuration says, as a sentence with what to do; '' if it is as that says."""
    if topic.partitions != partitions:
        return (
            f"topic {topic.name} has {topic.partitions} partitions, and the configuration says {partitions}: a key would change its"
            f" partition, and its order with it; write partitions: {topic.partitions}, or publish into a new topic"
        )
    if int(found.get(LONGEST_MESSAGE, LEAST_BYTES)) < LEAST_BYTES:
        return f"topic {topic.name} takes batches of {found[LONGEST_MESSAGE]} bytes; set its {LONGEST_MESSAGE} to {LEAST_BYTES} or more"
    for name, value in wanted.items():
        if name in found and _normal(found[name]) != _normal(value):
            return (
                f"topic {topic.name} has {name} = {found[name]}, and the configuration says {value}; change the topic"
                f" (kafka-configs --alter), or the configuration"
            )
    return ""


def _normal(value: str) -> str:
    """Return a setting so that lists in other orders are equal."""
    return ",".join(sorted(part.strip() for part in value.split(",")))


def list_committed(admin: AdminClient, group: str, topic: Topic, timeout: float) -> dict[int, int]:
    """Return up to which offset a consumer group has committed each partition of a topic, of those that it has. Raises BrokerError."""
    from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic.name, number) for number in range(topic.partitions)])
    with translated(f"group {group}"):
        [answer] = admin.list_consumer_group_offsets([asked], request_timeout=timeout).values()
    try:
        found = answer.result().topic_partitions
    except KafkaException as error:
        raise error_of(f"group {group}", error.args[0]) from error
    for one in found:
        if one.error is not None:
            raise error_of(f"group {group}", one.error)
    return {one.partition: one.offset for one in found if one.offset >= 0}
