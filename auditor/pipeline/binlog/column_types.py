"""Types of columns as the binary log numbers them.

https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html
"""

from __future__ import annotations

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13
NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 14, 15, 16, 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
"""MariaDB's columns that are declared COMPRESSED."""
VECTOR, JSON, NEWDECIMAL, ENUM, SET = 242, 245, 246, 247, 248
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = 249, 250, 251, 252, 253, 254, 255

METADATA_BYTES = {
    FLOAT: 1,
    DOUBLE: 1,
    VARCHAR: 2,
    BIT: 2,
    TIMESTAMP2: 1,
    DATETIME2: 1,
    TIME2: 1,
    BLOB_COMPRESSED: 1,
    VARCHAR_COMPRESSED: 2,
    VECTOR: 1,
    JSON: 1,
    NEWDECIMAL: 2,
    ENUM: 2,
    SET: 2,
    TINY_BLOB: 1,
    MEDIUM_BLOB: 1,
    LONG_BLOB: 1,
    BLOB: 1,
    VAR_STRING: 2,
    STRING: 2,
    GEOMETRY: 1,
}
"""Bytes of the metadata of each type, read as one little-endian number: of NEWDECIMAL the precision below the scale, of BIT the bits
beside whole bytes below the bytes, of strings the length in bytes, of blobs the bytes of their length, of times the digits of the
fraction."""

NUMERIC_TYPES = frozenset({TINY, SHORT, LONG, INT24, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL, YEAR})
"""Types with a bit in the signs. YEAR has one, too."""
CHARACTER_TYPES = frozenset({VARCHAR, VAR_STRING, STRING, BLOB, VARCHAR_COMPRESSED, BLOB_COMPRESSED})
"""Types with a collation, which is `BINARY_COLLATION` for bytes. MariaDB has one for GEOMETRY, too."""
FRACTIONAL_TYPES = frozenset({TIMESTAMP2, DATETIME2, TIME2})
OLD_TIMES = frozenset({TIMESTAMP, DATETIME, TIME})
"""Times of the format before MySQL 5.6, of which the log does not tell the digits of the fraction."""
BINARY_COLLATION = 63

INTEGER_NAMES = {TINY: "tinyint", SHORT: "smallint", INT24: "mediumint", LONG: "int", LONGLONG: "bigint"}
TIME_NAMES = {
    DATE: "date",
    NEWDATE: "date",
    TIME: "time",
    TIME2: "time",
    DATETIME: "datetime",
    DATETIME2: "datetime",
    TIMESTAMP: "timestamp",
    TIMESTAMP2: "timestamp",
    YEAR: "year",
}
OTHER_NAMES = {JSON: "json", VECTOR: "vector"}


def resolve(code: int, meta: int) -> int:
    """Return the type of a column, which the log hides in the metadata for strings, ENUM and SET."""
    if code in (TINY_BLOB, MEDIUM_BLOB, LONG_BLOB):
        return BLOB
    if code == STRING and meta & 0xFF in (ENUM, SET):
        return meta & 0xFF
    return code


def plain_meta(code: int, meta: int) -> int:
    """Return the metadata without what `resolve` took from it: of a CHAR or BINARY its bytes, of ENUM and SET the bytes of a value."""
    if code != STRING:
        return meta
    real, size = meta & 0xFF, meta >> 8
    if real in (ENUM, SET):
        return size
    # Bits 8 and 9 of the length are the inverse of two bits of the type, which are set in all types of strings.
    return size | ((real & 0x30) ^ 0x30) << 4
