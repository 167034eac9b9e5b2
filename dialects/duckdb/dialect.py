"""DuckDB 1.5 and later: tables of a database file, and Parquet, CSV, Delta and Iceberg by path.

https://duckdb.org/docs/stable/sql/functions/overview
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from dialects import errors
from dialects.addresses import Addresses, FileAddresses
from dialects.base import Catalogue, Dialect, Session
from dialects.duckdb import settings
from dialects.duckdb.catalogue import DuckDBCatalogue
from dialects.duckdb.expressions import HUGEINT, DuckDBCanonical, DuckDBHashes, DuckDBNames, DuckDBNumbers, DuckDBText, DuckDBTimes
from dialects.duckdb.file_lock import open_file
from dialects.duckdb.login import ACCESS_MODES, block_size_of, check_path, is_opened_by_extension, make_file
from dialects.duckdb.session import DuckDBSession, first_line
from dialects.duckdb.writing import DuckDBWriting
from dialects.kinds import Kind
from dialects.nested import nested_kind
from dialects.oldest_versions import OldestVersion
from dialects.table_form import TableForm
from dialects.types import Types
from dialects.url import Url

INTEGER = Kind("integer")

OLDEST = OldestVersion("DuckDB", "1.5", "results read as Arrow batches by to_arrow_reader()")


OF_DATABASE = frozenset(
    {"tables", "columns", "primary_key", "estimate", "comments", "catalogue_version", "dependents", "bootstrap_stage_create"}
)
"""Templates that ask the catalogue of a database, which lakes that are read through DuckDB do not have."""


class DuckDBTypes(Types):
    """The types of DuckDB."""

    KIND_BY_TYPE = {
        "boolean": Kind("boolean"), "tinyint": INTEGER, "smallint": INTEGER, "integer": INTEGER, "bigint": INTEGER,
        "utinyint": INTEGER, "usmallint": INTEGER, "uinteger": INTEGER, "ubigint": Kind("integer", unsigned=True),
        "decimal": Kind("decimal", 18, 3), "float": Kind("float32"), "double": Kind("float64"),
        "varchar": Kind("text"), "enum": Kind("enum"), "blob": Kind("binary"), "date": Kind("date"), "time": Kind("time"),
        "timestamp_s": Kind("timestamp", scale=0), "timestamp_ms": Kind("timestamp", scale=3), "timestamp": Kind("timestamp"),
        "timestamp_ns": Kind("timestamp", scale=9), "timestamp with time zone": Kind("timestamptz"), "uuid": Kind("uuid"),
        "json": Kind("json"), "bit": Kind("bit"), "interval": Kind("interval"),
        "hugeint": HUGEINT, "uhugeint": HUGEINT,
    }  # fmt: skip
    """HUGEINT and UHUGEINT exceed the integers of every other engine, and have one digit more than DuckDB's decimals; maps and unions have
    no canonical text."""

    TYPE_BY_KIND = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "UBIGINT", "decimal": "DECIMAL({digits},{scale})",
        "float32": "FLOAT", "float64": "DOUBLE", "text": "VARCHAR", "char": "VARCHAR", "json": "VARCHAR", "enum": "VARCHAR",
        "set": "VARCHAR", "binary": "BLOB", "bit": "BIT", "year": "SMALLINT", "date": "DATE", "time": "TIME",
        "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "UUID", "interval": "INTERVAL",
        "network": "VARCHAR",
    }  # fmt: skip

    def value_of_text(self, text: str, kind: Kind) -> str:
        # A cast to BLOB takes the bytes of a text.
        return f"UNHEX({text})" if kind.name == "binary" else super().value_of_text(text, kind)

    def kind(self, native: str) -> Kind | None:
        if native.endswith("]") or native.upper().startswith("STRUCT("):
            return nested_kind(native, self.kind)
        return Kind("enum") if native.upper().startswith("ENUM(") else super().kind(native)


class DuckDB(Dialect):
    """DuckDB."""

    name = "duckdb"
    schemes: ClassVar[tuple[str, ...]] = ("duckdb",)
    sqlglot_dialect = "duckdb"
    TEMPLATES = "sql_templates.duckdb"
    DRIVERS = {"duckdb": "duckdb", "pyarrow": "pyarrow"}

    OPENS_FILES = True
    ROW_STORE = False
    BEGIN_SNAPSHOT = ("BEGIN TRANSACTION READ ONLY",)
    END_SNAPSHOT = ("COMMIT",)
    READ_CONSISTENCY = "all statements read one MVCC snapshot"

    names = DuckDBNames()
    text = DuckDBText(names)
    numbers = DuckDBNumbers(text)
    times = DuckDBTimes(numbers)
    canonical = DuckDBCanonical(times)
    hashes = DuckDBHashes(canonical)
    types = DuckDBTypes(name)
    addresses: Addresses = FileAddresses(name)
    catalogue: Catalogue = DuckDBCatalogue()
    writing = DuckDBWriting(name)
    TABLE_FORM: ClassVar[TableForm] = TableForm(change=("ALTER TABLE {table} ALTER COLUMN {column} SET DATA TYPE {type}",))

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        # Readers never wait for locks. https://duckdb.org/docs/stable/connect/concurrency
        return ["SET TimeZone = 'UTC'", "SET enable_progress_bar = false"]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        import duckdb

        OLDEST.check(duckdb.__version__, str(url))
        url.refuse_unknown(("access_mode", "default_block_size"))
        path = url.database or ":memory:"
        mode = url.option("access_mode", "read_write" if path == ":memory:" else "read_only").lower()
        if mode not in ACCESS_MODES:
            raise errors.BadUrl(f"{url}: access_mode={mode} is unknown; use one of {', '.join(ACCESS_MODES)}")
        check_path(url, path, mode == "read_only")
        block_size = block_size_of(url)
        try:
            if block_size and mode != "read_only" and not is_opened_by_extension(path) and not Path(path).exists():
                make_file(path, block_size)
            connection = open_file(path, mode == "read_only", lock_timeout)
        except errors.FileInUse as error:
            raise errors.FileInUse(f"{url}: {error}") from error
        except duckdb.Error as error:
            raise errors.Unreachable(f"{url}: {first_line(error)}") from error
        session = DuckDBSession(self, f"DuckDB {duckdb.__version__}", connection, statement_timeout)
        if mode == "read_only" and not is_opened_by_extension(path):
            with session.translated():
                settings.refuse_files(connection)
        session.pin(statement_timeout, lock_timeout)
        return session
