"""SQLite 3.39 and later, with the mathematical functions that most builds have: https://www.sqlite.org/datatype3.html"""

from __future__ import annotations

import sqlite3

from auditor_sqlite.catalogue import SQLiteCatalogue
from auditor_sqlite.expressions import SQLiteCanonical, SQLiteHashes, SQLiteNames, SQLiteNumbers, SQLiteText, SQLiteTimes
from auditor_sqlite.session import SQLiteSession, open_connection
from dialects import Dialect, Kind, Session, Types, Url
from dialects.addresses import FileAddresses
from dialects.oldest_versions import OldestVersion

OLDEST = OldestVersion("SQLite", "3.39", "HAVING without GROUP BY")
INTEGER, TEXT, DOUBLE, MOMENT = Kind("integer"), Kind("text"), Kind("float64"), Kind("timestamp", scale=6)


class SQLiteTypes(Types):
    """The types of SQLite."""

    LITERALS_NEED_CAST = False
    MAX_DECIMAL_DIGITS = 15
    KIND_BY_TYPE = {
        "boolean": Kind("boolean"), "decimal": Kind("decimal"), "numeric": Kind("decimal"), "date": Kind("date"), "time": Kind("time"),
        "datetime": MOMENT, "timestamp": MOMENT, "json": Kind("json"),
    }  # fmt: skip
    TYPE_BY_KIND = {
        "boolean": "BOOLEAN", "integer": "INTEGER", "year": "INTEGER", "decimal": "DECIMAL({digits},{scale})", "float64": "DOUBLE",
        "text": "TEXT", "char": "TEXT", "enum": "TEXT", "set": "TEXT", "json": "TEXT", "uuid": "TEXT", "network": "TEXT", "binary": "BLOB",
        "date": "DATE", "time": "TIME({scale})", "timestamp": "TIMESTAMP({scale})",
    }  # fmt: skip
    CAST_TYPE_BY_KIND = {"date": "TEXT", "time": "TEXT", "timestamp": "TEXT"}
    UNSUPPORTED_VALUES = {
        "float32": "SQLite has no numbers of single precision",
        "timestamptz": "SQLite has no times with a zone",
        "bit": "SQLite has no bit strings",
        "interval": "SQLite has no intervals",
        "nan": "SQLite stores NaN as NULL",
        "NUL in text": "a statement of SQLite ends at U+0000",
    }

    def kind(self, native: str) -> Kind | None:
        known = super().kind(native)
        if known is not None:
            return known if known.name != "decimal" or _is_exact(known) else None
        by_affinity = {"INT": INTEGER, "CHAR": TEXT, "CLOB": TEXT, "TEXT": TEXT, "BLOB": Kind("binary"), "REAL": DOUBLE, "FLOA": DOUBLE,
                       "DOUB": DOUBLE}  # fmt: skip
        return next((kind for part, kind in by_affinity.items() if part in native.upper()), None)

    def native_type(self, kind: Kind) -> str:
        if kind.name == "decimal" and not _is_exact(kind):
            raise LookupError(f"{self.engine} has no type for {kind}: it holds fractions with 15 digits, and integers of 64 bits")
        return super().native_type(kind)


class SQLite(Dialect):
    """SQLite."""

    name = "sqlite"
    schemes = ("sqlite",)
    sqlglot_dialect = "sqlite"
    TEMPLATES = "auditor_sqlite.sql"
    addresses = FileAddresses(name)

    OPENS_FILES = True
    OPTIMIZER_BARRIER = "LIMIT -1"  # see https://www.sqlite.org/optoverview.html#flattening
    BEGIN_SNAPSHOT = ("BEGIN",)
    END_SNAPSHOT = ("COMMIT",)
    READ_CONSISTENCY = "all statements read one state of the file"
    CURRENT_DATABASE = "'main'"
    MAX_STATEMENT_BYTES = 1_000_000  # https://www.sqlite.org/limits.html

    names = SQLiteNames()
    text = SQLiteText(names)
    numbers = SQLiteNumbers(text)
    times = SQLiteTimes(numbers)
    canonical = SQLiteCanonical(times)
    hashes = SQLiteHashes(canonical)
    types = SQLiteTypes(name)
    catalogue = SQLiteCatalogue()

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        return ["PRAGMA case_sensitive_like = ON"]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        OLDEST.check(sqlite3.sqlite_version, str(url))
        session = SQLiteSession(self, f"SQLite {sqlite3.sqlite_version}", open_connection(url, lock_timeout), statement_timeout)
        session.pin(statement_timeout, lock_timeout)
        return session


def _is_exact(kind: Kind) -> bool:
    """Return whether a column holds every decimal of a kind: as an integer of 64 bits, or as a double with 15 digits."""
    digits = 38 if kind.digits is None else kind.digits
    return digits <= (15 if kind.scale else 18)
