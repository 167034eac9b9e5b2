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
from dialects.kinds import Kind
from dialects.oldest_versions import OldestVersion
from dialects.spark import connect, driver, java, settings
from dialects.spark.catalogue import SparkCatalogue
from dialects.spark.expressions import SparkCanonical, SparkHashes, SparkNames, SparkNumbers, SparkText, SparkTimes
from dialects.spark.login import SparkAddresses
from dialects.spark.server import SparkServer
from dialects.spark.session import SparkSession, first_line, translate_error
from dialects.table_form import TableForm
from dialects.types import Types
from dialects.url import Url

INTEGER = Kind("integer")


OLDEST = OldestVersion("Spark", "4.0", "COLLATE, VARIANT and results read as Arrow tables")


class SparkTypes(Types):
    """The types of Spark."""

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

    def kind(self, native: str) -> Kind | None:
        if native.startswith("interval"):
            return Kind("interval", scale=0 if "month" in native or "year" in native else 6)
        if native.startswith(("array<", "struct<")):
            return nested.nested_kind(native, self.kind)
        return super().kind(re.sub(r" collate .*", "", native))


class Spark(Dialect):
    """Spark SQL."""

    name = "spark"
    schemes = ("spark", "sc")
    sqlglot_dialect = "spark"
    TEMPLATES = "sql_templates.spark"
    DRIVERS = {"pyspark": "pyspark"}
    TABLES_ARE_FILES = True
    names = SparkNames()
    text = SparkText(names)
    numbers = SparkNumbers(text)
    times = SparkTimes(numbers)
    canonical = SparkCanonical(times)
    hashes = SparkHashes(canonical)
    types = SparkTypes(name)
    addresses = SparkAddresses(name)
    catalogue = SparkCatalogue()
    server = SparkServer()

    ROW_STORE = False
    FINDS_KEY_RANGES = False  # files are rarely in the order of the key, and each statement is a job that lists, plans and opens them
    READ_CONSISTENCY = (
        "all statements read one version of a Delta or Iceberg table, and of others the files that exist when each is planned"
    )

    TABLE_FORM = TableForm(inline_comments=True, backslash_escapes=True, primary_key="", change=(), change_null="")

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
            return connect.connect(self, url, statement_timeout, lock_timeout, OLDEST)
        url.refuse_unknown(("master",), lambda name: name.startswith("spark."), "settings of Spark begin with spark.")
        if not driver.is_running():  # it is read when Java starts, and asking Java for its version takes a process
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
        OLDEST.check(spark.version, str(url))
        session = SparkSession(self, f"Spark {spark.version}", spark, statement_timeout)
        session.pin(statement_timeout, lock_timeout)
        if url.database:
            session.execute(f"USE {self.names.quote(url.database)}")
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
