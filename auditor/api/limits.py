"""How often somebody may ask: so many times a minute, a few at once."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from starlette.exceptions import HTTPException

MOST = 10_000
"""Callers that are remembered; beyond, those are forgotten who have not asked for longest."""


class Limit:
    """Lets each caller through ``rate`` times a minute; what was not used is saved up for a minute."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: str, cost: float = 1.0) -> float:
        """Let a caller through, and return 0; or the seconds after which to ask again. Of no ``cost`` it only looks."""
        with self._lock:
            now = self._clock()
            left, at = self._left.pop(caller, (float(self.rate), now))
            left = min(float(self.rate), left + (now - at) * self.rate / 60)
            wait = 0.0 if left >= 1 else (1 - left) * 60 / self.rate
            self._left[caller] = (left if wait else left - cost, now)
            while len(self._left) > MOST:
                del self._left[next(iter(self._left))]
        return wait


def too_many(wait: float, sentence: str) -> HTTPException:
    """What is raised where somebody asks too often."""
    return HTTPException(429, sentence, {"Retry-After": str(max(1, math.ceil(wait)))})
