"""Amazon Redshift, through Amazon's own driver.

https://docs.aws.amazon.com/redshift/latest/dg/c_SQL_functions.html
https://docs.aws.amazon.com/redshift/latest/dg/c_redshift-and-postgres-sql.html

Redshift is derived from PostgreSQL 8.0.2: whatever is not stated here is as in PostgreSQL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dialects import extras
from dialects.base import Session
from dialects.kinds import Kind, parse_native
from dialects.postgres.dialect import APPLICATION_NAME, Postgres, PostgresTypes
from dialects.redshift import facts
from dialects.redshift.catalogue import RedshiftCatalogue
from dialects.redshift.driver import close_sockets_of_failed_login, socket_of
from dialects.redshift.expressions import (
    RedshiftCanonical,
    RedshiftHashes,
    RedshiftNames,
    RedshiftNumbers,
    RedshiftText,
    RedshiftTimes,
)
from dialects.redshift.login import RedshiftAddresses, check_options, sign_in_options
from dialects.redshift.server import RedshiftServer
from dialects.redshift.session import DATE_STYLE, RedshiftSession, translate_error
from dialects.redshift.unload import unloading
from dialects.redshift.writing import TABLE_FORM, RedshiftWriting
from dialects.session import Driver
from dialects.url import Url
from dialects.wire import describe_encryption


class RedshiftTypes(PostgresTypes):
    """The types of Redshift."""

    MAX_DECIMAL_DIGITS = 38

    UNTRIED_VALUES = {"nan": "the manual does not say how NaN and infinities are written"}
    UNSUPPORTED_VALUES = {
        "NUL in text": "text ends at, or refuses, the character U+0000",
        "interval": "EXTRACT of an INTERVAL column is not documented for all parts",
        "uuid": "there is no uuid type; use VARCHAR(36)",
        "bit": "there is no bit type",
    }

    KIND_BY_TYPE = {
        "boolean": Kind("boolean"), "smallint": Kind("integer"), "integer": Kind("integer"), "bigint": Kind("integer"),
        "numeric": Kind("decimal", 18, 0), "real": Kind("float32"), "double precision": Kind("float64"),
        "character varying": Kind("text"), "text": Kind("text"), "character": Kind("char", 1), "bpchar": Kind("char"),
        "binary varying": Kind("binary"), "varbyte": Kind("binary"), "bytea": Kind("binary"),
        "date": Kind("date"), "time": Kind("time"), "time without time zone": Kind("time"),
        "timestamp": Kind("timestamp"), "timestamp without time zone": Kind("timestamp"),
        "timestamp with time zone": Kind("timestamptz"), "super": Kind("json"), "jsonb": Kind("json"),
        # as the catalogue spells types of external tables and datashares
        "bool": Kind("boolean"), "int": Kind("integer"), "tinyint": Kind("integer"), "int2": Kind("integer"), "int4": Kind("integer"),
        "int8": Kind("integer"), "decimal": Kind("decimal", 18, 0), "float": Kind("float32"), "float4": Kind("float32"),
        "double": Kind("float64"), "float8": Kind("float64"), "string": Kind("text"), "varchar": Kind("text"), "char": Kind("char", 1),
        "varbinary": Kind("binary"), "timestamptz": Kind("timestamptz"),
    }  # fmt: skip
    """BYTEA and JSONB exist only in the tests, where PostgreSQL stands in for Redshift. A FLOAT of an external table has 4 bytes.
    https://docs.aws.amazon.com/redshift/latest/dg/r_CREATE_EXTERNAL_TABLE.html"""

    TYPE_BY_KIND = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "DECIMAL(20,0)", "decimal": "DECIMAL({digits},{scale})",
        "float32": "REAL", "float64": "DOUBLE PRECISION", "text": "VARCHAR(65535)", "char": "CHAR({digits})", "json": "SUPER",
        "enum": "VARCHAR(256)", "set": "VARCHAR(256)", "binary": "VARBYTE", "year": "SMALLINT", "date": "DATE",
        "time": "TIME", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "VARCHAR(36)",
        "network": "VARCHAR(43)",
    }  # fmt: skip

    def typed_value(self, value: str, kind: Kind) -> str:
        # A cast of text to SUPER is one string, whatever it holds. https://docs.aws.amazon.com/redshift/latest/dg/JSON_PARSE.html
        return f"JSON_PARSE({value})" if kind.name == "json" and value != "NULL" else super().typed_value(value, kind)

    def value_of_text(self, text: str, kind: Kind) -> str:
        # A cast to VARBYTE takes the bytes of a text. https://docs.aws.amazon.com/redshift/latest/dg/r_TO_VARBYTE.html
        return f"TO_VARBYTE({text}, 'hex')" if kind.name == "binary" else super().value_of_text(text, kind)

    def document(self, literal: str) -> str:
        return f"JSON_PARSE({literal})"

    def kind(self, native: str) -> Kind | None:
        if native.startswith("interval") or native.endswith(("]", ">")):
            return None
        kind, parsed = super().kind(native), parse_native(native)
        if kind is None or parsed is None or kind.name not in ("text", "char", "binary"):
            return kind
        # Lengths are of bytes; that of a binary column says nothing of its values' width, as that of a BINARY(16) elsewhere does.
        stated = parsed.number(0, 0) or None
        return replace(kind, bytes=stated, digits=None if kind.name == "binary" else kind.digits)


class Redshift(Postgres):
    """Amazon Redshift."""

    name = "redshift"
    schemes = ("redshift", "redshift+redshift_connector", "redshift+psycopg2")
    sqlglot_dialect = "redshift"
    TABLE_FORM = TABLE_FORM
    addresses = RedshiftAddresses(name)
    catalogue = RedshiftCatalogue()
    server = RedshiftServer()
    TEMPLATES = "sql_templates.redshift"
    DRIVERS = {"redshift_connector": "redshift-connector"}

    UNAVAILABLE_TEMPLATES = frozenset(
        {
            "active_sessions",
            "aurora",
            "aurora_lag",
            "catalogue_version",
            "heartbeat_create",
            "heartbeat_write",
            "indexes",
            "lag",
            "result_collations",
            "result_types",
        }
    )
    ROW_STORE = False
    TAKES_SEVERAL_STATEMENTS = False  # the driver prepares each

    OPTIMIZER_BARRIER = ""
    PARALLEL_WORKERS = ""  # its slices always work in parallel
    OPTIMIZER_BARRIER_COLUMN = "RANDOM()"
    """A hope, not a promise: a volatile column keeps a planner derived from PostgreSQL's from merging the subquery, and the manual offers
    no hint that does, except that LIMIT and OFFSET would send all rows to the leader node. If it does not help, a row is hashed once for
    each sum, which costs time and changes no result. https://docs.aws.amazon.com/redshift/latest/dg/r_RANDOM.html"""

    BEGIN_SNAPSHOT = ("BEGIN READ ONLY",)
    EXPORTS_SNAPSHOT = False
    READ_CONSISTENCY = "all statements read the snapshot of the transaction's first one (serializable or snapshot isolation)"
    FACTS = facts.FACTS
    LINE_SETTINGS = ("SET extra_float_digits TO 2",)
    """By default a float is written with 15 digits. https://docs.aws.amazon.com/redshift/latest/dg/r_extra_float_digits.html"""

    def __init__(self) -> None:
        super().__init__()
        self.names = RedshiftNames()
        self.text = RedshiftText(self.names)
        self.numbers = RedshiftNumbers(self.text)
        self.times = RedshiftTimes(self.numbers)
        self.canonical = RedshiftCanonical(self.times)
        self.hashes = RedshiftHashes(self.canonical)
        self.types = RedshiftTypes(self.name)
        self.writing = RedshiftWriting(self.name)

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # No parameter limits the wait for a lock; statement_timeout includes that wait.
        # https://docs.aws.amazon.com/redshift/latest/dg/cm_chap_ConfigurationRef.html
        return [
            "SET timezone TO 'UTC'",
            f"SET datestyle TO '{DATE_STYLE}'",
            # Else quoted names are folded: https://docs.aws.amazon.com/redshift/latest/dg/r_enable_case_sensitive_identifier.html
            "SET enable_case_sensitive_identifier TO true",
            f"SET statement_timeout TO {max(1, round(statement_timeout * 1000))}",
        ]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        extras.require("Redshift", "redshift")
        import redshift_connector

        check_options(url)
        patience = url.patience

        def log_in() -> Any:
            try:
                connection = redshift_connector.connect(timeout=patience, **sign_in_options(url, APPLICATION_NAME))
            except Exception as error:
                close_sockets_of_failed_login(error)
                raise
            connection.autocommit = True
            socket_of(connection).settimeout(
                None
            )  # the driver would apply its connect timeout to every statement; the session bounds those
            return connection

        driver = Driver(str(url), patience, log_in, lambda connection: int(socket_of(connection).fileno()), translate_error)
        unloaded = unloading(url)
        session = RedshiftSession(self, "Amazon Redshift", driver.connect(), driver)
        session.unloading, session.reached = unloaded, describe_encryption(socket_of(session.connection))
        with session.closed_on_error():
            session.pin(statement_timeout, lock_timeout)
            if group := url.options.get("query_group"):  # https://docs.aws.amazon.com/redshift/latest/dg/r_query_group.html
                session.execute(f"SET query_group TO {self.names.string_literal(group)}")
            session.read_process_id()
        session.wait_for_statements(statement_timeout)
        return session
