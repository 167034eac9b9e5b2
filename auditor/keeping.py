"""What a run hands over while it goes on, so that another can go on from there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from auditor.model import Chunk, Plan, Progress, Side
from auditor.summary import Summaries

Statements = Callable[[Side], tuple[int, int]]
"""How many statements of a side have ended, and how many are under way now."""


class Keeper(Protocol):
    """Takes what a run has done so far."""

    def pin(self, plan: Plan, schema: Mapping[str, Any]) -> None:
        """The plan that the run goes by from here on, and both sides' columns."""

    def chunk(self, side: Side, chunk: Chunk, found: Summaries, seconds: float, attempts: int) -> None:
        """A chunk that was read."""

    def read(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """The chunks of a side that an earlier attempt at this run read."""

    def told(self, progress: Progress) -> None:
        """How far the run is."""

    def alive(self, stop: Callable[[], None], statements: Statements) -> AbstractContextManager[None]:
        """Give signs of life while the block runs, and call ``stop`` when somebody asks for the run to end."""


class Nothing:
    """Keeps nothing."""

    def pin(self, plan: Plan, schema: Mapping[str, Any]) -> None:
        """Forget the plan."""

    def chunk(self, side: Side, chunk: Chunk, found: Summaries, seconds: float, attempts: int) -> None:
        """Forget the chunk."""

    def read(self, side: Side) -> list[tuple[Chunk, Summaries]]:
        """Nothing was read before."""
        return []

    def told(self, progress: Progress) -> None:
        """Tell nobody."""

    def alive(self, stop: Callable[[], None], statements: Statements) -> AbstractContextManager[None]:
        """Nobody looks."""
        return nullcontext()
