"""The one producer of a target that is topics: transactions of messages, each with the records of the positions topic at its end.

The producer's name (`transactional.id`) is the same for ever, so that beginning to write ends, or waits for, what a producer before it
had under way. What a transaction became whose answer was lost is therefore read from the positions topic by the next producer, and
nothing is ever sent again on a guess. https://cwiki.apache.org/confluence/display/KAFKA/KIP-98
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

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
    _is_open: bool = False

    def __post_init__(self) -> None:
        settings = {
            "partitioner": "murmur2_random",
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
        self._deliveries = _Deliveries()
        with translated("a transaction"):
            self._producer.begin_transaction()
        self._is_open = True

    def send(self, topic: Topic, keys: Sequence[bytes | None], values: Sequence[bytes | None], headers: Collection[Headers]) -> None:
        """Send messages in their order. Raises BrokerError, and SendRefused for one that is too long for the topic."""
        _refuse_long(topic, keys, values, headers)
        produce, arrived, name, left = self._producer.produce, self._deliveries.note, topic.name, POLL_EVERY
        with translated(f"topic {name}"):
            for key, value, added in zip(keys, values, headers, strict=True):
                try:
                    if key is None:
                        produce(name, value, partition=NO_KEY, on_delivery=arrived, headers=added)
                    else:
                        produce(name, value, key, on_delivery=arrived, headers=added)
                except BufferError:  # until earlier messages have arrived
                    self._produce_later(name, key, value, added, NO_KEY if key is None else -1)
                left -= 1
                if not left:
                    left = POLL_EVERY
                    self._producer.poll(0)
                    self._deliveries.check()
            self._producer.poll(0)
            self._deliveries.check()

    def _produce_later(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers, partition: int) -> None:
        """Send a message as soon as there is room for it; partition -1 is chosen by the key."""
        while True:
            with suppress(BufferError):
                self._producer.produce(topic, value, key, partition, on_delivery=self._deliveries.note, headers=headers)
                return
            self._producer.poll(0.1)
            self._deliveries.check()

    def send_to_all(self, topic: Topic, value: bytes, headers: Headers) -> None:
        """Send a message without a key to every partition of a topic. Raises BrokerError and SendRefused."""
        with translated(f"topic {topic.name}"):
            for partition in range(topic.partitions):
                self._produce_later(topic.name, None, value, headers, partition)

    def flush(self) -> None:
        """Wait until all messages have arrived. Raises BrokerError and SendRefused."""
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
