"""Sessions on tables whose changes are commits of one table each, which carry numbers of the application that made them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Commit:
    """Changes of a table's rows that one commit makes.

    ``changes`` is the name, as SQL text, of a table of the session with one row per key: the column ``auditor_op`` says whether the row of
    this key goes (d) or is as given afterwards (i). ``columns`` and ``key`` are names. ``marks`` are the numbers, of 64 bits, that the
    commit carries by the applications' names; ``expected`` are those that the table must carry before it (0: none).
    """

    table: str
    changes: str
    columns: Sequence[str]
    key: Sequence[str]
    marks: Mapping[str, int]
    expected: Mapping[str, int]


class Committing(ABC):
    """What a session can do that writes a table by commits."""

    @abstractmethod
    def read_marks(self, parts: tuple[str, ...], names: Sequence[str]) -> Sequence[int]:
        """Return the numbers that a table (its name in parts) carries of these applications; 0 for none, and where there is no table."""

    @abstractmethod
    def mark(self, parts: tuple[str, ...], marks: Mapping[str, int], expected: Mapping[str, int], *, clear: bool = False) -> bool:
        """Let a table carry these numbers, by a commit without rows, or with ``clear`` one that deletes all rows.

        True without any effect where there is no table. Otherwise as `commit`.
        """

    @abstractmethod
    def make_table(self, table: str, statement: str) -> None:
        """Make an empty table (its name as SQL text) with the columns of a CREATE TABLE. Raises SerializationConflict if it is there."""

    @abstractmethod
    def commit(self, commit: Commit) -> bool:
        """Make a commit, on the newest version of the table whoever else writes; False, and nothing written, unless the table carries
        what is ``expected``. Raises SerializationConflict if others were quicker too often, and other errors of ``dialects.errors``."""
