"""What PostgreSQL's catalogue says of tables."""

from __future__ import annotations

from dialects.base import Catalogue


class PostgresCatalogue(Catalogue):
    """The catalogue of PostgreSQL."""

    SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog", "pg_toast"})
