"""What SQLite says of what a query returns."""

from __future__ import annotations

from dialects import Column, Session
from dialects.base import Catalogue


class SQLiteCatalogue(Catalogue):
    """The catalogue of SQLite."""

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        # A view has the types of stored columns, and a table those of casts; what both leave open has none.
        stored, cast = (self._describe_as(session, kind, query) for kind in ("VIEW", "TABLE"))
        natives = [(name, native or cast[place][1]) for place, (name, native) in enumerate(stored)]
        return tuple(Column(name, native, session.dialect.types.kind(native), nullable=True) for name, native in natives)

    def _describe_as(self, session: Session, kind: str, query: str) -> list[tuple[str, str]]:
        """Return names and types of what a query returns, as of something that no file holds, and only this session sees."""
        session.execute(f"CREATE TEMPORARY {kind} auditor_query AS SELECT * FROM (\n{query}\n) LIMIT 0")
        try:
            return [(str(name), str(native)) for name, native in session.query("SELECT name, type FROM pragma_table_info('auditor_query')")]
        finally:
            session.execute(f"DROP {kind} auditor_query")
