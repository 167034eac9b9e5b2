"""PostgreSQL 13 and later.

https://www.postgresql.org/docs/current/functions.html
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from dialects import _errors as errors
from dialects._base import Algorithm, Dialect, Reading
from dialects._kinds import Kind
from dialects._session import DriverSession, Session, declared
from dialects._url import Url

APPLICATION = "auditor"
"""What our sessions call themselves; sql_templates/postgres/active_sessions.sql leaves them out by it."""


class Postgres(Dialect):
    """PostgreSQL."""

    name = "postgres"
    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres")
    PORT: ClassVar[int] = 5432
    sqlglot = "postgres"

    FENCE = "OFFSET 0"
    """The planner pulls up a subquery and then computes its columns once per use; OFFSET forbids it.
    https://www.postgresql.org/docs/current/queries-limit.html, and is_simple_subquery() in prepjointree.c"""

    BEGIN = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    END = ("COMMIT",)
    SNAPSHOT = "all statements read one MVCC snapshot"
    NOW = "(CURRENT_TIMESTAMP AT TIME ZONE 'UTC')"
    LOADS: ClassVar[tuple[str, ...]] = ("active_sessions", "lag")
    MAX_DECIMAL_DIGITS = 1000
    GAPS = {"NUL in text": "text refuses the character U+0000"}

    TYPES = {
        "boolean": Kind("boolean"), "smallint": Kind("integer"), "integer": Kind("integer"), "bigint": Kind("integer"),
        "numeric": Kind("decimal"), "real": Kind("float32"), "double precision": Kind("float64"),
        "text": Kind("text"), "character varying": Kind("text"), "citext": Kind("text"), "character": Kind("char", 1),
        "bpchar": Kind("char"), "bytea": Kind("binary"), "date": Kind("date"), "interval": Kind("interval"),
        "time": Kind("time"), "time without time zone": Kind("time"),
        "timestamp": Kind("timestamp"), "timestamp without time zone": Kind("timestamp"),
        "timestamp with time zone": Kind("timestamptz"),
        "uuid": Kind("uuid"), "json": Kind("json"), "jsonb": Kind("json"), "bit": Kind("bit", 1), "bit varying": Kind("bit"),
    }  # fmt: skip

    NATIVE = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "NUMERIC(20,0)", "decimal": "NUMERIC({digits},{scale})",
        "float32": "REAL", "float64": "DOUBLE PRECISION", "text": "TEXT", "char": "CHARACTER({digits})", "json": "JSONB",
        "enum": "TEXT", "set": "TEXT", "binary": "BYTEA", "bit": "BIT({digits})", "year": "SMALLINT", "date": "DATE",
        "time": "TIME({scale})", "timestamp": "TIMESTAMP({scale})", "timestamptz": "TIMESTAMP({scale}) WITH TIME ZONE",
        "uuid": "UUID", "interval": "INTERVAL",
    }  # fmt: skip

    def quote(self, identifier: str) -> str:
        return '"' + identifier.replace('"', '""') + '"'

    def string(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def binary(self, value: bytes) -> str:
        return f"DECODE('{value.hex()}', 'hex')"

    def kind(self, native: str) -> Kind | None:
        # "timestamp(3) without time zone" has its number in the middle.
        head, _, tail = native.partition(" with")
        if native.startswith("time"):
            name = head.split("(")[0] + (" with" + tail if tail else "")
            number = head[len(head.split("(")[0]) :]
            return None if name == "time with time zone" else super().kind(name + number)
        if native == "numeric":
            return Kind("decimal")
        if native.startswith("interval"):
            return Kind("interval")
        return super().kind(native)

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS TEXT)"

    def number(self, c: str, native: Kind) -> str:
        return f"CAST({c} AS BIGINT)" if native.name == "bit" else c

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        held = native.name == "decimal" and native.digits is not None and native.scale == scale
        return self.as_text(c if held else f"ROUND(CAST({c} AS NUMERIC), {scale})")

    def double(self, c: str) -> str:
        return f"CAST({c} AS DOUBLE PRECISION)"

    def single(self, c: str) -> str:
        return f"CAST({c} AS REAL)"

    def double_literal(self, value: str) -> str:
        return f"CAST('{value}' AS DOUBLE PRECISION)"

    def log2(self, c: str) -> str:
        return f"(LN({c}) / LN({self.double_literal('2')}))"

    def power_of_two(self, exponent: str) -> str:
        return f"POWER({self.double_literal('2')}, {exponent})"

    def hex_text(self, c: str) -> str:
        return f"ENCODE({c}, 'hex')"

    def date_text(self, c: str) -> str:
        # Under DateStyle ISO; also tells infinities and years before Christ, which TO_CHAR does not.
        return f"CAST({c} AS TEXT)"

    def time_text(self, c: str) -> str:
        return f"TO_CHAR({c}, 'HH24:MI:SS.US')"

    def timestamp_text(self, c: str, native: Kind) -> str:
        # TO_CHAR yields NULL for an infinity and drops "BC", both of which would hide a difference.
        # A cast takes a third of its time, and shows the same where the year has four digits and the fraction six.
        shown, plain = f"CAST({c} AS TEXT)", f"TO_CHAR({c}, 'YYYY-MM-DD HH24:MI:SS.US')"
        quick = ""
        if native.name == "timestamp":
            quick = f"WHEN OCTET_LENGTH({shown}) = 26 AND {c} >= '0001-01-01' AND {c} < '10000-01-01' THEN {shown} "
        return f"CASE {quick}WHEN {c} >= '0001-01-01' AND {c} < 'infinity' THEN {plain} ELSE {shown} END"

    def interval_text(self, c: str, native: Kind) -> str:
        months = f"CAST(EXTRACT(YEAR FROM {c}) * 12 + EXTRACT(MONTH FROM {c}) AS BIGINT)"
        micros = f"EXTRACT(HOUR FROM {c}) * 3600000000 + EXTRACT(MINUTE FROM {c}) * 60000000 + EXTRACT(MICROSECONDS FROM {c})"
        days = f"CAST(EXTRACT(DAY FROM {c}) AS BIGINT)"
        return self.concat([months, "'m'", days, "'d'", f"CAST({micros} AS BIGINT)", "'us'"])

    def json_text(self, c: str, native: Kind) -> str:
        # Keep string tokens whole, drop blanks between tokens.
        return rf"""REGEXP_REPLACE(CAST({c} AS TEXT), '("(?:[^"\\]|\\.)*")|\s+', '\1', 'g')"""

    def characters(self, c: str) -> str:
        return f"CAST({c} AS TEXT)"

    def bytewise(self, c: str) -> str:
        return f'({c} COLLATE "C")'

    def row_hash(self, text: str, algorithm: Algorithm) -> str:
        data = f"CONVERT_TO({text}, 'UTF8')"
        return f"MD5({data})" if algorithm == "md5" else f"ENCODE(SHA256({data}), 'hex')"

    def row_word(self, text: str, algorithm: Algorithm) -> str:
        if algorithm == "md5":
            return super().row_word(text, algorithm)
        # Eight bytes are quicker to write than 32; the cast drops the last four of their 64 bits.
        return f"CAST(CAST('x' || ENCODE(SUBSTR(SHA256(CONVERT_TO({text}, 'UTF8')), 1, 8), 'hex') AS BIT(60)) AS BIGINT)"

    def word(self, digits: str, first: int, count: int) -> str:
        return f"CAST(CAST('x' || SUBSTR({digits}, {first}, {count}) AS BIT({4 * count})) AS BIGINT)"

    def floor_divided(self, c: str, divisor: int, native: Kind) -> str:
        if native.name == "decimal":
            # Exact: dividing what is a multiple of the divisor leaves no digits to round.
            return f"CAST(({c} - MOD({c}, {divisor})) / {divisor} - CASE WHEN MOD({c}, {divisor}) < 0 THEN 1 ELSE 0 END AS BIGINT)"
        return self.bigint(f"{c} / {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END")

    def day_index(self, c: str) -> str:
        # Infinity is no number of days from any date: it lies in no partition, as a NULL does.
        # https://www.postgresql.org/docs/18/functions-datetime.html
        return f"(CASE WHEN ISFINITE({c}) THEN CAST({c} AS DATE) - DATE '1970-01-01' END)"

    def _measured(self, session: Session, name: str, own: int) -> float:
        if name == "active_sessions":
            # Our own sessions are known by their name, whichever process they belong to.
            count, may_see = session.query(self._catalogue("active_sessions", {}))[0]
            if not may_see:  # and would count none of the others
                raise errors.AccessDenied(
                    "this user may not see whether other users' sessions run a statement; GRANT pg_read_all_stats to it"
                )
            return float(count)
        if name == "lag":
            lag = session.query(self._catalogue("lag", {}))[0][0]
            return math.inf if lag is None else float(lag)
        return super()._measured(session, name, own)

    def seconds_since(self, c: str) -> str:
        return f"EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - {c})"

    def leading_indexes(self, session: Session, table: str) -> set[str] | None:
        return {str(row[0]) for row in session.query(self._catalogue("indexes", {"table": self.literal(table)}))}

    def expected_reading(self, session: Session, sql: str) -> Reading | None:
        # https://www.postgresql.org/docs/current/using-explain.html
        told = session.query(f"EXPLAIN (FORMAT JSON) {sql}")[0][0]
        scans = list(_scans((json.loads(told) if isinstance(told, str) else told)[0]["Plan"]))
        return Reading(sum(int(scan["Plan Rows"]) for scan in scans), any(_reads_all(scan) for scan in scans))

    def pins(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        return [
            "SET client_encoding TO 'UTF8'",
            "SET TimeZone TO 'UTC'",
            "SET DateStyle TO 'ISO, YMD'",
            "SET IntervalStyle TO 'postgres'",
            "SET bytea_output TO 'hex'",
            "SET standard_conforming_strings TO on",
            "SET extra_float_digits TO 1",
            # Compiling expressions saves more than it costs on every chunk of a scan; optimising them does not.
            "SET jit TO on",
            "SET jit_above_cost TO 50000",
            "SET jit_inline_above_cost TO -1",
            "SET jit_optimize_above_cost TO -1",
            f"SET lock_timeout TO {max(1, round(lock_timeout * 1000))}",
            f"SET statement_timeout TO {max(1, round(statement_timeout * 1000))}",
        ]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        import psycopg2

        options: dict[str, Any] = {name: value for name, value in url.options.items() if name.startswith("ssl")}
        try:
            connection = psycopg2.connect(
                host=url.host,
                port=url.port or self.PORT,
                user=url.user,
                password=url.password,
                dbname=url.database or None,
                connect_timeout=url.number("connect_timeout", 10),
                application_name=APPLICATION,
                keepalives_idle=60,  # a server that is gone without a word is noticed after two minutes
                keepalives_interval=20,
                keepalives_count=3,
                **options,
            )
        except psycopg2.Error as error:
            raise _translated(error, str(url)) or error from error
        connection.autocommit = True
        label = f"PostgreSQL {connection.info.server_version // 10000}"
        session = _PostgresSession(self, label, connection, lambda: self.connect(url, statement_timeout, lock_timeout))
        session.pin(statement_timeout, lock_timeout)
        return session


class _PostgresSession(DriverSession):
    def __init__(self, dialect: Dialect, server: str, connection: Any, another: Callable[[], Session]) -> None:
        super().__init__(dialect, server, connection, _translated, connection.fileno)
        self._another = another

    def siblings(self, count: int, table: str) -> list[Session]:
        # https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-SNAPSHOT-SYNCHRONIZATION
        snapshot = self.dialect.string(str(self.query("SELECT pg_export_snapshot()")[0][0]))
        found: list[Session] = []
        try:
            for _ in range(count):
                found.append(self._another())
                found[-1].begin()
                found[-1].execute(f"SET TRANSACTION SNAPSHOT {snapshot}")
        except errors.AuditorError:
            for session in found:
                session.close()
            raise
        return found

    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        with self.connection.cursor() as cursor:
            yield from declared(cursor, sql)

    def cancel(self) -> None:
        with self.translated():  # a connection that is lost refuses to cancel
            self.connection.cancel()


def _scans(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The nodes of a plan that read a table, at any depth."""
    if "Relation Name" in node:
        yield node
    for part in node.get("Plans", ()):
        yield from _scans(part)


def _reads_all(scan: Mapping[str, Any]) -> bool:
    """Whether a node reads its table, or partition of one, or an index of it, from end to end."""
    return scan["Node Type"] == "Seq Scan" or (scan["Node Type"] in ("Index Scan", "Index Only Scan") and "Index Cond" not in scan)


BY_STATE: dict[str, type[errors.AuditorError]] = {
    "28": errors.AccessDenied, "42501": errors.AccessDenied, "3D000": errors.NoSuchObject, "3F000": errors.NoSuchObject,
    "42P01": errors.NoSuchObject, "42703": errors.NoSuchObject, "08": errors.ConnectionLost, "57P": errors.ConnectionLost,
    "53300": errors.Unreachable, "55P03": errors.LockTimeout, "57014": errors.StatementCancelled,
}  # fmt: skip
"""SQLSTATE (or its beginning) to error. https://www.postgresql.org/docs/current/errcodes-appendix.html"""


def by_state(state: str, text: str) -> type[errors.AuditorError]:
    """The error that an SQLSTATE means; a timeout and a cancel share one state and differ in their text."""
    if state == "57014" and "timeout" in text:
        return errors.StatementTimeout
    matches = [known for start, known in BY_STATE.items() if state.startswith(start)]
    return matches[0] if matches else errors.StatementRefused


def _translated(error: BaseException, where: str = "") -> errors.AuditorError | None:
    """The error of the tree that a driver's exception means; None for any other exception."""
    import psycopg2

    if not isinstance(error, psycopg2.Error):
        return None
    prefix = f"{where}: " if where else ""
    text = " ".join((error.diag.message_primary or str(error)).split())
    if error.pgcode:
        return by_state(error.pgcode, text)(f"{prefix}{text} (SQLSTATE {error.pgcode})")
    if where:
        denied = "password" in text or "authentication" in text
        missing = "does not exist" in text
        kind = errors.AccessDenied if denied else errors.NoSuchObject if missing else errors.Unreachable
        return kind(f"{prefix}{text}")
    if isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
        return errors.ConnectionLost(text or None)
    return errors.StatementRefused(text)
