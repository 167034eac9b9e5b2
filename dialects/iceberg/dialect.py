"""Apache Iceberg: tables of a catalogue of pyiceberg, read by DuckDB without Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dialects import extras
from dialects.base import Session
from dialects.duckdb.dialect import OF_DATABASE, DuckDB, DuckDBTypes
from dialects.iceberg.catalogue import IcebergCatalogue
from dialects.iceberg.errors import translated
from dialects.iceberg.place import IcebergAddresses, check_files, find_root, password_of
from dialects.iceberg.table_files import LakeFiles
from dialects.iceberg.writing import IcebergWriting
from dialects.iceberg.written_session import WritableIcebergSession
from dialects.oldest_versions import OldestVersion
from dialects.url import Url

PYICEBERG = OldestVersion("pyiceberg", "0.12", "fields of the format's third version, and one snapshot of deletes and appends")


class IcebergTypes(DuckDBTypes):
    """The types of Iceberg, as DuckDB reads them."""

    UNSUPPORTED_VALUES = {
        "bit": "there is no bit type",
        "interval": "there is no interval type",
    }

    TYPE_BY_KIND = {
        "boolean": "BOOLEAN", "integer": "BIGINT", "unsigned integer": "DECIMAL(20,0)", "decimal": "DECIMAL({digits},{scale})",
        "float32": "FLOAT", "float64": "DOUBLE", "text": "VARCHAR", "char": "VARCHAR", "json": "VARCHAR", "enum": "VARCHAR",
        "set": "VARCHAR", "binary": "BLOB", "year": "INTEGER", "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP",
        "timestamptz": "TIMESTAMP WITH TIME ZONE", "uuid": "UUID", "network": "VARCHAR",
    }  # fmt: skip


class Iceberg(DuckDB):
    """Apache Iceberg, whose expressions are those of DuckDB."""

    name = "iceberg"
    schemes = ("iceberg",)
    UNAVAILABLE_TEMPLATES = OF_DATABASE

    FINDS_KEY_RANGES = False  # files are rarely in the order of the key
    BEGIN_SNAPSHOT = ("BEGIN TRANSACTION",)
    READ_CONSISTENCY = "all statements read one snapshot of the table"
    TABLE_FORM = replace(DuckDB.TABLE_FORM, create_schema="", enforces_keys=False)
    types = IcebergTypes(name)
    addresses = IcebergAddresses(name)
    catalogue = IcebergCatalogue()
    writing = IcebergWriting(name)
    files = LakeFiles()

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        root = find_root(url)
        extras.require("an Iceberg table", "iceberg")
        import duckdb
        import pyiceberg
        from pyiceberg.catalog import load_catalog

        PYICEBERG.check(pyiceberg.__version__, str(url))
        may_write = url.option("access_mode", "") == "read_write"
        if not may_write:
            check_files(url, root)
        given = root.properties if may_write else {"init_catalog_tables": "false", **root.properties}
        with translated(str(url), password_of(root.properties.get("uri", ""))):
            catalog = load_catalog(root.catalog, **given)
        connection: Any = duckdb.connect(":memory:")
        server = f"Iceberg (pyiceberg {pyiceberg.__version__}, DuckDB {duckdb.__version__})"
        session = WritableIcebergSession(self, server, connection, statement_timeout, catalog, root, may_write)
        session.pin(statement_timeout, lock_timeout)
        return session
