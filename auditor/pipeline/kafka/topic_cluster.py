"""What a cluster says of the topics that a pipeline reads: which there are, their ids and partitions, and where these begin and end."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from auditor.api_models.pipeline import PartitionLag
from auditor.config import Broker, Settings, TopicSource, is_pattern
from auditor.errors import BrokerDenied, BrokerUnreachable, ConfigError, TopicRefused
from auditor.pipeline.kafka.broker import open_admin, translated
from auditor.pipeline.kafka.offsets import from_json, is_of_topics
from auditor.pipeline.kafka.topics import POLL, Partition, Topic, describe_topics, list_begins, list_ends, list_offsets
from auditor.pipeline.kafka.written_topics import MARKERS

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class TopicCluster:
    """The topics of a pipeline's source on their cluster."""

    def __init__(self, settings: Settings, source: TopicSource) -> None:
        self.source, self._broker = source, settings.brokers[source.broker]
        self._admin: AdminClient | None = None

    @property
    def broker(self) -> Broker:
        """The broker's settings."""
        return self._broker

    @property
    def timeout(self) -> float:
        """Seconds for which an answer is waited for."""
        return self._broker.timeout

    @property
    def admin(self) -> AdminClient:
        """The client of this process, opened where it is asked for first."""
        self._admin = self._admin or open_admin(self._broker)
        return self._admin

    def identify(self) -> str:
        """Return the cluster's id. Raises BrokerError."""
        with translated(f"broker {self.source.broker}"):
            return str(self.admin.describe_cluster(request_timeout=self.timeout).result().cluster_id)

    def find(self) -> dict[str, Topic]:
        """Return the topics of the source that are there, by name; a topic that is missing is not among them. Raises BrokerError."""
        names = [name for name in self.source.topics if not is_pattern(name)]
        if len(names) < len(self.source.topics):
            with translated(f"broker {self.source.broker}"):
                there = self.admin.list_topics(timeout=self.timeout).topics
            names = sorted({*names, *(name for name in there if not name.startswith("__") and self.source.find(name))})
        return self.describe(names)

    def describe(self, names: Collection[str]) -> dict[str, Topic]:
        """Return those of some topics that are there, by name. Raises BrokerError."""
        return describe_topics(self.admin, names, self.timeout)

    def begins(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the first offset that each partition has. Raises BrokerError."""
        return list_begins(self.admin, partitions, self.timeout)

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset behind the last message of each partition whose transaction is decided, as all before it are."""
        return list_ends(self.admin, partitions, self.timeout)

    def all_ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset behind the last message of each partition, whether its transaction is decided or not. Raises BrokerError."""
        return list_ends(self.admin, partitions, self.timeout, committed=False)

    def hidden(self, ends: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return the partitions that have messages behind these ends, which wait for a transaction, and from which offset on."""
        there = self.all_ends(ends)
        return {partition: end for partition, end in ends.items() if there[partition] > end}

    def at(self, partitions: Iterable[Partition], time: dt.datetime) -> dict[Partition, int]:
        """Return the offset of the first message of each partition since a time; of those without one, where they end."""
        listed = list(partitions)
        since = admin_module().OffsetSpec.for_timestamp(int(time.timestamp() * 1000))
        found, ends = list_offsets(self.admin, dict.fromkeys(listed, since), self.timeout), self.ends(listed)
        return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}

    def require(self, found: Mapping[str, Topic]) -> None:
        """Raise TopicRefused if a topic that is named is not there, or none fits a pattern that is alone."""
        if missing := [name for name in self.source.topics if not is_pattern(name) and name not in found]:
            raise TopicRefused(f"topic {missing[0]} is not on the broker {self.source.broker}; make it, or correct source: topics")
        if not found:
            raise TopicRefused(f"no topic of the broker {self.source.broker} fits {', '.join(self.source.topics)}; correct source: topics")


def admin_module() -> Any:
    """Return the client's module, whose types do not say all that it exports."""
    from confluent_kafka import admin

    return admin


def missing_rights(cluster: TopicCluster, names: Sequence[str]) -> list[str]:
    """Return which topics the account may not read, as far as the cluster says what it may. Raises BrokerError."""
    from confluent_kafka import TopicCollection

    allowing = {admin_module().AclOperation.READ, admin_module().AclOperation.ALL}
    lacking: list[str] = []
    with translated(f"broker {cluster.source.broker}"):
        answers = cluster.admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=cluster.timeout
        )
    for name, answer in answers.items():
        try:
            with translated(f"topic {name}"):
                allowed = answer.result().authorized_operations
        except BrokerDenied:
            lacking.append(name)
            continue
        if allowed and not allowing & {*allowed}:
            lacking.append(name)
    return lacking


def may_use_group(cluster: TopicCluster, group: str) -> bool:
    """Return whether the account may read and write the offsets of a consumer group, as far as the cluster says it. Raises BrokerError."""
    allowing, until = {admin_module().AclOperation.READ, admin_module().AclOperation.ALL}, time.monotonic() + cluster.timeout
    while True:
        try:
            with translated(f"group {group}"):
                answers = cluster.admin.describe_consumer_groups(
                    [group], include_authorized_operations=True, request_timeout=cluster.timeout
                )
                allowed = answers[group].result().authorized_operations
        except BrokerDenied:
            return False
        except BrokerUnreachable:  # also while the coordinator of groups begins, for which the library does not wait
            if time.monotonic() > until:
                raise
            time.sleep(POLL)
        else:
            return not allowed or bool(allowing & {*allowed})


@dataclass(frozen=True, slots=True)
class TopicEnds:
    """Where topics ended at a look."""

    ends: Mapping[Partition, int]
    warnings: Sequence[str] = ()
    hidden: Mapping[Partition, int] = field(default_factory=dict)
    """The partitions with messages that wait for a transaction that stands open, and from which offset on."""

    def behind(self, offset: Any) -> list[PartitionLag]:
        """Return the partitions that were not read to these ends, up to an offset of the stream, those with most first."""
        known = from_json(offset) if is_of_topics(offset) else None
        read = {(name, number): end for name, topic in (known.topics if known else {}).items() for number, end in enumerate(topic.ends)}
        if known and known.published is not None:  # whose ends are those of messages, behind which is the marker of their transaction
            read = {partition: end + MARKERS for partition, end in read.items() if end}
        lags = [
            PartitionLag(topic=topic, partition=number, offset=read.get((topic, number), 0), end=end)
            for (topic, number), end in self.ends.items()
        ]
        return sorted((one for one in lags if one.offset < one.end), key=lambda one: one.offset - one.end)


def read_ends(cluster: TopicCluster, offset: Any) -> TopicEnds:
    """Return where the topics end now, and which of those that were read until an offset are gone. Raises BrokerError."""
    there = cluster.find()
    gone = [name for name in from_json(offset).topics if name not in there] if is_of_topics(offset) else []
    warnings = [f"the topic {name} is not on the broker {cluster.source.broker} any more, and its table waits for it" for name in gone]
    ends = cluster.ends((topic.name, number) for topic in there.values() for number in range(topic.partitions))
    return TopicEnds(ends, warnings, cluster.hidden(ends))


def open_cluster(settings: Settings, pipeline: str) -> TopicCluster:
    """Return the topics that a pipeline reads. Raises ConfigError if it reads the log of a database."""
    source = settings.pipeline(pipeline).topic_source
    if source is None:
        raise ConfigError(f"pipeline {pipeline} reads the log of a database, and no topics")
    return TopicCluster(settings, source)
