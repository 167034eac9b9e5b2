"""The chunks of one side's scan: cut to size while they are read, given back when they fail, left out when they were read before.

A chunk is a stretch of keys that one statement summarises. Its size follows the rate at which the last one was read, so that a
statement takes about AIM seconds: long enough to cost little by its number, short enough to be waited for, repeated or ended.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from auditor.model import Chunk, Plan, Side

AIM = 5.0
"""Seconds that a statement should take."""

FIRST = 4
"""The first chunk is so many times smaller than the largest may be: nobody knows yet how fast the server is."""

GROWTH = 4.0
"""A chunk is at most so many times larger, or smaller, than the last."""

SMALLEST = 8
"""Towards the end chunks are up to so many times smaller, so that all readers end together."""


@dataclass(slots=True)
class Queue:
    """What of one side is still to be read. Any number of threads take from it.

    ``open`` are stretches nobody has taken, in order; ``keys`` is how many keys the next chunk spans, 0 where stretches are
    never cut; ``readers`` how many take from it.
    """

    open: list[Chunk]
    keys: int
    most: int
    size: int
    least: int
    greatest: int
    readers: int = 1
    rows: int = 0
    """Rows read so far."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> Chunk | None:
        """The next chunk; None where nothing is left to take."""
        with self._lock:
            if not self.open:
                return None
            whole = self.open.pop(0)
            if not self.keys or whole.null_key or whole.within:
                return whole
            first = self.least if whole.first is None else whole.first
            end = self.greatest + 1 if whole.end is None else whole.end
            fair = max((end - first) // self.readers, self.keys // SMALLEST)
            cut = (first + max(self.size, min(self.keys, fair))) // self.size * self.size
            if cut >= end:
                return whole
            self.open.insert(0, replace(whole, first=cut))
            return replace(whole, end=cut)

    def finished(self, chunk: Chunk, rows: int, seconds: float) -> None:
        """Learn from a chunk that was read how large the next should be."""
        with self._lock:
            self.rows += rows
            if not self.keys or chunk.null_key or chunk.within:
                return
            spanned = self._span(chunk)
            wanted = spanned * min(GROWTH, max(1 / GROWTH, AIM / max(seconds, 1e-3)))
            self.keys = int(min(self.most, max(self.size, wanted)))

    def give_back(self, chunk: Chunk, smaller: bool = False) -> bool:
        """Let a chunk that failed be taken again, in halves where it was too large; False where it cannot be cut."""
        with self._lock:
            middle = self._middle(chunk) if smaller else None
            if smaller and middle is None:
                return False
            if middle is not None:
                self.keys = max(self.size, min(self.keys, middle - (self.least if chunk.first is None else chunk.first)))
                self.open[:0] = [replace(chunk, end=middle), replace(chunk, first=middle)]
            else:
                self.open.insert(0, chunk)
            return True

    def _span(self, chunk: Chunk) -> int:
        first = self.least if chunk.first is None else chunk.first
        return (self.greatest + 1 if chunk.end is None else chunk.end) - first

    def _middle(self, chunk: Chunk) -> int | None:
        if not self.keys or chunk.null_key or chunk.within or self._span(chunk) < 2 * self.size:
            return None
        first = self.least if chunk.first is None else chunk.first
        return (first + self._span(chunk) // 2) // self.size * self.size


def queue(plan: Plan, side: Side, readers: int = 1, done: Iterable[Chunk] = ()) -> Queue:
    """What of a side a plan has to read, less what is ``done``."""
    here = plan.sides[side]
    size = plan.partitioning.size if plan.partitioning.strategy == "range" else 1
    least, greatest = plan.least or 0, plan.greatest or 0
    first = max(size, here.chunk_keys // FIRST // size * size) if here.chunk_keys else 0
    return Queue(
        open=[rest for chunk in here.chunks for rest in _without(chunk, list(done))],
        keys=first,
        most=max(size, here.chunk_keys // size * size),
        size=size,
        least=least // size * size,
        greatest=greatest,
        readers=readers,
    )


def _without(chunk: Chunk, done: list[Chunk]) -> list[Chunk]:
    """What of a chunk is left when these are taken from it."""
    if chunk.null_key or chunk.within:
        return [] if chunk in done else [chunk]
    left = [chunk]
    for gone in done:
        if not gone.null_key and not gone.within:
            left = [piece for one in left for piece in _less(one, gone)]
    return left


def overlap(one: Chunk, other: Chunk) -> bool:
    """Whether there are rows that both chunks hold, as far as their keys tell."""
    if one.null_key or other.null_key:
        return one.null_key and other.null_key
    (first, end), (low, high) = _bounds(one), _bounds(other)
    return first < high and low < end


def _bounds(chunk: Chunk) -> tuple[float, float]:
    return (-math.inf if chunk.first is None else chunk.first), (math.inf if chunk.end is None else chunk.end)


def _less(chunk: Chunk, gone: Chunk) -> list[Chunk]:
    if not overlap(chunk, gone):
        return [chunk]
    (first, end), (low, high) = _bounds(chunk), _bounds(gone)
    pieces = []
    if low > first:
        pieces.append(replace(chunk, end=gone.first))
    if high < end:
        pieces.append(replace(chunk, first=gone.end))
    return pieces
