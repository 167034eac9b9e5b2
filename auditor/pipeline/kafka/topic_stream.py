"""Topics as the change source of a pipeline: plan batches, one after the other, and read them in tasks."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from auditor.config import load
from auditor.errors import AuditorError, ConfigError, MessageRefused, OffsetWentBack, SourceReplaced
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import Folder
from auditor.pipeline.kafka.broker import open_consumer, translated
from auditor.pipeline.kafka.offsets import Range, StreamOffset, TopicOffsets, count_between, from_json, ranges_between, share
from auditor.pipeline.kafka.table_columns import read_columns, widen, write_columns
from auditor.pipeline.kafka.topic_cluster import TopicCluster, open_cluster
from auditor.pipeline.kafka.topic_reading import CONSUMER, Gap, TaskColumns, TopicReading, read_range
from auditor.pipeline.kafka.topics import Partition, Topic
from auditor.pipeline.reader_tasks import RunsTasks
from auditor.pipeline.spark import RunTasks

log = logging.getLogger(__name__)

TASK_MESSAGES = 25_000
"""Offsets that a task reads: of one partition, or of several that have fewer."""

SAMPLE = 50
"""Messages by which it is found out how large those of a topic are."""

SAMPLE_EVERY = 100
"""Batches after which that is looked at again."""


@dataclass(frozen=True, slots=True)
class TaskRanges:
    """Ranges that one task reads."""

    ranges: tuple[Range, ...]
    columns: tuple[TableSchema, ...] = ()
    """The columns that tables have already."""

    def task_columns(self) -> TaskColumns:
        """Return the columns with which the task begins."""
        return TaskColumns({f"{schema.database}.{schema.table}": schema for schema in self.columns})


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """What a task has done."""

    entries: list[dict[str, str]]
    """Of the parts that it wrote."""
    columns: dict[str, TableSchema]
    """The columns that tables have for it in the end."""
    used: dict[str, set[str]]
    """The ids of the schemas of its events, by table."""


def _read_and_write(reading: TopicReading, write: Callable[[Any], Any], task: TaskRanges) -> TaskAnswer:
    """Read the ranges of a task, and write their parts; a task does this."""
    columns = task.task_columns()
    entries = [entry for batch in write(reading.batches(task.ranges, columns)) for entry in batch.to_pylist()]
    return TaskAnswer(entries, columns.known, columns.used)


class TopicStream(RunsTasks):
    """Plans the batches of a pipeline in one process, and reads their ranges in others."""

    def __init__(self, config: str, pipeline: str) -> None:
        self._reading = TopicReading(config, pipeline)
        self._forget()

    def _forget(self) -> None:
        self._cluster: TopicCluster | None = None
        self._sizes: dict[str, float] = {}
        self._plans = 0
        self._mirror_failed = ""
        self._is_checked = False
        self._sampler: Any = None
        self._columns: dict[str, TableSchema] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a task needs: no client."""
        return {"_reading": self._reading}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _topics(self) -> TopicCluster:
        if self._cluster is None:
            self._cluster = open_cluster(load(Path(self._reading.config)), self._reading.pipeline)
        return self._cluster

    def initialOffset(self) -> dict[str, Any]:
        """Return where the stream begins that nothing is known of. Raises ConfigError and BrokerError."""
        return first_offset(self._topics()).to_json()

    def getDefaultReadLimit(self) -> None:
        """Return nothing: how much a batch brings is in the configuration."""

    def latestOffset(self, start: Mapping[str, Any], limit: None = None) -> dict[str, Any]:
        """Return where the next batch ends: behind so many messages or bytes, or where decided transactions end now.

        Raises SourceReplaced if the broker leads to another cluster, and BrokerError.
        """
        del limit
        cluster, known = self._topics(), from_json(start)
        self._check_cluster(known)
        there = cluster.find()
        partitions = [(topic.name, number) for topic in there.values() for number in range(topic.partitions)]
        ends = cluster.ends(partitions)
        begins = self._begins(known, there, ends)
        available = {partition: ends[partition] - begins[partition] for partition in partitions}
        taken = self._choose(available, begins)
        self.is_full = taken != available
        topics = dict(known.topics)
        for topic in there.values():
            before = known.topics.get(topic.name)
            is_same = before is not None and before.id == topic.id
            read = before.ends if before and is_same else ()
            new = [
                (number, begin)
                for number in range(topic.partitions)
                if (begin := begins[topic.name, number]) != (read[number] if number < len(read) else 0)
            ]
            if before and not is_same:
                new = [(number, begins[topic.name, number]) for number in range(topic.partitions)]
            last = tuple(begins[topic.name, number] + taken[topic.name, number] for number in range(topic.partitions))
            topics[topic.name] = TopicOffsets(topic.id, last, tuple(new))
        topics = {name: topic if name in there else replace(topic, begins=()) for name, topic in topics.items()}
        number = count_between(known, topics)
        if number == known.number and _places(topics) == _places(known.topics):
            return dict(start)
        return StreamOffset(number, known.cluster, topics).to_json()

    def _begins(self, known: StreamOffset, there: Mapping[str, Topic], ends: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return where the batch begins in each partition: where the one before it ended; of what is new, at its first message."""
        begins: dict[Partition, int] = {}
        new: list[Partition] = []
        for topic in there.values():
            before = known.topics.get(topic.name)
            for number in range(topic.partitions):
                if before is None or before.id != topic.id:
                    new.append((topic.name, number))
                elif number >= len(before.ends):
                    begins[topic.name, number] = 0
                    self._report_partition(topic, number)
                else:
                    begins[topic.name, number] = min(before.ends[number], ends[topic.name, number])
        return begins | self._topics().begins(new)

    def _report_partition(self, topic: Topic, number: int) -> None:
        extra = {"action": "partition_added", "pipeline": self._reading.pipeline, "topic": topic.name, "partition": number}
        log.warning(
            "%s: the topic %s has a new partition, %d, which is read from its beginning: keys that came into another one until now have no"
            " order between both, unless its older messages were read before",
            self._reading.pipeline,
            topic.name,
            number,
            extra=extra,
        )

    def _choose(self, available: Mapping[Partition, int], begins: Mapping[Partition, int]) -> dict[Partition, int]:
        """Return how many offsets of each partition come into a batch."""
        source, partitions = self._topics().source, list(available)
        taken = share([available[partition] for partition in partitions], source.max_messages)
        self._plans += 1
        sizes = [
            self._size_of(*partition, begins[partition]) if count > SAMPLE else 0.0
            for partition, count in zip(partitions, taken, strict=True)
        ]
        size = sum(count * each for count, each in zip(taken, sizes, strict=True))
        if size > source.max_bytes:
            taken = [max(min(count, 1), int(count * source.max_bytes / size)) for count in taken]
        return dict(zip(partitions, taken, strict=True))

    def _size_of(self, topic: str, partition: int, offset: int) -> float:
        """Return how many bytes a message of a topic has, by some of them."""
        if topic not in self._sizes or self._plans % SAMPLE_EVERY == 0:
            cluster = self._topics()
            self._sampler = self._sampler or open_consumer(cluster.broker, cluster.source.group_of(self._reading.pipeline), CONSUMER)
            found = [
                one for one in read_range(self._sampler, Range(topic, partition, offset, offset + SAMPLE, 0)) if not isinstance(one, Gap)
            ]
            with translated("the consumer"):
                self._sampler.unassign()
            self._sizes[topic] = sum(len(one.key() or b"") + len(one.value() or b"") for one in found) / max(len(found), 1)
        return self._sizes[topic]

    def _check_cluster(self, known: StreamOffset) -> None:
        """Check once that the broker belongs to the cluster of an offset. Raises SourceReplaced."""
        if not self._is_checked:
            check_cluster(self._topics(), known.cluster)
            self._is_checked = True

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[TaskRanges]:
        """Return the tasks of a batch, the same whenever it is planned. Raises OffsetWentBack if it ends before it begins."""
        first, last = from_json(start), from_json(end)
        if last.number < first.number:
            raise OffsetWentBack(f"a batch ends at message {last.number}, before it begins at {first.number}")
        self._check_cluster(first)
        return [TaskRanges(tuple(ranges)) for ranges in pack_ranges(ranges_between(first, last))]

    def read(self, partition: TaskRanges) -> Iterator[pa.RecordBatch]:
        """Yield the events of a task. Raises AuditorError."""
        return self._reading.batches(partition.ranges, partition.task_columns())

    def run_tasks(self, run: RunTasks, write: Callable[[Any], Any], root: Folder, partitions: Sequence[TaskRanges]) -> list[Any]:
        """Let tasks read ranges, and those again whose events have not the columns that all of the batch together have."""
        if self._columns is None:
            self._columns = read_columns(root)
        columns, written = dict(self._columns), dict[int, Any]()
        left = dict(enumerate(self._with_columns(partitions, columns)))
        while left:
            answers = run(partial(_read_and_write, self._reading, write), list(left.values()))
            written |= zip(left, answers, strict=True)
            for answer in written.values():
                for table, schema in answer.columns.items():
                    with suppress(MessageRefused):  # the task that has them notes it, when it runs again with those of the others
                        columns[table] = widen(columns.get(table), schema)
            stale = [place for place, answer in written.items() if any(ids - {columns[table].id} for table, ids in answer.used.items())]
            left = dict(zip(stale, self._with_columns([partitions[place] for place in stale], columns), strict=True))
        if columns != self._columns:
            write_columns(root, columns)
            self._columns = columns
        return [entry for place in sorted(written) for entry in written[place].entries]

    def _with_columns(self, tasks: Sequence[TaskRanges], columns: Mapping[str, TableSchema]) -> list[TaskRanges]:
        source = self._topics().source
        chosen = []
        for task in tasks:
            tables = dict.fromkeys(source.table_of(one.topic) for one in task.ranges)
            chosen.append(replace(task, columns=tuple(columns[table] for table in tables if table in columns)))
        return chosen

    def commit(self, end: Mapping[str, Any]) -> None:
        """Let the consumer group show what is staged; nothing depends on it, so that a failure is a warning in the log, once."""
        try:
            mirror(self._topics(), self._reading.pipeline, from_json(end))
            self._mirror_failed = ""
        except AuditorError as error:
            if self._mirror_failed != str(error):
                extra = {"action": "offsets_not_mirrored", "pipeline": self._reading.pipeline}
                log.warning("%s: the consumer group does not show how far it is: %s", self._reading.pipeline, error, extra=extra)
            self._mirror_failed = str(error)

    def stop(self) -> None:
        """Close the clients."""
        if self._sampler is not None:
            with suppress(AuditorError), translated("the consumer"):
                self._sampler.close()
        self._forget()


def _places(topics: Mapping[str, TopicOffsets]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (topic.id, topic.ends) for name, topic in topics.items()}


def pack_ranges(ranges: Sequence[Range]) -> list[list[Range]]:
    """Return ranges by task, in order: large ones in pieces, and small ones together."""
    tasks: list[list[Range]] = []
    messages = 0
    for piece in (piece for one in ranges for piece in one.split(TASK_MESSAGES)):
        size = piece.end - piece.start
        if not tasks or messages + size > TASK_MESSAGES:
            tasks.append([])
            messages = 0
        tasks[-1].append(piece)
        messages += size
    return tasks


def check_cluster(cluster: TopicCluster, known: str) -> None:
    """Check that a broker belongs to the cluster whose topics were read. Raises SourceReplaced and BrokerError."""
    there = cluster.identify()
    if there != known:
        raise SourceReplaced(
            f"broker {cluster.source.broker} leads to another cluster ({there}) than the one that was read ({known}): correct its servers,"
            " or let the pipeline begin anew with it (auditor pipeline reset)"
        )


def first_offset(cluster: TopicCluster) -> StreamOffset:
    """Return where a new pipeline begins to read its topics. Raises ConfigError, TopicRefused and BrokerError."""
    found, source = cluster.find(), cluster.source
    cluster.require(found)
    partitions = [(topic.name, number) for topic in found.values() for number in range(topic.partitions)]
    begins, ends = cluster.begins(partitions), cluster.ends(partitions)
    places = begins
    if source.start == "latest":
        places = ends
    elif isinstance(source.start, dt.datetime):
        places = cluster.at(partitions, source.start)
    elif isinstance(source.start, dict):
        given = {(topic, number): offset for topic, offsets in source.start.items() for number, offset in offsets.items()}
        places = begins | given
        for partition, offset in given.items():
            _check_given(partition, offset, begins, ends)
    topics = {
        topic.name: TopicOffsets(topic.id, tuple(places[topic.name, number] for number in range(topic.partitions)))
        for topic in found.values()
    }
    return StreamOffset(0, cluster.identify(), topics)


def _check_given(partition: Partition, offset: int, begins: Mapping[Partition, int], ends: Mapping[Partition, int]) -> None:
    name = f"start: partition {partition[1]} of the topic {partition[0]}"
    if partition not in begins:
        raise ConfigError(f"{name} is not there")
    if not begins[partition] <= offset <= ends[partition]:
        raise ConfigError(f"{name} has offsets from {begins[partition]} to {ends[partition]}, and no {offset}; give one of them")


def mirror(cluster: TopicCluster, pipeline: str, offset: StreamOffset) -> None:
    """Write into the consumer group of a pipeline where it is, for those who look at lags there. Raises BrokerError."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    group = cluster.source.group_of(pipeline)
    places = [TopicPartition(name, number, end) for name, topic in offset.topics.items() for number, end in enumerate(topic.ends)]
    if not places:
        return
    with translated(f"consumer group {group}"):
        [answer] = cluster.admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, places)], request_timeout=cluster.timeout
        ).values()
        answer.result()
