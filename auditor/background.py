"""Waits after failures of what goes on in the background."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Seconds to wait after each failure: ``first`` at the first, then twice those before, and never more than ``longest``."""

    first: float
    longest: float
    failures: int = field(default=0, init=False)
    """How many there were since the last success."""
    _wait: float = field(default=0.0, init=False)

    def fail(self) -> float:
        """Count a failure, and return the seconds to wait before the next attempt."""
        self._wait = min(self.longest, 2 * self._wait) if self.failures else self.first
        self.failures += 1
        return self._wait

    def succeed(self) -> None:
        """Begin again with the first wait."""
        self.failures = 0
