"""The schema of the store: the types of its columns, and the tables of runs, which several modules share.

Every other table stands in the module of its subject, beside the functions that read and write it, so that a command loads those that it
needs. `migrations` create and upgrade them all. All table names begin with ``auditor_``, so that a store can share a database with other
tables. Types store equal values in the same way on SQLite, PostgreSQL and MySQL.
"""

from __future__ import annotations

import datetime as dt
import json
import math
from importlib import import_module
from types import ModuleType
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

HEAD = "0001"
"""The revision of the newest migration."""

VERSION_TABLE = "auditor_version"

metadata = MetaData(naming_convention={"uq": "%(table_name)s_%(column_0_N_name)s", "fk": "%(table_name)s_%(column_0_N_name)s_fk"})


def short_text(length: int = 255) -> String:
    """Return the type of a short text that is compared and sorted by code points: case-sensitive, independent of the locale."""
    return String(length).with_variant(String(length, collation="C"), "postgresql")


def big_integer() -> BigInteger:
    """Return the type of a 64-bit integer; INTEGER on SQLite, which autoincrements only columns of that type."""
    return BigInteger().with_variant(Integer(), "sqlite")


def to_json(value: Any) -> str:
    """Return a value as JSON without escapes, so that it is readable in the database, unless it holds text that is not valid Unicode."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which has no UTF-8 encoding
        return json.dumps(value)
    return text


def mysql() -> ModuleType:
    """Return SQLAlchemy's types of MySQL; only a store there loads them, because a command waits for it."""
    return import_module("sqlalchemy.dialects.mysql")


def postgresql() -> ModuleType:
    """Return SQLAlchemy's types of PostgreSQL; only a store there loads them."""
    return import_module("sqlalchemy.dialects.postgresql")


class LongBinary(TypeDecorator[bytes]):
    """Bytes of any length."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return LONGBLOB on MySQL, whose BLOB holds 64 KB, and the type of any bytes elsewhere."""
        return dialect.type_descriptor(mysql().LONGBLOB() if dialect.name == "mysql" else LargeBinary())


def long_binary() -> LongBinary:
    """Return the type of bytes of any length."""
    return LongBinary()


class Moment(TypeDecorator[dt.datetime]):
    """A point in time, stored as UTC with microseconds. Values are aware datetimes; raises ValueError for a naive one."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return TIMESTAMP WITH TIME ZONE on PostgreSQL, and DATETIME elsewhere; on MySQL with its fraction of 6 digits."""
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql().TIMESTAMP(timezone=True))
        return dialect.type_descriptor(mysql().DATETIME(fsp=6) if dialect.name == "mysql" else DateTime())

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
        return dialect.type_descriptor(mysql().LONGTEXT() if dialect.name == "mysql" else Text())

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


def _run_column() -> Column[Any]:
    """Return the column of the run that a row belongs to; deleting the run deletes the row."""
    return Column("run", big_integer(), ForeignKey("auditor_runs.number", ondelete="CASCADE"), primary_key=True)


audit_versions = Table(
    "auditor_audit_versions",
    metadata,
    Column("audit", short_text(), primary_key=True),
    Column("version", short_text(64), primary_key=True),
    Column("definition", Json(), nullable=False),
    Column("since", Moment(), nullable=False),
)
"""The versions of each audit's definition. A version is the hash of its content."""

schemas = Table(
    "auditor_schemas",
    metadata,
    Column("version", short_text(64), primary_key=True),
    Column("columns", Json(), nullable=False),
)
"""Both sides' columns, stored once for all runs with equal ones. A version is the hash of the content."""

runs = Table(
    "auditor_runs",
    metadata,
    Column("number", big_integer(), primary_key=True),
    Column("run", short_text(64), nullable=False, unique=True),
    Column("audit", short_text(), nullable=False),
    Column("version", short_text(64), nullable=False),
    Column("schema_version", short_text(64), ForeignKey("auditor_schemas.version")),
    Column("state", short_text(16), nullable=False),
    Column("verdict", short_text(16), nullable=False),
    Column("exit_code", Integer()),
    Column("method", short_text(16)),
    Column("reason", Words(), nullable=False),
    Column("requested_by", Words(), nullable=False),
    Column("overrides", Json(), nullable=False),
    Column("started", Moment(), nullable=False),
    Column("ended", Moment()),
    Column("seconds", Real()),
    Column("score", Real()),
    Column("lower", Real()),
    Column("upper", Real()),
    Column("published", Real()),
    Column("coverage", Real()),
    Column("source_rows", big_integer()),
    Column("target_rows", big_integer()),
    Column("partitions", big_integer()),
    Column("unequal", big_integer()),
    Column("missing", big_integer()),
    Column("extra", big_integer()),
    Column("changed", big_integer()),
    Column("unsettled", big_integer()),
    Column("reasons", Json(), nullable=False),
    Column("progress", Json(), nullable=False),
    Column("verified_through", Moment()),
    # Null until the run ends.
    Column("within_threshold", Boolean()),
    Column("within_threshold_through", Moment()),
    Column("resumable", Boolean(), nullable=False),
    Column("cancel_requested", Boolean(), nullable=False),
    # The audit's name while the run is running: the unique constraint allows one running run of an audit.
    Column("running_audit", short_text(), unique=True),
    ForeignKeyConstraint(["audit", "version"], ["auditor_audit_versions.audit", "auditor_audit_versions.version"]),
    # Created with the table, and so atomically on MySQL, unlike separate indexes.
    UniqueConstraint("audit", "number"),
)
"""The runs, numbered in the order of their start, independent of clocks."""

run_documents = Table(
    "auditor_run_documents",
    metadata,
    _run_column(),
    Column("kind", short_text(16), primary_key=True),
    Column("body", long_binary(), nullable=False),
)
"""The large values of a run, by kind: ``plan``, ``report``, and ``partition_map``, which is packed."""

differences = Table(
    "auditor_differences",
    metadata,
    _run_column(),
    Column("number", big_integer(), primary_key=True, autoincrement=False),
    Column("kind", short_text(16), nullable=False),
    Column("state", short_text(16), nullable=False),
    Column("detail", Json(), nullable=False),
)

chunks = Table(
    "auditor_chunks",
    metadata,
    _run_column(),
    Column("side", short_text(16), primary_key=True),
    Column("first", short_text(), primary_key=True),
    Column("end_before", short_text(), primary_key=True),
    Column("null_key", Boolean(), primary_key=True),
    Column("row_count", big_integer(), nullable=False),
    Column("seconds", Real(), nullable=False),
    Column("attempts", Integer(), nullable=False),
    Column("at", Moment(), nullable=False),
    Column("payload", long_binary(), nullable=False),
)
"""The finished chunks of a run. Bounds are text, '' for none: keys can exceed 64 bits, and a primary key cannot hold NULL."""

queue = Table(
    "auditor_queue",
    metadata,
    _run_column(),
    Column("requested_at", Moment(), nullable=False),
    # The audit's name while the run is pending: the unique constraint allows one pending run of an audit.
    Column("pending_audit", short_text(), unique=True),
    Column("lost_processes", Integer(), nullable=False),
)
"""The runs that were requested through the queue. ``lost_processes`` counts how often the process of the run died."""
