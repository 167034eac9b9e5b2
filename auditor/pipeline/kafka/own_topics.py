"""Topics that a pipeline of the auditor publishes as a change source: a batch ends exactly where one of its transactions does.

That pipeline writes into its positions topic, with each transaction, where its topics end; and into each message the position and the row
of its event. So the events have the positions of the source's own log again, transactions are whole, and targets are at one moment of it.
A transaction that left tables behind, which its writer could not publish, is no such end: reading waits until they are there.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from auditor.config import Broker, Settings, TopicSource, load
from auditor.errors import BrokerUnreachable, OffsetWentBack, SourceReplaced, TopicRefused
from auditor.escaping import shell_word
from auditor.pipeline.events import Position
from auditor.pipeline.folders import Folder
from auditor.pipeline.kafka.broker import error_of, open_consumer, translated
from auditor.pipeline.kafka.offsets import Range, StreamOffset, TopicOffsets, from_json
from auditor.pipeline.kafka.position_record import MOMENT, WHOLE, Published
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
    reader_of,
    times_of,
)
from auditor.pipeline.kafka.topic_stream import TaskRanges, TopicStream
from auditor.pipeline.messages.envelope import OLD_KEY
from auditor.pipeline.reader_tasks import read_and_write
from auditor.pipeline.spark import RunTasks

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

log = logging.getLogger(__name__)


class PositionsReader:
    """Reads what a positions topic says, further and further."""

    def __init__(self, broker: Broker, topic: str, group: str) -> None:
        self._broker, self._topic, self._group = broker, topic, group
        self._consumer: Consumer | None = None
        self._said = Published()
        self.is_new = True
        """Whether nothing was read yet: of what was there before, compaction may have removed some, so that its last end alone is one."""

    def advance(self) -> list[Published]:
        """Return what the topic says at each end of a transaction since the last call; at the first call, at the last end.

        Raises BrokerError.
        """
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        if self._consumer is None:
            self._consumer = open_consumer(self._broker, self._group, CONSUMER)
            with translated(f"topic {self._topic}"):
                self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        found: list[Published] = []
        heard, is_at_end = time.monotonic(), False
        while not is_at_end:
            with translated(f"topic {self._topic}"):
                messages = self._consumer.consume(10_000, MOMENT)
            if messages:
                heard = time.monotonic()
            elif not self.is_new:
                return found  # a partition's end is said once
            elif time.monotonic() > heard + self._broker.timeout:
                raise BrokerUnreachable(f"topic {self._topic} cannot be read: the broker says nothing for {self._broker.timeout:g} s")
            for message in messages:
                if error := message.error():
                    if error.name() != "_PARTITION_EOF":
                        raise error_of(f"topic {self._topic}", error)
                    is_at_end = True  # and what follows it in the list has come meanwhile
                    continue
                key = message.key() or b""
                self._said = self._said.take(key, message.value())
                if key == WHOLE and self._said.incarnation:
                    found.append(self._said)
        was_new, self.is_new = self.is_new, False
        return found[-1:] if was_new else found

    def close(self) -> None:
        """Close the client."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


class OwnTopicStream(TopicStream):
    """Plans batches that end where transactions of the pipeline do that publishes the topics."""

    def _forget(self) -> None:
        super()._forget()
        self._positions: PositionsReader | None = None
        self._ends: list[Published] = []
        """Where batches may end that are not planned yet."""
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
        self._look(cluster)
        read = known.published or {}
        self._ends = [said for said in self._ends if said.batch > int(read.get("batch", 0)) or said.incarnation != read.get("incarnation")]
        whole = [said for said in self._ends if not said.apart]
        if self._ends and not whole:
            self._report_waiting(self._ends[-1])
        if not whole:
            return dict(start)
        self._waits = ""
        chosen = whole[0]
        for said in whole[1:]:
            if _count(known, said) > cluster.source.max_messages:
                break
            chosen = said
        return self._offset_at(cluster, known, chosen).to_json()

    def _look(self, cluster: TopicCluster) -> None:
        """Take what the positions topic says since the last look."""
        if self._positions is None:
            published = cluster.source.published_by
            assert published is not None, "such a stream is of such topics"
            self._positions = PositionsReader(cluster.broker, published.positions_topic, cluster.source.group_of(self._reading.pipeline))
        self._ends += self._positions.advance()

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

    def partitions(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[TaskRanges]:
        """Return a task for each topic, the same whenever they are planned. Raises OffsetWentBack if the batch ends before it begins."""
        first, last = from_json(start), from_json(end)
        if last.number < first.number:
            raise OffsetWentBack(f"a batch ends at position {last.number}, before it begins at {first.number}")
        self._check_cluster(first)
        by_topic = groupby(own_ranges(first, last), key=lambda one: one.topic)
        return [TaskRanges(tuple(ranges)) for _, ranges in by_topic]

    def read(self, partition: TaskRanges) -> Iterator[pa.RecordBatch]:
        """Yield the events of a topic in the order of the source's log. Raises AuditorError."""
        return read_own(load(Path(self._reading.config)), self._reading.pipeline, partition.ranges)

    def run_tasks(self, run: RunTasks, write: Callable[[Any], Any], root: Folder, partitions: Sequence[TaskRanges]) -> list[Any]:
        """Let tasks read topics, whose columns are those of the source at each position."""
        del root

        answers = run(_ReadOwn(self, write), partitions)
        return [entry for entries in answers for entry in entries]

    def stop(self) -> None:
        """Close the clients."""
        if self._positions is not None:
            self._positions.close()
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


def read_own(settings: Settings, pipeline: str, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """Yield the events of ranges of one topic, in the order of the source's log. Raises AuditorError."""
    source = settings.pipeline(pipeline).topic_source
    assert source is not None, "only pipelines with topics have such tasks"
    yield from _TopicEvents(source, settings.brokers[source.broker], source.group_of(pipeline), ranges).batches()


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
    if published.positions_topic not in cluster.describe([published.positions_topic]):
        raise TopicRefused(
            f"topic {published.positions_topic} is not on the broker {cluster.source.broker}: the pipeline {published.pipeline} has not"
            " published anything; start it first, or correct published_by"
        )
    return StreamOffset(Position(0, 0, 0).pack(), cluster.identify(), {}, {})


class _TopicEvents:
    """The events of ranges of one topic, in the order of the source's log."""

    def __init__(self, source: TopicSource, broker: Broker, group: str, ranges: Sequence[Range]) -> None:
        self._broker, self._group, self._ranges = broker, group, ranges
        self._reader = reader_of(source, broker, ranges[0].topic)
        self._table = source.table_of(ranges[0].topic)
        self._has_deletes = source.messages_of(ranges[0].topic).values != "plain"
        """Whether a tombstone only follows the message of a delete."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield them."""
        consumers = [open_consumer(self._broker, self._group, CONSUMER) for _ in self._ranges]
        try:
            waiting: list[tuple[int, int, int, Message]] = []
            size = 0
            streams = [self._placed(consumer, one) for consumer, one in zip(consumers, self._ranges, strict=True)]
            for position, row, order, message in heapq.merge(*streams, key=lambda placed: placed[:3]):
                if isinstance(message, pa.RecordBatch):
                    yield message
                    continue
                waiting.append((position, row, order, message))
                size += len(message)
                if len(waiting) >= BATCH_EVENTS or size >= BATCH_BYTES:
                    yield from self._flush(waiting)
                    waiting, size = [], 0
            yield from self._flush(waiting)
        finally:
            for consumer in consumers:
                consumer.close()

    def _placed(self, consumer: Consumer, one: Range) -> Iterator[tuple[int, int, int, Any]]:
        """Yield the messages of a partition, each with its position, row, and place among others of these."""
        at, order = one.before + 1, 0
        for message in read_range(consumer, one):
            order += 1
            if isinstance(message, Gap):
                yield at, 0, order, note_of(self._table, one, (at, at), message.end - message.start, message.start, message.why, None)
                continue
            if message.value() is None and self._has_deletes:
                continue
            headers = dict(message.headers() or ())
            place = headers.get(PLACE)
            try:
                position, row, _ = (place or b"").decode().split(".") if isinstance(place, bytes) else ("", "", "")
                at = int(position)
            except ValueError:
                why = f"the message has no header {PLACE!r} with its position, as all have that a pipeline publishes"
                yield at, 0, order, note_of(self._table, one, (at, at), 1, offset_of(message), why, message.timestamp()[1])
                continue
            yield at, 2 * int(row) + (OLD_KEY in headers), order, message

    def _flush(self, waiting: Sequence[tuple[int, int, int, Message]]) -> Iterator[pa.RecordBatch]:
        if not waiting:
            return
        messages = [message for *_, message in waiting]
        positions, rows = (np.array([placed[index] for placed in waiting], np.int64) for index in (0, 1))
        keys, values = [message.key() for message in messages], [message.value() for message in messages]
        read = self._reader.read(keys, values, positions, rows, times_of(messages))
        yield from read.events
        for number, why in read.refused:
            message, place = messages[number], int(positions[number])
            one = next(one for one in self._ranges if one.partition == message.partition())
            note = note_of(self._table, one, (place, place), 1, offset_of(message), why, message.timestamp()[1])
            yield note
