"""Read ranges of topics in a task, and make events of their messages.

A range is read to its end at read_committed: what was aborted, and the markers of transactions, are passed by, and leave gaps in the
offsets. What cannot be read, or was removed before, becomes a note that stops the table, with topic, partition and offset.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from auditor.config import Broker, ReadTopic, Settings, TopicSource, load
from auditor.durations import durations
from auditor.errors import AuditorError, BrokerUnreachable, MessageRefused
from auditor.pipeline.events import ARROW_SCHEMA, ColumnSchema, TableSchema, message_position
from auditor.pipeline.kafka.broker import UNREACHABLE, error_of, open_consumer, translated
from auditor.pipeline.kafka.offsets import Range
from auditor.pipeline.kafka.table_columns import announce, fit, widen
from auditor.pipeline.messages.reading import MessageReader, ReadMessages
from auditor.pipeline.messages.registry import shared_registry

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

AT_ONCE = 1000
"""Messages that are taken from the client at once."""

BATCH_EVENTS = 10_000
"""Events of a batch that a task hands on."""

BATCH_BYTES = 8 << 20
"""Bytes of messages from which it is handed on with fewer."""

POLL = 0.05
"""Seconds for which the client waits until it has as many: it does so though a partition ends before."""

CONSUMER: dict[str, Any] = {
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16 << 10,  # behind a range's end nothing is needed
    "check.crcs": True,
}
"""Properties of the consumers of tasks, unless the broker's say otherwise."""

PRIMING = 200
"""Offsets before a range of which the messages say what it is, where it begins with a tombstone."""


@dataclass(frozen=True, slots=True)
class TopicReading:
    """What a task reads; it has no secrets, which it takes from the configuration."""

    config: str
    pipeline: str

    def batches(self, ranges: Sequence[Range], columns: TaskColumns) -> Iterator[pa.RecordBatch]:
        """Yield the events of ranges, in the order of the stream, with announcements of schemas and notes. Raises AuditorError.

        They have the columns of their tables, which grow by what is found.
        """
        yield from read_ranges(load(Path(self.config)), self.pipeline, ranges, columns)


def read_ranges(settings: Settings, pipeline: str, ranges: Sequence[Range], columns: TaskColumns) -> Iterator[pa.RecordBatch]:
    """Yield the events of ranges of a pipeline's topics, as `TopicReading.batches` does."""
    source = settings.pipeline(pipeline).topic_source
    assert source is not None, "only pipelines with topics have such tasks"
    broker = settings.brokers[source.broker]
    consumer = _consumer_of(broker, source.group_of(pipeline))
    try:
        for one in ranges:
            yield from _RangeEvents(source, broker, consumer, one, columns).batches()
    finally:
        with suppress(AuditorError), translated("the consumer"):
            consumer.unassign()


@dataclass(slots=True)
class TaskColumns:
    """The columns of tables while a task reads them."""

    known: dict[str, TableSchema]
    """As they are now, by ``database.table``."""
    used: dict[str, set[str]] = field(default_factory=dict)
    """The ids of the schemas that its events have."""
    announced: set[str] = field(default_factory=set)


_consumers: dict[str, Consumer] = {}
"""The consumers of this process, which runs one task after the other: to open one takes longer than a small range."""


def _consumer_of(broker: Broker, group: str) -> Consumer:
    key = f"{group} {broker.model_dump_json()}"
    if key not in _consumers:
        _consumers[key] = open_consumer(broker, group, CONSUMER)
    return _consumers[key]


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets of a partition whose messages are gone."""

    start: int
    end: int
    why: str


def read_range(consumer: Consumer, wanted: Range) -> Iterator[Message | Gap]:
    """Yield the messages of a range one by one, and gaps, as `read_together` does."""
    for some in read_together(consumer, wanted):
        if isinstance(some, Gap):
            yield some
        else:
            yield from some


def read_together(consumer: Consumer, wanted: Range) -> Iterator[list[Message] | Gap]:
    """Yield the messages of a range, as many as come at once, and gaps that retention left before it was read.

    Raises BrokerUnreachable if no message comes for ``source_absence`` seconds, and other errors of the broker at once.
    """
    from confluent_kafka import TopicPartition

    subject = f"partition {wanted.partition} of the topic {wanted.topic}"
    at = wanted.start
    with translated(subject):
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, at)])
    heard = time.monotonic()
    while at < wanted.end:
        with translated(subject):
            messages = consumer.consume(min(AT_ONCE, wanted.end - at), POLL)
        if not messages and time.monotonic() - heard > durations().source_absence:
            raise BrokerUnreachable(f"{subject}: no message came from offset {at} on for {durations().source_absence:g} s")
        read: list[Message] = []
        for message in messages:
            error = message.error()
            if error is None:
                read.append(message)
                continue
            if read:  # what comes before the error
                heard, at = time.monotonic(), offset_of(read[-1]) + 1
                yield from _within(read, wanted.end)
                read = []
            if error.name() == "_PARTITION_EOF":
                if (message.offset() or 0) >= wanted.end:
                    return
            elif error.name() in ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE"):
                gap = _find_gap(consumer, wanted, at, subject)
                yield gap
                at = gap.end
                with translated(subject):
                    consumer.assign([TopicPartition(wanted.topic, wanted.partition, at)])
                break
            else:
                is_passing = error.name() in UNREACHABLE and not error.fatal()
                if not is_passing or time.monotonic() - heard > durations().source_absence:
                    raise error_of(subject, error)
        if read:
            heard, at = time.monotonic(), offset_of(read[-1]) + 1
            yield from _within(read, wanted.end)


def _within(messages: list[Message], end: int) -> Iterator[list[Message]]:
    """Yield those of consecutive messages that come before an offset, if there are any."""
    if offset_of(messages[-1]) >= end:
        messages = [message for message in messages if offset_of(message) < end]
    if messages:
        yield messages


def _find_gap(consumer: Consumer, wanted: Range, at: int, subject: str) -> Gap:
    """Return what is missing where a partition has no offset to begin at."""
    from confluent_kafka import TopicPartition

    with translated(subject):
        low, high = consumer.get_watermark_offsets(TopicPartition(wanted.topic, wanted.partition), timeout=durations().source_absence)
    if low > at:
        gone = f"the messages from offset {at} to {min(low, wanted.end) - 1} were removed, by retention or by hand, before they were read"
        return Gap(at, min(low, wanted.end), f"{subject}: {gone}")
    if high < wanted.end:
        gone = f"it ends at offset {high}, and had messages up to {wanted.end - 1}: the broker lost them, or was restored"
        return Gap(at, wanted.end, f"{subject}: {gone}")
    raise BrokerUnreachable(f"{subject}: the broker had no offset {at}, and has it again")


class _RangeEvents:
    """The events of one range."""

    def __init__(self, source: TopicSource, broker: Broker, consumer: Consumer, wanted: Range, columns: TaskColumns) -> None:
        self._consumer, self._range, self._columns = consumer, wanted, columns
        self._reader = reader_of(source, broker, wanted.topic)
        self._table = source.table_of(wanted.topic)
        self._waiting: list[Message] = []
        self._bytes = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the events."""
        wanted = self._range
        if wanted.lost:
            at = message_position(wanted.before)
            yield note_of(self._table, wanted, (at, at), 1, wanted.start, wanted.lost, None)
        for some in self._messages():
            if isinstance(some, Gap):
                yield from self._flush()
                first, last = wanted.position(some.start), wanted.position(some.end - 1)
                yield note_of(self._table, wanted, (first, last), some.end - some.start, some.start, some.why, None)
                continue
            is_small = sum(map(len, some)) < BATCH_BYTES
            for part in [some] if is_small else [[message] for message in some]:
                self._waiting += part
                self._bytes += sum(map(len, part))
                if len(self._waiting) >= BATCH_EVENTS or self._bytes >= BATCH_BYTES:
                    yield from self._flush()
        yield from self._flush()

    def _messages(self) -> Iterator[list[Message] | Gap]:
        """Yield the messages, once the reader knows those before a range that begins with a tombstone.

        They say the columns, and whether it follows the delete of its key: so what it is does not depend on where ranges begin.
        """
        messages = read_together(self._consumer, self._range)
        first = next(messages, None)
        if first is None:
            return
        if isinstance(first, Gap) or first[0].value() is not None or not self._range.start:
            yield first
        else:
            before = replace(self._range, start=max(0, self._range.start - PRIMING), end=self._range.start)
            known = [message for message in read_range(self._consumer, before) if not isinstance(message, Gap)]
            if known:
                self._read(known)
            messages = read_together(self._consumer, self._range)
        yield from messages

    def _flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the events of the messages that wait, and notes on those that cannot be read."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        if not waiting:
            return
        read = self._read(waiting)
        schemas = [TableSchema.from_json(announced["after"][0][0].as_py()) for announced in read.events[::2]]
        for found, events in zip(schemas, read.events[1::2], strict=True):
            yield from self._fitted(found, events)
        for number, why in read.refused:
            message = waiting[number]
            position = self._range.position(offset_of(message))
            yield note_of(self._table, self._range, (position, position), 1, offset_of(message), why, message.timestamp()[1])

    def _fitted(self, found: TableSchema, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield events with all columns of the table; a note on those that have others than it can have."""
        columns = self._columns
        try:
            wide = columns.known[self._table] = widen(columns.known.get(self._table), found)
        except MessageRefused as error:
            first, last = (events["position"][place].as_py() for place in (0, -1))
            offset = self._range.offset_of(first)
            yield note_of(self._table, self._range, (first, last), events.num_rows, offset, str(error), None)
            return
        columns.used.setdefault(self._table, set()).add(wide.id)
        if wide.id not in columns.announced:
            columns.announced.add(wide.id)
            yield announce(wide, events)
        yield fit(events, found, wide)

    def _read(self, messages: Sequence[Message]) -> ReadMessages:
        offsets = np.fromiter(map(offset_of, messages), np.int64, len(messages))
        return read_messages(self._reader, messages, self._range.position(self._range.start) - self._range.start + offsets)


def note_of(
    table: str, wanted: Range, positions: tuple[int, int], events: int, offset: int, why: str, moment: int | None
) -> pa.RecordBatch:
    """Return the note that stops a table: where the stream has it, by its first and last position, and where the topic does.

    ``moment`` is when its first message was written, in milliseconds since 1970; None for now.
    """
    place = f"{wanted.topic}:{wanted.partition}:{offset}"
    body = {"stage": "decoding", "reason": f"{why}; {place}", "cause": why, "place": place}
    database, _, name = table.partition(".")
    note = {"kind": "poison", "database": database, "table": name, "schema_id": "", "gtid": None, "position": positions[0], "row": 0}
    content = json.dumps({"last": positions[1], "events": events, "body": body})
    at = dt.datetime.now(dt.UTC) if moment is None else dt.datetime.fromtimestamp(moment / 1000, dt.UTC)
    return pa.RecordBatch.from_pylist([{**note, "time": at, "before": None, "after": [content]}], ARROW_SCHEMA)


def read_messages(reader: MessageReader, messages: Sequence[Message], positions: np.ndarray | Sequence[int]) -> ReadMessages:
    """Return what messages at these positions of the stream are to a table."""
    keys, values = [message.key() for message in messages], [message.value() for message in messages]
    return reader.read(keys, values, np.array(positions, np.int64), np.zeros(len(messages), np.int64), times_of(messages))


def times_of(messages: Sequence[Message]) -> pa.Array:
    """Return when messages were written."""
    return pa.array([max(message.timestamp()[1], 0) * 1000 for message in messages], ARROW_SCHEMA.field("time").type)


def offset_of(message: Message) -> int:
    """Return the offset of a message."""
    offset = message.offset()
    assert offset is not None, "a message that was read has an offset"
    return offset


def reader_of(source: TopicSource, broker: Broker, topic: str) -> MessageReader:
    """Return what reads the messages of a topic of the source."""
    said, settings = source.find(topic) or ReadTopic(), source.messages_of(topic)
    database, _, table = source.table_of(topic).partition(".")
    columns = tuple(ColumnSchema(name, type, nullable) for name, type, nullable in said.declared)
    schema = TableSchema(database, table, columns, said.key) if columns else None
    look_up = shared_registry(broker.registry).schema if settings.has_registry and broker.registry else None
    return MessageReader(database, table, settings, schema, look_up)
