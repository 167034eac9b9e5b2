"""Spark SQL 4: tables of a catalogue, and Parquet, CSV, Delta and Iceberg by path, in this process or by Spark Connect.

https://spark.apache.org/docs/latest/api/sql/
https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select.html
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dialects import errors, extras, nested
from dialects.base import Dialect, Session
from dialects.catalogue import HashAlgorithm
from dialects.floors import Floor
from dialects.kinds import Kind
from dialects.spark import connect, driver, java, settings
from dialects.spark.catalogue import SparkCatalogue
from dialects.spark.login import SparkAddresses
from dialects.spark.session import SparkSession, first_line, translate_error
from dialects.table_form import TableForm
from dialects.time_text import BC, MICROSECOND
from dialects.url import Url

INTEGER = Kind("integer")


FLOOR = Floor("Spark", "4.0", "COLLATE, VARIANT and results read as Arrow tables")


class Spark(Dialect):
    """Spark SQL."""

    name = "spark"
    schemes = ("spark", "sc")
    sqlglot_dialect = "spark"
    TEMPLATES = "sql_templates.spark"
    DRIVERS = {"pyspark": "pyspark"}
    TABLES_ARE_FILES = True
    addresses = SparkAddresses(name)
    catalogue = SparkCatalogue()

    ROW_STORE = False
    FINDS_KEY_RANGES = False  # files are rarely in the order of the key, and each statement is a job that lists, plans and opens them
    READ_CONSISTENCY = (
        "all statements read one version of a Delta or Iceberg table, and of others the files that exist when each is planned"
    )
    UTC_NOW = "CURRENT_TIMESTAMP()"
    UNSUPPORTED_VALUES = {
        "uuid": "there is no uuid type; use STRING",
        "bit": "there is no bit type",
        "time": "TIME cannot be read from every file format yet",
        "interval": "a column has either months or seconds, never both",
    }

    KIND_BY_TYPE = {
        "boolean": Kind("boolean"), "tinyint": INTEGER, "smallint": INTEGER, "int": INTEGER, "bigint": INTEGER,
        "decimal": Kind("decimal", 10, 0), "float": Kind("float32"), "double": Kind("float64"), "string": Kind("text"),
        "varchar": Kind("text"), "char": Kind("char"), "binary": Kind("binary"), "date": Kind("date"),
        "timestamp": Kind("timestamptz"), "timestamp_ntz": Kind("timestamp"), "time": Kind("time"), "variant": Kind("json"),
    }  # fmt: skip

    TYPE_BY_KIND = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "DECIMAL(20,0)", "decimal": "DECIMAL({digits},{scale})",
        "float32": "FLOAT", "float64": "DOUBLE", "text": "STRING", "char": "CHAR({digits})", "json": "STRING", "enum": "STRING",
        "set": "STRING", "binary": "BINARY", "year": "SMALLINT", "date": "DATE", "timestamp": "TIMESTAMP_NTZ",
        "timestamptz": "TIMESTAMP", "uuid": "STRING", "network": "STRING",
    }  # fmt: skip

    TABLE_FORM = TableForm(inline_comments=True, backslash_escapes=True, primary_key="", change=(), change_null="")

    CAST_TYPE_BY_KIND = {"char": "STRING"}
    """A cast to CHAR is refused. https://spark.apache.org/docs/latest/sql-ref-datatypes.html"""

    def temporary_table(self, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[str]]) -> list[str]:
        # There are temporary views only. A cached one is read as a table is; of mere values, Spark computes the results while it plans.
        # https://spark.apache.org/docs/latest/sql-ref-syntax-aux-cache-cache-table.html
        return [f"CACHE TABLE {name} AS SELECT * FROM {self.values_table('made', columns, rows)}"]

    def values_table(self, name: str, columns: Sequence[tuple[str, Kind]], rows: Sequence[Sequence[str]]) -> str:
        # One relation; of a UNION ALL every row would be a partition. https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select-inline-table.html
        cells = [[self.typed_value(value, kind) for (_, kind), value in zip(columns, row, strict=True)] for row in rows]
        values = ", ".join(f"({', '.join(row)})" for row in cells)
        return f"(SELECT * FROM VALUES {values} AS made({', '.join(column for column, _ in columns)})) {name}"

    def drop_temporary_table(self, name: str) -> list[str]:
        return [f"UNCACHE TABLE IF EXISTS {name}", f"DROP VIEW {name}"]

    def quote(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def string_literal(self, value: str) -> str:
        # "${" would start a variable substitution, even in a literal.
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"

    def binary_literal(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    def kind(self, native: str) -> Kind | None:
        if native.startswith("interval"):
            return Kind("interval", scale=0 if "month" in native or "year" in native else 6)
        if native.startswith(("array<", "struct<")):
            return nested.nested_kind(native, self.kind)
        return super().kind(re.sub(r" collate .*", "", native))

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS STRING)"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        return self.as_text(f"CAST({c} AS DECIMAL(38,{scale}))")

    def as_double(self, c: str) -> str:
        return f"CAST({c} AS DOUBLE)"

    def as_single(self, c: str) -> str:
        return f"CAST({c} AS FLOAT)"

    def double_literal(self, value: str) -> str:
        return f"CAST('{value}' AS DOUBLE)"

    def hex_text(self, c: str) -> str:
        return f"LOWER(HEX({c}))"

    def date_text(self, c: str) -> str:
        return self._with_era(c, f"DATE_FORMAT({c}, '-MM-dd')", self.as_text(c))

    def time_text(self, c: str) -> str:
        return f"DATE_FORMAT({c}, 'HH:mm:ss.SSSSSS')"

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        return f"FROM_UTC_TIMESTAMP({c}, {self.string_literal(zone)})"

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        is_cut = digits is not None and digits < 6
        pattern = "-MM-dd HH:mm:ss" + ("." + "S" * (digits or 0) if digits and is_cut else "" if is_cut else ".SSSSSS")
        after_year, whole = f"DATE_FORMAT({c}, '{pattern}')", f"DATE_FORMAT({c}, 'yyyy{pattern}')"
        if digits != 0:
            after_year, whole = self.trim_zeros(after_year), self.trim_zeros(whole)
        return self._with_era(c, after_year, whole if is_cut else self.as_text(c))  # a cast is faster, and prints no zeros at the end

    def _with_era(self, c: str, after_year: str, whole: str) -> str:
        """The text of a date or timestamp. Spark's years are signed: 0 is 1 BC, and those beyond 9999 have a plus."""
        early = f"CONCAT(LPAD(CAST(1 - YEAR({c}) AS STRING), 4, '0'), {after_year}, '{BC}')"
        return f"CASE WHEN YEAR({c}) < 1 THEN {early} ELSE TRIM(LEADING '+' FROM {whole}) END"

    def is_common_era(self, c: str) -> str:
        return f"YEAR({c}) >= 1"

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        if native.name == "time":
            return f"({c} + INTERVAL '{nanoseconds / 1e9:.6f}' SECOND)"
        return f"TIMESTAMPADD(MICROSECOND, {nanoseconds // MICROSECOND}, {c})"

    def interval_text(self, c: str, native: Kind) -> str:
        if native.scale == 0:
            months = self.as_text(f"EXTRACT(YEAR FROM {c}) * 12 + EXTRACT(MONTH FROM {c})")
            return self.concat([months, "'m0d0us'"])
        micros = f"EXTRACT(HOUR FROM {c}) * 3600000000 + EXTRACT(MINUTE FROM {c}) * 60000000 + EXTRACT(SECOND FROM {c}) * 1000000"
        days = self.as_text(f"EXTRACT(DAY FROM {c})")
        return self.concat(["'0m'", days, "'d'", self.as_text(self.as_bigint(micros)), "'us'"])

    def json_text(self, c: str, native: Kind) -> str:
        if native.name == "json":
            return f"TO_JSON({c})"
        if native.name == "nested":
            json = f"TO_JSON({self._in_key_order(c, native)}, MAP('ignoreNullFields', 'false'))"
            return nested.with_small_digits(json, self.replace)
        return rf"""REGEXP_REPLACE({c}, '("(?:[^"\\\\]|\\\\.)*+")|\\s+', '$1')"""

    def trim_zeros(self, c: str) -> str:
        return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {c}))"

    def _in_key_order(self, c: str, native: Kind, depth: int = 0) -> str:
        """An array or struct with the fields of every struct in the order of a JSON document's keys."""
        if not nested.has_struct(native):
            return c
        if not native.members[0][0]:
            x = f"x{depth}"
            return f"TRANSFORM({c}, {x} -> {self._in_key_order(x, native.members[0][1], depth + 1)})"
        fields = [
            f"{self.string_literal(name)}, {self._in_key_order(f'{c}.{self.quote(name)}', kind, depth)}"
            for name, kind in nested.in_key_order(native)
        ]
        return f"CASE WHEN {c} IS NOT NULL THEN NAMED_STRUCT({', '.join(fields)}) END"

    def trim_right(self, c: str) -> str:
        return f"TRIM(TRAILING ' ' FROM {c})"

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"

    def utf8(self, text: str) -> str:
        return f"ENCODE({text}, 'UTF-8')"

    def concat(self, parts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def word(self, digits: str, first: int, count: int) -> str:
        return f"CAST(CONV(SUBSTR({digits}, {first}, {count}), 16, 10) AS BIGINT)"

    def is_hexadecimal(self, digits: str) -> str:
        return f"{digits} RLIKE '^[0-9a-fA-F]+$'"

    def shift_right(self, c: str, bits: int) -> str:
        return f"SHIFTRIGHT({c}, {bits})"

    def number_sum(self, c: str, native: Kind) -> str:
        # Spark's sum of integers is a 64-bit integer, which could overflow.
        return f"SUM(CAST({c} AS DECIMAL(20,0)))" if native.name in ("integer", "year") else f"SUM({c})"

    def characters(self, c: str) -> str:
        return self.bytewise(c)  # texts of two collations do not combine

    def bytewise(self, c: str) -> str:
        return f"({c} COLLATE UTF8_BINARY)"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        return f"({c} DIV {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END)"  # DIV yields BIGINT

    def day_index(self, c: str) -> str:
        return f"DATEDIFF({c}, DATE'1970-01-01')"

    def seconds_since(self, c: str) -> str:
        return f"(UNIX_MICROS(CURRENT_TIMESTAMP()) - UNIX_MICROS(CAST({c} AS TIMESTAMP))) / 1000000"

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # Readers never wait for locks: they read the files of the table's current version.
        return [
            "SET TIME ZONE 'UTC'",
            "SET spark.sql.ansi.enabled = true",
            "SET spark.sql.variable.substitute = false",
            "SET spark.sql.timeType.enabled = true",
            "SET spark.sql.legacy.timeParserPolicy = CORRECTED",
        ]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        extras.require(*("Spark Connect", "connect") if url.scheme == "sc" else ("Spark", "spark"))
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession as Driver

        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)  # otherwise each error is printed as JSON on standard error
        if url.scheme == "sc":
            return connect.connect(self, url, statement_timeout, lock_timeout, FLOOR)
        url.refuse_unknown(("master",), lambda name: name.startswith("spark."), "settings of Spark begin with spark.")
        _set_up_java()
        options = {name: value for name, value in url.options.items() if name != "master"}
        builder: Any = Driver.builder.master(url.option("master", "local[*]")).appName("auditor")
        for option, value in {**_LOCAL_DEFAULTS, **options}.items():
            builder = builder.config(option, value)
        try:
            with _STARTING:
                is_started = not driver.is_running()
                spark = builder.getOrCreate().newSession()
                settings.take(str(url), spark, options, is_started=is_started)
        except errors.AuditorError:
            raise
        except Exception as error:  # of Python or of Java
            known = translate_error(error)
            raise known if isinstance(known, errors.JarsDoNotFit) else errors.Unreachable(f"{url}: {first_line(error)}") from error
        FLOOR.check(spark.version, str(url))
        session = SparkSession(self, f"Spark {spark.version}", spark, statement_timeout)
        session.pin(statement_timeout, lock_timeout)
        if url.database:
            session.execute(f"USE {self.quote(url.database)}")
        session.statements = 0
        return session


_STARTING = threading.Lock()
"""Held while Spark is started in this process, or found there."""

_LOCAL_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a Spark in this process that the URL's options override; it listens on the loopback interface only."""


def _set_up_java() -> None:
    """Set the environment of a Spark in this process: a Java runtime, and this Python, as the one on PATH may not have the packages."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "auditor"
    os.environ["JAVA_HOME"] = str(java.find_java_home(cache)[0])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
