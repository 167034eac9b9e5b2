"""SQLite 3.39 and later, with the mathematical functions that most builds have.

https://www.sqlite.org/lang.html, https://www.sqlite.org/datatype3.html
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from auditor_sqlite.session import SQLiteSession, open_connection
from dialects import Dialect, HashAlgorithm, Kind, Session, TimeUnit, Url
from dialects.addresses import Addresses
from dialects.floors import Floor

FLOOR = Floor("SQLite", "3.39", "HAVING without GROUP BY")
INTEGER, TEXT, DOUBLE, MOMENT = Kind("integer"), Kind("text"), Kind("float64"), Kind("timestamp", scale=6)


class SQLiteAddresses(Addresses):
    """How URLs of SQLite are read."""

    def database_id(self, url: Url) -> str:
        return f"{self.engine}://{Path(url.database).resolve()}"

    def write_url(self, url: Url) -> Url:
        return replace(url, options={**url.options, "access_mode": "read_write"})


class SQLite(Dialect):
    """SQLite."""

    name = "sqlite"
    schemes = ("sqlite",)
    sqlglot_dialect = "sqlite"
    TEMPLATES = "auditor_sqlite.sql"
    addresses = SQLiteAddresses(name)

    OPENS_FILES = True
    OPTIMIZER_BARRIER = (
        "LIMIT -1"  # without it the hash of a row is computed once per use: https://www.sqlite.org/optoverview.html#flattening
    )
    BEGIN_SNAPSHOT = ("BEGIN",)
    END_SNAPSHOT = ("COMMIT",)
    READ_CONSISTENCY = "all statements read one state of the file"
    UTC_NOW = "STRFTIME('%Y-%m-%d %H:%M:%f', 'now')"
    CURRENT_DATABASE = "'main'"
    LITERALS_NEED_CAST = False
    MAX_STATEMENT_BYTES = 1_000_000  # https://www.sqlite.org/limits.html
    MAX_DECIMAL_DIGITS = 15
    LAST_YEAR = 9999

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
            raise LookupError(f"{self.name} has no type for {kind}: it holds fractions with 15 digits, and integers of 64 bits")
        return super().native_type(kind)

    # names and literals

    def quote(self, identifier: str) -> str:
        return '"' + identifier.replace('"', '""') + '"'

    def string_literal(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def binary_literal(self, value: bytes) -> str:
        return f"X'{value.hex()}'"

    def date_literal(self, text: str) -> str:
        return self.string_literal(text)

    def timestamp_literal(self, text: str) -> str:
        return self.string_literal(self.written_time(text))

    def written_time(self, text: str) -> str:
        written = super().written_time(text)
        return written.rstrip("0").rstrip(".") if "." in written else written  # times are texts, which are compared as such

    # texts

    def bytewise(self, c: str) -> str:
        return f"({c} COLLATE BINARY)"

    def length(self, c: str) -> str:
        return f"LENGTH({c})"

    def left(self, c: str, count: int) -> str:
        return f"SUBSTR({c}, 1, {count})"

    def cut_end(self, text: str, count: int) -> str:
        return f"SUBSTR({text}, 1, LENGTH({text}) - {count})"

    def trim(self, c: str) -> str:
        return f"TRIM({c}, ' ')"

    def lower(self, c: str) -> str:
        return f"LOWER({c})"  # the letters A to Z alone: https://www.sqlite.org/lang_corefunc.html#lower

    def upper(self, c: str) -> str:
        return f"UPPER({c})"

    def hex_text(self, c: str) -> str:
        return f"CASE WHEN {c} IS NOT NULL THEN LOWER(HEX({c})) END"

    def json_text(self, c: str, native: Kind) -> str:
        return f"auditor_json({c})"

    # numbers

    def as_text(self, c: str) -> str:
        return f"CAST({c} AS TEXT)"

    def boolean_text(self, c: str, native: Kind) -> str:
        return f"CASE WHEN TYPEOF({c}) = 'text' THEN {c} WHEN {c} THEN '1' WHEN NOT {c} THEN '0' END"

    def decimal_text(self, c: str, scale: int, native: Kind) -> str:
        held = native.scale if native.name == "decimal" and native.scale is not None and native.scale <= scale else -1
        return f"auditor_decimal({c}, {scale}, {held})"

    def rounded_text(self, c: str, scale: int, native: Kind) -> str:
        return super().rounded_text(c, scale, native) if native == DOUBLE else f"auditor_units({c}, {scale})"

    def as_double(self, c: str) -> str:
        return f"auditor_double({c})"

    def as_single(self, c: str) -> str:
        return f"auditor_single({c})"

    def double_literal(self, value: str) -> str:
        return f"auditor_double('{value}')"

    def non_finite_branches(self, x: str) -> str:
        return f"WHEN {x} = 9e999 THEN 'Infinity' WHEN {x} = -9e999 THEN '-Infinity' "

    def number_sum(self, c: str, native: Kind) -> str:
        return f"auditor_sum({c})"

    # dates and times

    def date_text(self, c: str) -> str:
        return c

    def date_kind_text(self, kind: Kind, c: str, native: Kind) -> str:
        if native.name == "date":
            return c
        return self.with_last_moment(kind, c, native, f"SUBSTR({self.rounded_time(kind, c, native)}, 1, 10)", "")

    def time_text(self, c: str) -> str:
        return f"auditor_clock({c})"

    def rounded_clock_text(self, c: str, half: int, native: Kind) -> str:
        last = f"23:59:59.{1_000_000 - half // 1000:06}"
        return f"CASE WHEN {self.time_text(c)} >= '{last}' THEN '24:00:00.000000' ELSE {self.time_text(self.later(c, half, native))} END"

    def timestamp_text(self, c: str, native: Kind, digits: int | None = None) -> str:
        return f"auditor_moment({c}, {'NULL' if digits is None else digits})"

    def later(self, c: str, nanoseconds: int, native: Kind) -> str:
        return f"auditor_later({c}, {nanoseconds // 1000})"

    def wall_time(self, c: str, native: Kind, zone: str) -> str:
        return f"auditor_wall({c}, {self.string_literal(zone)})"

    def seconds_since(self, c: str) -> str:
        return f"(JULIANDAY('now') - JULIANDAY({c})) * 86400.0"

    # hashes and partitions

    def row_hash(self, text: str, algorithm: HashAlgorithm) -> str:
        return f"auditor_{algorithm}({text})"

    def word(self, digits: str, first: int, count: int) -> str:
        return f"auditor_word({digits}, {first}, {count})"

    def utf8(self, text: str) -> str:
        return f"CAST({text} AS BLOB)"

    def byte_count(self, kind: Kind, c: str, native: Kind) -> str:
        return f"LENGTH({c if kind.name == 'binary' else self.utf8(self.canonical_text(kind, c, native))})"

    def floor_divide(self, c: str, divisor: int, native: Kind) -> str:
        return f"({c} / {divisor} - CASE WHEN {c} % {divisor} < 0 THEN 1 ELSE 0 END)"

    def day_index(self, c: str) -> str:
        return f"(CAST(STRFTIME('%s', SUBSTR({c}, 1, 10)) AS INTEGER) / 86400)"

    def time_index(self, c: str, unit: TimeUnit) -> str:
        year, month, hour = (f"CAST(SUBSTR({c}, {first}, {count}) AS INTEGER)" for first, count in ((1, 4), (6, 2), (12, 2)))
        match unit:
            case "day":
                return self.day_index(c)
            case "hour":
                return f"({self.day_index(c)} * 24 + {hour})"
            case "month":
                return f"(({year} - 1970) * 12 + {month} - 1)"

    # the connection

    def pin_statements(self, statement_timeout: float, lock_timeout: float = 10.0) -> list[str]:
        return ["PRAGMA case_sensitive_like = ON"]

    def connect(self, url: Url, statement_timeout: float, lock_timeout: float = 10.0) -> Session:
        FLOOR.check(sqlite3.sqlite_version, str(url))
        session = SQLiteSession(self, f"SQLite {sqlite3.sqlite_version}", open_connection(url, lock_timeout), statement_timeout)
        session.pin(statement_timeout, lock_timeout)
        return session


def _is_exact(kind: Kind) -> bool:
    """Return whether a column holds every decimal of a kind: as an integer of 64 bits, or as a double with 15 digits."""
    digits = 38 if kind.digits is None else kind.digits
    return digits <= (15 if kind.scale else 18)
