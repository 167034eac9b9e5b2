"""Delta Lake: tables by their folder below a root, read by DuckDB without Spark; and tables of Parquet files that a pointer lists."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dialects import errors, extras
from dialects.base import Session
from dialects.delta.catalogue import DeltaCatalogue
from dialects.delta.place import S3, DeltaAddresses, find_root
from dialects.delta.session import DeltaSession
from dialects.delta.table_files import LakeFiles
from dialects.delta.writing import DeltaWriting
from dialects.duckdb.dialect import OF_DATABASE, DuckDB, DuckDBTypes
from dialects.oldest_versions import OldestVersion
from dialects.url import Url

POINTED = ("parquet", "parquet+s3")
"""Schemes of tables whose files a pointer lists."""

DELTALAKE = OldestVersion("deltalake", "1.5", "deletion vectors")


class DeltaTypes(DuckDBTypes):
    """The types of Delta Lake, as DuckDB reads them."""

    UNSUPPORTED_VALUES = {
        "uuid": "there is no uuid type; use string",
        "bit": "there is no bit type",
        "time": "there is no type of a time of day",
        "interval": "there is no interval type",
    }

    TYPE_BY_KIND = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "DECIMAL(20,0)", "decimal": "DECIMAL({digits},{scale})",
        "float32": "FLOAT", "float64": "DOUBLE", "text": "VARCHAR", "char": "VARCHAR", "json": "VARCHAR", "enum": "VARCHAR",
        "set": "VARCHAR", "binary": "BLOB", "year": "SMALLINT", "date": "DATE", "timestamp": "TIMESTAMP",
        "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "VARCHAR", "network": "VARCHAR",
    }  # fmt: skip


class Delta(DuckDB):
    """Delta Lake, whose expressions are those of DuckDB."""

    name = "delta"
    schemes = ("delta", S3, *POINTED)
    ancestors = ("duckdb",)
    UNAVAILABLE_TEMPLATES = OF_DATABASE

    OPENS_FILES = True
    FINDS_KEY_RANGES = False  # files are rarely in the order of the key
    BEGIN_SNAPSHOT = ("BEGIN TRANSACTION",)
    READ_CONSISTENCY = "all statements read one version of the table"
    TABLE_FORM = replace(DuckDB.TABLE_FORM, create_schema="", enforces_keys=False)
    types = DeltaTypes(name)
    addresses = DeltaAddresses(name)
    catalogue = DeltaCatalogue()
    writing = DeltaWriting(name)
    files = LakeFiles()

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        root = find_root(url)
        extras.require("a Delta or Parquet table", "delta")
        import deltalake
        import duckdb

        DELTALAKE.check(deltalake.__version__, str(url))
        if root.is_local and not Path(root.uri).is_dir():
            raise errors.NoSuchObject(f"{url}: there is no folder {root.uri}")
        connection: Any = duckdb.connect(":memory:")
        may_write = url.option("access_mode", "") == "read_write"
        session: DeltaSession
        if url.scheme in POINTED:
            from dialects.delta.pointed_session import open_session

            session = open_session(self, connection, statement_timeout, url, root, may_write)
        elif url.option("keep", ""):
            raise errors.BadUrl(f"{url}: the option keep is of parquet://; versions of a Delta table are deleted by VACUUM")
        else:
            server = f"Delta Lake (deltalake {deltalake.__version__}, DuckDB {duckdb.__version__})"
            session = DeltaSession(self, server, connection, statement_timeout, root, may_write)
        session.pin(statement_timeout, lock_timeout)
        return session
