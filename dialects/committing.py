"""Sessions on tables whose changes are commits of one table each, which carry numbers of the application that made them."""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Commit:
    """Changes of a table's rows that one commit makes.

    ``changes`` is the name, as SQL text, of a table of the session with one row per key: the column ``operation`` says whether the row of
    this key goes (d) or is as given afterwards (i). ``columns`` and ``key`` are names. ``marks`` are the numbers, of 64 bits, that the
    commit carries by the applications' names; ``expected`` are those that the table must carry before it (0: none).
    """

    table: str
    changes: str
    columns: Sequence[str]
    key: Sequence[str]
    marks: Mapping[str, int]
    expected: Mapping[str, int]
    operation: str = "auditor_op"
    """None of ``columns``."""


@dataclass(frozen=True, slots=True)
class WrittenVersion:
    """A version of a table, as its history has it."""

    version: int
    at: dt.datetime
    """When it was committed, by the clock of the process that did it, in UTC."""
    operation: str
    """What that was, as the table's format names it: ``MERGE``, ``DELETE``."""
    mark: int
    """The number that the table carried then of the application that was asked for."""


class Committing(ABC):
    """What a session can do that writes a table by commits."""

    @abstractmethod
    def read_marks(self, parts: tuple[str, ...], names: Sequence[str]) -> Sequence[int]:
        """Return the numbers that a table (its name in parts) carries of these applications; 0 for none, and where there is no table.

        In a snapshot they are those of the version that it shows, which is the newest one if nothing read the table before.
        """

    @abstractmethod
    def versions_since(self, parts: tuple[str, ...], mark: str, number: int, most: int) -> Sequence[WrittenVersion]:
        """Return the versions of a table from the first one on that carries at least this number of an application, the newest last.

        None where there is no table, or where the last ``most`` versions that its history still has do not reach back as far.
        """

    @abstractmethod
    def mark(self, parts: tuple[str, ...], marks: Mapping[str, int], expected: Mapping[str, int], *, clear: bool = False) -> bool:
        """Let a table carry these numbers, by a commit without rows, or with ``clear`` one that deletes all rows.

        True without any effect where there is no table. Otherwise as `commit`.
        """

    @abstractmethod
    def make_table(self, table: str, statement: str) -> None:
        """Make an empty table (its name as SQL text) with the columns of a CREATE TABLE. Raises SerializationConflict if it is there."""

    @abstractmethod
    def take_out(self, table: str, condition: str) -> None:
        """Put the rows of a table (its name as SQL text) that fulfil a condition in its place, for this session and its open transaction.

        They are those of the newest version, and can be changed by statements.
        """

    @abstractmethod
    def put_back(self, key: Sequence[str], marks: Mapping[str, int]) -> None:
        """End the transaction, and commit the rows that were taken out as they are now, on the version that they are of.

        A row whose ``key`` (names) is gone is deleted. The commit carries these numbers by the applications' names. Raises
        SerializationConflict, and nothing is written, if others wrote the table meanwhile.
        """

    @abstractmethod
    def fence(self, table: str, mark: str, number: int) -> bool:
        """Return whether the table carries this number of an application; if not, no commit that was begun before can be made any more."""

    @abstractmethod
    def make_like(self, table: str, like: str) -> None:
        """Make an empty table with the columns of another; names as SQL text. Raises SerializationConflict if it is there."""

    @abstractmethod
    def drop_table(self, table: str) -> None:
        """Delete a table (its name as SQL text) with all its versions, if it is there."""

    @abstractmethod
    def replace_rows(self, table: str, rows: str, condition: str, marks: Mapping[str, int], expected: Mapping[str, int]) -> bool:
        """Put the rows of a SELECT in place of those of a table (its name as SQL text) that fulfil a condition, or of all with ''.

        It is one commit, with marks and return value as `commit` has them. Raises errors of ``dialects.errors``, as for a row that does
        not fulfil the condition.
        """

    CHANGES_COLUMNS: ClassVar[bool] = True
    """Whether tables can be given other columns by `rewrite`, and by statements that add some."""

    @abstractmethod
    def rewrite(self, table: str, rows: str, marks: Mapping[str, int], expected: Mapping[str, int]) -> bool:
        """Put the rows of a SELECT of a table (its name as SQL text), with its columns, in place of the table's rows and columns.

        It is one commit on the version that was read, with marks and return value as `commit` has them. Raises SerializationConflict, and
        nothing is written, if others wrote the table meanwhile.
        """

    @abstractmethod
    def partitioned_by(self, table: str) -> Sequence[str]:
        """Return the columns by whose values the files of a table (its name as SQL text) are kept apart."""

    @abstractmethod
    def commit(self, commit: Commit) -> bool:
        """Commit on the newest version of the table, also while others write it.

        Return False, with nothing written, unless the table carries what is ``expected``. Raises SerializationConflict if others were
        quicker too often, and other errors of ``dialects.errors``.
        """
