"""How long batches and merges wait for the next ones.

What a batch or a merge of few events costs is paid for it, not for its events: one that waits a little has more of them.
"""

from __future__ import annotations

from auditor.timeouts import timeouts

MANY_EVENTS = 20_000
"""Events of a batch, or a merge, whose costs are those of the events: there is no rest after it."""

SHARE = 4
"""A pipeline with few events works at most one of so many seconds at batches, and at most one at merges."""


def rest_after(events: int, seconds: float) -> float:
    """Return how many seconds to rest after a batch, or a merge, of so many events that took so long."""
    return 0.0 if events >= MANY_EVENTS else min((SHARE - 1) * seconds, timeouts().longest_rest)
