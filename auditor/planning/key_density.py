"""Estimate whether sparse integer keys are uniformly distributed: then wide key ranges hold about equal numbers of rows."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.planning.planner import MAX_KEYS_PER_ROW, Bounds

PROBE_COUNT = 16
"""Number of key ranges in which sparse keys are counted."""


def probe_ranges(bounds: Bounds, aim: int) -> list[tuple[int, int]]:
    """Return key ranges, first (inclusive) to end (exclusive), that hold about ``aim`` rows each if sparse keys are uniform.

    Empty for dense keys, which need no check, and if the ranges would overlap.
    """
    if bounds.least is None or bounds.greatest is None or not bounds.rows:
        return []
    span = bounds.greatest - bounds.least + 1
    width = aim * span // bounds.rows
    if span <= bounds.rows * MAX_KEYS_PER_ROW or width * PROBE_COUNT > span:
        return []
    step = span // PROBE_COUNT
    return [(bounds.least + i * step, bounds.least + i * step + width) for i in range(PROBE_COUNT)]


def is_uniform(counts: Sequence[int], aim: int) -> bool:
    """Return whether at least three of four probes hold between a quarter and four times of ``aim`` rows."""
    return 4 * sum(aim // 4 <= count <= aim * 4 for count in counts) >= 3 * len(counts)
