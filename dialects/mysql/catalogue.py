"""What the catalogue of MySQL and MariaDB says of tables."""

from __future__ import annotations

from collections.abc import Mapping

from dialects.base import Catalogue, Session
from dialects.catalogue import Column, Origins, Table
from dialects.mysql.driver import ResultColumn, result_columns
from dialects.mysql.writing import column_forms
from dialects.session import DriverSession
from dialects.table_form import ColumnForm

UNSIGNED, ZEROFILL = 32, 64
"""Flags of a column of a result."""

NUMBERS: Mapping[int, str] = {1: "tinyint", 2: "smallint", 3: "int", 4: "float", 5: "double", 8: "bigint", 9: "mediumint"}
TIMES: Mapping[int, str] = {7: "timestamp", 11: "time", 12: "datetime"}
OTHERS: Mapping[int, str] = {10: "date", 13: "year(4)", 14: "date", 245: "json"}
"""Types by their numbers in the protocol.
https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html"""

DECIMALS, BIT = (0, 246), 16
TEXTS, CHAR = (15, 249, 250, 251, 252, 253, 254), 254

UTF8_BYTES = 4
"""Bytes of a character in the character set of results, by which the server states the lengths of texts."""

LONGEST_VARCHAR = 65_535
"""Bytes of the longest column that is a VARCHAR or VARBINARY. What is longer is described as the longest text, as no more is known."""


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

    def describe_query(self, session: Session, query: str) -> tuple[Column, ...]:
        assert isinstance(session, DriverSession)
        quote = session.dialect.names.quote
        fields = session.describe_result(f"SELECT * FROM (\n{query}\n) read_query LIMIT 0", result_columns)
        texts = [quote(field.name) for field in fields if field.type in TEXTS and not field.is_binary]
        # The character set and the collation of a result are the session's; those of what it was made of are asked for, of no row.
        asked = ", ".join(f"CHARSET(read_query.{name}), COLLATION(read_query.{name})" for name in texts)
        empty = f"(SELECT * FROM (\n{query}\n) read_query LIMIT 0) read_query"
        known = (
            [str(value) for value in session.query_row(f"SELECT {asked} FROM (SELECT 1) one LEFT JOIN {empty} ON 1 = 0")] if asked else []
        )
        sets, loose = dict(zip(texts, known[::2], strict=True)), dict(zip(texts, known[1::2], strict=True))
        columns: list[Column] = []
        for field in fields:
            name = quote(field.name)
            character_set = sets.get(name, "utf8mb4")
            native = _native(field) + (f" character set {character_set}" if character_set != "utf8mb4" else "")
            collation = loose.get(name)
            is_exact = collation is None or collation.endswith(("0900_bin", "nopad_bin"))
            columns.append(Column(field.name, native, session.dialect.types.kind(native), True, None if is_exact else collation))
        return tuple(columns)

    def origins(self, session: Session, table: Table) -> Origins:
        return self._origins(session, table, "origins_mariadb" if self.mariadb else "origins")

    def column_forms(self, session: Session, table: Table) -> dict[str, ColumnForm]:
        [(_, definition, *_)] = session.query(session.dialect.catalogue_query("definition", {"table": table.sql}))
        return column_forms(str(definition), table)


def _native(field: ResultColumn) -> str:
    """Return the type of a result's column as the catalogue writes it of a table's, as far as the server says it."""
    sign = (" unsigned" if field.flags & UNSIGNED else "") + (" zerofill" if field.flags & ZEROFILL else "")
    if field.type in NUMBERS:
        return NUMBERS[field.type] + sign
    if field.type in DECIMALS:
        digits = field.length - (1 if field.decimals else 0) - (0 if field.flags & UNSIGNED else 1)
        return f"decimal({digits},{field.decimals}){sign}"
    if field.type in TIMES:
        return f"{TIMES[field.type]}({field.decimals})" if 0 < field.decimals <= 6 else TIMES[field.type]
    if field.type == BIT:
        return f"bit({field.length})"
    if field.type in TEXTS:
        return _text(field)
    return OTHERS.get(field.type, f"type {field.type}")


def _text(field: ResultColumn) -> str:
    if field.is_binary:
        name = "binary" if field.type == CHAR else "varbinary"
        return f"{name}({field.length})" if field.length <= LONGEST_VARCHAR else "longblob"
    name = "char" if field.type == CHAR else "varchar"
    return f"{name}({field.length // UTF8_BYTES})" if field.length <= LONGEST_VARCHAR else "longtext"
