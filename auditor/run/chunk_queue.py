"""A queue of the chunks of one side's scan: cut to size while they are read, given back when they fail.

A chunk is a range of keys that one statement summarises. Its size follows how long the last ones took, so that a statement takes about
``chunk_aim`` seconds: long enough that few are needed, short enough to be awaited, retried or cancelled.

Where the key is not the order in which rows are stored, a range costs nearly a scan, whatever its size. So the time of a statement is taken
to be a + b * keys, and chunks are as large as makes the first term a small part of it, up to all that is left: see ``Pace``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import median

from auditor.durations import durations
from auditor.model import Chunk, Plan, Side, SidePlan
from auditor.planning.chunks import subtract

FIRST = 4
"""How many times smaller than the largest the first chunk is: the server's speed is not known yet."""

GROWTH = 4.0
"""How many times larger or smaller than the last a chunk may be, at most."""

SMALLEST = 8
"""How many times smaller chunks may become towards the end, so that all connections end together."""


REMEMBERED = 9
"""Latest statements by which times are estimated: a few that something else held up do not move a median of them."""

FIXED_SHARE = 0.2
"""Largest share of a statement's time that may be spent whatever the number of keys: chunks for which it is more may take longer."""


@dataclass(slots=True)
class Pace:
    """How long statements take: a + b * keys, with a and b the medians that Theil and Sen propose.

    b is the median of the slopes between any two statements, a that of what is left of each; neither is below 0. Statements of one size say
    nothing of a, which then is 0. https://en.wikipedia.org/wiki/Theil%E2%80%93Sen_estimator
    """

    read: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """Keys and seconds of the latest statements."""

    def estimate(self) -> tuple[float, float]:
        """Return the seconds that each statement takes, and those for each key; at least one has been read."""
        slopes = [(t - s) / (k - j) for (j, s), (k, t) in combinations(self.read, 2) if k != j]
        if not slopes:
            keys, seconds = self.read[-1]
            return 0.0, seconds / keys
        slope = max(0.0, median(slopes))
        return max(0.0, median(seconds - slope * keys for keys, seconds in self.read)), slope

    def keys_wanted(self) -> float:
        """Return how many keys the next statement should read, by the estimate and by how the last one went beside it."""
        fixed, slope = self.estimate()
        keys, seconds = self.read[-1]
        if (expected := fixed + slope * keys) > 0:
            now = seconds / expected  # the server's load now, or other keys
            fixed, slope = fixed * now, slope * now
        aim = max(durations().chunk_aim, fixed / FIXED_SHARE)
        return min(GROWTH * keys, max(keys / GROWTH, (aim - fixed) / slope if slope else GROWTH * keys))

    def least_keys(self) -> float:
        """Return the keys below which a statement takes longer for no key than for its own; 0 while nothing is known."""
        if not self.read:
            return 0.0
        fixed, slope = self.estimate()
        return fixed / slope if slope else 0.0 if not fixed else float("inf")


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
    pace: Pace = field(default_factory=Pace)
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
            fair = max((end - first) // self.connections, self.chunk_keys // SMALLEST, min(self.pace.least_keys(), self.chunk_keys))
            cut = (first + max(self.size, int(min(self.chunk_keys, fair)))) // self.size * self.size
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
            self.pace.read.append((max(1, self._span(chunk)), max(seconds, 1e-3)))
            self.chunk_keys = round(min(self.largest, max(self.size, self.pace.keys_wanted())))

    def give_back(self, chunk: Chunk, smaller: bool = False) -> bool:
        """Put a failed chunk back, in halves if it was too large; False if it cannot be cut. No later chunk is larger than these."""
        with self._lock:
            middle = self._middle(chunk) if smaller else None
            if smaller and middle is None:
                return False
            if middle is not None:
                half = middle - (self.least if chunk.first is None else chunk.first)
                self.largest = max(self.size, min(self.largest, half))
                self.chunk_keys = min(self.chunk_keys, self.largest)
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
