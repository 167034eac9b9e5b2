"""Whether others wrote into a partition is known once it was read to its end, not once a broker says that it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError

from auditor.errors import BrokerUnreachable
from auditor.pipeline.kafka.written_topics import find_messages

PARTITION = ("shop.orders", 0)


@dataclass
class Said:
    """A message that a consumer hands out, or where it says that the partition ends."""

    at: int
    is_end: bool = False

    def topic(self) -> str:
        return PARTITION[0]

    def partition(self) -> int:
        return PARTITION[1]

    def offset(self) -> int:
        return self.at

    def error(self) -> KafkaError | None:
        return KafkaError(KafkaError._PARTITION_EOF) if self.is_end else None


class Consumer:
    """Hands out what a broker says, one after the other, and then nothing more."""

    def __init__(self, *said: Said) -> None:
        self.said = list(said)

    def consume(self, most: int, timeout: float) -> list[Said]:
        return [self.said.pop(0)] if self.said else []


def find(*said: Said, end: int) -> list[Any]:
    consumer: Any = Consumer(*said)
    return find_messages(consumer, {PARTITION: end}, timeout=0.05)


def test_a_message_behind_an_end_that_a_new_leader_says_too_early_is_found() -> None:
    assert find(Said(3, is_end=True), Said(5), end=7) == [PARTITION]


def test_a_partition_whose_end_was_reached_has_none() -> None:
    assert find(Said(3, is_end=True), Said(7, is_end=True), end=7) == []


def test_a_broker_that_says_nothing_is_unreachable_and_no_proof() -> None:
    with pytest.raises(BrokerUnreachable, match=r"partition 0 of topic shop\.orders cannot be read"):
        find(Said(3, is_end=True), end=7)
