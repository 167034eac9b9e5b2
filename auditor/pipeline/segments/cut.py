"""Where segments end: decided by the stream alone, not by batches, parts, restarts or anybody's clock.

A table's segment ends before an event of another schema; when it has as many rows or bytes as the settings allow; and before the first
transaction of the stream, whatever its tables, at which the stream's own clock passes a multiple of ``age``. That clock is the latest
commit so far: it never goes back. So quiet tables' segments end as well, and writers that began at different places, and count different
rows at first, agree from the next multiple of ``age`` on.

Of topics each partition is a stream of its own, which only its messages' offsets and times cut. Whether its segment ends is seen before
the first message at or behind each multiple of ``offsets``, and at no other: so a message that one writer lost seldom moves a cut. The
segment ends there if it has so many offsets or bytes, or if the latest time in it, or that of the message, is behind a multiple of
``age`` that its first message is not behind. That depends on the segment's own messages alone, so that writers which cut at one place once
go on alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rule:
    """When a segment ends."""

    rows: int
    bytes: int
    """Bytes of the events' texts; the event that reaches them is the segment's last."""
    age: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class PartitionRule(Rule):
    """When a segment of a topic's partition ends; ``rows`` are offsets, with those of no message."""

    offsets: int


@dataclass(frozen=True, slots=True)
class OpenPartition:
    """What the open segment of a topic's partition has so far."""

    first: int
    """The offset of its first message."""
    began: int
    """The first message's time, in microseconds since 1970."""
    last: int
    """The offset of its last message."""
    latest: int
    """The latest time of its messages."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Open:
    """What a table's open segment has so far; of none, nothing."""

    rows: int = 0
    bytes: int = 0
    schema_id: str = ""


def find_ticks(positions: Numbers, microseconds: Numbers, age: float, clock: int) -> tuple[Numbers, int]:
    """Return the positions at which the stream's clock passes a multiple of ``age``, and what the clock shows after these events.

    The events are those of all tables, in any order; times, and the clock, are in microseconds since 1970.
    """
    order = np.argsort(positions, kind="stable")
    shown = np.maximum.accumulate(np.maximum(microseconds[order], clock))
    each = round(age * 1e6)
    is_later = np.diff(shown // each, prepend=clock // each) > 0
    return positions[order][is_later], int(shown[-1]) if len(shown) else clock


def find_ends(
    positions: Numbers, sizes: Numbers, schema_ids: npt.NDArray[np.object_], ticks: Numbers, begun: Open, rule: Rule
) -> tuple[list[int], Open]:
    """Return before which of a table's next events its segments end, and what the segment that stays open then has.

    ``positions``, ``sizes`` (bytes of text) and ``schema_ids`` are those of the events, in the order of the stream; ``ticks`` lie behind
    what the open segment has. The number of events stands for the end behind the last one, and 0 for an end before the first.
    """
    count = len(positions)
    previous = np.concatenate([[begun.schema_id if begun.rows else None], schema_ids])[:-1] if count else schema_ids
    changes = np.flatnonzero(schema_ids != previous)
    forced = np.unique(np.concatenate([changes, np.searchsorted(positions, ticks)])).astype(int).tolist()
    total = np.concatenate([[0], np.cumsum(sizes)])
    ends: list[int] = []
    start, held = 0, begun
    while True:
        is_forced = bool(forced) and forced[0] == start
        if is_forced:
            forced.pop(0)
        if held.rows and (is_forced or held.rows >= rule.rows or held.bytes >= rule.bytes):
            ends.append(start)
            held = Open()
        if start == count:
            return ends, held
        enough = int(np.searchsorted(total, total[start] + rule.bytes - held.bytes))
        end = min(start + rule.rows - held.rows, max(enough, start + 1), count, *forced[:1])
        held = Open(held.rows + end - start, held.bytes + int(total[end] - total[start]), schema_ids[start])
        start = end


def find_partition_ends(
    offsets: Numbers, sizes: Numbers, microseconds: Numbers, begun: OpenPartition | None, rule: PartitionRule
) -> tuple[list[int], OpenPartition | None]:
    """Return before which of a partition's next messages its segments end, and what the segment that stays open then has.

    ``sizes`` are bytes of text. There is one message at least, and 0 stands for an end before the first of them.
    """
    each, checks = round(rule.age * 1e6), offsets // rule.offsets
    before = np.concatenate([[begun.last // rule.offsets if begun else checks[0]], checks[:-1]])
    total = np.concatenate([[0], np.cumsum(sizes)])
    ends: list[int] = []
    held, start = begun, 0
    for place in [*np.flatnonzero(checks != before).tolist(), len(offsets)]:
        if place > start:
            held = _longer(held, offsets[start:place], microseconds[start:place], int(total[place] - total[start]))
            start = place
        if place == len(offsets) or held is None:
            continue
        passed = int(checks[place]) - held.first // rule.offsets
        latest = max(held.latest, int(microseconds[place]))
        if passed * rule.offsets >= rule.rows or held.bytes >= rule.bytes or latest // each > held.began // each:
            ends.append(place)
            held = None
    return ends, held


def _longer(held: OpenPartition | None, offsets: Numbers, microseconds: Numbers, size: int) -> OpenPartition:
    first, began, latest, before = (
        (held.first, held.began, held.latest, held.bytes) if held else (int(offsets[0]), int(microseconds[0]), 0, 0)
    )
    return OpenPartition(first, began, int(offsets[-1]), max(latest, int(microseconds.max())), before + size)
