"""Topics that a pipeline of the auditor publishes as a change source: a batch ends exactly where one of its transactions does.

That pipeline writes into its positions topic, with each transaction, where its topics end; and into each message the position and the row
of its event. So the events have the positions of the source's own log again, transactions are whole, and targets are at one moment of it.
Which columns a message has says the topic of statements (`own_statements`).
A transaction that left tables behind, which its writer could not publish, is no such end: reading waits until they are there.
"""

from __future__ import annotations

import datetime as dt
import heapq
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from auditor.config import Broker, Settings, TopicSource, load
from auditor.errors import OffsetWentBack, SourceReplaced, TopicRefused
from auditor.escaping import shell_word
from auditor.pipeline.events import ARROW_SCHEMA, Position, TableSchema
from auditor.pipeline.folders import Folder
from auditor.pipeline.kafka.broker import open_consumer
from auditor.pipeline.kafka.offsets import Range, StreamOffset, TopicOffsets, from_json
from auditor.pipeline.kafka.own_statements import Change, Statements, TopicTail
from auditor.pipeline.kafka.position_record import WHOLE, Published
from auditor.pipeline.kafka.table_messages import PLACE
from auditor.pipeline.kafka.topic_cluster import TopicCluster
from auditor.pipeline.kafka.topic_reading import (
    BATCH_BYTES,
    BATCH_EVENTS,
    CONSUMER,
    Gap,
    note_of,
    offset_of,
    read_range,
    times_of,
)
from auditor.pipeline.kafka.topic_stream import TaskRanges, TopicStream
from auditor.pipeline.messages.reading import MessageReader
from auditor.pipeline.messages.registry import shared_registry
from auditor.pipeline.messages.writing import OLD_KEY
from auditor.pipeline.reader_tasks import read_and_write
from auditor.pipeline.spark import RunTasks

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

log = logging.getLogger(__name__)


class PositionsReader:
    """Reads what a positions topic says, further and further."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        self._tail = TopicTail(broker, topic, group)
        self.said = Published()
        """What it says at the last end."""
        self._is_new = True

    def advance(self) -> list[Published]:
        """Return what the topic says at each end of a transaction since the last call. Raises BrokerError.

        At the first call, at the last end: of what was there before, compaction may have removed some, so that it alone is one.
        """
        found: list[Published] = []
        for message in self._tail.advance():
            key = message.key() or b""
            self.said = self.said.take(key, message.value())
            if key == WHOLE and self.said.incarnation:
                found.append(self.said)
        was_new, self._is_new = self._is_new, False
        return found[-1:] if was_new else found

    def close(self) -> None:
        """Close the client."""
        self._tail.close()


@dataclass(frozen=True, slots=True)
class OwnTask(TaskRanges):
    """Ranges of one topic that a task reads; ``columns`` is empty."""

    table: str = ""
    """What the pipeline calls the topic's table."""
    schemas: Mapping[str, TableSchema] = field(default_factory=dict)
    """The columns that its events can have, by the ids that messages name."""
    changes: tuple[Change, ...] = ()
    """What statements did to the table."""


class PublishedTopics:
    """What a pipeline that publishes says of its topics, read further and further."""

    def __init__(self, cluster: TopicCluster, pipeline: str) -> None:
        published, group = cluster.source.published_by, cluster.source.group_of(pipeline)
        assert published is not None, "such topics have a publisher"
        self._cluster, self._statements = cluster, Statements(published.statements_topic)
        self._positions = PositionsReader(cluster.broker, published.positions_topic, group)
        self._tail = TopicTail(cluster.broker, published.statements_topic, group)
        self._ends: list[Published] = []

    def ends_after(self, read: Mapping[str, Any]) -> list[Published]:
        """Return what the positions topic says at each end of a transaction behind one that was read, of which earlier ones are forgotten.

        Raises BrokerError.
        """
        self._ends += self._positions.advance()
        done, life = int(read.get("batch", 0)), read.get("incarnation")
        self._ends = [said for said in self._ends if said.batch > done or said.incarnation != life]
        return self._ends

    def tasks(self, start: StreamOffset, end: StreamOffset) -> list[OwnTask]:
        """Return what is read between two offsets, a task for each topic: the same whenever it is asked for.

        Raises TopicRefused and BrokerError.
        """
        self._ends += self._positions.advance()
        self._read_statements()
        topics = {one.topic: table for table, one in self._positions.said.tables.items() if one.topic}
        ranges = {name: tuple(found) for name, found in groupby(own_ranges(start, end), key=lambda one: one.topic)}
        tasks: list[OwnTask] = []
        for topic in sorted({*ranges, *end.topics}):
            published, table = topics.get(topic, ""), self._cluster.source.table_of(topic)
            changes = tuple(self._statements.changes(published, start.number, end.number))
            if topic in ranges or changes:
                schemas = self._statements.columns(published, start.number, end.number)
                tasks.append(OwnTask(ranges.get(topic, ()), table=table, schemas=schemas, changes=changes))
        return tasks

    def _read_statements(self) -> None:
        """Read the topic of statements up to where it ends now: with what is in the topics of rows, though it may show it later."""
        place = self._statements.topic, 0
        for message in self._tail.advance(self._cluster.all_ends([place])[place]):
            self._statements.take(message)

    def close(self) -> None:
        """Close the clients."""
        self._positions.close()
        self._tail.close()


class OwnTopicStream(TopicStream):
    """Plans batches that end where transactions of the pipeline do that publishes the topics."""

    def _forget(self) -> None:
        super()._forget()
        self._published: PublishedTopics | None = None
        self._waits = ""

    def initialOffset(self) -> dict[str, Any]:
        """Return where the stream begins: before the first transaction. Raises BrokerError."""
        return first_own_offset(self._topics()).to_json()

    def latestOffset(self, start: Mapping[str, Any], limit: None = None) -> dict[str, Any]:
        """Return where the next batch ends: where a transaction does behind which no more messages than a batch has are.

        One that has more is a batch by itself. Raises SourceReplaced if the pipeline that publishes was reset, or the cluster is another;
        TopicRefused if a topic is not the one that was read; and BrokerError.
        """
        del limit
        cluster, known = self._topics(), from_json(start)
        self._check_cluster(known)
        ends = self._say().ends_after(known.published or {})
        whole = [said for said in ends if not said.apart]
        if ends and not whole:
            self._report_waiting(ends[-1])
        if not whole:
            return dict(start)
        self._waits = ""
        chosen = whole[0]
        self.is_full = False
        for said in whole[1:]:
            if _count(known, said) > cluster.source.max_messages:
                self.is_full = True
                break
            chosen = said
        return self._offset_at(cluster, known, chosen).to_json()

    def _say(self) -> PublishedTopics:
        """Return what the publisher says of the topics."""
        self._published = self._published or PublishedTopics(self._topics(), self._reading.pipeline)
        return self._published

    def _report_waiting(self, said: Published) -> None:
        waits = ", ".join(sorted(said.apart))
        if waits != self._waits:
            extra = {"action": "publisher_apart", "pipeline": self._reading.pipeline}
            log.warning(
                "%s: it waits, because the pipeline that publishes left tables behind: %s", self._reading.pipeline, waits, extra=extra
            )
        self._waits = waits

    def _offset_at(self, cluster: TopicCluster, known: StreamOffset, said: Published) -> StreamOffset:
        """Return the offset at the end of a transaction."""
        name = self._reading.pipeline
        incarnation = str((known.published or {}).get("incarnation", "")) or said.incarnation
        if said.incarnation != incarnation:
            raise SourceReplaced(
                f"the pipeline that publishes these topics was reset, or restored (it is {said.incarnation}, and {incarnation} was read);"
                f" reset this one too, and copy its tables again: auditor pipeline reset {shell_word(name)}"
            )
        topics = dict(known.topics)
        for table, one in said.tables.items():
            if not one.topic or cluster.source.find(one.topic) is None:
                continue
            before = topics.get(one.topic)
            if before and (before.id != one.topic_id or any(end < begin for begin, end in zip(before.ends, one.ends, strict=False))):
                raise TopicRefused(
                    f"the topic {one.topic} of {table} was made again, or cut, since it was read; reset the pipeline, and copy its tables"
                    f" again: auditor pipeline reset {shell_word(name)}"
                )
            topics[one.topic] = TopicOffsets(one.topic_id, one.ends)
        return StreamOffset(said.position, known.cluster, topics, {"incarnation": said.incarnation, "batch": said.batch})

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[OwnTask]:  # type: ignore[override]
        """Return a task for each topic, the same whenever they are planned.

        Raises OffsetWentBack if the batch ends before it begins, TopicRefused and BrokerError.
        """
        first, last = from_json(start), from_json(end)
        if last.number < first.number:
            raise OffsetWentBack(f"a batch ends at position {last.number}, before it begins at {first.number}")
        self._check_cluster(first)
        return self._say().tasks(first, last)

    def read(self, partition: TaskRanges) -> Iterator[pa.RecordBatch]:
        """Yield the events of a topic in the order of the source's log. Raises AuditorError."""
        assert isinstance(partition, OwnTask), "it makes no others"
        return read_own(load(Path(self._reading.config)), self._reading.pipeline, partition)

    def run_tasks(self, run: RunTasks, write: Callable[[Any], Any], root: Folder, partitions: Sequence[TaskRanges]) -> list[Any]:
        """Let tasks read topics, whose columns are those of the source at each position."""
        del root

        answers = run(_ReadOwn(self, write), partitions)
        return [entry for entries in answers for entry in entries]

    def stop(self) -> None:
        """Close the clients."""
        if self._published is not None:
            self._published.close()
        super().stop()


class _ReadOwn:
    """Reads a task and writes its parts; it is pickled."""

    def __init__(self, reader: OwnTopicStream, write: Callable[[Any], Any]) -> None:
        self._reader, self._write = reader, write

    def __call__(self, task: TaskRanges) -> list[dict[str, str]]:
        return read_and_write(self._reader, self._write, task)


def own_ranges(start: StreamOffset, end: StreamOffset) -> list[Range]:
    """Return the ranges of the batch between two offsets, those of a topic one after the other."""
    found = []
    for name, topic in sorted(end.topics.items()):
        known = start.topics.get(name)
        for number, stop in enumerate(topic.ends):
            begin = known.ends[number] if known and number < len(known.ends) else 0
            if begin < stop:
                found.append(Range(name, number, begin, stop, start.number))
    return found


def read_own(settings: Settings, pipeline: str, task: OwnTask) -> Iterator[pa.RecordBatch]:
    """Yield the events of a task, in the order of the source's log. Raises AuditorError."""
    source = settings.pipeline(pipeline).topic_source
    assert source is not None, "only pipelines with topics have such tasks"
    changes = [change.event(task.table) for change in task.changes]
    if changes:
        yield pa.RecordBatch.from_pylist(changes, ARROW_SCHEMA)
    if task.ranges:
        yield from _TopicEvents(source, settings.brokers[source.broker], source.group_of(pipeline), task).batches()


def _count(known: StreamOffset, said: Published) -> int:
    """Return how many offsets lie between an offset and the end of a transaction."""
    count = 0
    for one in said.tables.values():
        before = known.topics.get(one.topic)
        count += sum(one.ends) - (sum(before.ends) if before else 0)
    return count


def first_own_offset(cluster: TopicCluster) -> StreamOffset:
    """Return where a new pipeline begins to read topics of another one. Raises TopicRefused and BrokerError."""
    published = cluster.source.published_by
    assert published is not None, "such an offset is of such topics"
    own = published.positions_topic, published.statements_topic
    if missing := [topic for topic in own if topic not in cluster.describe(own)]:
        raise TopicRefused(
            f"topic {missing[0]} is not on the broker {cluster.source.broker}: the pipeline {published.pipeline} has not published anything"
            " there; start it first, or correct published_by"
        )
    return StreamOffset(Position(0, 0, 0).pack(), cluster.identify(), {}, {})


class _TopicEvents:
    """The events of ranges of one topic, in the order of the source's log."""

    def __init__(self, source: TopicSource, broker: Broker, group: str, task: OwnTask) -> None:
        self._broker, self._group, self._ranges, self._table = broker, group, task.ranges, task.table
        database, _, table = task.table.partition(".")
        settings = source.messages_of(task.ranges[0].topic)
        look_up = shared_registry(broker.registry).schema if settings.has_registry and broker.registry else None
        self._readers = {id: MessageReader(database, table, settings, schema, look_up) for id, schema in task.schemas.items()}
        self._has_deletes = settings.values != "plain"
        """Whether a tombstone only follows the message of a delete."""
        self._emptied = {change.position for change in task.changes}
        """Where statements emptied the table that are known already: a message says so in each partition."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield them."""
        consumers = [open_consumer(self._broker, self._group, CONSUMER) for _ in self._ranges]
        try:
            waiting: list[Message] = []
            places: list[tuple[int, int]] = []
            size, known = 0, ""
            streams = [self._placed(consumer, one) for consumer, one in zip(consumers, self._ranges, strict=True)]
            for position, row, _, id, found in heapq.merge(*streams, key=lambda placed: placed[:3]):
                if isinstance(found, pa.RecordBatch):
                    yield found
                    continue
                if waiting and (id != known or len(waiting) >= BATCH_EVENTS or size >= BATCH_BYTES):
                    yield from self._flush(known, waiting, places)
                    waiting, places, size = [], [], 0
                known = id
                waiting.append(found)
                places.append((position, row))
                size += len(found)
            yield from self._flush(known, waiting, places)
        finally:
            for consumer in consumers:
                consumer.close()

    def _placed(self, consumer: Consumer, one: Range) -> Iterator[tuple[int, int, int, str, Any]]:
        """Yield the messages of a partition, each with its position, row, place among others of these, and the id of its columns.

        Instead of one that is no row's, there is a note.
        """
        at, order = one.before + 1, 0
        for message in read_range(consumer, one):
            order += 1
            if isinstance(message, Gap):
                lost = message.end - message.start
                yield at, 0, order, "", note_of(self._table, one, (at, at), lost, message.start, message.why, None)
                continue
            if message.value() is None and self._has_deletes:
                continue
            headers = dict(message.headers() or ())
            place = headers.get(PLACE)
            try:
                position, number, id, *_ = (place or b"").decode().split(".") if isinstance(place, bytes) else ("", "", "")
                at, row = int(position), int(number)
            except ValueError:
                why = f"the message has no header {PLACE!r} with its position, as all have that a pipeline publishes"
                yield at, 0, order, "", note_of(self._table, one, (at, at), 1, offset_of(message), why, message.timestamp()[1])
                continue
            if row < 0:
                if at not in self._emptied:
                    self._emptied.add(at)
                    moment = dt.datetime.fromtimestamp(max(message.timestamp()[1], 0) / 1000, dt.UTC)
                    cleared = Change(at, -1, moment, {"ops": [{"op": "clear"}], "advances": True})
                    yield at, row, order, "", pa.RecordBatch.from_pylist([cleared.event(self._table)], ARROW_SCHEMA)
            elif id not in self._readers:
                why = f"the topic of schema changes does not have the schema {id}"
                yield at, row, order, "", note_of(self._table, one, (at, at), 1, offset_of(message), why, message.timestamp()[1])
            else:
                yield at, 2 * row + (OLD_KEY in headers), order, id, message

    def _flush(self, id: str, messages: Sequence[Message], places: Sequence[tuple[int, int]]) -> Iterator[pa.RecordBatch]:
        """Yield the events of messages that have the columns of an id, and notes on those that cannot be read."""
        if not messages:
            return
        positions, rows = np.array(places, np.int64).T
        keys, values = [message.key() for message in messages], [message.value() for message in messages]
        read = self._readers[id].read(keys, values, positions, rows, times_of(messages))
        yield from read.events
        for number, why in read.refused:
            message, place = messages[number], int(positions[number])
            one = next(one for one in self._ranges if one.partition == message.partition())
            yield note_of(self._table, one, (place, place), 1, offset_of(message), why, message.timestamp()[1])
