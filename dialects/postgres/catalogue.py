"""What PostgreSQL's catalogue says of tables, and of what queries return."""

from __future__ import annotations

from dialects.base import Catalogue, Session
from dialects.catalogue import Column
from dialects.postgres.session import PostgresSession


class PostgresCatalogue(Catalogue):
    """The catalogue of PostgreSQL."""

    SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog", "pg_toast"})

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        assert isinstance(session, PostgresSession)
        shown = session.describe_columns(f"SELECT * FROM (\n{query}\n) read_query LIMIT 0")
        if not shown:
            return ()
        types = ", ".join(
            f"({place}, CAST({column.type} AS oid), {column.modifier}, CAST({column.table} AS oid), {column.column})"
            for place, column in enumerate(shown)
        )
        rows = session.query(session.dialect.catalogue_query("result_types", {"types": types}))
        names = [column.name for column in shown]
        texts = [place for place, (_, loose, is_text) in enumerate(rows) if is_text and not loose and names.count(names[place]) == 1]
        collations = self._loose_collations(session, query, {place: session.dialect.names.quote(names[place]) for place in texts})
        kind = session.dialect.types.kind
        return tuple(
            Column(name, str(native), kind(str(native)), True, str(loose) if loose else collations.get(place))
            for place, (name, (native, loose, _)) in enumerate(zip(names, rows, strict=True))
        )

    def _loose_collations(self, session: Session, query: str, columns: dict[int, str]) -> dict[int, str]:
        """Return the collations, by a column's place, under which texts of different characters can be equal."""
        if not columns:
            return {}
        values = ", ".join(f"({place}, pg_collation_for(read_query.{column}))" for place, column in columns.items())
        holes = {"query": f"(\n{query}\n) read_query", "collations": values}
        return {int(place): str(name) for place, name in session.query(session.dialect.catalogue_query("result_collations", holes))}
