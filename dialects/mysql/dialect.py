"""MySQL 8.0.22 to 9.x and MariaDB 10.6 and later.

https://dev.mysql.com/doc/refman/9.4/en/functions.html
https://mariadb.com/kb/en/built-in-functions/

One package serves both: where they differ, the parts are told which of them the server is.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from dialects import extras, versions
from dialects.base import Dialect, Session
from dialects.kinds import UTF8_BYTES, Kind, without_comments
from dialects.mysql import settings
from dialects.mysql.catalogue import MySQLCatalogue
from dialects.mysql.driver import lift_timeouts, socket_of
from dialects.mysql.errors import translate_error
from dialects.mysql.expressions import (
    CHARACTER_SET,
    GROUP_CONCAT_BYTES,
    LEAST_PACKET,
    MySQLCanonical,
    MySQLHashes,
    MySQLNames,
    MySQLNumbers,
    MySQLText,
    MySQLTimes,
)
from dialects.mysql.login import MySQLAddresses, open_connection
from dialects.mysql.server import MySQLServer
from dialects.mysql.session import PROBE, MySQLSession, server_label, server_version
from dialects.mysql.writing import TABLE_FORM, MySQLWriting
from dialects.oldest_versions import OldestVersion
from dialects.pooler import refuse_lent_sessions
from dialects.session import Driver
from dialects.types import Types
from dialects.url import Url
from dialects.wire import describe_encryption

INTEGER = Kind("integer")
DEFAULT_PACKET = 4 << 20
"""max_allowed_packet of a server that was not asked for its own."""

MD5_REMOVED_IN = (9, 6)
"""The first MySQL version whose MD5() needs component_classic_hashing."""

OLDEST = {
    False: OldestVersion("MySQL", "8.0.22", "window functions, REGEXP_REPLACE, CAST to FLOAT and SHOW REPLICA STATUS"),
    True: OldestVersion("MariaDB", "10.6", "all that is tested; older ones are no longer maintained"),
}
"""The oldest versions, by whether the server is MariaDB. https://dev.mysql.com/doc/relnotes/mysql/8.0/en/news-8-0-22.html"""


class MySQLTypes(Types):
    """The types of MySQL and MariaDB."""

    LITERALS_NEED_CAST = False
    MAX_DECIMAL_DIGITS = 65
    UNSUPPORTED_VALUES = {"nan": "FLOAT and DOUBLE hold finite numbers only", "interval": "there is no interval type"}

    KIND_BY_TYPE = {
        "tinyint": INTEGER, "smallint": INTEGER, "mediumint": INTEGER, "int": INTEGER, "bigint": INTEGER,
        "decimal": Kind("decimal", 10, 0), "float": Kind("float32"), "double": Kind("float64"),
        "varchar": Kind("text"), "char": Kind("char"), "tinytext": Kind("text"), "text": Kind("text"),
        "mediumtext": Kind("text"), "longtext": Kind("text"), "enum": Kind("enum"), "set": Kind("set"),
        "json": Kind("json"), "uuid": Kind("uuid"), "inet4": Kind("network"), "inet6": Kind("network"),
        "binary": Kind("binary"), "varbinary": Kind("binary"), "tinyblob": Kind("binary"), "blob": Kind("binary"),
        "mediumblob": Kind("binary"), "longblob": Kind("binary"), "bit": Kind("bit", 1), "year": Kind("year"),
        "date": Kind("date"), "time": Kind("time", scale=0), "datetime": Kind("timestamp", scale=0),
        "timestamp": Kind("timestamptz", scale=0),
    }  # fmt: skip
    """TIMESTAMP stores UTC and displays the session's time zone, hence timestamptz; DATETIME has no time zone."""

    TYPE_BY_KIND = {
        "boolean": "TINYINT(1)", "integer": "BIGINT", "unsigned integer": "BIGINT UNSIGNED",
        "decimal": "DECIMAL({digits},{scale})", "float32": "FLOAT", "float64": "DOUBLE", "text": "LONGTEXT CHARACTER SET utf8mb4",
        "char": "CHAR({digits}) CHARACTER SET utf8mb4", "json": "JSON", "binary": "LONGBLOB", "bit": "BIT({digits})", "year": "YEAR",
        "date": "DATE", "time": "TIME({scale})", "timestamp": "DATETIME({scale})", "timestamptz": "TIMESTAMP({scale})",
        "uuid": "CHAR(36) CHARACTER SET utf8mb4", "network": "VARCHAR(43) CHARACTER SET utf8mb4",
    }  # fmt: skip

    CAST_TYPE_BY_KIND = {
        "boolean": "SIGNED", "integer": "SIGNED", "unsigned integer": "UNSIGNED", "text": "CHAR CHARACTER SET utf8mb4",
        "binary": "BINARY", "network": "CHAR(43) CHARACTER SET utf8mb4",
        "timestamptz": None, "bit": None, "year": None, "json": None,
    }  # fmt: skip
    """https://dev.mysql.com/doc/refman/9.4/en/cast-functions.html#function_cast; MariaDB has neither YEAR nor JSON there."""

    ZERO_DATES = True
    LONG_CLOCKS = True

    def __init__(self, engine: str, *, mariadb: bool) -> None:
        super().__init__(engine)
        self.mariadb = mariadb
        """Whether the server is MariaDB."""

    def kind(self, native: str) -> Kind | None:
        if re.match(r"(enum|set)\(", native, re.IGNORECASE):
            return self._with_facts(Kind(native[:4].lower().rstrip("(")), native)
        stored = re.split(CHARACTER_SET, native, maxsplit=1, flags=re.IGNORECASE)[0]
        plain = without_comments(stored)  # MariaDB's, as in varchar(9) /*M!100301 COMPRESSED*/
        known = super().kind(re.sub(r"\s?\b(unsigned|zerofill)\b", "", plain, flags=re.IGNORECASE))
        if known and known.name in ("text", "char", "binary"):
            return self._with_facts(known, native)
        if known and known.name == "json":
            return dataclasses.replace(known, form="" if self.mariadb else "printed")
        if known and known.name == "year" and "(2)" in native:
            return Kind("year", digits=2)
        if known is None or known.name not in ("integer", "decimal", "float32", "float64"):
            return known
        unsigned = known == INTEGER and bool(re.match(r"bigint.*unsigned", native, re.IGNORECASE))
        return dataclasses.replace(known, unsigned=unsigned, zero_filled="zerofill" in native.lower())

    def _with_facts(self, kind: Kind, native: str) -> Kind:
        """The kind of a column of texts or bytes, with what its type says of how it is stored."""
        is_long = re.match(r"(medium|long)(text|blob)", native, re.IGNORECASE) is not None
        is_text = kind.name != "binary"
        stated = re.match(r"(?:var)?char\((\d+)\)", native, re.IGNORECASE)
        most = UTF8_BYTES * int(stated[1]) if stated else None
        return dataclasses.replace(kind, utf8=is_text and CHARACTER_SET not in native, short=not is_long, bytes=most)

    def drop_temporary_table(self, name: str) -> list[str]:
        return [f"DROP TEMPORARY TABLE {name}"]  # drops nothing else, and commits nothing


class MySQL(Dialect):
    """MySQL and MariaDB."""

    name = "mysql"
    schemes = ("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql")
    sqlglot_dialect = "mysql"
    TABLE_FORM = TABLE_FORM
    addresses = MySQLAddresses(name)
    writing = MySQLWriting(name)

    TEMPLATES = "sql_templates.mysql"
    DRIVERS: ClassVar[Mapping[str, str]] = {"pymysql": "pymysql"}
    CHANGE_STREAM = "binlog"
    ZONE_TABLES = "load its time zone tables with mysql_tzinfo_to_sql"
    LONGEST_TEXT_SETTING = "max_allowed_packet"

    SUMS_WHOLE_WORDS = True
    SPILLS_LARGE_DERIVED_TABLES = True

    OPTIMIZER_BARRIER = "LIMIT 18446744073709551615"
    """Both merge a derived table into the outer query and then compute its columns once per use; a LIMIT prevents that.
    https://dev.mysql.com/doc/refman/9.4/en/derived-table-optimization.html"""

    BEGIN_SNAPSHOT = (
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    )
    """Below REPEATABLE READ, the clause WITH CONSISTENT SNAPSHOT is ignored.
    https://dev.mysql.com/doc/refman/9.4/en/commit.html"""

    END_SNAPSHOT = ("COMMIT",)
    SHARES_SNAPSHOT_BY_LOCK = True
    CUTS_STORED_TEXTS = True  # of DECIMAL(6,6) it expects 8 characters, and -0.000001 has 9
    READ_CONSISTENCY = "all statements read one InnoDB snapshot (tables of other storage engines are read as they are)"
    CURRENT_DATABASE = "'def'"
    """The only catalogue there is. https://dev.mysql.com/doc/refman/8.4/en/information-schema-tables-table.html"""

    def __init__(
        self,
        *,
        mariadb: bool = False,
        sql_mode: str = "",
        has_md5: bool = True,
        packet: int = DEFAULT_PACKET,
        joined_bytes: int = LEAST_PACKET,
    ) -> None:
        """Make the dialect of a server.

        ``mariadb`` says whether it is MariaDB, ``has_md5`` whether it has MD5(); ``sql_mode`` is that with which its sessions begin,
        ``packet`` its max_allowed_packet, and ``joined_bytes`` how many bytes of text GROUP_CONCAT joins.
        """
        self.mariadb = mariadb
        """Whether the server is MariaDB."""
        self.MAX_STATEMENT_BYTES = packet  # https://dev.mysql.com/doc/refman/9.4/en/packet-too-large.html
        self.names = MySQLNames()
        self.text = MySQLText(self.names)
        self.numbers = MySQLNumbers(self.text)
        self.times = MySQLTimes(self.numbers, mariadb=mariadb, sql_mode=sql_mode)
        as_bytes = MySQLTimes(MySQLNumbers(MySQLText(self.names, trims_bytes=True)), mariadb=mariadb, sql_mode=sql_mode)
        operands = MySQLCanonical(as_bytes, mariadb=mariadb, packet=packet)
        self.canonical = MySQLCanonical(self.times, mariadb=mariadb, packet=packet, operands=operands)
        self.hashes = MySQLHashes(self.canonical, has_md5=has_md5, joined_bytes=joined_bytes)
        self.types = MySQLTypes(self.name, mariadb=mariadb)
        self.catalogue = MySQLCatalogue(mariadb=mariadb)
        self.server = MySQLServer(mariadb=mariadb)

    def for_server(self, version: str) -> MySQL:
        numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
        mariadb = "mariadb" in version.lower()
        return MySQL(mariadb=mariadb, has_md5=mariadb or numbers < MD5_REMOVED_IN)

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        return settings.statements(self.mariadb, settings.assignments(self.mariadb, statement_timeout, lock_timeout))

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        extras.require("MySQL or MariaDB", "mysql")

        def log_in() -> Any:
            connection = open_connection(url, self.addresses.DEFAULT_PORT)
            lift_timeouts(connection)  # the session bounds what follows
            return connection

        driver = Driver(str(url), url.patience, log_in, lambda connection: int(socket_of(connection).fileno()), translate_error)
        connection = driver.connect()
        version = server_version(connection)
        dialect = self.for_server(version)
        session = MySQLSession(dialect, server_label(version), connection, driver)
        session.reached = describe_encryption(socket_of(connection))
        with session.closed_on_error():
            session.variants = versions.recognise(self.name, {"version": version})
            versions.refuse(str(url), session.variants)
            OLDEST[dialect.mariadb].check(version, str(url))
            with versions.naming(session.variants):
                session.pin(statement_timeout, lock_timeout)
                server = session.read_server(dialect.hashes.HAS_MD5)
            session.variants = versions.recognise(self.name, {"version": version, "comment": server.comment, "folder": server.folder})
            versions.refuse(str(url), session.variants)
            with session.waiting():
                refuse_lent_sessions(connection, connection.thread_id(), session.process_id, PROBE, driver, session.mark)
            session.dialect = MySQL(
                mariadb=dialect.mariadb,
                sql_mode=server.mode,
                has_md5=server.has_md5,
                packet=server.packet,
                joined_bytes=min(server.packet, GROUP_CONCAT_BYTES),
            )
        session.wait_for_statements(statement_timeout)
        return session
