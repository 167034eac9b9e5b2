"""Rate limits: token buckets that refill over a minute."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from starlette.exceptions import HTTPException

MAX_CALLERS = 10_000
"""Callers that are remembered; beyond that the least recently seen are forgotten."""


class RateLimit:
    """Allow each caller ``rate`` requests per minute. Unused requests accumulate for one minute, as a burst."""

    def __init__(self, rate: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[float, float]] = {}

    def take(self, caller: str, cost: float = 1.0) -> float:
        """Count a request and return 0, or the seconds to wait if the caller has none left. A ``cost`` of 0 only checks."""
        with self._lock:
            now = self._clock()
            left, at = self._tokens.pop(caller, (float(self.rate), now))
            left = min(float(self.rate), left + (now - at) * self.rate / 60)
            wait = 0.0 if left >= 1 else (1 - left) * 60 / self.rate
            self._tokens[caller] = (left if wait else left - cost, now)
            while len(self._tokens) > MAX_CALLERS:
                del self._tokens[next(iter(self._tokens))]
        return wait


def too_many_requests(wait: float, detail: str) -> HTTPException:
    """Return a 429 error with Retry-After, for ``wait`` seconds."""
    return HTTPException(429, detail, {"Retry-After": str(max(1, math.ceil(wait)))})
