"""What an engine's catalogue and planner report: tables, columns, and the estimated scan of a statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dialects.kinds import Kind

HashAlgorithm = Literal["sha256", "md5"]
"""Hash functions of row hashes."""

TimeUnit = Literal["hour", "day", "month"]
"""Widths of a time partition."""


PROTECTIONS = {
    "rows": "row-level security ({name}) is attached to {table}: rows that it hides from this user are not compared",
    "values": "the masking policy {name} is attached to {table}: where it applies to this user, masked values are compared",
    "view": "{table} is a view that reads as its definer {name}, and shows what the view lets through",
    "read rows": "row-level security ({name}) is attached to a table that the view {table} reads: rows that it hides are not compared",
    "read tables": "{table} is a view, and this database has policies of row-level security: rows that they hide from it are not compared",
}
"""What a row of the template ``protections`` says, by its first column."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is: a name, or the path of files and the version of them to read.

    ``parts`` are the name's one to three parts (catalogue, schema, table); ``path`` is used instead if it is given. ``format`` is the
    files' format (None: parquet). ``version`` or ``timestamp`` selects a past state of a Delta or Iceberg table.
    """

    parts: tuple[str, ...]
    path: str | None = None
    format: str | None = None
    version: int | str | None = None
    timestamp: str | None = None

    def __str__(self) -> str:
        state = f"@{self.timestamp if self.version is None else self.version}" if self.version is not None or self.timestamp else ""
        return (self.path or ".".join(self.parts)) + state


@dataclass(frozen=True, slots=True)
class Column:
    """A column in the engine's catalogue.

    ``native`` is its type there, ``kind`` the canonical kind (None: the type has none), ``collation`` the collation under which texts of
    different characters can be equal (None: there is none such, or the catalogue does not say).
    """

    name: str
    native: str
    kind: Kind | None
    nullable: bool
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table in the engine's catalogue.

    ``sql`` is its name or path as SQL text for FROM, ``primary_key`` the key's columns in order (empty: none), ``estimate`` the engine's
    estimate of the number of rows (None: unknown), ``names`` its schema and name (empty for files, and where the catalogue is not asked),
    ``yields_in_order`` whether the primary key's index yields all rows in its order, for little more than a scan reads.
    """

    sql: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    estimate: int | None
    names: tuple[str, ...] = ()
    yields_in_order: bool = True


@dataclass(frozen=True, slots=True)
class Origins:
    """The other tables whose values a table shows, as far as the catalogue says: parents, parts, what a view reads."""

    tables: tuple[tuple[str, ...], ...] = ()
    """Schema and name of each."""
    is_view: bool = False
    """Whether it is a view, whose columns may show those of other names."""
    unknown: str = ""
    """Why it may show others that the catalogue does not name, as a clause; empty if it shows none."""


UNKNOWN_ORIGINS = {
    "view": "it is a view, and the catalogue does not say all that it reads",
    "foreign": "it reads a foreign table, whose server has names of its own",
    "function": "it is a view that calls a function, which may read any table",
    "storage": "its storage engine reads other tables or servers",
    "missing": "the catalogue does not say what it reads",
}
"""What a row of the template ``origins`` says with the kind ``unknown``, by its name."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table or view that a catalogue lists, not yet described."""

    schema: str
    """The schema it lies in."""
    name: str
    """Its name in that schema."""
    is_view: bool = False
    """Whether it is a view, which has no key."""
    is_visible: bool = True
    """Whether a session of the same connection finds it by its name alone."""


@dataclass(frozen=True, slots=True)
class ScanEstimate:
    """What the planner expects a SELECT to read: the number of rows, and whether it reads all of a table or of an index."""

    rows: int
    full_scan: bool


@dataclass(frozen=True, slots=True)
class ServerTimes:
    """What a server recorded of a run's statements."""

    statements: int
    """Statements that it recorded."""
    elapsed: float
    """Seconds that they took in all, from their arrival to their end."""
    queued: float
    """Seconds of these that they waited in queues."""
    executing: float
    """Seconds of these that they were executed."""
