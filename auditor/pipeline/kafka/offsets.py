"""Offsets of a stream of topics: how far each partition was read, and the one number by which the stream is in order.

The pipeline gives the messages that it reads one number after the other: those of a batch come topic by topic, and of a topic partition
by partition, each by its offsets. That number is a message's position, so that every message is a transaction of its own, and messages of
one partition, and therefore of one key, are in their order. An offset of the stream has, beside the last number, where each partition was
read up to; so the numbers of a batch follow from the offsets at which it begins and ends, whenever its tasks are planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.pipeline.events import Position, message_number, message_position

FILE = "messages"
"""What comes in an offset before the number of the file of its position."""

LOG = "log"
"""The same where that is a place in the log of the pipeline that publishes the topics."""


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """How far a topic was read."""

    id: str
    """Kafka's own id of the topic, which another one of the same name does not have."""
    ends: tuple[int, ...]
    """By partition the offset of the next message that is read."""
    begins: tuple[tuple[int, int], ...] = ()
    """Partitions of which the batch does not begin where the one before it ended, and where it does: those that are new."""


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """How far the topics of a pipeline were read."""

    number: int
    """Of the last message; where a pipeline publishes the topics, its own position."""
    cluster: str
    """Kafka's id of the cluster."""
    topics: Mapping[str, TopicOffsets] = field(default_factory=dict)
    published: Mapping[str, Any] | None = None
    """Which transaction of the pipeline that publishes the topics ended there: ``incarnation`` and ``batch``; None where none does."""

    def to_json(self) -> dict[str, Any]:
        """Return it as the store has it, in the form of any stream's offset."""
        topics: dict[str, Any] = {}
        for name, topic in sorted(self.topics.items()):
            topics[name] = {"id": topic.id, "offsets": list(topic.ends)}
            if topic.begins:
                topics[name]["begins"] = [list(pair) for pair in topic.begins]
        place = Position.unpack(message_position(self.number) if self.published is None else self.number)
        return {
            "epoch": place.epoch,
            "file": f"{FILE if self.published is None else LOG}.{place.file:06d}",
            "position": place.offset,
            "gtid": "",
            "server": self.cluster,
            "topics": topics,
            **({} if self.published is None else {"published": dict(self.published)}),
        }


def is_of_topics(offset: Any) -> bool:
    """Return whether an offset is one of topics."""
    return isinstance(offset, Mapping) and "topics" in offset


def from_json(offset: Mapping[str, Any]) -> StreamOffset:
    """Return the offset that ``to_json`` wrote."""
    topics = {
        name: TopicOffsets(body["id"], tuple(body["offsets"]), tuple((number, begin) for number, begin in body.get("begins", ())))
        for name, body in offset["topics"].items()
    }
    file = int(str(offset["file"]).rpartition(".")[2])
    position = Position(int(offset["epoch"]), file, int(offset["position"])).pack()
    if "published" in offset:
        return StreamOffset(position, str(offset["server"]), topics, offset["published"])
    number = message_number(position)
    assert number is not None, "an offset of topics has the number of a message"
    return StreamOffset(number, str(offset["server"]), topics)


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one partition, by their offsets, and what comes before them."""

    topic: str
    partition: int
    start: int
    """The first offset."""
    end: int
    """The one after the last."""
    before: int
    """The number of the message before the first one."""
    lost: str = ""
    """Why messages before them are lost, which has a number of its own, ``before``; '' if none are."""

    def position(self, offset: int) -> int:
        """Return the position of a message."""
        return message_position(self.before + 1 + offset - self.start)

    def offset_of(self, position: int) -> int:
        """Return the offset of the message that has a position."""
        number = message_number(position)
        assert number is not None, "messages have such positions"
        return number - self.before - 1 + self.start

    def split(self, messages: int) -> Iterator[Range]:
        """Yield pieces of so many offsets at most."""
        for start in range(self.start, self.end, messages) if self.start < self.end else (self.start,):
            end = min(start + messages, self.end)
            yield Range(self.topic, self.partition, start, end, self.before + start - self.start, self.lost if start == self.start else "")


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[Range]:
    """Return the ranges of the batch between two offsets, in the order of the stream: the same whenever they are asked for."""
    found: list[Range] = []
    number = start.number
    for name, topic in sorted(end.topics.items()):
        known, begins = start.topics.get(name), dict(topic.begins)
        for partition, stop in enumerate(topic.ends):
            before = known.ends[partition] if known and partition < len(known.ends) else 0
            begin = begins.get(partition, before)
            lost = _lost(name, partition, known, topic, before, begin)
            if lost:
                number += 1
            if lost or begin < stop:
                found.append(Range(name, partition, begin, stop, number, lost))
            number += stop - begin
    assert number == end.number, f"a batch from {start.number} to {end.number} has messages up to {number}"
    return found


def _lost(name: str, partition: int, known: TopicOffsets | None, topic: TopicOffsets, before: int, begin: int) -> str:
    """Return why messages between two batches are lost; '' if none are, as far as the offsets show."""
    if known is None or partition >= len(known.ends):
        return ""
    if known.id != topic.id and partition:
        return ""  # it is said once of a topic
    if known.id != topic.id:
        return (
            f"the topic {name} was deleted and made again (its id is {topic.id}, and {known.id} was read up to offset {before} of partition"
            " 0), so that messages between may be lost"
        )
    if begin < before:
        return (
            f"partition {partition} of the topic {name} ends at offset {begin}, and was read up to {before}: the broker lost messages, or"
            " was restored, and may have others in their place"
        )
    return ""


def count_between(start: StreamOffset, topics: Mapping[str, TopicOffsets]) -> int:
    """Return the number of the last message of a batch that begins at an offset and reads topics up to others."""
    number = start.number
    for name, topic in topics.items():
        known, begins = start.topics.get(name), dict(topic.begins)
        for partition, stop in enumerate(topic.ends):
            before = known.ends[partition] if known and partition < len(known.ends) else 0
            begin = begins.get(partition, before)
            number += stop - begin + bool(_lost(name, partition, known, topic, before, begin))
    return number


def share(available: Sequence[int], most: int) -> list[int]:
    """Return how much is taken of each, so that it is ``most`` together: of those that have little all, of the others equally much."""
    taken = [0] * len(available)
    left, open_ = most, sorted(range(len(available)), key=lambda index: available[index])
    for place, index in enumerate(open_):
        taken[index] = min(available[index], left // (len(open_) - place))
        left -= taken[index]
    return taken
