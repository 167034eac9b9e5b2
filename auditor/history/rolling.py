"""Choose the partitions that each run of a rolling audit reads: first those that were read least recently."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

DEFAULT_RATE = 50_000.0
"""Rows per second assumed for the first run of a rolling audit with a time budget."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Partitions by number, from ``first`` (inclusive) to ``end`` (exclusive), and when they were last read (None: never)."""

    first: int
    end: int
    at: dt.datetime | None


def fill_gaps(read: Iterable[Piece], first: int, end: int) -> list[Piece]:
    """Return pieces that cover the partitions from ``first`` to ``end`` in order: those of ``read`` (ascending, disjoint), and the gaps."""
    pieces: list[Piece] = []
    reached = first
    for piece in read:
        low, high = max(piece.first, reached), min(piece.end, end)
        if low >= high:
            continue
        if low > reached:
            pieces.append(Piece(reached, low, None))
        pieces.append(Piece(low, high, piece.at))
        reached = high
    if reached < end:
        pieces.append(Piece(reached, end, None))
    return pieces


def choose_partitions(pieces: Sequence[Piece], count: int, reserved: int = 0) -> list[tuple[int, int]]:
    """Return up to ``count`` partitions as ordered ranges, first (inclusive) to end (exclusive), adjacent ones joined.

    Partitions that were never read come first, then those that were read least recently. ``reserved`` of them are for partitions that
    were read before, if there are any: otherwise a table that grows as fast as it is read would be read only at its end.
    """
    times = [(piece.at, piece) for piece in pieces]
    read = [piece for at, piece in sorted(((at, piece) for at, piece in times if at), key=lambda item: (item[0], item[1].first))]
    unread = sorted((piece for at, piece in times if at is None), key=lambda piece: piece.first)
    read_count = min(reserved, sum(piece.end - piece.first for piece in read))
    unread_count = min(max(0, count - read_count), sum(piece.end - piece.first for piece in unread))
    taken = [*_take_first(unread, unread_count), *_take_first(read, count - unread_count)]
    joined: list[tuple[int, int]] = []
    for low, high in sorted(taken):
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def _take_first(ordered: Iterable[Piece], count: int) -> Iterator[tuple[int, int]]:
    """Yield the first ``count`` partitions of the pieces as ranges."""
    for piece in ordered:
        if count <= 0:
            return
        end = min(piece.end, piece.first + count)
        yield piece.first, end
        count -= end - piece.first


def partitions_per_run(partitions: int, per_run: float | None, budget: float | None, rows_per_partition: float, rate: float | None) -> int:
    """Return how many of ``partitions`` a run reads: the share ``per_run`` (0 to 1), or those that take ``budget`` seconds.

    ``rate`` is in rows per second, None if unknown.
    """
    if per_run is not None:
        return max(1, math.ceil(partitions * per_run))
    return max(1, min(partitions, int((budget or 0.0) * (rate or DEFAULT_RATE) / max(1.0, rows_per_partition))))
