"""Single facts on which an engine's SQL rests: a statement, and what it must answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact."""

    name: str
    """What is asked, for a person."""
    sql: str
    """The statement, of one row whose first value is the answer."""
    expected: str | None = None
    """The answer on which statements rely; None where they are right whatever it is."""
    shows: str = ""
    """What an answer that is not relied on would decide."""
