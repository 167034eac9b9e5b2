"""Amazon Redshift, through Amazon's own driver.

https://docs.aws.amazon.com/redshift/latest/dg/c_SQL_functions.html
https://docs.aws.amazon.com/redshift/latest/dg/c_redshift-and-postgres-sql.html

Redshift descends from PostgreSQL 8.0.2: what is not here is as PostgreSQL has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dialects import _errors as errors
from dialects._base import Algorithm, Dialect, Reading
from dialects._kinds import Kind
from dialects._session import DriverSession, Session, declared
from dialects._url import Url
from dialects.postgres import Postgres, by_state


class Redshift(Postgres):
    """Amazon Redshift."""

    name = "redshift"
    schemes = ("redshift",)
    PORT = 5439
    sqlglot = "redshift"
    ancestors = ("postgres",)

    WITHOUT = frozenset({"active_sessions", "indexes", "lag"})
    ROW_STORE = False

    FENCE = ""
    FENCE_COLUMN = ",\n      RANDOM() AS fence"
    """A LIMIT or OFFSET would bring all rows to the leader node. A volatile column keeps a planner of PostgreSQL's descent
    from pulling the subquery up. https://docs.aws.amazon.com/redshift/latest/dg/r_RANDOM.html"""

    BEGIN = ("BEGIN READ ONLY",)
    SNAPSHOT = "all statements read the snapshot of the transaction's first one (serializable or snapshot isolation)"
    NOW = "GETDATE()"
    LOADS = ("queued",)
    MAX_DECIMAL_DIGITS = 38
    GAPS = {
        "NUL in text": "text ends at, or refuses, the character U+0000",
        "interval": "EXTRACT of an INTERVAL column is not documented for all parts",
        "uuid": "there is no uuid type; use VARCHAR(36)",
        "bit": "there is no bit type",
    }

    TYPES = {
        "boolean": Kind("boolean"), "smallint": Kind("integer"), "integer": Kind("integer"), "bigint": Kind("integer"),
        "numeric": Kind("decimal", 18, 0), "real": Kind("float32"), "double precision": Kind("float64"),
        "character varying": Kind("text"), "text": Kind("text"), "character": Kind("char", 1), "bpchar": Kind("char"),
        "binary varying": Kind("binary"), "varbyte": Kind("binary"), "bytea": Kind("binary"),
        "date": Kind("date"), "time": Kind("time"), "time without time zone": Kind("time"),
        "timestamp": Kind("timestamp"), "timestamp without time zone": Kind("timestamp"),
        "timestamp with time zone": Kind("timestamptz"), "super": Kind("json"), "jsonb": Kind("json"),
    }  # fmt: skip
    """BYTEA and JSONB exist only where PostgreSQL stands in for Redshift."""

    NATIVE = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "DECIMAL(20,0)", "decimal": "DECIMAL({digits},{scale})",
        "float32": "REAL", "float64": "DOUBLE PRECISION", "text": "VARCHAR(65535)", "char": "CHAR({digits})", "json": "SUPER",
        "enum": "VARCHAR(256)", "set": "VARCHAR(256)", "binary": "VARBYTE", "year": "SMALLINT", "date": "DATE",
        "time": "TIME", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "VARCHAR(36)",
    }  # fmt: skip

    def string(self, value: str) -> str:
        # A backslash escapes in literals, unless the server was told otherwise: none is written.
        pieces = ("'" + piece.replace("'", "''") + "'" for piece in value.split("\\"))
        return "(" + " || CHR(92) || ".join(pieces) + ")" if "\\" in value else next(pieces)

    def binary(self, value: bytes) -> str:
        return f"TO_VARBYTE('{value.hex()}', 'hex')"

    def kind(self, native: str) -> Kind | None:
        return None if native.startswith("interval") else super().kind(native)

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS VARCHAR(41))"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        # An explicit cast truncates; ROUND rounds half away from zero.
        digits = min(38, max(native.digits or 38, 19) + max(0, scale - (native.scale or 0)))
        if native.name == "integer":
            digits = min(38, 20 + scale)
        return self.as_text(f"CAST(ROUND({c}, {scale}) AS DECIMAL({digits},{scale}))")

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        if native.name in ("float32", "float64"):
            return super().rounded_text(c, scale, native)
        digits = min(38, (native.digits or 19) + scale)
        return self.as_text(f"CAST(ROUND(CAST({c} AS DECIMAL({digits},{native.scale or 0})) * {10**scale}, 0) AS DECIMAL(38,0))")

    def log2(self, c: str) -> str:
        # LN may be computed for a row whose CASE branch is not taken, hence no zero reaches it.
        return f"(LN(NULLIF({c}, 0)) / LN({self.double_literal('2')}))"

    def hex_text(self, c: str) -> str:
        return f"FROM_VARBYTE({c}, 'hex')"

    def date_text(self, c: str) -> str:
        return f"TO_CHAR({c}, 'YYYY-MM-DD')"

    def time_text(self, c: str) -> str:
        return f"TO_CHAR(DATE '2000-01-01' + {c}, 'HH24:MI:SS.US')"

    def timestamp_text(self, c: str, native: Kind) -> str:
        return f"TO_CHAR({c}, 'YYYY-MM-DD HH24:MI:SS.US')"

    def json_text(self, c: str, native: Kind) -> str:
        # JSON_SERIALIZE writes no blanks between tokens. https://docs.aws.amazon.com/redshift/latest/dg/JSON_SERIALIZE.html
        if native.name == "json":
            return f"JSON_SERIALIZE({c})"
        return rf"""REGEXP_REPLACE({c}, '("([^"\\\\]|\\\\.)*")|\\s+', '$1', 1, 'p')"""

    def characters(self, c: str) -> str:
        return c

    def bytewise(self, c: str) -> str:
        # There is no COLLATE clause; only a database made case-insensitive compares otherwise.
        # https://docs.aws.amazon.com/redshift/latest/dg/c_collation_sequences.html
        return c

    def row_hash(self, text: str, algorithm: Algorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"

    def row_word(self, text: str, algorithm: Algorithm) -> str:
        return self.word(self.row_hash(text, algorithm), 1, 15)

    def word(self, digits: str, first: int, count: int) -> str:
        return f"STRTOL(SUBSTRING({digits}, {first}, {count}), 16)"

    def day_index(self, c: str) -> str:
        return f"(CAST({c} AS DATE) - DATE '1970-01-01')"  # there is no infinity

    def _measured(self, session: Session, name: str, own: int) -> float:
        # A statement of ours that waits says just as well that the queues are full. A user without SYSLOG ACCESS UNRESTRICTED
        # sees its own statements alone, and nothing tells it so.
        # https://docs.aws.amazon.com/redshift/latest/dg/r_STV_WLM_QUERY_STATE.html
        # https://docs.aws.amazon.com/redshift/latest/dg/cm_chap_system-tables.html#c_visibility-of-data
        if name != "queued":
            raise LookupError(f"{self.name} cannot say {name}")
        return float(session.query(self._catalogue("queued", {}))[0][0])

    def seconds_since(self, c: str) -> str:
        return f"EXTRACT(EPOCH FROM GETDATE()) - EXTRACT(EPOCH FROM {c})"

    def leading_indexes(self, session: Session, table: str) -> set[str] | None:
        # Blocks are left out by their least and greatest values; there is no index.
        # https://docs.aws.amazon.com/redshift/latest/dg/t_Sorting_data.html
        return None

    def expected_reading(self, session: Session, sql: str) -> Reading | None:
        return None

    def pins(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # No parameter limits the wait for a lock; the statement's limit includes it.
        # https://docs.aws.amazon.com/redshift/latest/dg/cm_chap_ConfigurationRef.html
        return [
            "SET timezone TO 'UTC'",
            "SET datestyle TO 'ISO, YMD'",
            f"SET statement_timeout TO {max(1, round(statement_timeout * 1000))}",
        ]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        import redshift_connector

        encrypted = url.option("sslmode", "verify-ca") != "disable"
        options: dict[str, Any] = {"sslmode": url.option("sslmode", "verify-ca")} if encrypted else {}

        def opened() -> Any:
            try:
                return login()
            except Exception as error:
                _hang_up_after(error)
                raise

        def login() -> Any:
            return redshift_connector.connect(
                host=url.host,
                port=url.port or self.PORT,
                user=url.user,
                password=url.password,
                database=url.database,
                ssl=encrypted,
                timeout=url.number("connect_timeout", 10),
                **options,
            )

        try:
            connection = opened()
        except Exception as error:
            raise _translated(error, str(url)) or error from error
        connection.autocommit = True
        connection._usock.settimeout(None)  # the driver keeps its connect timeout for every statement
        session = _RedshiftSession(self, "Amazon Redshift", connection, opened)
        session.pin(statement_timeout, lock_timeout)
        session.pid = int(session.query("SELECT pg_backend_pid()")[0][0])
        session.statements = 0
        return session


class _RedshiftSession(DriverSession):
    pid: int = 0

    def __init__(self, dialect: Dialect, server: str, connection: Any, opened: Any) -> None:
        super().__init__(dialect, server, connection, _translated, lambda: int(connection._usock.fileno()))
        self._opened = opened

    def batches(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        # The driver would hold a whole result. A cluster of one node hands over at most 1,000 rows at a time.
        # https://docs.aws.amazon.com/redshift/latest/dg/fetch.html
        yield from declared(self.connection.cursor(), sql, rows_at_once=1000)

    def close(self) -> None:
        stream = self.connection._sock  # the driver forgets it, open, where saying goodbye fails
        super().close()
        with suppress(Exception):
            stream.close()

    def cancel(self) -> None:
        # https://docs.aws.amazon.com/redshift/latest/dg/PG_CANCEL_BACKEND.html
        try:
            helper = self._opened()
        except Exception as error:
            raise _translated(error, self.server) or error from error
        with suppress(Exception):  # the statement may have ended by itself
            helper.autocommit = True
            helper.cursor().execute(f"SELECT pg_cancel_backend({self.pid})")
        helper.close()


def _hang_up_after(error: BaseException) -> None:
    """Close the sockets of a login that failed, which the driver leaves open in the connection that it never returned."""
    trace = error.__traceback__
    while trace:
        connection = trace.tb_frame.f_locals.get("self")
        for part in (getattr(connection, "_sock", None), getattr(connection, "_usock", None)):
            with suppress(Exception):
                part.close()  # type: ignore[union-attr]
        trace = trace.tb_next


def _translated(error: BaseException, where: str = "") -> errors.AuditorError | None:
    """The error of the tree that a driver's exception means; None for any other exception."""
    from redshift_connector.error import Error, InterfaceError

    prefix = f"{where}: " if where else ""
    if isinstance(error, Error):
        facts = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
        text, state = str(facts.get("M", error.args[-1] if error.args else error)), str(facts.get("C", ""))
        if state:
            return by_state(state, text)(f"{prefix}{text} (SQLSTATE {state})")
        closed = isinstance(error, InterfaceError)
        return (errors.Unreachable if where else errors.ConnectionLost if closed else errors.StatementRefused)(f"{prefix}{text}")
    if isinstance(error, OSError):
        return (errors.Unreachable if where else errors.ConnectionLost)(f"{prefix}{error or 'the connection was lost'}")
    return None
