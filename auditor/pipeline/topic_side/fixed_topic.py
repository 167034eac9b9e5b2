"""Where a topic that is a side of a run begins and ends, fixed when the run begins, and what its publisher says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from auditor.config import Broker, Settings, TopicRef
from auditor.errors import BrokerDenied, TopicRefused
from auditor.pipeline.events import TableSchema
from auditor.pipeline.kafka.broker import open_admin
from auditor.pipeline.kafka.own_statements import Statements, TopicTail
from auditor.pipeline.kafka.position_record import Published, TablePosition
from auditor.pipeline.kafka.topics import Topic, describe_topics, list_begins, list_ends, read_settings

if TYPE_CHECKING:
    from confluent_kafka import Message

GROUP = "auditor.audits"
"""The consumer group under which runs read; it has no offsets."""

OFFSET_BITS = 40
"""Bits of an offset in the place of a message, whose partition is above it."""

OUR_LOG = "auditor"
"""The log of changes that our publisher numbers by its stream's positions."""


@dataclass(frozen=True, slots=True)
class FixedTopic:
    """A topic as a run reads it: where each of its partitions begins and ends."""

    ref: TopicRef
    broker: Broker
    topic: Topic
    begins: Mapping[int, int]
    """By partition, the first offset that there is."""
    ends: Mapping[int, int]
    """By partition, the offset behind the last message whose transaction is decided, as all before it are."""
    hidden: Mapping[int, int]
    """By partition, from which offset on messages wait for a transaction that stands open."""
    policy: str | None
    """The topic's ``cleanup.policy``; None where the account may not see it."""
    published: TablePosition | None = None
    """What the pipeline that publishes the topic said of it, before its ends were fixed; None for other topics."""
    schemas: Mapping[str, TableSchema] = field(default_factory=dict)
    """The columns that its messages can have, by the ids that they name, where its publisher's topic of statements says them."""

    @property
    def behind(self) -> dict[int, int]:
        """By partition, up to which offset its publisher has committed, where the partition ends before; it may show it a moment later."""
        written = self.published.ends if self.published else ()
        return {number: end for number, end in enumerate(written) if self.ends.get(number, 0) < end}

    @property
    def offsets(self) -> int:
        """How many offsets are read."""
        return sum(end - self.begins[number] for number, end in self.ends.items())

    @property
    def is_compacted(self) -> bool:
        """Whether compaction may have removed messages that later ones of their keys replace, as far as is known."""
        return self.policy is None or "compact" in self.policy


def fix_topic(settings: Settings, ref: TopicRef) -> FixedTopic:
    """Return where a topic begins and ends now. Raises TopicRefused if it is not there, and BrokerError."""
    broker = settings.brokers[ref.broker]
    admin = open_admin(broker)
    topic = describe_topics(admin, [ref.topic], broker.timeout).get(ref.topic)
    if topic is None:
        raise TopicRefused(f"topic {ref.topic} is not on the broker {ref.broker}; correct its name in the audit")
    published, schemas = _read_publisher(broker, ref, topic) if ref.published_by else (None, {})
    places = [(topic.name, number) for number in range(topic.partitions)]
    ends = list_ends(admin, places, broker.timeout)
    written, begins = list_ends(admin, places, broker.timeout, committed=False), list_begins(admin, places, broker.timeout)
    try:
        policy = read_settings(admin, [topic.name], broker.timeout)[topic.name].get("cleanup.policy")
    except BrokerDenied:
        policy = None
    return FixedTopic(
        ref=ref,
        broker=broker,
        topic=topic,
        begins={number: min(begins[topic.name, number], ends[topic.name, number]) for _, number in places},
        ends={number: ends[topic.name, number] for _, number in places},
        hidden={number: ends[topic.name, number] for _, number in places if written[topic.name, number] > ends[topic.name, number]},
        policy=policy,
        published=published,
        schemas=schemas,
    )


def _read_publisher(broker: Broker, ref: TopicRef, topic: Topic) -> tuple[TablePosition, dict[str, TableSchema]]:
    """Return what a pipeline says of a topic that it publishes, and the columns of its messages. Raises TopicRefused and BrokerError."""
    by = ref.published_by
    assert by is not None, "it is asked for such topics"
    own = by.positions_topic, by.statements_topic
    if missing := {*own} - {*describe_topics(open_admin(broker), own, broker.timeout)}:
        raise TopicRefused(
            f"topic {min(missing)} is not on the broker {ref.broker}: the pipeline {by.pipeline} has not published anything there; correct"
            " published_by of the audit's topic"
        )
    said = read_said(broker, by.positions_topic)
    table, published = next(((table, one) for table, one in said.tables.items() if one.topic == topic.name), ("", TablePosition()))
    if not table or published.topic_id != topic.id:
        what = "was made again since" if table else "is none of those that it says it publishes"
        raise TopicRefused(
            f"topic {topic.name} {what}, as the positions topic {by.positions_topic} of the pipeline {by.pipeline} says; correct"
            " published_by of the audit's topic"
        )
    statements = Statements(by.statements_topic)
    for message in _read_all(broker, by.statements_topic):
        statements.take(message)
    return published, statements.columns(table, 0, 1 << 62)


def read_said(broker: Broker, positions_topic: str) -> Published:
    """Return what a positions topic says of what is committed now, while its pipeline may publish more. Raises BrokerError."""
    said = Published()
    for key, value in {message.key() or b"": message.value() for message in _read_all(broker, positions_topic)}.items():
        said = said.take(key, value)
    return said


def _read_all(broker: Broker, topic: str) -> list[Message]:
    """Return the committed messages of a topic of one partition."""
    tail = TopicTail(broker, topic, GROUP)
    try:
        return tail.advance()
    finally:
        tail.close()
