"""The column types that every database keeps alike."""

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
    """A short text that is compared and sorted by its characters' numbers on every database: case counts, locales do not."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def number() -> BigInteger:
    """A whole number of 64 bits; SQLite counts rows up only in a column called INTEGER."""
    return BigInteger().with_variant(Integer(), "sqlite")


def blob() -> LargeBinary:
    """Bytes, as many as there are; MySQL's plain BLOB ends at 64 KB."""
    return LargeBinary().with_variant(mysql.LONGBLOB(), "mysql")


def dumped(value: Any) -> str:
    """JSON that reads well in the database, of characters that every database takes."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can write
        return json.dumps(value)
    return text


class Moment(TypeDecorator[dt.datetime]):
    """An instant, kept as UTC with microseconds."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """PostgreSQL has a type for instants; MySQL's DATETIME has no fractions unless told."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        return dialect.type_descriptor(mysql.DATETIME(fsp=6) if dialect.name == "mysql" else DateTime())

    def process_bind_param(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """What is written."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an instant needs a time zone")
        value = value.astimezone(dt.UTC)
        return value if dialect.name == "postgresql" else value.replace(tzinfo=None)

    def process_result_value(self, value: dt.datetime | None, dialect: Dialect) -> dt.datetime | None:
        """What is read."""
        if value is None:
            return None
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


class Json(TypeDecorator[Any]):
    """A value as JSON text. The databases' own JSON types differ in what they keep of numbers and of the order of names."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """MySQL's plain TEXT ends at 64 KB."""
        return dialect.type_descriptor(mysql.LONGTEXT() if dialect.name == "mysql" else Text())

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """What is written."""
        return None if value is None else dumped(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """What is read."""
        return None if value is None else json.loads(value)


class Words(TypeDecorator[str]):
    """What a person wrote, without the two things that a database can refuse: NUL, and half a surrogate pair."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """What is written."""
        return None if value is None else value.replace("\0", "�").encode("utf-8", "replace").decode()


class Real(TypeDecorator[float]):
    """A number with a fraction; what is no number is nothing, since MySQL has no NaN."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        """What is written."""
        return float(value) if value is not None and math.isfinite(value) else None
