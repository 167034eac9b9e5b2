"""How consumers fetch messages: at once where a task waits for them, and as the broker's properties say."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from auditor.config import Broker
from auditor.pipeline.kafka.broker import open_consumer
from auditor.pipeline.kafka.offsets import Range
from auditor.pipeline.kafka.topic_reading import Gap, read_range
from tests.pipeline.read_topics.topics import Topics

pytestmark = pytest.mark.kafka

MESSAGES = 600


class Counted:
    """A consumer that counts how often nothing had come."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.empty = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def consume(self, most: int, wait: float) -> Any:
        found = self._consumer.consume(most, wait)
        self.empty += not found
        return found


def test_a_full_queue_of_large_messages_is_filled_again_at_once(topics: Topics) -> None:
    """The library by itself waits a second each time, so that large messages come at a sixteenth of a processor's pace."""
    topic = topics.make("shop.documents")
    topics.send(topic, *((f"{number}", "x" * 20_000) for number in range(MESSAGES)))
    small = {"queued.max.messages.kbytes": "100", "fetch.message.max.bytes": "100000"}
    with closing(open_consumer(Broker(servers=(topics.server,), properties=small), topics.prefix)) as consumer:
        counted: Any = Counted(consumer)
        found = list(read_range(counted, Range(topic, 0, 0, MESSAGES, 0)))
    assert [one.offset() for one in found if not isinstance(one, Gap)] == list(range(MESSAGES))
    assert counted.empty < 100, "a second is twenty times, and the queue is full twelve times"
