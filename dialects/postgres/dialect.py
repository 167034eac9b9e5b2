"""PostgreSQL 13 and later.

https://www.postgresql.org/docs/current/functions.html
"""

from __future__ import annotations

import copy
import dataclasses
import os
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from dialects import errors, extras, versions
from dialects.addresses import Addresses
from dialects.base import Catalogue, Server, Session
from dialects.floors import Floor
from dialects.kinds import UTF8_BYTES, Kind
from dialects.nested import nested_kind
from dialects.pooler import Probe, refuse_lent_sessions
from dialects.postgres import settings
from dialects.postgres.catalogue import PostgresCatalogue
from dialects.postgres.errors import translate_error
from dialects.postgres.hashes import PostgresHashes
from dialects.postgres.login import PostgresAddresses, describe_encryption, libpq_options
from dialects.postgres.server import PostgresServer
from dialects.postgres.session import PostgresSession
from dialects.postgres.writing import PostgresWriting
from dialects.session import Driver
from dialects.table_form import TableForm
from dialects.time_text import MICROSECOND
from dialects.url import Url

ORDERED_JSON, PRINTED_JSON = Kind("json", form="ordered"), Kind("json", form="printed")

NO_JSONB = r"\\u(0000|d[89a-f])|[0-9]{255}|[0-9]e[+-]?[0-9]{4}"
"""What a document of JSON holds, in any case of letters, that JSONB may refuse. https://www.postgresql.org/docs/current/datatype-json.html"""

WHOLE_UNITS = {0: "second", 3: "milliseconds"}
"""The unit of DATE_TRUNC that keeps so many digits of the seconds."""

LABEL_BYTES = 63
"""The most bytes of an enum's label. https://www.postgresql.org/docs/current/datatype-enum.html"""

APPLICATION_NAME = "auditor"
"""application_name of the auditor's sessions; ``active_sessions`` in sql_templates/postgres/load.sql excludes them by this name."""

FLOOR = Floor("PostgreSQL", "13", "all that is tested; older ones are no longer maintained")

PROBE = Probe(
    mark=f"SET {settings.MARK} TO '{{mark}}'",
    ask=f"SELECT pg_backend_pid(), current_setting('{settings.MARK}', true)",
    suggestion="or to a pool with pool_mode = session",
)


class Postgres(PostgresHashes):
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
    ORDERS_UUIDS = True
    TAKES_SEVERAL_STATEMENTS = True
    MAX_JOINED_BYTES: int = 1 << 26
    """Of STRING_AGG, whose result has at most 1 GB. https://www.postgresql.org/docs/current/functions-aggregate.html"""

    PARALLEL_WORKERS = "SET max_parallel_workers_per_gather TO {workers}"

    BEGIN_SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    END_SNAPSHOT = ("COMMIT",)
    EXPORTS_SNAPSHOT = True
    READ_CONSISTENCY = "all statements read one MVCC snapshot"
    UTC_NOW = "(CURRENT_TIMESTAMP AT TIME ZONE 'UTC')"
    TIME_ROUNDING = "half from 2000"
    """AdjustTimestampForTypmod() in timestamp.c rounds the microseconds since 2000-01-01; a half goes away from zero."""

    TABLE_FORM = TableForm(type_by_kind={"json": "JSON"})
    """JSONB writes numbers in its own way: 1e20 as 100000000000000000000. https://www.postgresql.org/docs/current/datatype-json.html"""

    addresses: Addresses = PostgresAddresses(name)
    catalogue: Catalogue = PostgresCatalogue()
    server: Server = PostgresServer()
    writing: PostgresWriting = PostgresWriting(name)

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

    def for_database(self, encoding: str, version: int) -> Postgres:
        """Return this dialect adapted to a database of that encoding, and to a server of that version (150004 is 15.4)."""
        adapted = copy.copy(self)
        adapted.writing = PostgresWriting(self.name, merges_at_once=version >= 150_000)
        adapted.database_encoding = encoding
        adapted.MAX_JOINED_BYTES = self.MAX_JOINED_BYTES if encoding == "UTF8" else 0
        return adapted

    def quote(self, identifier: str) -> str:
        return '"' + identifier.replace('"', '""') + '"'

    def string_literal(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def binary_literal(self, value: bytes) -> str:
        return f"DECODE('{value.hex()}', 'hex')"

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
        return dataclasses.replace(kind, utf8=self.database_encoding == "UTF8", bytes=most)

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS TEXT)"

    def as_number(self, c: str, native: Kind) -> str:
        if native.name != "bit":
            return c
        if native.digits is not None and native.digits < 64:
            return f"CAST({c} AS BIGINT)"
        # A cast would make 2^63 and more negative, and there is none of BIT VARYING. No integer of any engine is 2^64 or more.
        padded, bits = f"(B'{'0' * 64}' || {c})", f"LENGTH({c})"
        high, low = (f"CAST(CAST(SUBSTRING({padded} FROM {bits} + {first} FOR 32) AS BIT(32)) AS BIGINT)" for first in (1, 33))
        beyond = f"CASE WHEN POSITION(B'1' IN {c}) BETWEEN 1 AND {bits} - 64 THEN {1 << 64} ELSE 0 END"
        return f"({high} * CAST({1 << 32} AS NUMERIC) + {low} + {beyond})"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        has_scale = native.name == "decimal" and native.digits is not None and native.scale == scale
        return self.as_text(c if has_scale else f"ROUND(CAST({c} AS NUMERIC), {scale})")

    def full_decimal_text(self, c: str, native: Kind) -> str:
        return self.as_text(f"TRIM_SCALE({c})") if native.name == "decimal" else super().full_decimal_text(c, native)

    def as_double(self, c: str) -> str:
        return f"CAST({c} AS DOUBLE PRECISION)"

    def as_single(self, c: str) -> str:
        return f"CAST({c} AS REAL)"

    def double_literal(self, value: str) -> str:
        return f"CAST('{value}' AS DOUBLE PRECISION)"

    def log2(self, c: str) -> str:
        return f"(LN({c}) / LN({self.double_literal('2')}))"

    def hex_text(self, c: str) -> str:
        return f"ENCODE({c}, 'hex')"

    def date_text(self, c: str) -> str:
        # With DateStyle ISO; unlike TO_CHAR, a cast also shows infinities and years before Christ.
        return f"CAST({c} AS TEXT)"

    def time_text(self, c: str) -> str:
        return f"TO_CHAR({c}, 'HH24:MI:SS.US')"

    def short_time_text(self, c: str, native: Kind) -> str:
        return f"CAST({c} AS TEXT)"

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        # Unlike TO_CHAR, which takes three times as long, a cast also shows infinities and years before Christ.
        at = f"({c} AT TIME ZONE 'UTC')" if native.name == "timestamptz" else c
        if digits is not None and digits < (6 if native.scale is None else native.scale):
            at = self._cut_time(at, digits)
        return f"CAST({at} AS TEXT)"

    def _cut_time(self, c: str, digits: int) -> str:
        """A timestamp without its digits beyond so many; a cast to a coarser type would round."""
        if digits in WHOLE_UNITS:
            return f"DATE_TRUNC('{WHOLE_UNITS[digits]}', {c})"
        rest = f"CAST(EXTRACT(MICROSECONDS FROM {c}) AS BIGINT) % {10 ** (6 - digits)}"
        return f"COALESCE({c} - {rest} * INTERVAL '1 microsecond', {c})"  # an infinity has no microseconds

    def is_common_era(self, c: str) -> str:
        return f"{c} >= '0001-01-01' AND {c} < 'infinity'"

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        return f"({c} + INTERVAL '{nanoseconds // MICROSECOND} microseconds')"

    def cut_end(self, text: str, count: int) -> str:
        return f"LEFT({text}, -{count})"

    def interval_text(self, c: str, native: Kind) -> str:
        months = f"CAST(EXTRACT(YEAR FROM {c}) * 12 + EXTRACT(MONTH FROM {c}) AS BIGINT)"
        micros = f"EXTRACT(HOUR FROM {c}) * 3600000000 + EXTRACT(MINUTE FROM {c}) * 60000000 + EXTRACT(MICROSECONDS FROM {c})"
        days = f"CAST(EXTRACT(DAY FROM {c}) AS BIGINT)"
        return self.concat([months, "'m'", days, "'d'", f"CAST({micros} AS BIGINT)", "'us'"])

    def network_text(self, c: str) -> str:
        # FORMAT prints as a result would be; a cast adds the length of the prefix to an address, and FORMAT shows NULL as no characters.
        return f"CASE WHEN {c} IS NOT NULL THEN FORMAT('%s', {c}) END"

    def ordered_json(self, c: str, native: Kind) -> str:
        if native.form != "ordered":
            return c
        # JSONB refuses some documents that JSON holds: with U+0000, half a surrogate pair, or numbers of more than 131,072 digits.
        text = f"CAST({c} AS TEXT)"
        return f"CASE WHEN {text} ~* '{NO_JSONB}' THEN {text} ELSE CAST(CAST({c} AS JSONB) AS TEXT) END"

    def printed_json(self, c: str, native: Kind) -> str:
        return f"CAST({c} AS TEXT)"

    def json_text(self, c: str, native: Kind) -> str:
        if native.name == "nested":
            c = f"TO_JSONB({c})"
        # Keeps string tokens unchanged and removes whitespace between tokens.
        return rf"""REGEXP_REPLACE(CAST({c} AS TEXT), '("(?:[^"\\]|\\.)*")|\s+', '\1', 'g')"""

    def is_one_of(self, c: str, texts: Sequence[str], native_type: str = "") -> str:
        if self.database_encoding == "UTF8" or all(text.isascii() for text in texts):
            return super().is_one_of(c, texts, native_type)
        # The database's encoding may not have a character of a literal, which would be an error; no index serves bytes.
        known = ", ".join(self.binary_literal(text.encode()) for text in texts)
        return f"CONVERT_TO({self.characters(c)}, 'UTF8') IN ({known})"

    def characters(self, c: str) -> str:
        # REPLACE and LIKE refuse nondeterministic collations, and other comparisons would take some different texts for equal.
        return self.bytewise(f"CAST({c} AS TEXT)")

    def lower(self, c: str) -> str:
        # In the locale C, LOWER and UPPER change the letters A to Z alone. https://www.postgresql.org/docs/current/collation.html
        return f"LOWER({self.bytewise(c)})"

    def upper(self, c: str) -> str:
        return f"UPPER({self.bytewise(c)})"

    def bytewise(self, c: str) -> str:
        return f'({c} COLLATE "C")'

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        if native.name == "decimal":
            # Exact: the quotient of a multiple of the divisor has no digits to round.
            return f"CAST(({c} - MOD({c}, {divisor})) / {divisor} - CASE WHEN MOD({c}, {divisor}) < 0 THEN 1 ELSE 0 END AS BIGINT)"
        return self.as_bigint(f"{c} / {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END")

    def day_index(self, c: str) -> str:
        # Infinity has no day index: like NULL, it belongs to no partition.
        # https://www.postgresql.org/docs/18/functions-datetime.html
        return f"(CASE WHEN ISFINITE({c}) THEN CAST({c} AS DATE) - DATE '1970-01-01' END)"

    def year(self, c: str) -> str:
        # 1 BC is -1. https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-EXTRACT
        return f"(EXTRACT(YEAR FROM {c}) + CASE WHEN EXTRACT(YEAR FROM {c}) < 0 THEN 1 ELSE 0 END)"

    def seconds_since(self, c: str) -> str:
        return f"EXTRACT(EPOCH FROM CLOCK_TIMESTAMP() - {c})"

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
                FLOOR.check(connection.info.parameter_status("server_version") or "", str(url))
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
