"""Column types that store equal values in the same way on SQLite, PostgreSQL and MySQL."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

from sqlalchemy import BigInteger, DateTime, Double, Integer, LargeBinary, String, Text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine


def name(length: int = 255) -> String:
    """Return the type of a short text that is compared and sorted by code points: case-sensitive, independent of the locale."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def number() -> BigInteger:
    """Return the type of a 64-bit integer; INTEGER on SQLite, which autoincrements only columns of that type."""
    return BigInteger().with_variant(Integer(), "sqlite")


def blob() -> LargeBinary:
    """Return the type of bytes of any length; LONGBLOB on MySQL, whose BLOB holds 64 KB."""
    return LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")


def to_json(value: Any) -> str:
    """Return a value as JSON without escapes, so that it is readable in the database, unless it holds text that is not valid Unicode."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which has no UTF-8 encoding
        return json.dumps(value)
    return text


class Moment(TypeDecorator[dt.datetime]):
    """A point in time, stored as UTC with microseconds. Values are aware datetimes; raises ValueError for a naive one."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return TIMESTAMP WITH TIME ZONE on PostgreSQL, and DATETIME elsewhere; on MySQL with its fraction of 6 digits."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        return dialect.type_descriptor(mysql.DATETIME(fsp=6) if dialect.name == "mysql" else DateTime())

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """Convert a value for the database."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the time {value.isoformat()} has no time zone; use an aware datetime")
        value = value.astimezone(dt.UTC)
        return value if dialect.name == "postgresql" else value.replace(tzinfo=None)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """Convert a value from the database."""
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


class Json(TypeDecorator[Any]):
    """A value stored as JSON text. The databases' JSON types differ in how they store numbers and whether they keep the order of keys."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return LONGTEXT on MySQL, whose TEXT holds 64 KB, and TEXT elsewhere."""
        return dialect.type_descriptor(mysql.LONGTEXT() if dialect.name == "mysql" else Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Convert a value for the database."""
        return None if value is None else to_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Convert a value from the database."""
        return None if value is None else json.loads(value)


class Words(TypeDecorator[str]):
    """Free text. NUL and lone surrogates, which a database can reject, are replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Convert a value for the database."""
        return None if value is None else value.replace("\0", "�").encode("utf-8", "replace").decode()


class Real(TypeDecorator[float]):
    """A double; NaN and infinities are stored as NULL, because MySQL has neither."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        """Convert a value for the database."""
        return float(value) if value is not None and math.isfinite(value) else None
