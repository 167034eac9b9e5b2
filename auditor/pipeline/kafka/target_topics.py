"""The topics of one target: described once, made where they are missing, and held against the configuration and what was written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from auditor.config import Broker, Settings, TopicTarget
from auditor.errors import TopicRefused
from auditor.pipeline.events import TableSchema
from auditor.pipeline.kafka.broker import open_admin
from auditor.pipeline.kafka.position_record import TablePosition
from auditor.pipeline.kafka.table_messages import refuse_registry
from auditor.pipeline.kafka.topics import (
    FOR_EVER,
    LONGEST_MESSAGE,
    Topic,
    describe_topics,
    list_ends,
    make_topic,
    read_settings,
    refuse_settings,
)
from auditor.pipeline.kafka.written_topics import check_written, has_messages, refuse_changed
from auditor.pipeline.messages.formats import Register
from auditor.pipeline.messages.registry import shared_registry

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

OwnTopic = Literal["schema_changes", "transactions", "positions"]
"""A topic that is of no table."""

OWN: tuple[OwnTopic, ...] = ("schema_changes", "transactions", "positions")

POSITIONS = {"cleanup.policy": "compact", "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}
"""Settings of the positions topic: what later records replace is deleted within hours."""


@dataclass(slots=True)
class TargetTopics:
    """The topics of one target, those of tables by the names that the stream has for these."""

    settings: Settings
    pipeline: str
    target: str
    _tables: dict[str, Topic] = field(default_factory=dict)
    _own: dict[str, Topic] = field(default_factory=dict)
    _admin: AdminClient | None = None

    @property
    def chosen(self) -> TopicTarget:
        """What the configuration says of the target."""
        return self.settings.pipeline(self.pipeline).topic_targets[self.target]

    @property
    def broker(self) -> Broker:
        """The broker that has them."""
        return self.settings.brokers[self.chosen.broker]

    def forget(self) -> None:
        """Describe all topics again when they are asked for."""
        self._tables.clear()
        self._own.clear()

    def registering(self, topic: str) -> Register | None:
        """Return what registers the schemas of a topic; None if its messages need none. Raises TopicRefused if there is no registry."""
        if not self.chosen.messages.has_registry:
            return None
        if self.broker.registry is None:
            raise TopicRefused(refuse_registry(self.chosen))
        return shared_registry(self.broker.registry).registering(topic, self.chosen.messages)

    def forget_table(self, table: str) -> None:
        """Describe the topic of a table again when it is asked for."""
        self._tables.pop(table, None)

    def name_of(self, table: str) -> str:
        """Return the name of a table's topic."""
        return self.chosen.topic_of(self.pipeline, self.target, table)

    def is_own(self, name: str) -> bool:
        """Return whether a topic is the target's own, of no table."""
        return name in self._own_names()

    def _own_names(self) -> list[str | None]:
        return [self.chosen.own_topic(one, self.pipeline, self.target) for one in OWN]

    def own(self, which: OwnTopic) -> Topic:
        """Return one of the target's own topics, which is made if it is missing. Raises BrokerError."""
        name = self.chosen.own_topic(which, self.pipeline, self.target)
        assert name
        if name not in self._own:
            wanted = POSITIONS if which == "positions" else FOR_EVER
            self._own[name] = self._described(name, 1, wanted, ("cleanup.policy",))
        return self._own[name]

    def of_table(self, table: str, schema: TableSchema, known: Mapping[str, TablePosition]) -> Topic:
        """Return the topic of a table, which is made if it is missing, or else is as the configuration says.

        ``known`` says what was published of all tables. Raises BrokerError.
        """
        if table in self._tables:
            return self._tables[table]
        name, own = self.name_of(table), self._own_names()
        if other := next((other for other in sorted({*self._tables, *known} - {table}) if self.name_of(other) == name), ""):
            raise TopicRefused(f"{table} and {other} would both be topic {name}; give one of them a name of its own (tables: name)")
        if name in own:
            raise TopicRefused(
                f"{table} would be topic {name}, which is the target's {OWN[own.index(name)]}; give one of them another name"
            )
        if why := refuse_keyless(table, schema, self.chosen):
            raise TopicRefused(why)
        one = known.get(table, TablePosition())
        if one.topic not in ("", name):
            raise TopicRefused(
                f"{table} was published into topic {one.topic}, and the configuration says {name}; write the old name (tables: name),"
                " or let the target begin anew"
            )
        chosen = self.chosen
        topic = self._described(name, chosen.partitions_of(table), chosen.made_with, tuple(chosen.made_with))
        if not one.topic and has_messages(self.broker, self._open_admin(), topic):
            raise TopicRefused(
                f"topic {name} has messages, and {table} was never published into it, as far as the positions topic says; delete the"
                " topic, or write another name (tables: name)"
            )
        self._tables[table] = topic
        return topic

    def _described(self, name: str, partitions: int, settings: Mapping[str, str], checked: Sequence[str]) -> Topic:
        admin, timeout = self._open_admin(), self.broker.timeout
        topic = describe_topics(admin, [name], timeout).get(name)
        if topic is None:
            if not self.chosen.make:
                raise TopicRefused(f"there is no topic {name}, and make is false; make it with {partitions} partitions, or let it be made")
            topic = make_topic(admin, name, partitions, self.chosen.replication, settings, timeout)
        found = read_settings(admin, [name], timeout).get(name, {})
        if why := refuse_settings(topic, found, partitions, {name: settings[name] for name in checked}):
            raise TopicRefused(why)
        return replace(topic, longest_message=int(found.get(LONGEST_MESSAGE, topic.longest_message)))

    def check_written(self, tables: Mapping[str, TablePosition]) -> dict[str, TopicRefused]:
        """Return by table why its topic is not the one that was written into; nothing of those that are. Raises BrokerError."""
        return check_written(self.broker, self._open_admin(), tables)

    def list_ends(self, topics: Iterable[Topic]) -> dict[str, tuple[int, ...]]:
        """Return for each partition of topics the offset behind the last message, all of which have arrived. Raises BrokerError.

        What others have written into them meanwhile is among them.
        """
        chosen = {topic.name: topic.partitions for topic in topics}
        places = [(name, number) for name, partitions in chosen.items() for number in range(partitions)]
        ends = list_ends(self._open_admin(), places, self.broker.timeout, committed=False)
        return {name: tuple(ends[name, number] for number in range(partitions)) for name, partitions in chosen.items()}

    def find_changed(self, topics: Collection[Topic]) -> tuple[str, TopicRefused] | None:
        """Return the name of a topic that is not the one that was described, and how it differs; None if all are. Raises BrokerError.

        Called when the messages of a transaction have arrived, it says that their keys chose among as many partitions as there are.
        """
        found = describe_topics(self._open_admin(), [topic.name for topic in topics], self.broker.timeout)
        for topic in topics:
            if why := refuse_changed(found.get(topic.name), topic.name, topic.id, topic.partitions):
                return topic.name, TopicRefused(why)
        return None

    def _open_admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = open_admin(self.broker)
        return self._admin


def refuse_keyless(table: str, schema: TableSchema, chosen: TopicTarget) -> str:
    """Return why a table without a key cannot be in a topic; '' if it can, or has one."""
    if schema.key or "compact" not in chosen.cleanup:
        return ""
    return f"{table} has no primary key, and a topic that is compacted takes no message without a key; use cleanup: delete"
