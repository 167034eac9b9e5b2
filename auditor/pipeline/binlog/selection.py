"""Choose tables by names and patterns."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from auditor.errors import ConfigError


class Selection:
    """The tables that are read: ``orders``, ``crm_*``, ``billing.invoices``; a name without a database is in ``database``."""

    def __init__(self, patterns: Iterable[str], database: str) -> None:
        """Raises ConfigError for a name without a database where the connection's URL has none."""
        self._patterns: list[tuple[str, str]] = []
        for pattern in patterns:
            schema, _, table = pattern.rpartition(".")
            if not (schema or database):
                raise ConfigError(f"table {pattern!r} has no database, nor has the connection's URL; write database.{pattern}")
            self._patterns.append((schema or database, table))
        if not self._patterns:
            raise ConfigError("no tables are named; write tables: orders, customers or a pattern as crm_*")

    def has(self, database: str, table: str) -> bool:
        """Return whether the table is read."""
        return any(fnmatchcase(database, one) and fnmatchcase(table, other) for one, other in self._patterns)
