"""Read the messages of a topic that is a side of a run as events, by the pipeline's own readers.

Of each message is noted where the source has its change: by the header that our publisher writes, or by the block ``source`` of Debezium's
connectors for MySQL and MariaDB in JSON. Changes of one log are in order by that; nothing else of a message says its order. Where it is
asked for, the block is also read for when the source committed the change.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from auditor.errors import MessageRefused, StatementCancelled, TopicRefused
from auditor.pipeline.events import ColumnSchema, TableSchema
from auditor.pipeline.kafka.broker import open_consumer
from auditor.pipeline.kafka.offsets import Range
from auditor.pipeline.kafka.table_messages import PLACE
from auditor.pipeline.kafka.topic_reading import BATCH_BYTES, BATCH_EVENTS, CONSUMER, Gap, offset_of, read_messages, read_together
from auditor.pipeline.messages.formats import FORMATS
from auditor.pipeline.messages.reading import MessageReader
from auditor.pipeline.messages.registry import shared_registry
from auditor.pipeline.topic_side.fixed_topic import GROUP, OFFSET_BITS, OUR_LOG, FixedTopic

if TYPE_CHECKING:
    from confluent_kafka import Message

SOURCE_BLOCK = re.compile(rb'"source"\s*:\s*(\{[^{}]*\})')
"""Debezium's block; a text in a row cannot be taken for it, as its quotes have a backslash before them."""

MOST_NAMED = 3
"""Messages that cannot be read which an error names."""


class MessageSink(Protocol):
    """Takes what is read of a topic: first all that is known of a batch of messages, then their events."""

    @property
    def asks_when(self) -> bool:
        """Whether it asks for the columns ``committed``, ``origin`` and ``gtid`` of messages, for which each is parsed once more."""

    def add_schema(self, schema: TableSchema) -> None:
        """Take a schema that messages have. Raises NoKey if it has no key, so that no message replaces another."""

    def add_messages(self, columns: Mapping[str, pa.Array]) -> None:
        """Take messages of one partition that follow each other: where each is, when it was written, and what it says of its place."""

    def add_events(self, schema: TableSchema, events: pa.RecordBatch) -> None:
        """Take the events of messages, whose positions are the messages' partitions and offsets. Raises NoKey."""


def read_topic(fixed: FixedTopic, sink: MessageSink, on_read: Callable[[int, int], None], stopped: threading.Event) -> None:
    """Read the messages of a topic into a sink.

    Raises MessageRefused for messages that cannot be read, TopicRefused if some were removed meanwhile, StatementCancelled once ``stopped``
    is set, BrokerError and RegistryUnreachable.
    """
    reading, done = _Reading(fixed, sink), 0
    consumer = open_consumer(fixed.broker, GROUP, CONSUMER)
    try:
        for number, end in fixed.ends.items():
            begin = fixed.begins[number]
            waiting: list[Message] = []
            size = 0
            for some in read_together(consumer, Range(fixed.topic.name, number, begin, end, 0)) if begin < end else ():
                if stopped.is_set():
                    raise StatementCancelled
                if isinstance(some, Gap):
                    raise TopicRefused(f"{some.why}; run the audit again")
                waiting += some
                size += sum(map(len, some))
                if len(waiting) >= BATCH_EVENTS or size >= BATCH_BYTES:
                    reading.take(number, waiting)
                    on_read(done + offset_of(waiting[-1]) + 1 - begin, fixed.offsets)
                    waiting, size = [], 0
            reading.take(number, waiting)
            done += end - begin
            on_read(done, fixed.offsets)
    finally:
        consumer.close()


class _Reading:
    """The messages of a topic on their way into a sink."""

    def __init__(self, fixed: FixedTopic, sink: MessageSink) -> None:
        self._fixed, self._sink = fixed, sink
        database, _, table = fixed.topic.name.rpartition(".")
        ref, names = fixed.ref, (database or "topic", table)
        look_up = shared_registry(fixed.broker.registry).schema if ref.messages.has_registry and fixed.broker.registry else None
        columns = tuple(ColumnSchema(name, type, nullable) for name, type, nullable in ref.declared)
        declared = TableSchema(*names, columns, ref.key) if columns else None
        self._readers = {id: MessageReader(*names, ref.messages, schema, look_up) for id, schema in fixed.schemas.items()}
        self._reader = MessageReader(*names, ref.messages, declared, look_up)
        self._knows_columns = declared is not None
        if declared:
            sink.add_schema(declared)
        is_json = FORMATS[ref.messages.format].is_json
        self._has_blocks = ref.messages.values == "debezium" and is_json
        self._is_flat = ref.messages.values == "flat" and is_json

    def take(self, partition: int, messages: Sequence[Message]) -> None:
        """Read messages of a partition that follow each other. Raises MessageRefused."""
        if not messages:
            return
        places = [self._place(message) for message in messages]
        said = {
            "committed": pa.array([place.committed for place in places], pa.int64()),
            "origin": pa.array([place.origin for place in places], pa.string()),
            "gtid": pa.array([place.gtid for place in places], pa.string()),
        }
        self._sink.add_messages(
            {
                "partition": pa.array([partition] * len(messages), pa.int32()),
                "offset": pa.array(map(offset_of, messages), pa.int64()),
                "written": pa.array([message.timestamp()[1] for message in messages], pa.int64()),
                "number": pa.array([place.number for place in places], pa.int64()),
                "log": pa.array([place.log for place in places], pa.string()),
                "position": pa.array([place.position for place in places], pa.int64()),
                "row": pa.array([place.row for place in places], pa.int64()),
                "clears": pa.array([place.clears for place in places], pa.bool_()),
                **(said if self._sink.asks_when else {}),
            }
        )
        refused: list[tuple[int, str]] = []
        run: list[Message] = []
        chosen: MessageReader | None = None
        for message, place in zip(messages, places, strict=True):
            if place.clears:
                continue
            reader = self._reader
            if self._readers:
                if message.value() is None and self._fixed.ref.messages.values != "plain":
                    continue  # it only follows the message of a delete
                if place.schema not in self._readers:
                    what = (
                        f"the topic of schema changes does not have its schema {place.schema}" if place.schema else f"no header {PLACE!r}"
                    )
                    refused.append((offset_of(message), f"{what}, as published_by says that it has"))
                    continue
                reader = self._readers[place.schema]
            elif message.value() is None and not self._knows_columns:
                continue  # there is no row before it that it could delete
            if reader is not chosen:
                refused += self._read(partition, chosen, run)
                run, chosen = [], reader
            self._knows_columns = True
            run.append(message)
        refused += self._read(partition, chosen, run)
        if refused:
            named = "; ".join(f"{partition}:{offset}: {why}" for offset, why in refused[:MOST_NAMED])
            what = "1 message cannot be read" if len(refused) == 1 else f"{len(refused):,} messages or more cannot be read"
            raise MessageRefused(
                f"topic {self._fixed.ref.label}: {what}, so its rows are not known ({named}); correct messages: or columns: of the audit's"
                " topic, or repair its producer"
            )

    def _read(self, partition: int, reader: MessageReader | None, messages: Sequence[Message]) -> list[tuple[int, str]]:
        """Take the events of messages of one schema; return the offsets of those that cannot be read, and why."""
        if reader is None or not messages:
            return []
        positions = (partition << OFFSET_BITS) + np.fromiter(map(offset_of, messages), np.int64, len(messages))
        read = read_messages(reader, messages, positions)
        schemas = [TableSchema.from_json(announced["after"][0][0].as_py()) for announced in read.events[::2]]
        for schema, events in zip(schemas, read.events[1::2], strict=True):
            self._sink.add_events(schema, events)
        return [(offset_of(messages[number]), why) for number, why in read.refused]

    def _place(self, message: Message) -> _Place:
        headers: Mapping[str, Any] = dict(message.headers() or ())
        ours = _our_place(said) if isinstance(said := headers.get(PLACE), bytes) else None
        value = message.value()
        if value is None or (ours and not self._sink.asks_when):
            return ours or NOWHERE
        block = _block_of(value) if self._has_blocks else _flat_block_of(value) if self._is_flat and self._sink.asks_when else {}
        place = ours or (_place_in_source(block) if self._has_blocks else NOWHERE)
        return _with_time(place, block) if self._sink.asks_when else place


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a message's change stands in its source, as far as it is said."""

    log: str | None = None
    """What tells the log in which it stands from others; None if nothing is said."""
    position: int | None = None
    row: int | None = None
    number: int | None = None
    """The message's number in its partition."""
    schema: str = ""
    clears: bool = False
    """Whether it says that the table was emptied."""
    committed: int | None = None
    """When the source committed the change by its own clock, in milliseconds since 1970; None if it was read in a table, or is not said."""
    origin: str | None = None
    """The connector that wrote it."""
    gtid: str | None = None


NOWHERE = _Place()


def _our_place(said: bytes) -> _Place | None:
    """Return what our publisher's header says; None of another one of its name."""
    parts = said.decode("utf-8", "replace").split(".")
    try:
        position, row, number = int(parts[0]), int(parts[1]), int(parts[3]) if len(parts) > 3 else None
    except (ValueError, IndexError):
        return None
    return _Place(OUR_LOG, position, row, number, parts[2], clears=row < 0)


def _block_of(value: bytes) -> Mapping[str, Any]:
    """Return Debezium's block of a message; nothing if it has none."""
    found = SOURCE_BLOCK.findall(value)
    try:
        block = json.loads(found[-1]) if found else {}
    except ValueError:
        return {}
    return block if isinstance(block, dict) else {}


FLAT = "__source_"
"""With what the names of the block's fields begin in the flat form, if it is to have them."""


def _flat_block_of(value: bytes) -> Mapping[str, Any]:
    """Return the fields of Debezium's block that a message in the flat form has."""
    try:
        row = json.loads(value[value.index(b"{") :])
    except ValueError:
        return {}
    row = row.get("payload", row) if isinstance(row, dict) and row.keys() == {"schema", "payload"} else row
    if not isinstance(row, dict):
        return {}
    of_table = "false" if row.get("__op") in ("c", "u", "d") else "true"
    return {"snapshot": of_table, **{name.removeprefix(FLAT): value for name, value in row.items() if name.startswith(FLAT)}}


def _place_in_source(block: Mapping[str, Any]) -> _Place:
    """Return the place that Debezium's block of MySQL or MariaDB says, which is that of a change in the binary log."""
    try:
        if _is_of_table(block):  # which stands where the log was when the table was read
            return NOWHERE
        name, _, number = str(block["file"]).rpartition(".")
        return _Place(f"{block.get('server_id')} {name}", (int(number) << 40) + int(block["pos"]), int(block.get("row") or 0))
    except (ValueError, TypeError, KeyError):
        return NOWHERE


def _with_time(place: _Place, block: Mapping[str, Any]) -> _Place:
    """Return a place with what the block says of when the change was committed, by which connector, and in which transaction."""
    committed, origin, gtid = block.get("ts_ms"), block.get("name"), block.get("gtid")
    is_said = isinstance(committed, int) and committed > 0 and not _is_of_table(block)
    return replace(
        place,
        committed=committed if is_said else None,
        origin=None if origin is None else str(origin),
        gtid=None if gtid is None else str(gtid),
    )


def _is_of_table(block: Mapping[str, Any]) -> bool:
    return block.get("snapshot") not in (None, "false", False)
