"""Tell which transactions of a binary log a pipeline wrote: each begins with a row of the table of positions, which names the pipeline.

So a server needs no setting and a user no right for that, and it is known before the transaction's other rows are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Set
from fnmatch import fnmatchcase

from auditor.errors import ConfigError, LogRefused
from auditor.pipeline.binlog.refreshes import Refreshes
from auditor.pipeline.binlog.table_map import TableMap
from auditor.pipeline.binlog.type_decoders import Decoder
from auditor.sql.merge import POSITIONS


class Origins:
    """The table of positions in a log, and the pipelines whose transactions are left out."""

    def __init__(self, table: TableMap, decode: Decoder, left_out: Set[str]) -> None:
        self.table, self._decode, self._left_out = table, decode, left_out
        names = [column.name for column in table.columns]
        self._width = len(names)
        self._place = names.index("pipeline") if "pipeline" in names else None

    def is_left_out(self, event: bytes, at: int, stop: int) -> bool:
        """Return whether rows of this event name a pipeline that is left out. Raises LogRefused for rows that cannot be read."""
        if self._place is None:
            return False  # somebody else's table of the same name
        values: list[str | bytes | None] = []
        try:
            self._decode(event, at, stop, values.extend, values.extend)
        except (ValueError, IndexError, KeyError, OverflowError, struct.error) as error:
            raise LogRefused(f"a row of {self.table.name} cannot be decoded ({error}); report this") from error
        names = (value.decode() if isinstance(value, bytes) else value for value in values[self._place :: self._width])
        return any(name in self._left_out for name in names)


def is_positions(name: str) -> bool:
    """Return whether a table is one of positions, which is never replicated."""
    return name == POSITIONS


SHADOWS = ("gho", "ghc", "del", "new", "old")
"""The ends of names that gh-ost and pt-online-schema-change give to tables beside the one that they alter.
https://github.com/github/gh-ost/blob/master/doc/shared-key.md
https://docs.percona.com/percona-toolkit/pt-online-schema-change.html"""

STAMP = 14
"""Digits of the time in such a name."""

COPIES = ("gho", "new")
"""Those of them that become the table itself: they have all its rows by then."""


DOTTED = "the name of its database has a dot, so that it cannot be distinguished from another table's; leave it out, or rename the database"


class Selection:
    """The tables that are read: ``orders``, ``crm_*``, ``billing.invoices``; a name without a database is in ``database``.

    A table that is beside one of them while a tool alters that is only read if it is named without a pattern.
    """

    def __init__(
        self, patterns: Iterable[str], database: str, refreshes: Refreshes | None = None, skip_pipelines: Iterable[str] = ()
    ) -> None:
        """``refreshes`` are those whose rows are events as well, ``skip_pipelines`` the pipelines whose transactions are left out.

        Raises ConfigError for a name without a database where the connection's URL has none."""
        self.refreshes = refreshes
        self.skip_pipelines = frozenset(skip_pipelines)
        self._patterns: list[tuple[str, str]] = []
        for pattern in patterns:
            schema, _, table = pattern.rpartition(".")
            if not (schema or database):
                raise ConfigError(f"table {pattern!r} has no database, nor has the connection's URL; write database.{pattern}")
            self._patterns.append((schema or database, table))
        if not self._patterns:
            raise ConfigError("no tables are named; write tables: orders, customers or a pattern as crm_*")

    def has(self, database: str, table: str) -> bool:
        """Return whether the table is read. Raises ConfigError for a database whose name has a dot."""
        if is_positions(table):
            return False
        chosen = (database, table) in self._patterns or (self._matches(database, table) and self.shadowed(database, table) is None)
        if chosen and "." in database:
            raise ConfigError(f"table {database}.{table}: {DOTTED}")
        return chosen

    def has_database(self, database: str) -> bool:
        """Return whether tables of a database may be read, or those of refreshes are there."""
        return any(fnmatchcase(database, pattern) for pattern in self.databases)

    @property
    def databases(self) -> set[str]:
        """The databases of tables that are read, or patterns of them, and that of refreshes."""
        return {database for database, _ in self._patterns} | ({self.refreshes.schema} if self.refreshes else set())

    def shadowed(self, database: str, table: str) -> tuple[str, str] | None:
        """Return the table that is read, and beside which this one is while a tool alters it, with the kind of this one; else None."""
        head, _, kind = table.rpartition("_")
        if kind not in SHADOWS or not head.startswith("_") or (database, table) in self._patterns:
            return None
        name = head.lstrip("_") or head[1:2]
        before, stamped, stamp = name.rpartition("_")
        if before and stamped and len(stamp) == STAMP and stamp.isdecimal():
            name = before
        return (name, kind) if name and self._matches(database, name) else None

    def _matches(self, database: str, table: str) -> bool:
        return any(
            fnmatchcase(database, database_pattern) and fnmatchcase(table, table_pattern)
            for database_pattern, table_pattern in self._patterns
        )
