"""What the catalogue of Redshift says of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dialects import errors
from dialects.base import Catalogue, Session
from dialects.catalogue import Column, Place, Table
from dialects.postgres.session import ADDED, NUMERIC
from dialects.redshift.session import RedshiftSession

PLAIN_TYPES: Mapping[int, str] = {
    16: "boolean", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 700: "real", 701: "double precision", 1082: "date",
    1083: "time without time zone", 1114: "timestamp without time zone", 1184: "timestamp with time zone",
    1266: "time with time zone", 4000: "super",
}  # fmt: skip
"""Types without a length, by their numbers in the protocol.
https://github.com/aws/amazon-redshift-python-driver/blob/master/redshift_connector/utils/oids.py"""

TEXT_TYPES: Mapping[int, str] = {1042: "character", 1043: "character varying", 6551: "binary varying"}


class RedshiftCatalogue(Catalogue):
    """The catalogue of Redshift."""

    HIDES_COLUMNS = True
    """Under metadata security. https://docs.aws.amazon.com/redshift/latest/dg/t_metadata_security.html"""

    SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog", "pg_internal", "pg_toast"})

    def _describe_listed(self, session: Session, schema: str | None, names: Sequence[str]) -> dict[str, list[Table]]:
        # A function of the leader node cannot be asked for together with the views that describe tables.
        # https://docs.aws.amazon.com/redshift/latest/dg/r_CURRENT_SCHEMA.html
        return super()._describe_listed(session, str(session.query("SELECT CURRENT_SCHEMA()")[0][0]) if schema is None else schema, names)

    def _describe_alone(self, session: Session, place: Place) -> list[Table]:
        if place.path or self.is_own_database(session, place.parts[0]):
            return super()._describe_alone(session, place)
        # A table of another database or of a datashare: its columns are known, its keys and rows are not.
        # https://docs.aws.amazon.com/redshift/latest/dg/cross-database_overview.html
        database, schema, name = place.parts
        literals = {
            "database": session.dialect.names.literal(database),
            "schema": session.dialect.names.literal(schema),
            "table": session.dialect.names.literal(name),
        }
        columns: dict[tuple[str, ...], list[Column]] = {}
        for *names, column, native, nullable in session.query_listed(session.dialect.catalogue_query("all_columns", literals)):
            description = Column(str(column), str(native), session.dialect.types.kind(str(native)), bool(nullable))
            columns.setdefault(tuple(map(str, names)), []).append(description)
        return [Table(session.dialect.names.table(*names), tuple(described), (), None, names) for names, described in columns.items()]

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        assert isinstance(session, RedshiftSession)
        shown = session.describe_columns(f"SELECT * FROM (\n{query}\n) read_query LIMIT 0")
        natives = [(column.name, _native(column.type, column.modifier)) for column in shown]
        return tuple(Column(name, native, session.dialect.types.kind(native), nullable=True) for name, native in natives)

    def _policies(self, session: Session, table: Table, template: str) -> list[str]:
        # Both views are for superusers and users with the role sys:secadmin, and of the session's database; to others the first is refused
        # and the second empty. https://docs.aws.amazon.com/redshift/latest/dg/r_SVV_RLS_ATTACHED_POLICY.html, and _MASKING_POLICY.html
        try:
            if len(table.names) > 2:
                raise errors.NoSuchObject
            return [*super()._policies(session, table, template), *super()._policies(session, table, "masking_policies")]
        except (errors.AccessDenied, errors.NoSuchObject):
            return [f"this user may not see whether policies hide rows or mask values of {table.sql}; the role sys:secadmin may"]

    def _read_sizes(self, session: Session, holes: Mapping[str, str], names: Sequence[str]) -> dict[str, tuple[int | None, bool]]:
        # Only superusers see the view, unless it is granted; everybody sees what ANALYZE last found.
        # https://docs.aws.amazon.com/redshift/latest/dg/r_SVV_TABLE_INFO.html
        try:
            rows = session.query(session.dialect.catalogue_query("table_info", holes))
        except errors.AccessDenied:
            rows = []
        sizes: dict[str, tuple[int | None, bool]] = {str(name): (int(count), True) for name, count in rows if count is not None}
        return sizes if sizes.keys() >= set(names) else super()._read_sizes(session, holes, names) | sizes


def _native(type_number: int, modifier: int) -> str:
    """Return the type of a result's column as the catalogue writes it of a table's; its number, if that is not known here."""
    size = modifier - ADDED
    if type_number == NUMERIC:
        return f"numeric({size >> 16},{size & 0xFFFF})" if size >= 0 else "numeric"
    if type_number in TEXT_TYPES:
        return f"{TEXT_TYPES[type_number]}({size})" if size >= 0 else TEXT_TYPES[type_number]
    return PLAIN_TYPES.get(type_number, f"type {type_number}")
