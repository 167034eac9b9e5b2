"""What would repair a target after a mismatch, with what each way is expected to cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tool = Literal["exact", "patch", "range bootstrap", "bootstrap", "wait"]
"""``exact``: run by the method exact, which names the rows. ``patch``: change single rows. ``range bootstrap``: copy a range of keys again.
``bootstrap``: copy the table again. ``wait``: run again later, because rows are still changing."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One way to repair a target."""

    tool: Tool
    rows: int
    """The rows that it writes, or reads again; of a range at most."""
    share: float
    """The same as a share of the table's rows, 0 .. 1."""
    seconds: float
    """How long it is expected to take, by measured rates."""
    command: str
    """The command to paste."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Which way fits a mismatch, and the others that are possible."""

    why: str
    """Why the first one fits, as a clause."""
    items: tuple[Suggestion, ...]
    """At least one: the one that fits first."""
