"""Spark SQL 4: tables of a catalogue, and Parquet, CSV, Delta and Iceberg by path, in this process or by Spark Connect.

https://spark.apache.org/docs/latest/api/sql/
https://spark.apache.org/docs/latest/sql-ref-syntax-qry-select.html
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dialects import _errors as errors
from dialects import _java
from dialects._base import Algorithm, Column, Dialect, Place, Table
from dialects._kinds import Kind
from dialects._session import Columns, InProcessSession, Session
from dialects._url import Url

INTEGER = Kind("integer")


class Spark(Dialect):
    """Spark SQL."""

    name = "spark"
    schemes = ("spark", "sc")
    PORT = 15002
    sqlglot = "spark"

    ROW_STORE = False
    SNAPSHOT = "each statement reads the files it finds when it is planned; a version or timestamp to travel to fixes them"
    NOW = "CURRENT_TIMESTAMP()"
    GAPS = {
        "uuid": "there is no uuid type; use STRING",
        "bit": "there is no bit type",
        "time": "TIME is not yet readable from every file format",
        "interval": "a column is of months or of seconds, never of both",
    }

    TYPES = {
        "boolean": Kind("boolean"), "tinyint": INTEGER, "smallint": INTEGER, "int": INTEGER, "bigint": INTEGER,
        "decimal": Kind("decimal", 10, 0), "float": Kind("float32"), "double": Kind("float64"), "string": Kind("text"),
        "varchar": Kind("text"), "char": Kind("char"), "binary": Kind("binary"), "date": Kind("date"),
        "timestamp": Kind("timestamptz"), "timestamp_ntz": Kind("timestamp"), "time": Kind("time"), "variant": Kind("json"),
    }  # fmt: skip

    NATIVE = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "DECIMAL(20,0)", "decimal": "DECIMAL({digits},{scale})",
        "float32": "FLOAT", "float64": "DOUBLE", "text": "STRING", "char": "CHAR({digits})", "json": "STRING", "enum": "STRING",
        "set": "STRING", "binary": "BINARY", "year": "SMALLINT", "date": "DATE", "timestamp": "TIMESTAMP_NTZ",
        "timestamptz": "TIMESTAMP", "uuid": "STRING",
    }  # fmt: skip

    def quote(self, identifier: str) -> str:
        return "`" + identifier.replace("`", "``") + "`"

    def string(self, value: str) -> str:
        # "${" would begin a variable, even inside a literal.
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{") + "'"

    def binary(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    def kind(self, native: str) -> Kind | None:
        if native.startswith("interval"):
            return Kind("interval", scale=0 if "month" in native or "year" in native else 6)
        return super().kind(re.sub(r" collate .*", "", native))

    def describe(self, session: Session, place: Place) -> list[Table]:
        sql = self._from(place)
        try:
            rows = session.query(f"DESCRIBE QUERY SELECT * FROM {sql}" if place.path else f"DESCRIBE TABLE {sql}")
        except errors.NoSuchObject:
            return []
        columns: list[Column] = []
        for name, native, *_ in rows:
            if not name or str(name).startswith("#"):  # partition columns are told again below the columns
                break
            columns.append(Column(str(name), str(native), self.kind(str(native)), nullable=True))
        return [Table(sql, tuple(columns), (), int(session.query(f"SELECT COUNT(*) FROM {sql}")[0][0]))]

    def _from(self, place: Place) -> str:
        name = f"{place.format or 'parquet'}.{self.quote(place.path)}" if place.path else self.table(*place.parts)
        if place.version is not None:
            return f"{name} VERSION AS OF {self.literal(place.version)}"
        return f"{name} TIMESTAMP AS OF {self.literal(place.timestamp)}" if place.timestamp else name

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS STRING)"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        return self.as_text(f"CAST({c} AS DECIMAL(38,{scale}))")

    def double(self, c: str) -> str:
        return f"CAST({c} AS DOUBLE)"

    def single(self, c: str) -> str:
        return f"CAST({c} AS FLOAT)"

    def double_literal(self, value: str) -> str:
        return f"CAST('{value}' AS DOUBLE)"

    def hex_text(self, c: str) -> str:
        return f"LOWER(HEX({c}))"

    def date_text(self, c: str) -> str:
        return f"LTRIM('+', DATE_FORMAT({c}, 'yyyy-MM-dd'))"

    def time_text(self, c: str) -> str:
        return f"DATE_FORMAT({c}, 'HH:mm:ss.SSSSSS')"

    def timestamp_text(self, c: str, native: Kind) -> str:
        return f"LTRIM('+', DATE_FORMAT({c}, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"

    def interval_text(self, c: str, native: Kind) -> str:
        if native.scale == 0:
            months = self.as_text(f"EXTRACT(YEAR FROM {c}) * 12 + EXTRACT(MONTH FROM {c})")
            return self.concat([months, "'m0d0us'"])
        micros = f"EXTRACT(HOUR FROM {c}) * 3600000000 + EXTRACT(MINUTE FROM {c}) * 60000000 + EXTRACT(SECOND FROM {c}) * 1000000"
        days = self.as_text(f"EXTRACT(DAY FROM {c})")
        return self.concat(["'0m'", days, "'d'", self.as_text(self.bigint(micros)), "'us'"])

    def json_text(self, c: str, native: Kind) -> str:
        if native.name == "json":
            return f"TO_JSON({c})"
        return rf"""REGEXP_REPLACE({c}, '("(?:[^"\\\\]|\\\\.)*+")|\\s+', '$1')"""

    def right_trimmed(self, c: str) -> str:
        return f"TRIM(TRAILING ' ' FROM {c})"

    def row_hash(self, text: str, algorithm: Algorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA2({text}, 256)"

    def concat(self, parts: Sequence[str]) -> str:
        return f"CONCAT({', '.join(parts)})" if len(parts) > 1 else parts[0]

    def word(self, digits: str, first: int, count: int) -> str:
        return f"CAST(CONV(SUBSTR({digits}, {first}, {count}), 16, 10) AS BIGINT)"

    def shifted(self, c: str, bits: int) -> str:
        return f"SHIFTRIGHT({c}, {bits})"

    def number_sum(self, c: str, native: Kind) -> str:
        # A sum of integers would be one of 64 bits.
        return f"SUM(CAST({c} AS DECIMAL(20,0)))" if native.name in ("integer", "year") else f"SUM({c})"

    def bytewise(self, c: str) -> str:
        return f"({c} COLLATE UTF8_BINARY)"

    def floor_divided(self, c: str, divisor: int, native: Kind) -> str:
        return f"({c} DIV {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END)"  # DIV yields BIGINT

    def day_index(self, c: str) -> str:
        return f"DATEDIFF({c}, DATE'1970-01-01')"

    def seconds_since(self, c: str) -> str:
        return f"(UNIX_MICROS(CURRENT_TIMESTAMP()) - UNIX_MICROS(CAST({c} AS TIMESTAMP))) / 1000000"

    def pins(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # Readers wait for no lock: they read the files that the table consists of at the moment.
        return [
            "SET TIME ZONE 'UTC'",
            "SET spark.sql.ansi.enabled = true",
            "SET spark.sql.variable.substitute = false",
            "SET spark.sql.parser.escapedStringLiterals = false",
            "SET spark.sql.timeType.enabled = true",
            "SET spark.sql.legacy.timeParserPolicy = CORRECTED",
        ]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        try:
            from pyspark.logger import PySparkLogger
            from pyspark.sql import SparkSession
        except ImportError:
            raise errors.DriverMissing("Spark needs its package: pip install 'auditor[spark]'") from None
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)  # they would print each error as JSON on standard error
        if url.scheme != "sc":
            _prepare()
        builder: Any = SparkSession.builder
        options = dict(url.options)
        try:
            if url.scheme == "sc":
                spark = builder.remote(f"sc://{url.host}:{url.port or self.PORT}").create()
            else:
                builder = builder.master(options.pop("master", "local[*]")).appName("auditor")
                for option, value in {**_LOCAL, **options}.items():
                    builder = builder.config(option, value)
                spark = builder.getOrCreate().newSession()
        except Exception as error:  # the driver's own class for this differs between Spark in process and Spark Connect
            raise errors.Unreachable(f"{url}: {_first_line(error)}") from error
        session = _SparkSession(self, f"Spark {spark.version}", spark, statement_timeout)
        session.pin(statement_timeout, lock_timeout)
        if url.database:
            session.execute(f"USE {self.quote(url.database)}")
        session.statements = 0
        return session


_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
}
"""What a Spark in this process is started with unless the URL says otherwise: nothing that listens beyond the machine."""


def _prepare() -> None:
    """A Java and this very Python for a Spark in this process; PATH's own Python may lack our packages."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "auditor"
    os.environ["JAVA_HOME"] = str(_java.find(cache)[0])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


class _SparkSession(InProcessSession):
    def __init__(self, dialect: Dialect, server: str, spark: Any, timeout: float) -> None:
        super().__init__(dialect, server, timeout)
        self.spark = spark

    @contextmanager
    def _translated(self) -> Iterator[None]:
        with self.timed():
            try:
                yield
            except Exception as error:
                known = _translated(error)
                if known is None:
                    raise
                raise known from error

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._translated():
            rows = [tuple(row) for row in self.spark.sql(sql).collect()]
        self._bytes += sum(len(str(value)) for row in rows for value in row)
        return rows

    def execute(self, sql: str) -> None:
        with self._translated():
            self.spark.sql(sql)

    def stream(self, sql: str) -> Iterator[Columns]:
        with self._translated():
            table = self.spark.sql(sql).toArrow()
        self._bytes += table.nbytes
        for batch in table.to_batches():
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]

    def cancel(self) -> None:
        # All of this session's, which nobody shares. A tag belongs to the thread that set it, and this is another one.
        self.spark.interruptAll()

    def close(self) -> None:
        """The Spark process stays: other sessions may use it, and starting it takes seconds."""


_CANCELLED = re.compile(r"JOB_CANCELLED|OPERATION_CANCELL?ED|OPERATION_INTERRUPTED|\bJob \d+ cancelled|InterruptedException")


def _translated(error: Exception) -> errors.AuditorError | None:
    """The error of the tree that an exception of Spark, its JVM or its network means; None for any other exception."""
    from pyspark.errors import AnalysisException

    if isinstance(error, AnalysisException):
        missing = (error.getCondition() or "").startswith(("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "UNRESOLVED_COLUMN"))
        return (errors.NoSuchObject if missing else errors.StatementRefused)(_first_line(error))
    if type(error).__module__.split(".")[0] not in ("py4j", "grpc", "pyspark"):
        return None
    return errors.StatementCancelled() if _CANCELLED.search(str(error)) else errors.StatementRefused(_first_line(error))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
