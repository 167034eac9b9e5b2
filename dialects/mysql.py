"""MySQL 8.0 to 9.x and MariaDB 10.6 and later.

https://dev.mysql.com/doc/refman/9.4/en/functions.html
https://mariadb.com/kb/en/built-in-functions/

One module for both: what differs is stated as facts that ``for_server`` sets from the server's version.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from dialects import _errors as errors
from dialects._base import Algorithm, Dialect, Reading
from dialects._kinds import Kind
from dialects._session import BATCH_ROWS, DriverSession, Session
from dialects._url import Url

INTEGER = Kind("integer")
MD5_GONE = (9, 6)


@dataclasses.dataclass(frozen=True)
class MySQL(Dialect):
    """MySQL and MariaDB."""

    name = "mysql"
    schemes = ("mysql", "mariadb")
    PORT = 3306
    sqlglot = "mysql"

    SPILLS = True
    FENCE = "LIMIT 18446744073709551615"
    """Both merge a derived table into its outer query and then compute its columns once per use; a LIMIT forbids it.
    https://dev.mysql.com/doc/refman/9.4/en/derived-table-optimization.html"""

    BEGIN = (
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    )
    """The clause has no effect, and no warning, below REPEATABLE READ.
    https://dev.mysql.com/doc/refman/9.4/en/commit.html"""

    END = ("COMMIT",)
    SNAPSHOT = "all statements read one InnoDB snapshot (tables of other storage engines are read as they are)"
    NOW = "UTC_TIMESTAMP(6)"
    LOADS = ("threads_running", "lag")
    SMALL_SUM = 1 << 22
    LITERALS_NEED_CAST = False
    MAX_DECIMAL_DIGITS = 65
    GAPS = {
        "nan": "FLOAT and DOUBLE hold finite numbers only",
        "interval": "there is no interval type",
    }

    mariadb: bool = False
    """Whether the server is MariaDB."""

    HAS_MD5: bool = True
    """MySQL 9.6 moved MD5() to component_classic_hashing, which is off by default."""

    TYPES = {
        "tinyint": INTEGER, "smallint": INTEGER, "mediumint": INTEGER, "int": INTEGER, "bigint": INTEGER,
        "decimal": Kind("decimal", 10, 0), "float": Kind("float32"), "double": Kind("float64"),
        "varchar": Kind("text"), "char": Kind("char"), "tinytext": Kind("text"), "text": Kind("text"),
        "mediumtext": Kind("text"), "longtext": Kind("text"), "enum": Kind("enum"), "set": Kind("set"),
        "json": Kind("json"), "uuid": Kind("uuid"),
        "binary": Kind("binary"), "varbinary": Kind("binary"), "tinyblob": Kind("binary"), "blob": Kind("binary"),
        "mediumblob": Kind("binary"), "longblob": Kind("binary"), "bit": Kind("bit", 1), "year": Kind("year"),
        "date": Kind("date"), "time": Kind("time", scale=0), "datetime": Kind("timestamp", scale=0),
        "timestamp": Kind("timestamptz", scale=0),
    }  # fmt: skip
    """TIMESTAMP keeps UTC and shows the session's zone, hence timestamptz; DATETIME has no zone."""

    NATIVE = {
        "boolean": "TINYINT(1)", "integer": "BIGINT", "unsigned integer": "BIGINT UNSIGNED",
        "decimal": "DECIMAL({digits},{scale})", "float32": "FLOAT", "float64": "DOUBLE", "text": "LONGTEXT CHARACTER SET utf8mb4",
        "char": "CHAR({digits}) CHARACTER SET utf8mb4", "json": "JSON", "binary": "LONGBLOB", "bit": "BIT({digits})", "year": "YEAR",
        "date": "DATE", "time": "TIME({scale})", "timestamp": "DATETIME({scale})", "timestamptz": "TIMESTAMP({scale})",
        "uuid": "CHAR(36)",
    }  # fmt: skip

    def quote(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def string(self, value: str) -> str:
        if value.isascii() and value.isprintable() and "\\" not in value:
            return "'" + value.replace("'", "''") + "'"
        return f"CONVERT(X'{value.encode().hex()}' USING utf8mb4)"

    def binary(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    def kind(self, native: str) -> Kind | None:
        if re.match(r"(enum|set)\(", native, re.IGNORECASE):
            return Kind(native[:4].lower().rstrip("("))
        known = super().kind(re.sub(r"\s*\b(unsigned|zerofill)\b", "", native, flags=re.IGNORECASE))
        if known != INTEGER:
            return known
        width = 20 if "zerofill" in native.lower() else None
        return Kind("integer", digits=width, unsigned=bool(re.match(r"bigint.*unsigned", native, re.IGNORECASE)))

    def for_server(self, version: str) -> MySQL:
        numbers = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
        mariadb = "mariadb" in version.lower()
        return MySQL(mariadb=mariadb, HAS_MD5=mariadb or numbers < MD5_GONE)

    def number(self, c: str, native: Kind) -> str:
        return f"({c} + 0)" if native.name in ("bit", "year") else c

    def integer_text(self, c: str, native: Kind) -> str:
        # ZEROFILL columns, whose kind keeps their width, show their zeros as text; adding 0 takes them off.
        return super().integer_text(f"({c} + 0)" if native.digits else c, native)

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS CHAR)"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        held = native.name == "decimal" and native.scale == scale
        return self.as_text(c if held else f"CAST({c} AS DECIMAL(65,{scale}))")

    def not_finite(self, x: str) -> str:
        return ""

    def double(self, c: str) -> str:
        # A cast of FLOAT to text shows six digits; arithmetic with a double shows what is stored.
        return f"({c} + 0e0)"

    def single(self, c: str) -> str:
        return f"CAST({c} AS FLOAT)"

    def double_literal(self, value: str) -> str:
        return value if "e" in value else value + "e0"

    def bigint(self, c: str) -> str:
        return f"CAST({c} AS SIGNED)"

    def hex_text(self, c: str) -> str:
        return f"LOWER(HEX({c}))"

    def date_text(self, c: str) -> str:
        return self.as_text(c)

    def time_text(self, c: str) -> str:
        return f"TIME_FORMAT({c}, '%H:%i:%s.%f')"

    def timestamp_text(self, c: str, native: Kind) -> str:
        # A cast shows as many digits as the type holds, and is quicker than DATE_FORMAT.
        return self.as_text(c) if native.scale == 6 else f"DATE_FORMAT({c}, '%Y-%m-%d %H:%i:%s.%f')"

    def bit_text(self, c: str, native: Kind) -> str:
        return f"LPAD(BIN({c} + 0), {native.digits or 1}, '0')"

    def json_text(self, c: str, native: Kind) -> str:
        # Keep string tokens whole, drop blanks between tokens. MariaDB's JSON is text; MySQL prints its own.
        group = "\\\\1" if self.mariadb else "$1"
        pattern = r'("(?:[^"\\\\]++|\\\\.)*+")|[ \\t\\r\\n]+'
        return f"REGEXP_REPLACE({self.characters(c)}, '{pattern}', '{group}')"

    def characters(self, c: str) -> str:
        # The hash sees bytes, which depend on the column's character set unless converted.
        return f"CONVERT({c} USING utf8mb4)"

    def bytewise(self, c: str) -> str:
        # Even the binary collations ignore blanks at the end; binary strings do not.
        return f"CAST({c} AS BINARY)"

    def right_trimmed(self, c: str) -> str:
        return f"TRIM(TRAILING ' ' FROM {c})"

    def concat(self, parts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def row_hash(self, text: str, algorithm: Algorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"

    def word(self, digits: str, first: int, count: int) -> str:
        # CONV yields text; without the cast a SUM over it would be a double.
        return f"CAST(CONV(SUBSTR({digits}, {first}, {count}), 16, 10) AS SIGNED)"

    def integer_sum(self, c: str) -> str:
        return f"CAST(SUM({c}) AS SIGNED)"

    def small_sum(self, c: str) -> str:
        # SUM over integers adds up decimals, which takes three times as long as doubles; these are exact below 2^53.
        return f"CAST(SUM({c} + 0e0) AS SIGNED)"

    def floor_divided(self, c: str, divisor: int, native: Kind) -> str:
        if native.unsigned:
            return f"CAST({c} DIV {divisor} AS SIGNED)"
        return f"({c} DIV {divisor} - ({c} % {divisor} < 0))"

    def day_index(self, c: str) -> str:
        return f"DATEDIFF({c}, '1970-01-01')"

    def _measured(self, session: Session, name: str, own: int) -> float:
        assert isinstance(session, DriverSession)
        if name == "threads_running":
            # Threads that are not asleep; the one that asks is among them, and on MySQL one of the server's own.
            # https://dev.mysql.com/doc/refman/9.4/en/server-status-variables.html#statvar_Threads_running
            return float(max(0, int(session.query(self._catalogue("threads_running", {}))[0][1]) - 1 - own))
        if name == "lag":
            return _behind(session.named(self._catalogue("replicas_mariadb" if self.mariadb else "replicas", {})))
        return super()._measured(session, name, own)

    def seconds_since(self, c: str) -> str:
        # TIMESTAMP shows the session's zone, which is pinned to UTC.
        return f"TIMESTAMPDIFF(MICROSECOND, {c}, UTC_TIMESTAMP(6)) / 1000000"

    def leading_indexes(self, session: Session, table: str) -> set[str] | None:
        # https://dev.mysql.com/doc/refman/9.4/en/show-index.html; MariaDB calls an invisible index ignored.
        assert isinstance(session, DriverSession)
        return {
            str(part["Column_name"])
            for part in session.named(self._catalogue("indexes", {"table": table}))
            if int(part["Seq_in_index"]) == 1
            and part["Column_name"] is not None  # an expression's has none
            and part["Index_type"] == "BTREE"
            and part.get("Visible", "YES") == "YES"
            and part.get("Ignored", "NO") == "NO"
        }

    def expected_reading(self, session: Session, sql: str) -> Reading | None:
        # A line of the table is a table that is read; names in angle brackets are derived ones.
        # https://dev.mysql.com/doc/refman/9.4/en/explain-output.html
        assert isinstance(session, DriverSession)
        lines = session.named(f"EXPLAIN FORMAT=TRADITIONAL {sql}")
        read = [line for line in lines if line["table"] and not str(line["table"]).startswith("<")]
        return Reading(sum(int(line["rows"] or 0) for line in read), any(line["type"] in ("ALL", "index") for line in read))

    def pins(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # The one limit is of locks on tables and their definitions, the other of locks on rows; both are whole seconds, at least 1.
        # https://dev.mysql.com/doc/refman/9.4/en/server-system-variables.html#sysvar_lock_wait_timeout
        lock = max(1, math.ceil(lock_timeout))
        milliseconds = max(1, round(statement_timeout * 1000))
        limit = f"max_statement_time = {milliseconds / 1000}" if self.mariadb else f"max_execution_time = {milliseconds}"
        return [
            "SET NAMES utf8mb4",
            "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES'",
            f"SET SESSION {limit}",
            f"SET SESSION lock_wait_timeout = {lock}, innodb_lock_wait_timeout = {lock}, net_write_timeout = 600",
        ]

    def reached(self, url: Url) -> str:
        socket = url.options.get("unix_socket")
        return f"{self.name}:{socket}:{url.database}" if socket else super().reached(url)

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        import pymysql

        options: dict[str, Any] = {}
        if "ssl_ca" in url.options:
            options["ssl_ca"] = url.options["ssl_ca"]
        if url.option("ssl", "") in ("false", "0"):
            options["ssl_disabled"] = True

        def opened() -> Any:
            made: Any = pymysql.connect(
                host=url.host or "localhost",
                port=url.port or self.PORT,
                user=url.user or "",
                password=url.password or "",
                database=url.database or None,
                unix_socket=url.options.get("unix_socket"),
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=url.number("connect_timeout", 10),
                read_timeout=url.number("connect_timeout", 10),
                **options,
            )
            # A server that is gone without a word would be waited for for ever; one that works answers within a statement's limit.
            made._read_timeout = statement_timeout + 30
            return made

        try:
            connection = opened()
        except Exception as error:
            raise _translated(error, str(url)) or error from error
        version = str(connection.get_server_info())
        dialect = self.for_server(version)
        label = f"MariaDB {version}" if dialect.mariadb else f"MySQL {version}"
        session = _MySQLSession(dialect, label, connection, opened, lambda: self.connect(url, statement_timeout, lock_timeout))
        session.pin(statement_timeout, lock_timeout)
        if not dialect.HAS_MD5:
            dialect = dataclasses.replace(dialect, HAS_MD5=_component_installed(session))
            session.dialect = dialect
        return session


class _MySQLSession(DriverSession):
    def __init__(self, dialect: Dialect, server: str, connection: Any, opened: Any, another: Callable[[], Session]) -> None:
        super().__init__(dialect, server, connection, _translated, lambda: int(connection._sock.fileno()))
        self._opened = opened
        self._another = another

    def siblings(self, count: int, table: str) -> list[Session]:
        # There is no snapshot to export: a momentary lock keeps writers out while every session opens its own, all alike.
        # https://dev.mysql.com/doc/refman/9.4/en/lock-tables.html
        lock = self._another()
        found: list[Session] = []
        try:
            lock.execute(f"LOCK TABLES {table} READ")
            self.end()
            self.begin()
            for _ in range(count):
                found.append(self._another())
                found[-1].begin()
        except (errors.AccessDenied, errors.StatementTimeout, errors.LockTimeout):  # no right to lock, or a writer would not let go
            return found
        finally:
            lock.close()
        return found

    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        from pymysql.cursors import SSCursor

        cursor = self.connection.cursor(SSCursor)
        try:
            cursor.execute(sql)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield list(rows)
        finally:
            with suppress(Exception):  # closing reads the rest of the result, and the connection may be lost
                cursor.close()

    def cancel(self) -> None:
        try:
            helper = self._opened()
        except Exception as error:
            raise _translated(error, self.server) or error from error
        with helper, helper.cursor() as cursor:
            with suppress(Exception):  # the statement may have ended by itself
                cursor.execute(f"KILL QUERY {self.connection.thread_id()}")


def _behind(channels: Sequence[Mapping[str, Any]]) -> float:
    """Seconds that a replica is behind, of its slowest channel; NULL is one that does not replicate now.

    The server compares what it applies with what it has received: a slow network does not show. A heartbeat sees that too.
    https://dev.mysql.com/doc/refman/9.4/en/show-replica-status.html, https://mariadb.com/kb/en/show-replica-status/
    """
    lags = [channel.get("Seconds_Behind_Source", channel.get("Seconds_Behind_Master")) for channel in channels]
    return max((math.inf if lag is None else float(lag) for lag in lags), default=0.0)


def _component_installed(session: Session) -> bool:
    try:
        session.query("SELECT MD5('')")
    except errors.AuditorError:
        return False
    finally:
        session.statements = 0
    return True


_BY_CODE: dict[int, type[errors.AuditorError]] = {
    1044: errors.AccessDenied, 1045: errors.AccessDenied, 1698: errors.AccessDenied, 1142: errors.AccessDenied,
    1143: errors.AccessDenied, 1227: errors.AccessDenied, 1049: errors.NoSuchObject, 1054: errors.NoSuchObject, 1146: errors.NoSuchObject,
    1969: errors.StatementTimeout, 3024: errors.StatementTimeout, 1205: errors.LockTimeout,
    1317: errors.StatementCancelled, 1927: errors.ConnectionLost, 1053: errors.ConnectionLost,
    2002: errors.Unreachable, 2003: errors.Unreachable, 2005: errors.Unreachable,
    2006: errors.ConnectionLost, 2013: errors.ConnectionLost, 2055: errors.ConnectionLost, 0: errors.ConnectionLost,
    1040: errors.Unreachable, 4031: errors.ConnectionLost,
}  # fmt: skip
"""Error numbers of server and client. https://dev.mysql.com/doc/mysql-errors/9.4/en/"""


def _translated(error: BaseException, where: str = "") -> errors.AuditorError | None:
    """The error of the tree that a driver's exception means; None for any other exception."""
    import pymysql

    prefix = f"{where}: " if where else ""
    if isinstance(error, RuntimeError) and "cryptography" in str(error):
        return errors.DriverMissing(f"{prefix}without TLS this server's logins need: pip install cryptography; or do not switch TLS off")
    if not isinstance(error, pymysql.err.Error):
        return None
    code = error.args[0] if error.args and isinstance(error.args[0], int) else -1
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    known = _BY_CODE.get(code, errors.StatementRefused)
    return known(f"{prefix}{text or 'the connection was lost'} (MySQL error {code})")
