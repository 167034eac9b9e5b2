"""DuckDB 1.3 and later: tables of a database file, and Parquet, CSV, Delta and Iceberg by path.

https://duckdb.org/docs/stable/sql/functions/overview
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dialects import _errors as errors
from dialects._base import Algorithm, Column, Dialect, Place, Table
from dialects._kinds import Kind
from dialects._session import Columns, InProcessSession, Session
from dialects._url import Url

INTEGER = Kind("integer")
READERS = {"parquet": "read_parquet", "csv": "read_csv", "delta": "delta_scan", "iceberg": "iceberg_scan"}


class DuckDB(Dialect):
    """DuckDB."""

    name = "duckdb"
    schemes = ("duckdb",)
    sqlglot = "duckdb"

    ROW_STORE = False
    BEGIN = ("BEGIN TRANSACTION READ ONLY",)
    END = ("COMMIT",)
    SNAPSHOT = "all statements read one MVCC snapshot"
    NOW = "MAKE_TIMESTAMP(EPOCH_US(NOW()))"

    TYPES = {
        "boolean": Kind("boolean"), "tinyint": INTEGER, "smallint": INTEGER, "integer": INTEGER, "bigint": INTEGER,
        "utinyint": INTEGER, "usmallint": INTEGER, "uinteger": INTEGER, "ubigint": Kind("integer", unsigned=True),
        "decimal": Kind("decimal", 18, 3), "float": Kind("float32"), "double": Kind("float64"),
        "varchar": Kind("text"), "enum": Kind("enum"), "blob": Kind("binary"), "date": Kind("date"), "time": Kind("time"),
        "timestamp_s": Kind("timestamp", scale=0), "timestamp_ms": Kind("timestamp", scale=3), "timestamp": Kind("timestamp"),
        "timestamp_ns": Kind("timestamp", scale=9), "timestamp with time zone": Kind("timestamptz"), "uuid": Kind("uuid"),
        "json": Kind("json"), "bit": Kind("bit"), "interval": Kind("interval"),
    }  # fmt: skip
    """HUGEINT and UHUGEINT exceed every other engine's integers; arrays, maps and structs have no canonical text."""

    NATIVE = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "UBIGINT", "decimal": "DECIMAL({digits},{scale})",
        "float32": "FLOAT", "float64": "DOUBLE", "text": "VARCHAR", "char": "VARCHAR", "json": "VARCHAR", "enum": "VARCHAR",
        "set": "VARCHAR", "binary": "BLOB", "bit": "BIT", "year": "SMALLINT", "date": "DATE", "time": "TIME",
        "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "UUID", "interval": "INTERVAL",
    }  # fmt: skip

    def quote(self, identifier: str) -> str:
        return '"' + identifier.replace('"', '""') + '"'

    def reached(self, url: Url) -> str:
        return f"{self.name}://{Path(url.database).resolve()}"

    def string(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def binary(self, value: bytes) -> str:
        return f"UNHEX('{value.hex()}')"

    def kind(self, native: str) -> Kind | None:
        return Kind("enum") if native.upper().startswith("ENUM(") else super().kind(native)

    def describe(self, session: Session, place: Place) -> list[Table]:
        if not place.path:
            return super().describe(session, place)
        if place.version is not None or place.timestamp:
            raise errors.NoSuchObject(f"DuckDB reads {place.path} as it is now; audit a version of it through Spark")
        reader = READERS.get(place.format or "parquet")
        if not reader:
            raise errors.NoSuchObject(f"{place.format} is no format here; write one of {', '.join(READERS)}")
        source = f"{reader}({self.string(place.path)})"
        rows = session.query(f"DESCRIBE SELECT * FROM {source}")
        columns = [Column(str(r[0]), str(r[1]), self.kind(str(r[1])), nullable=True) for r in rows]
        return [Table(source, tuple(columns), (), int(session.query(f"SELECT COUNT(*) FROM {source}")[0][0]))]

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        # DECIMAL(p,p) would print no digit before the point.
        return self.as_text(f"CAST({c} AS DECIMAL(38,{scale}))")

    def number(self, c: str, native: Kind) -> str:
        return f"CAST({c} AS BIGINT)" if native.name == "bit" else c

    def double(self, c: str) -> str:
        return f"CAST({c} AS DOUBLE)"

    def single(self, c: str) -> str:
        return f"CAST({c} AS FLOAT)"

    def double_literal(self, value: str) -> str:
        return f"CAST('{value}' AS DOUBLE)"

    def hex_text(self, c: str) -> str:
        return f"LOWER(HEX({c}))"

    def date_text(self, c: str) -> str:
        # STRFTIME writes years before Christ as negative numbers; PostgreSQL's form is "0044-03-15 BC".
        return f"REPLACE(CAST({c} AS VARCHAR), ' (BC)', ' BC')"

    def time_text(self, c: str) -> str:
        text = f"CAST({c} AS VARCHAR)"
        return f"CASE WHEN LENGTH({text}) = 8 THEN {text} || '.000000' ELSE RPAD({text}, 15, '0') END"

    def timestamp_text(self, c: str, native: Kind) -> str:
        at = f"({c} AT TIME ZONE 'UTC')" if native.name == "timestamptz" else c
        if native.scale == 9:
            return f"STRFTIME({at}, '%Y-%m-%d %H:%M:%S.%n')"
        plain = f"STRFTIME({at}, '%Y-%m-%d %H:%M:%S.%f')"
        other = f"REPLACE(CAST({at} AS VARCHAR), ' (BC)', ' BC')"
        return f"CASE WHEN {at} >= '0001-01-01' AND {at} < 'infinity' THEN {plain} ELSE {other} END"

    def interval_text(self, c: str, native: Kind) -> str:
        months = f"CAST(DATEPART('year', {c}) * 12 + DATEPART('month', {c}) AS BIGINT)"
        clock = f"DATEPART('hour', {c}) * 3600000000 + DATEPART('minute', {c}) * 60000000 + DATEPART('microsecond', {c})"
        days = f"CAST(DATEPART('day', {c}) AS BIGINT)"
        return self.concat([months, "'m'", days, "'d'", f"CAST({clock} AS BIGINT)", "'us'"])

    def json_text(self, c: str, native: Kind) -> str:
        return rf"""REGEXP_REPLACE(CAST({c} AS VARCHAR), '("(?:[^"\\]|\\.)*")|\s+', '\1', 'g')"""

    def characters(self, c: str) -> str:
        return f"CAST({c} AS VARCHAR)"

    def bytewise(self, c: str) -> str:
        return f"({c} COLLATE C)"

    def trimmed(self, c: str) -> str:
        return f"TRIM({c}, ' ')"

    def row_hash(self, text: str, algorithm: Algorithm) -> str:
        return f"MD5({text})" if algorithm == "md5" else f"SHA256({text})"

    def word(self, digits: str, first: int, count: int) -> str:
        return f"CAST('0x' || SUBSTR({digits}, {first}, {count}) AS BIGINT)"

    def floor_divided(self, c: str, divisor: int, native: Kind) -> str:
        if native.unsigned or native.name == "decimal":
            whole = f"CAST({c} AS HUGEINT)"
            return f"CAST({whole} // {divisor} - CASE WHEN {whole} % {divisor} < 0 THEN 1 ELSE 0 END AS BIGINT)"
        return self.bigint(f"{c} // {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END")

    def day_index(self, c: str) -> str:
        return f"DATE_DIFF('day', DATE '1970-01-01', CAST({c} AS DATE))"

    def seconds_since(self, c: str) -> str:
        return f"EPOCH(NOW()) - EPOCH({c})"

    def pins(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # Readers wait for no lock. https://duckdb.org/docs/stable/connect/concurrency
        return ["SET TimeZone = 'UTC'", "SET enable_progress_bar = false"]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        try:
            import duckdb
        except ImportError:
            raise errors.DriverMissing("DuckDB needs its driver: pip install duckdb pyarrow") from None
        path = url.database or ":memory:"
        mode = url.option("access_mode", "read_write" if path == ":memory:" else "read_only")
        try:
            connection = duckdb.connect(path, read_only=mode.lower() == "read_only")
        except duckdb.Error as error:
            missing = "database does not exist" in str(error)
            raise (errors.NoSuchObject if missing else errors.Unreachable)(f"{url}: {_first_line(error)}") from error
        session = _DuckDBSession(self, f"DuckDB {duckdb.__version__}", connection, statement_timeout)
        session.pin(statement_timeout, lock_timeout)
        return session


class _DuckDBSession(InProcessSession):
    def __init__(self, dialect: Dialect, server: str, connection: Any, timeout: float) -> None:
        super().__init__(dialect, server, timeout)
        self.connection = connection

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import duckdb

        try:
            with self.timed():
                try:
                    yield
                except duckdb.InterruptException:
                    raise errors.StatementCancelled from None
                except OSError as error:  # what Arrow makes of an interrupt while a result is read
                    if "INTERRUPT" not in str(error):
                        raise
                    raise errors.StatementCancelled from None
        except (duckdb.CatalogException, duckdb.BinderException) as error:
            raise errors.NoSuchObject(_first_line(error)) from error
        except duckdb.Error as error:
            missing = "No files found" in str(error)
            raise (errors.NoSuchObject if missing else errors.StatementRefused)(_first_line(error)) from error

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with self._translated():
            rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        self._bytes += sum(len(str(value)) for row in rows for value in row)
        return rows

    def execute(self, sql: str) -> None:
        with self._translated():
            self.connection.execute(sql)

    def stream(self, sql: str) -> Iterator[Columns]:
        with self._translated():
            for batch in self.connection.sql(sql).to_arrow_reader(65536):
                self._bytes += batch.nbytes
                yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]

    def cancel(self) -> None:
        self.connection.interrupt()

    def close(self) -> None:
        self.connection.close()


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
