"""MySQL 8.0.22 to 9.x and MariaDB 10.6 and later.

https://dev.mysql.com/doc/refman/9.4/en/functions.html
https://mariadb.com/kb/en/built-in-functions/

One module serves both: where they differ, ``for_server`` sets attributes from the server's version.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from dialects import extras, versions
from dialects.base import Session
from dialects.canonical_text import INTRICATE_KINDS
from dialects.catalogue import HashAlgorithm
from dialects.floors import Floor
from dialects.kinds import UTF8_BYTES, Kind, Rounding
from dialects.mysql import settings
from dialects.mysql.catalogue import MySQLCatalogue
from dialects.mysql.driver import lift_timeouts, socket_of
from dialects.mysql.errors import translate_error
from dialects.mysql.login import MySQLAddresses, open_connection
from dialects.mysql.server import MySQLServer
from dialects.mysql.session import PROBE, MySQLSession, server_label, server_version
from dialects.mysql.text import CHARACTER_SET, GROUP_CONCAT_BYTES, MySQLText, plain_type
from dialects.mysql.writing import TABLE_FORM, MySQLWriting
from dialects.pooler import refuse_lent_sessions
from dialects.session import Driver
from dialects.url import Url
from dialects.wire import describe_encryption

INTEGER = Kind("integer")
BOUNDED_KINDS = frozenset(
    {"boolean", "integer", "decimal", "float32", "float64", "year", "bit", "date", "time", "timestamp", "timestamptz", "uuid"}
)
"""Kinds of columns whose text is of some hundred characters at most."""

LEAST_PACKET = 1 << 20
"""max_allowed_packet from which no text that is built from a short value is too long."""

MD5_REMOVED_IN = (9, 6)
"""The first MySQL version whose MD5() needs component_classic_hashing."""

FLOORS = {
    False: Floor("MySQL", "8.0.22", "window functions, REGEXP_REPLACE, CAST to FLOAT and SHOW REPLICA STATUS"),
    True: Floor("MariaDB", "10.6", "all that is tested; older ones are no longer maintained"),
}
"""The oldest versions, by whether the server is MariaDB. https://dev.mysql.com/doc/relnotes/mysql/8.0/en/news-8-0-22.html"""


@dataclasses.dataclass(frozen=True)
class MySQL(MySQLText):
    """MySQL and MariaDB."""

    name = "mysql"
    schemes = ("mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql")
    sqlglot_dialect = "mysql"
    TABLE_FORM = TABLE_FORM
    addresses = MySQLAddresses(name)
    writing = MySQLWriting(name)

    SUMS_WHOLE_WORDS = True
    SPILLS_LARGE_DERIVED_TABLES = True
    MAX_JOINED_BYTES: int = LEAST_PACKET
    """Of GROUP_CONCAT: group_concat_max_len, which sessions pin, and on MariaDB max_allowed_packet, which sessions have from their server;
    text beyond is cut with a warning. https://mariadb.com/kb/en/group_concat/"""

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
    UTC_NOW = "UTC_TIMESTAMP(6)"
    CURRENT_DATABASE = "'def'"
    """The only catalogue there is. https://dev.mysql.com/doc/refman/8.4/en/information-schema-tables-table.html"""

    SMALL_SUM_MAX_ROWS = 1 << 22
    LIKE_OPERAND = "{c} COLLATE utf8mb4_bin"  # of a binary string, LIKE would match bytes
    INDEX_SERVES_LIKE = True
    UNICODE_LITERAL, UNICODE_COLLATIONS = "_utf8mb4 X'{hex}'", "utf8mb4_"
    TIME_IS_NULL = "{c} <=> NULL"  # IS NULL is also true of the date 0000-00-00 in a NOT NULL column
    LITERALS_NEED_CAST = False
    MAX_DECIMAL_DIGITS = 65
    UNSUPPORTED_VALUES = {"nan": "FLOAT and DOUBLE hold finite numbers only", "interval": "there is no interval type"}

    mariadb: bool = False
    """Whether the server is MariaDB."""

    trims_bytes: bool = False
    """Whether zeros are trimmed as bytes; see ``MySQLText``."""

    TIME_ROUNDING: Rounding = "half up"
    ROUNDS_TO_DATES: bool = True

    MAX_STATEMENT_BYTES: int = 4 << 20
    """max_allowed_packet; sessions have their server's. https://dev.mysql.com/doc/refman/9.4/en/packet-too-large.html"""

    HAS_MD5: bool = True
    """MySQL 9.6 moved MD5() to component_classic_hashing, which is not installed by default."""

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "catalogue", MySQLCatalogue(mariadb=self.mariadb))
        object.__setattr__(self, "server", MySQLServer(mariadb=self.mariadb))

    def quote(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def binary_literal(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    def kind(self, native: str) -> Kind | None:
        if re.match(r"(enum|set)\(", native, re.IGNORECASE):
            return self._with_facts(Kind(native[:4].lower().rstrip("(")), native)
        known = super().kind(re.sub(r"\s?\b(unsigned|zerofill)\b", "", plain_type(native), flags=re.IGNORECASE))
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

    def can_fail(self, kind: Kind, native: Kind) -> bool:
        # Text beyond max_allowed_packet is NULL, with a warning. What is short grows at most to twice its size: by bars that are escaped,
        # or as hexadecimal digits. https://dev.mysql.com/doc/refman/9.4/en/string-functions.html
        if native.name in BOUNDED_KINDS:
            return kind.name in INTRICATE_KINDS or bool(kind.rounding)
        return not native.short or kind.name in INTRICATE_KINDS or self.MAX_STATEMENT_BYTES < LEAST_PACKET

    def operand_text(self, kind: Kind, c: str, native: Kind) -> str:
        # CONCAT and COALESCE print numbers and times as a cast does, which would cost as much again. Beside UUIDs and addresses, MariaDB
        # would take the mark for NULL as one of these, and yield NULL for it.
        text = self.canonical_text(kind, c, native)
        if c.startswith("`") and native.name not in ("uuid", "network") and text == self.as_text(c):
            return c
        return dataclasses.replace(self, trims_bytes=True).canonical_text(kind, c, native) if native.name in BOUNDED_KINDS else text

    def for_server(self, version: str) -> MySQL:
        numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
        mariadb = "mariadb" in version.lower()
        return MySQL(mariadb=mariadb, HAS_MD5=mariadb or numbers < MD5_REMOVED_IN).with_sql_mode("")

    def with_sql_mode(self, mode: str) -> MySQL:
        """Return this dialect for a server whose sessions begin with that sql_mode."""
        rounds = "TIME_ROUND_FRACTIONAL" in mode if self.mariadb else "TIME_TRUNCATE_FRACTIONAL" not in mode
        return dataclasses.replace(self, TIME_ROUNDING="half up" if rounds else "", ROUNDS_TO_DATES=rounds and not self.mariadb)

    def stored_text(self, text: str) -> str:
        return f"CAST({text} AS CHAR(255))"

    def as_number(self, c: str, native: Kind) -> str:
        if native.name == "year" and native.digits:  # MariaDB's YEAR(2), which means a year from 1970 to 2069
            return f"YEAR(MAKEDATE({c}, 1))"
        return f"({c} + 0)" if native.name in ("bit", "year") else c

    def canonical_text(self, kind: Kind, c: str, native: Kind) -> str:
        # As text, ZEROFILL columns show leading zeros; adding 0 removes them, and changes neither a decimal's scale nor a float.
        return super().canonical_text(kind, f"({c} + 0)" if native.zero_filled else c, native)

    def boolean_text(self, c: str, native: Kind) -> str:
        return self.as_text(f"({self.as_number(c, native)} <> 0)")

    def uuid_text(self, c: str, native: Kind) -> str:
        if native.name != "binary":
            return super().uuid_text(c, native)
        cuts = ((1, 4), (5, 2), (7, 2), (9, 2))
        pieces = [*(f"HEX(SUBSTR({c}, {first}, {length}))" for first, length in cuts), f"HEX(SUBSTR({c}, 11))"]
        return f"LOWER({self.join(pieces, '-')})"

    def network_text(self, c: str) -> str:
        # MariaDB writes :: for a single group of zeros too, where others write 0: then there are as many colons as between eight groups.
        text = self.as_text(c)
        if not self.mariadb:
            return text
        colons = f"CHAR_LENGTH({text}) - CHAR_LENGTH(REPLACE({text}, ':', ''))"
        begins = f"WHEN {text} LIKE '::%' THEN CONCAT('0', SUBSTR({text}, 2))"
        ends = f"WHEN {text} LIKE '%::' THEN CONCAT(LEFT({text}, CHAR_LENGTH({text}) - 1), '0')"
        return f"CASE WHEN {colons} < 7 THEN {text} {begins} {ends} ELSE REPLACE({text}, '::', ':0:') END"

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS CHAR)"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        has_scale = native.name == "decimal" and native.scale == scale
        return self.as_text(c if has_scale else f"CAST({c} AS DECIMAL(65,{scale}))")

    def non_finite_branches(self, x: str) -> str:
        return ""

    def as_double(self, c: str) -> str:
        # MySQL displays a FLOAT with six digits; arithmetic with a double yields the stored value.
        return f"({c} + 0e0)"

    def as_single(self, c: str) -> str:
        return f"CAST({c} AS FLOAT)"

    def double_literal(self, value: str) -> str:
        return value if "e" in value else value + "e0"

    def as_bigint(self, c: str) -> str:
        return f"CAST({c} AS SIGNED)"

    def hex_text(self, c: str) -> str:
        return f"LOWER(HEX({c}))"

    def bit_text(self, c: str, native: Kind) -> str:
        return f"LPAD(BIN({c} + 0), {native.digits or 1}, '0')"

    def concat(self, parts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"

    def utf8(self, text: str) -> str:
        return f"CAST({self.characters(text)} AS BINARY)"

    def word(self, digits: str, first: int, count: int) -> str:
        # CONV yields text; without the cast, SUM would add doubles.
        piece = f"LEFT({digits}, {count})" if first == 1 else f"SUBSTR({digits}, {first}, {count})"
        return f"CAST(CONV({piece}, 16, 10) AS SIGNED)"

    def signed_remainder(self, c: str, divisor: int, native: Kind) -> str:
        rest = f"{c} % {divisor}"
        return self.as_bigint(rest) if native.name == "decimal" else rest  # MySQL computes with 64 bits whatever a column has

    def integer_sum(self, c: str) -> str:
        return f"CAST(SUM({c}) AS SIGNED)"

    def small_sum(self, c: str) -> str:
        # SUM over integers adds decimals, which takes three times as long as adding doubles; doubles are exact below 2^53.
        return f"CAST(SUM({c} + 0e0) AS SIGNED)"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        if native.unsigned:
            return f"CAST({c} DIV {divisor} AS SIGNED)"
        return f"({c} DIV {divisor} - ({c} % {divisor} < 0))"

    def remainder(self, c: str, divisor: int, native: Kind) -> str:
        if native.unsigned or native.name == "decimal":
            return super().remainder(c, divisor, native)
        return f"(({c} % {divisor} + {divisor}) % {divisor})"  # computed with 64 bits whatever the column has, and quicker than by CASE

    def day_index(self, c: str) -> str:
        return f"DATEDIFF({c}, '1970-01-01')"

    def seconds_since(self, c: str) -> str:
        # TIMESTAMP is displayed in the session's time zone, which is pinned to UTC.
        return f"TIMESTAMPDIFF(MICROSECOND, {c}, UTC_TIMESTAMP(6)) / 1000000"

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
            FLOORS[dialect.mariadb].check(version, str(url))
            with versions.naming(session.variants):
                session.pin(statement_timeout, lock_timeout)
                server = session.read_server(dialect.HAS_MD5)
            session.variants = versions.recognise(self.name, {"version": version, "comment": server.comment, "folder": server.folder})
            versions.refuse(str(url), session.variants)
            with session.waiting():
                refuse_lent_sessions(connection, connection.thread_id(), session.process_id, PROBE, driver, session.mark)
            session.dialect = dataclasses.replace(
                dialect.with_sql_mode(server.mode),
                HAS_MD5=server.has_md5,
                MAX_STATEMENT_BYTES=server.packet,
                MAX_JOINED_BYTES=min(server.packet, GROUP_CONCAT_BYTES),
            )
        session.wait_for_statements(statement_timeout)
        return session
