"""What the catalogue of MySQL and MariaDB says of tables."""

from __future__ import annotations

from dialects.base import Catalogue, Session
from dialects.catalogue import Origins, Table
from dialects.mysql.writing import column_forms
from dialects.table_form import ColumnForm


class MySQLCatalogue(Catalogue):
    """The catalogue of MySQL and MariaDB."""

    HIDES_COLUMNS = True
    """https://dev.mysql.com/doc/refman/9.4/en/information-schema-introduction.html#information-schema-privileges"""

    SYSTEM_SCHEMAS = frozenset({"information_schema", "mysql", "performance_schema", "sys"})

    def __init__(self, *, mariadb: bool) -> None:
        self.mariadb = mariadb
        """Whether the server is MariaDB."""

    def knows_zone(self, session: Session, zone: str) -> bool:
        return (
            session.query(f"SELECT CONVERT_TZ('2020-01-01 00:00:00', '+00:00', {session.dialect.names.string_literal(zone)})")[0][0]
            is not None
        )

    def origins(self, session: Session, table: Table) -> Origins:
        return self._origins(session, table, "origins_mariadb" if self.mariadb else "origins")

    def column_forms(self, session: Session, table: Table) -> dict[str, ColumnForm]:
        [(_, definition, *_)] = session.query(session.dialect.catalogue_query("definition", {"table": table.sql}))
        return column_forms(str(definition), table)
