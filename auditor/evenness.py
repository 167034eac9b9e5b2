"""Whether sparse integer keys lie evenly between their least and greatest: then wide ranges of them hold about equally many rows."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.plan import WIDEST, Bounds

PROBES = 16
"""Places at which sparse keys are counted, to see whether they lie evenly."""


def probes(bounds: Bounds, aim: int) -> list[tuple[int, int]]:
    """Key ranges of one side's sparse keys that should hold ``aim`` rows each if these lay evenly; none for dense keys."""
    if bounds.least is None or bounds.greatest is None or not bounds.rows:
        return []
    span = bounds.greatest - bounds.least + 1
    width = aim * span // bounds.rows
    if span <= bounds.rows * WIDEST or width * PROBES > span:
        return []
    step = span // PROBES
    return [(bounds.least + i * step, bounds.least + i * step + width) for i in range(PROBES)]


def lie_evenly(counts: Sequence[int], aim: int) -> bool:
    """Whether so many rows in each probe are about what was expected, in three probes of four."""
    return 4 * sum(aim // 4 <= count <= aim * 4 for count in counts) >= 3 * len(counts)
