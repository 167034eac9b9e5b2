"""The one producer of a target that is topics: transactions of messages, each with the records of the positions topic at its end.

The producer's name (`transactional.id`) is the same for ever, so that beginning to write ends, or waits for, what a producer before it
had under way. What a transaction became whose answer was lost is therefore read from the positions topic by the next producer, and
nothing is ever sent again on a guess. https://cwiki.apache.org/confluence/display/KAFKA/KIP-98

Messages of tables are numbered, each partition by itself, so that a reader can tell one that is missing, or there twice, from the offsets
that markers of transactions and aborted messages take. The writer therefore chooses the partitions, as Kafka's own producers do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from auditor.config import Broker
from auditor.errors import AuditorError, BrokerUnreachable, TopicRefused
from auditor.pipeline.kafka.broker import error_of, open_producer, translated
from auditor.pipeline.kafka.topics import Topic

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

MESSAGE_BYTES = 64 << 20
"""Bytes of a message that the producer takes; what a topic takes is its own setting."""

QUEUED_KIB = 256 << 10
"""KiB of messages that wait for the broker, beyond which sending waits."""

POLL_EVERY = 5_000
"""Messages after which the producer says what became of earlier ones."""

OVERHEAD = 1_000
"""Bytes at most that a batch has beside the keys, values and headers of a single message."""

BATCH_BYTES = 100_000
"""Bytes of several messages that are sent as one batch; one that is longer is a batch of its own."""

NO_KEY = 0
"""The partition of messages without a key, which keeps the order of their table."""

Headers: TypeAlias = list[tuple[str, str | bytes | None]]


class SendRefused(Exception):
    """A message that the topic does not take; ``place`` is its first header, empty if it is not known which message it was."""

    def __init__(self, topic: str, place: bytes, error: AuditorError) -> None:
        super().__init__(topic, str(error))
        self.topic, self.place, self.error = topic, place, error


class _Deliveries:
    """Which message of one transaction did not arrive, if one did not."""

    def __init__(self) -> None:
        self.refused: SendRefused | None = None

    def note(self, error: KafkaError | None, message: Message) -> None:
        """Note that a message did not arrive."""
        if error is not None and self.refused is None:
            topic = message.topic() or ""
            self.refused = SendRefused(topic, b"", error_of(f"topic {topic}", error))

    def check(self) -> None:
        """Raise SendRefused if a message did not arrive."""
        if self.refused is not None:
            raise self.refused


@dataclass(slots=True)
class TopicWriter:
    """An open producer, and what it has sent in the transaction under way."""

    broker: Broker
    name: str
    """Its transactional id."""
    timeout: float
    """Seconds for which a transaction may stand open."""
    _producer: Producer = field(init=False)
    _deliveries: _Deliveries = field(default_factory=_Deliveries)
    """Those of the transaction under way: the library may report messages of an aborted one after the next has begun."""
    _counts: dict[str, np.ndarray] = field(default_factory=dict)
    """By topic whose messages are numbered in it, for each partition how many it has then, those of earlier transactions among them."""
    _is_open: bool = False

    def __post_init__(self) -> None:
        settings = {
            "delivery.report.only.error": True,  # which takes a third of the work of sending
            "message.max.bytes": MESSAGE_BYTES,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.kbytes": QUEUED_KIB,
        }
        self._producer = open_producer(self.broker, self.name, self.timeout, settings)
        with translated(f"the producer {self.name}"):
            self._producer.init_transactions(max(self.broker.timeout, self.timeout))

    def begin(self) -> None:
        """Begin a transaction. Raises BrokerError."""
        self._deliveries, self._counts = _Deliveries(), {}
        with translated("a transaction"):
            self._producer.begin_transaction()
        self._is_open = True

    def number(self, topic: Topic, counts: Sequence[int]) -> None:
        """Number the messages of a topic in this transaction, if they are not yet: ``counts`` are those that each partition has.

        The number follows what the first header of a message says, behind a point.
        """
        self._counts.setdefault(topic.name, np.array(counts or [0] * topic.partitions, np.int64))

    def counts(self, topic: Topic) -> tuple[int, ...]:
        """Return how many messages each partition of a topic has with this transaction; nothing of one whose are not numbered in it."""
        return tuple(self._counts[topic.name].tolist()) if topic.name in self._counts else ()

    def send(self, topic: Topic, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Collection[Headers]) -> None:
        """Send messages in their order. Raises BrokerError, and SendRefused for one that is too long for the topic."""
        _refuse_long(topic, keys, values, headers)
        produce, arrived, name, left = self._producer.produce, self._deliveries.note, topic.name, POLL_EVERY
        partitions = choose_partitions(keys, topic.partitions)
        counts = self._counts.get(name)
        numbers = None if counts is None else iter(_number(counts, partitions).tolist())
        with translated(f"topic {name}"):
            for key, value, added, partition in zip(keys, values, headers, partitions.tolist(), strict=True):
                if numbers is not None:
                    added[0] = _numbered(added[0], next(numbers))
                try:
                    produce(name, value, key, partition, on_delivery=arrived, headers=added)
                except BufferError:  # until earlier messages have arrived
                    self._produce_later(name, key, value, added, partition)
                left -= 1
                if not left:
                    left = POLL_EVERY
                    self._producer.poll(0)
                    self._deliveries.check()
            self._producer.poll(0)
            self._deliveries.check()

    def _produce_later(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, partition: int) -> None:
        """Send a message as soon as there is room for it."""
        while True:
            with suppress(BufferError):
                self._producer.produce(topic, value, key, partition, on_delivery=self._deliveries.note, headers=headers)
                return
            self._producer.poll(0.1)
            self._deliveries.check()

    def send_to_all(self, topic: Topic, value: bytes, headers: Headers) -> None:
        """Send a message without a key to every partition of a topic. Raises BrokerError and SendRefused."""
        counts, every = self._counts.get(topic.name), np.arange(topic.partitions)
        numbers = None if counts is None else _number(counts, every)
        with translated(f"topic {topic.name}"):
            for partition in every.tolist():
                added = headers if numbers is None else [_numbered(headers[0], int(numbers[partition])), *headers[1:]]
                self._produce_later(topic.name, None, value, added, partition)

    def flush(self) -> None:
        """Wait until all messages have arrived. Raises BrokerError and SendRefused."""
        with translated("a transaction"):
            left = self._producer.flush(self.timeout)
        self._deliveries.check()
        if left:
            raise BrokerUnreachable(f"{left:,} messages did not arrive within {self.timeout:g} s")

    def commit(self) -> None:
        """Commit the transaction. Raises BrokerError: then it is not known whether it is, and the next producer finds out."""
        with translated("the commit of a transaction"):
            self._producer.commit_transaction(self.timeout)
        self._is_open = False

    def abort(self) -> None:
        """Undo the transaction. Raises BrokerError."""
        with translated("the end of a transaction"):
            self._producer.abort_transaction(self.timeout)
        self._is_open = False

    def close(self) -> None:
        """Leave; a transaction that is open is ended by the broker, or by the next producer."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):  # it is left anyway
            if self._is_open:
                self._producer.abort_transaction(1.0)


def _number(counts: np.ndarray, partitions: np.ndarray) -> np.ndarray:
    """Return the numbers of messages in these partitions, of which some were counted before, and count them."""
    numbers = np.empty(len(partitions), np.int64)
    for partition in np.unique(partitions):
        at = np.flatnonzero(partitions == partition)
        numbers[at] = counts[partition] + np.arange(len(at))
        counts[partition] += len(at)
    return numbers


def _numbered(header: tuple[str, str | bytes | None], number: int) -> tuple[str, str | bytes | None]:
    name, place = header
    assert isinstance(place, bytes), "the first header of a numbered message is its place"
    return name, b"%b.%d" % (place, number)


def choose_partitions(keys: Sequence[bytes | None], partitions: int) -> np.ndarray:
    """Return the partition of each key: by its murmur2 hash, as Kafka's Java producer and librdkafka's ``murmur2_random`` choose it.

    https://github.com/apache/kafka/blob/4.0/clients/src/main/java/org/apache/kafka/common/utils/Utils.java
    """
    chosen = np.full(len(keys), NO_KEY, np.int64)
    if partitions == 1:
        return chosen
    by_length: dict[int, list[int]] = {}
    for number, key in enumerate(keys):
        if key is not None:
            by_length.setdefault(len(key), []).append(number)
    for length, numbers in by_length.items():
        content = np.frombuffer(b"".join(keys[number] or b"" for number in numbers), np.uint8).reshape(len(numbers), length)
        chosen[numbers] = (_murmur2(content) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions
    return chosen


def _murmur2(content: np.ndarray) -> np.ndarray:
    """Return the hash of each row of bytes, all of the same length."""
    factor, length = np.uint32(0x5BD1E995), content.shape[1]
    found = np.full(len(content), (0x9747B28C ^ length) & 0xFFFFFFFF, np.uint32)
    whole = length // 4 * 4
    words = np.ascontiguousarray(content[:, :whole]).view("<u4")
    for place in range(whole // 4):
        word = words[:, place] * factor
        word ^= word >> np.uint32(24)
        found = found * factor ^ word * factor
    for place in range(length - 1, whole - 1, -1):
        found ^= content[:, place].astype(np.uint32) << np.uint32(8 * (place - whole))
    if whole < length:
        found *= factor
    found ^= found >> np.uint32(13)
    found *= factor
    return found ^ found >> np.uint32(15)


def _refuse_long(topic: Topic, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Iterable[Headers]) -> None:
    """Raise SendRefused for a message that is too long for its topic."""
    most = min(topic.longest_message, MESSAGE_BYTES) - OVERHEAD
    if 4 * max((len(value) for value in values if value), default=0) < most:  # nothing else of a message is as long by far
        return
    for key, value, added in zip(keys, values, headers, strict=True):
        size = len(key or b"") + len(value or b"") + sum(len(content or b"") for _, content in added)
        if size > most:
            raise SendRefused(
                topic.name,
                added[0][1] if added and isinstance(added[0][1], bytes) else b"",
                TopicRefused(
                    f"topic {topic.name}: a message has {size:,} bytes, and the topic takes {most:,}; raise its max.message.bytes (of which"
                    f" {MESSAGE_BYTES:,} are sent at most), leave out columns, or skip this"
                ),
            )
