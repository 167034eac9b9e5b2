"""Rolling audits: which partitions a run reads, so that those come first that were not looked at for longest."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

FIRST_RATE = 50_000.0
"""Rows a second that a table's first run under a time budget is taken to read."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Partitions from ``first`` (inclusive) to ``end`` (exclusive), and when they were last read (None: never)."""

    first: int
    end: int
    at: dt.datetime | None


def pieces(read: Iterable[Piece], first: int, end: int) -> list[Piece]:
    """All partitions from ``first`` to ``end`` in order: what was read (ascending and disjoint), and the gaps between."""
    found: list[Piece] = []
    reached = first
    for piece in read:
        low, high = max(piece.first, reached), min(piece.end, end)
        if low >= high:
            continue
        if low > reached:
            found.append(Piece(reached, low, None))
        found.append(Piece(low, high, piece.at))
        reached = high
    if reached < end:
        found.append(Piece(reached, end, None))
    return found


def chosen(every: Sequence[Piece], count: int, reserved: int = 0) -> list[tuple[int, int]]:
    """Up to ``count`` partitions, those never read first, then those read longest ago; neighbours joined, in order.

    ``reserved`` of them are for those that were read before, as far as there are any: else a table that grows as fast as it is
    read would be read at its end only.
    """
    ages = [(piece.at, piece) for piece in every]
    read = [piece for at, piece in sorted(((at, piece) for at, piece in ages if at), key=lambda one: (one[0], one[1].first))]
    never = sorted((piece for at, piece in ages if at is None), key=lambda one: one.first)
    of_read = min(reserved, sum(piece.end - piece.first for piece in read))
    of_never = min(max(0, count - of_read), sum(piece.end - piece.first for piece in never))
    taken = [*_first(never, of_never), *_first(read, count - of_never)]
    joined: list[tuple[int, int]] = []
    for low, high in sorted(taken):
        if joined and joined[-1][1] == low:
            joined[-1] = (joined[-1][0], high)
        else:
            joined.append((low, high))
    return joined


def _first(ordered: Iterable[Piece], count: int) -> Iterator[tuple[int, int]]:
    """The first ``count`` partitions of these pieces."""
    for piece in ordered:
        if count <= 0:
            return
        end = min(piece.end, piece.first + count)
        yield piece.first, end
        count -= end - piece.first


def count(partitions: int, per_run: float | None, budget: float | None, rows_each: float, rate: float | None) -> int:
    """How many partitions a run reads: a share of all, or as many as fit into ``budget`` seconds at ``rate`` rows a second."""
    if per_run is not None:
        return max(1, math.ceil(partitions * per_run))
    return max(1, min(partitions, int((budget or 0.0) * (rate or FIRST_RATE) / max(1.0, rows_each))))
