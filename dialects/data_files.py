"""Tables that consist of immutable files: which files a snapshot has, what deletes hide in each, and how the rows of some are read.

What is summed up of an immutable file stays true. So an engine whose tables consist of such files says by what a file is known, and reads
the rows of a few: the auditor keeps each file's sums, and reads only files that it has not seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Rows = Literal["all", "hidden"]
"""Which rows of files are read: all that a file holds, whatever hides them, or those that deletes hide."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a snapshot."""

    path: str
    """Where it is, for a person."""
    identity: str
    """What tells it from every other file, and from another content of its own, as text: a file of equal identity has equal rows."""
    bytes: int
    """Its size."""
    rows: int | None = None
    """The rows that it holds, those among them that deletes hide; None where nothing says it."""
    hidden: str = ""
    """The same of the rows of it that deletes hide: equal texts, equal rows. '' if none is hidden."""
    hidden_rows: int | None = 0
    """How many rows deletes hide; None where nothing says it."""
    form: str = ""
    """What its own columns are, as text; '' where nothing was said of it yet. It saves opening the file once more to plan a run."""


FindForms = Callable[[Sequence[str]], Mapping[str, str]]
"""Returns the forms that are known of files, by their identities."""


class DataFiles(ABC):
    """How the tables of an engine consist of immutable files. The methods ask a session, inside a snapshot."""

    TRUSTS: ClassVar[str]
    """On what it rests that a file of equal identity has equal rows, as a clause."""

    def recall(self, session: Any, find: FindForms) -> None:
        """Let a session ask for what is known of files, before it opens tables; no effect where that saves nothing."""
        return

    def why_none(self, session: Any, table: str) -> str:
        """Return why a table (its name as SQL text) does not consist of immutable files, as a clause; '' if it does."""
        return ""

    @abstractmethod
    def list_files(self, session: Any, table: str) -> Sequence[DataFile]:
        """Return the files of a table (its name as SQL text) in the open snapshot.

        Raises StatementRefused for a table whose files cannot be read one by one, with the next step, and NoSuchObject where the storage no
        longer has a file that the snapshot lists.
        """

    @abstractmethod
    def reading(self, session: Any, table: str, statement: str) -> str:
        """Return how a statement reads the table's columns from any of its files, as text: equal texts, equal values of equal files.

        It tells apart what the statement's own text does not: what a column is called in files, its type, its default in older ones.
        """

    @abstractmethod
    def show(self, session: Any, table: str, files: Sequence[DataFile], number: str, rows: Rows) -> str:
        """Return SQL of a relation with the rows of some of the listed files, and the table's columns.

        A further column, whose quoted name is ``number``, holds the place of a row's file among ``files``, from 0. The relation lasts until
        the next one is asked for.
        """

    def confirm(self, session: Any, table: str, files: Sequence[DataFile]) -> None:
        """Raise SerializationConflict unless these files were all there while their rows were read: where no snapshot keeps them."""
        return


def may_name(statement: str, column: str) -> bool:
    """Return whether a statement of an engine that doubles quotation marks in names may name a column; capitals do not matter."""
    return column.replace('"', '""').lower() in statement.lower()
