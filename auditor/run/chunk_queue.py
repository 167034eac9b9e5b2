"""A queue of the chunks of one side's scan: cut to size while they are read, given back when they fail.

A chunk is a range of keys that one statement summarises. Its size follows the rate at which the last one was read, so that a
statement takes about AIM seconds: long enough that few are needed, short enough to be awaited, retried or cancelled.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from auditor.model import Chunk, Plan, Side, SidePlan

AIM = 5.0
"""Seconds that a statement should take."""

FIRST = 4
"""How many times smaller than the largest the first chunk is: the server's speed is not known yet."""

GROWTH = 4.0
"""How many times larger or smaller than the last a chunk may be, at most."""

SMALLEST = 8
"""How many times smaller chunks may become towards the end, so that all connections end together."""


@dataclass(slots=True)
class ChunkQueue:
    """The key ranges of one side that are still to be read. Any number of threads take chunks from it."""

    pending: list[Chunk]
    """Ranges that no thread has taken, in order."""
    chunk_keys: int
    """Keys that the next chunk spans; 0 if ranges are never cut."""
    largest: int
    """The most keys of a chunk."""
    size: int
    """Chunks hold a whole number of so many keys."""
    least: int
    greatest: int
    connections: int = 1
    """How many connections take from the queue."""
    rows: int = 0
    """Rows read so far."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of_plan(cls, plan: Plan, side: Side, connections: int = 1, done: Iterable[Chunk] = (), cut: int = 0) -> ChunkQueue:
        """Return the queue of what a plan reads of a side, less the chunks that are ``done``.

        Chunks hold whole partitions, or with ``cut`` a whole number of so many keys.
        """
        here = plan.sides[side]
        size = cut or (plan.partitioning.size if plan.partitioning.strategy == "range" else 1)
        return cls(
            pending=_left_to_read(here, list(done)),
            chunk_keys=max(size, here.chunk_keys // FIRST // size * size) if here.chunk_keys else 0,
            largest=max(size, here.chunk_keys // size * size),
            size=size,
            least=(plan.least or 0) // size * size,
            greatest=plan.greatest or 0,
            connections=connections,
        )

    def take(self) -> Chunk | None:
        """Return the next chunk; None if nothing is pending."""
        with self._lock:
            if not self.pending:
                return None
            whole = self.pending.pop(0)
            if not self.chunk_keys or whole.null_key or whole.within:
                return whole
            first = self.least if whole.first is None else whole.first
            end = self.greatest + 1 if whole.end is None else whole.end
            fair = max((end - first) // self.connections, self.chunk_keys // SMALLEST)
            cut = (first + max(self.size, min(self.chunk_keys, fair))) // self.size * self.size
            if cut >= end:
                return whole
            self.pending.insert(0, replace(whole, first=cut))
            return replace(whole, end=cut)

    def record_read(self, chunk: Chunk, rows: int, seconds: float) -> None:
        """Adapt the size of the next chunk to how long this one took."""
        with self._lock:
            self.rows += rows
            if not self.chunk_keys or chunk.null_key or chunk.within:
                return
            spanned = self._span(chunk)
            wanted = spanned * min(GROWTH, max(1 / GROWTH, AIM / max(seconds, 1e-3)))
            self.chunk_keys = int(min(self.largest, max(self.size, wanted)))

    def give_back(self, chunk: Chunk, smaller: bool = False) -> bool:
        """Put a failed chunk back, in halves if it was too large; False if it cannot be cut."""
        with self._lock:
            middle = self._middle(chunk) if smaller else None
            if smaller and middle is None:
                return False
            if middle is not None:
                self.chunk_keys = max(self.size, min(self.chunk_keys, middle - (self.least if chunk.first is None else chunk.first)))
                self.pending[:0] = [replace(chunk, end=middle), replace(chunk, first=middle)]
            else:
                self.pending.insert(0, chunk)
            return True

    def _span(self, chunk: Chunk) -> int:
        first = self.least if chunk.first is None else chunk.first
        return (self.greatest + 1 if chunk.end is None else chunk.end) - first

    def _middle(self, chunk: Chunk) -> int | None:
        if not self.chunk_keys or chunk.null_key or chunk.within or self._span(chunk) < 2 * self.size:
            return None
        first = self.least if chunk.first is None else chunk.first
        return (first + self._span(chunk) // 2) // self.size * self.size


def _left_to_read(here: SidePlan, done: Sequence[Chunk]) -> list[Chunk]:
    """Return what is left of a side's chunks: a whole table that was planned as one chunk may hold rows without a key, in no range."""
    left = [rest for chunk in here.chunks for rest in subtract(chunk, done)]
    one_chunk = here.chunks == (Chunk(),) and not here.chunk_keys
    if one_chunk and left != [Chunk()] and not {Chunk(), Chunk(null_key=True)} & set(done):
        left.append(Chunk(null_key=True))
    return left


def subtract(chunk: Chunk, done: Sequence[Chunk]) -> list[Chunk]:
    """Return the ranges of a chunk that none of the ``done`` ones covers."""
    if chunk.null_key or chunk.within:
        return [] if chunk in done else [chunk]
    rest = [chunk]
    for read in done:
        if not read.null_key and not read.within:
            rest = [piece for one in rest for piece in _subtract_one(one, read)]
    return rest


def _subtract_one(chunk: Chunk, read: Chunk) -> list[Chunk]:
    if not chunk.overlaps(read):
        return [chunk]
    (first, end), (low, high) = chunk.bounds, read.bounds
    pieces = []
    if low > first:
        pieces.append(replace(chunk, end=read.first))
    if high < end:
        pieces.append(replace(chunk, first=read.end))
    return pieces
