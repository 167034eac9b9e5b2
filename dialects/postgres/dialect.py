"""PostgreSQL 13 and later.

https://www.postgresql.org/docs/current/functions.html
"""

from __future__ import annotations

import dataclasses
import os
import re
from typing import Any, ClassVar

from dialects import errors, extras, versions
from dialects.addresses import Addresses
from dialects.base import Catalogue, Dialect, Server, Session
from dialects.kinds import UTF8_BYTES, Kind
from dialects.nested import nested_kind
from dialects.oldest_versions import OldestVersion
from dialects.pooler import Probe, refuse_lent_sessions
from dialects.postgres import settings
from dialects.postgres.catalogue import PostgresCatalogue
from dialects.postgres.errors import translate_error
from dialects.postgres.expressions import (
    PostgresCanonical,
    PostgresHashes,
    PostgresNames,
    PostgresNumbers,
    PostgresText,
    PostgresTimes,
)
from dialects.postgres.login import PostgresAddresses, describe_encryption, libpq_options
from dialects.postgres.server import PostgresServer
from dialects.postgres.session import PostgresSession
from dialects.postgres.writing import PostgresWriting
from dialects.session import Driver
from dialects.table_form import TableForm
from dialects.types import Types
from dialects.url import Url

ORDERED_JSON, PRINTED_JSON = Kind("json", form="ordered"), Kind("json", form="printed")

LABEL_BYTES = 63
"""The most bytes of an enum's label. https://www.postgresql.org/docs/current/datatype-enum.html"""

APPLICATION_NAME = "auditor"
"""application_name of the auditor's sessions; ``active_sessions`` in sql_templates/postgres/server_load.sql excludes them by this name."""

OLDEST = OldestVersion("PostgreSQL", "13", "all that is tested; older ones are no longer maintained")

PROBE = Probe(
    mark=f"SET {settings.MARK} TO '{{mark}}'",
    ask=f"SELECT pg_backend_pid(), current_setting('{settings.MARK}', true)",
    suggestion="or to a pool with pool_mode = session",
)


class PostgresTypes(Types):
    """The types of PostgreSQL."""

    ORDERS_UUIDS = True

    MAX_DECIMAL_DIGITS = 1000
    UNSUPPORTED_VALUES = {"NUL in text": "text refuses the character U+0000"}

    KIND_BY_TYPE = {
        "boolean": Kind("boolean"), "smallint": Kind("integer"), "integer": Kind("integer"), "bigint": Kind("integer"),
        "numeric": Kind("decimal"), "real": Kind("float32"), "double precision": Kind("float64"),
        "text": Kind("text"), "character varying": Kind("text"), "citext": Kind("text"), "character": Kind("char", 1),
        "bpchar": Kind("char"), "bytea": Kind("binary"), "date": Kind("date"), "interval": Kind("interval"),
        "time": Kind("time"), "time without time zone": Kind("time"),
        "timestamp": Kind("timestamp"), "timestamp without time zone": Kind("timestamp"),
        "timestamp with time zone": Kind("timestamptz"),
        "uuid": Kind("uuid"), "json": ORDERED_JSON, "jsonb": PRINTED_JSON, "bit": Kind("bit", 1), "bit varying": Kind("bit"),
        "inet": Kind("network"), "cidr": Kind("network"), "macaddr": Kind("network"), "macaddr8": Kind("network"),
    }  # fmt: skip

    TYPE_BY_KIND = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "NUMERIC(20,0)", "decimal": "NUMERIC({digits},{scale})",
        "float32": "REAL", "float64": "DOUBLE PRECISION", "text": "TEXT", "char": "CHARACTER({digits})", "json": "JSONB",
        "enum": "TEXT", "set": "TEXT", "binary": "BYTEA", "bit": "BIT({digits})", "year": "SMALLINT", "date": "DATE",
        "time": "TIME({scale})", "timestamp": "TIMESTAMP({scale})", "timestamptz": "TIMESTAMP({scale}) WITH TIME ZONE",
        "uuid": "UUID", "interval": "INTERVAL", "network": "INET",
    }  # fmt: skip

    def __init__(self, engine: str, *, is_utf8: bool = True) -> None:
        super().__init__(engine)
        self.is_utf8 = is_utf8
        """Whether the database stores its text in UTF-8, and not in another encoding, or as bytes (SQL_ASCII)."""

    def kind(self, native: str) -> Kind | None:
        # sql_templates/postgres/catalogue.sql writes "price domain of numeric(10,2)", "mood enum", "mood[] enum", "address struct<...>".
        native = native.rpartition(" domain of ")[2]
        if native.endswith(" enum"):
            return Kind("nested", members=(("", Kind("enum")),)) if native.endswith("[] enum") else Kind("enum", bytes=LABEL_BYTES)
        if native.endswith(("]", ">")):
            return nested_kind(native[native.find(" struct<") + 1 :], self.kind)
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
        kind, length = super().kind(native), re.fullmatch(r"character varying\((\d+)\)", native)
        if kind is None or kind.name not in ("text", "char"):
            return kind
        most = UTF8_BYTES * int(length[1]) if length else None
        return dataclasses.replace(kind, utf8=self.is_utf8, bytes=most)


class Postgres(Dialect):
    """PostgreSQL."""

    name = "postgres"
    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres", "postgresql+psycopg2")
    sqlglot_dialect = "postgres"
    TEMPLATES = "sql_templates.postgres"
    DRIVERS = {"psycopg2": "psycopg2-binary"}

    OPTIMIZER_BARRIER = "OFFSET '0'"
    """The planner pulls up a subquery and then computes its columns once per use; OFFSET prevents that. A literal of no type becomes a
    constant at once, by which the planner sees that no row is skipped, so that workers may read the subquery in parallel.
    https://www.postgresql.org/docs/current/queries-limit.html, is_simple_subquery() in prepjointree.c, limit_needed() in planner.c"""
    HAS_LATERAL = True
    TAKES_SEVERAL_STATEMENTS = True

    PARALLEL_WORKERS = "SET max_parallel_workers_per_gather TO {workers}"

    BEGIN_SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    END_SNAPSHOT = ("COMMIT",)
    EXPORTS_SNAPSHOT = True
    READ_CONSISTENCY = "all statements read one MVCC snapshot"

    TABLE_FORM = TableForm(type_by_kind={"json": "JSON"})
    """JSONB writes numbers in its own way: 1e20 as 100000000000000000000. https://www.postgresql.org/docs/current/datatype-json.html"""

    addresses: Addresses = PostgresAddresses(name)
    catalogue: Catalogue = PostgresCatalogue()
    server: Server = PostgresServer()
    writing: PostgresWriting = PostgresWriting(name)

    def __init__(self, encoding: str = "UTF8", *, merges_at_once: bool = True) -> None:
        is_utf8 = encoding == "UTF8"
        self.names = PostgresNames()
        self.text = PostgresText(self.names, is_utf8=is_utf8)
        self.numbers = PostgresNumbers(self.text, is_utf8=is_utf8)
        self.times = PostgresTimes(self.numbers)
        self.canonical = PostgresCanonical(self.times)
        self.hashes = PostgresHashes(self.canonical, is_utf8=is_utf8)
        self.types = PostgresTypes(self.name, is_utf8=is_utf8)
        self.writing = PostgresWriting(self.name, merges_at_once=merges_at_once)

    def for_database(self, encoding: str, version: int) -> Postgres:
        """Return this dialect adapted to a database of that encoding, and to a server of that version (150004 is 15.4)."""
        return type(self)(encoding, merges_at_once=version >= 150_000)

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        return settings.statements(statement_timeout, lock_timeout)

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        extras.require("PostgreSQL", "postgres")
        import psycopg2

        options = libpq_options(url)
        # Sent with the login. Otherwise the driver asks for this style afterwards, and nothing bounds its wait for the answer.
        os.environ.setdefault("PGDATESTYLE", "ISO")

        def log_in() -> Any:
            # UTF8 outranks PGCLIENTENCODING and settings of the role, and determines how the driver decodes.
            connection = psycopg2.connect(**options, application_name=APPLICATION_NAME, client_encoding="UTF8")
            connection.autocommit = True
            return connection

        driver = Driver(str(url), url.patience, log_in, lambda connection: int(connection.fileno()), translate_error)
        connection = driver.connect()
        dialect = self.for_database(connection.info.parameter_status("server_encoding") or "UTF8", connection.info.server_version)
        session = PostgresSession(dialect, f"PostgreSQL {connection.info.server_version // 10000}", connection, driver)
        session.reached = describe_encryption(connection)
        with session.closed_on_error():
            try:
                OLDEST.check(connection.info.parameter_status("server_version") or "", str(url))
            except errors.ServerTooOld as error:  # by the version that it takes itself for
                recognised = versions.recognise(self.name, {"version": str(session.query("SELECT version()")[0][0])})
                versions.refuse(str(url), recognised)
                raise versions.name_old(error, str(url), recognised) from None
            session.read_process_id()
            versions.refuse(str(url), session.variants)
            with session.waiting():
                refuse_lent_sessions(connection, connection.info.backend_pid, session.process_id, PROBE, driver, session.mark)
            with versions.naming(session.variants):
                session.pin(statement_timeout, lock_timeout)
        session.wait_for_statements(statement_timeout)
        return session
