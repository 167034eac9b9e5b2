"""Whether a run reads stretches of the table first."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Prescan:
    """Whether a run reads one signature for each of a few stretches of the table first, and by the method only what differs."""

    used: bool
    """Whether it does."""
    why: str
    """Why, for a person."""
    partitions: int = 0
    """Range partitions in each stretch; 0 if partitions are no key ranges."""

    def __str__(self) -> str:
        return f"{'yes' if self.used else 'no'}, because {self.why}"
