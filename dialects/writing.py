"""What an engine states of being written to, and how a session loads rows. Only pipelines and repairs write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from dialects.alteration import Altering
from dialects.kinds import Kind
from dialects.url import Url

Loads = Literal["side by side", "alone", "by files"]
"""Who loads rows into a staging table: several sessions at once; the one session that merges them; or that session,
from files that tasks store."""

HazardKind = Literal[
    "view", "storage", "trigger", "broken trigger", "cascade", "generated", "identity", "on update", "default", "required", "unique",
    "row security", "partitions", "expression of", "nulls equal", "refers", "referred",
]  # fmt: skip
"""What a table has that decides what a write does to it; see ``Hazard``."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something of a table that decides what a write does to it.

    ``view``: it is none that stores rows itself. ``storage``: its storage engine ``name`` knows no transactions. ``trigger``: a trigger or
    rule ``name`` acts on writes, of its own or of a table whose rows it has too. ``broken trigger``: this release of the server loses
    values of rows where ``name`` is. ``cascade``: rows of the table ``name`` change with its rows. ``generated``, ``identity``, ``on
    update``, ``default``, ``required``: its column ``name`` is computed, is numbered by the server even if a value is given, changes
    automatically with an update, has a default, or needs a value. ``unique``: its unique index ``name`` has this ``column``; ``expression
    of``: it has an expression on it; ``nulls equal``: it takes one NULL only. ``refers`` and ``referred``: its foreign key to itself
    ``name``, behind which stand a blank and the column's number in it, has this ``column`` on this side. ``row security``: policies of the
    table ``name`` hide rows from this user. ``partitions``: the table ``name`` has none for some values.
    """

    kind: HazardKind
    name: str
    column: str = ""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of lines where the engine reads it."""

    url: str
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class LineFormat:
    """How a row is written as one line of text that the engine loads: its values, with what stands around and between them."""

    between: str
    """What separates two values."""
    null: str
    """What stands for NULL, without quotation marks."""
    escapes: Sequence[tuple[str, str]]
    """Characters that free text cannot hold as they are, with how they are written, in the order in which they are replaced."""
    quote: str = ""
    """The mark around each value that is not NULL."""
    begin: str = ""
    """What begins a line."""
    end: str = ""
    """What ends a line, before the line feed."""
    binary: tuple[str, str] | None = None
    """What stands around the hexadecimal digits of a binary string, in place of the quotation marks; None for these."""
    bits: tuple[str, str] | None = None
    """What stands around the digits of a bit string, in place of the quotation marks; None for these."""
    bare: frozenset[str] = frozenset()
    """Kinds of columns whose numbers stand without quotation marks."""


class StagedFiles(ABC):
    """Files of lines that tasks write to where the engine reads them, and which the session that merges then loads."""

    PACKAGES: ClassVar[Mapping[str, str]] = {}
    """What the methods import, with what pip calls it."""

    @abstractmethod
    def store_lines(self, url: Url, folder: str, name: str, columns: Mapping[str, Kind], rows: Iterable[Any]) -> StoredFile:
        """Write the rows of Arrow tables of texts to a file below ``folder`` that the engine at ``url`` reads.

        The texts are as in ``Loading.load``. Raises BadUrl where the URL names no such place, ValueTooLong for a row that no file holds,
        and UnloadFailed.
        """

    @abstractmethod
    def store_file(self, url: Url, folder: str, name: str, path: str) -> StoredFile:
        """Write a file of lines of LINES below ``folder``, where the engine at ``url`` reads it. Raises BadUrl and UnloadFailed."""


class Writing:
    """What an engine states of being written to, by pipelines and repairs."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        """The engine's name, for messages."""

    LOADS: ClassVar[Loads]
    """How rows are loaded into a staging table."""

    LINES: ClassVar[LineFormat]
    """The lines in which whole tables are loaded."""

    files: ClassVar[StagedFiles | None] = None
    """The files from which rows are loaded; None for an engine whose rows are loaded over the connection, or from local files."""

    altering: ClassVar[Altering] = Altering()
    """How the columns of a table are changed."""

    READS_FILES: ClassVar[bool] = False
    """Whether lines are loaded from files that the engine reads itself, not over the connection."""

    LOCK_WRITERS: ClassVar[str] = ""
    """The statement that keeps other writers, and where it can be only these, off the ``{table}``, or off its rows ``{where}``, until the
    transaction ends. ``{by_key}`` stands for LOCK_BY_KEY where the table has a primary key."""

    LOCK_BY_KEY: ClassVar[str] = ""
    """What makes LOCK_WRITERS lock rows in the order of their primary key."""

    BEGIN_EXCHANGE: ClassVar[Sequence[str]] = ()
    """Statements that begin the transaction in which a copy is exchanged for rows; empty where BEGIN_WRITES do."""

    SWAPS_BY_RENAME: ClassVar[bool] = False
    """Whether one statement exchanges two tables by their names, and a large transaction is best avoided."""

    CARRIES_ON_RENAME: ClassVar[bool] = False
    """Whether a table's copy can take its name in a transaction that carries over what is bound to the table itself."""

    WRITE_SETTINGS: ClassVar[Sequence[str]] = ()
    """Statements that fix the settings on which writing statements and the digests in them depend, for scripts and writing sessions."""

    BEGIN_WRITES: ClassVar[Sequence[str]] = ("BEGIN",)
    """Statements that begin a transaction whose constraints are checked by each statement."""

    LOCK_TABLE: ClassVar[str] = ""
    """The statement that keeps other writers off the ``{table}`` until the transaction ends; empty where keys and rows are locked by the
    server itself."""

    OVERRIDES_IDENTITY: ClassVar[str] = ""
    """What an INSERT needs before VALUES to give a value to a column that the server numbers."""

    WRITES_COMMITS: ClassVar[bool] = False
    """Whether a table is written by commits of it alone, so that there is no table of positions: see `dialects.committing`."""

    MERGES_BY_UPDATE: ClassVar[bool] = False
    """Whether a merge changes rows that are there by UPDATE: a table may have cascades, triggers and columns of its own."""

    MERGES_AT_ONCE: bool = False
    """Whether one MERGE can update, insert and delete rows; it holds unique indexes row by row, so only the key may have one."""

    KEEPS_EQUAL_ROWS: ClassVar[bool] = False
    """Whether an UPDATE leaves rows alone that have all its values already, byte by byte."""

    SETS_COLUMN: ClassVar[str] = "{column} = changed.{column}"
    """How such an UPDATE sets a ``{column}``."""

    MERGES_LITERALS: ClassVar[bool] = False
    """Whether a few changes of a table are merged by statements that hold their values, because a staging table for them costs more."""

    STAGING_TABLE: ClassVar[str] = "TABLE"
    """What follows CREATE for a table whose rows may be lost with the server, or with the session where it loads alone."""

    ANALYZE: ClassVar[str] = ""
    """The statement that renews what the engine knows of a ``{table}`` for its plans; empty where it has none."""

    MERGE_SETTINGS: ClassVar[Sequence[str]] = ()
    """Statements, after WRITE_SETTINGS, with which a session begins that merges changes."""

    LOCK_POSITIONS: ClassVar[str] = ""
    """The statement by which one merge waits for another of the ``{pipeline}`` that writes ``{positions}``, or takes a lock named by
    ``{number}``, 63 bits made of both; empty where no other process can open the target."""

    EQUAL_TEXTS_DIFFER: ClassVar[bool] = False
    """Whether ``=`` may find two texts equal that differ, by case or by blanks at their ends."""

    DELETES_BY_ALIAS: ClassVar[bool] = True
    """Whether a DELETE may give its table another name."""

    REFUSES_LONG_VALUES: ClassVar[bool] = False
    """Whether the bytes that a column's type states bound its values, and longer ones are to be found before they are loaded."""

    MIXES_STORAGE: ClassVar[bool] = False
    """Whether a table may be stored by an engine that knows no transactions."""

    READS_FLOATS_AS_DOUBLES: ClassVar[bool] = False
    """Whether the text of a 4-byte float is read as an 8-byte one first, for which the shortest text of the largest float is too large."""

    UNDOES_TABLES: ClassVar[bool] = True
    """Whether a transaction that is rolled back takes the temporary tables with it that it made."""

    QUALIFIES_TEMPORARY: ClassVar[bool] = False
    """Whether a temporary table is in a schema, so that one without a name of it needs a current one."""

    NAME_LIMIT: ClassVar[tuple[int, Literal["bytes", "characters"]] | None] = None
    """How long the names of tables and columns may be; None where nothing bounds them."""

    OWN_COLUMNS: ClassVar[frozenset[str]] = frozenset()
    """Names that no column can have, because each table has columns by these names; in small letters where their case matters not."""

    FOLDS_OWN_COLUMNS: ClassVar[bool] = False
    """Whether it does not."""

    FOLDS_NAMES: ClassVar[Literal["", "A to Z", "all"]] = ""
    """Of which letters the case makes no difference in quoted names of tables and schemas."""

    FOLDS_NAMES_IF: ClassVar[str] = ""
    """The query whose one value says whether the server does so; empty where each does."""

    def rows_differ(self, pairs: Sequence[tuple[str, str]]) -> str:
        """A condition that two rows, given as pairs of columns of one type, differ; NULL equals NULL."""
        return " OR ".join(f"{source} IS DISTINCT FROM {other}" for source, other in pairs)

    def refuse_name(self, name: str, of: Literal["table", "column"]) -> str:
        """Return why no table, or column, can have a name, after which that is written; '' if one can."""
        if self.NAME_LIMIT and (size := len(name.encode() if self.NAME_LIMIT[1] == "bytes" else name)) > self.NAME_LIMIT[0]:
            return f"has {size} {self.NAME_LIMIT[1]}, and names of {self.engine} have {self.NAME_LIMIT[0]} at most"
        if of == "column" and (name.lower() if self.FOLDS_OWN_COLUMNS else name) in self.OWN_COLUMNS:
            return f"is that of a column which each table of {self.engine} has already"
        return ""
