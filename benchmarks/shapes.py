"""Shapes of the compared tables: their keys, their columns, and what is changed in a damaged row.

Row i (from 1) is a function of i alone, and so is its key in each shape.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass

Key = tuple[str, ...]
"""The key columns of a row, as text."""

SPARSE_STEP = 1_000_003
SHOPS = 97
NULL = "\\N"


@dataclass(frozen=True)
class Value:
    """A column besides the key: its type, ``{timestamp}`` for the engine's own, and row i's value in DuckDB's SQL."""

    name: str
    type: str
    sql: str


@dataclass(frozen=True)
class Change:
    """How a row is damaged: the column, its new value, and the old one again, as SQL that all servers understand."""

    column: str
    apply: str
    undo: str


@dataclass(frozen=True)
class Shape:
    """One kind of table: its key columns, their types and the key of row i in DuckDB's SQL (``sql``) and in Python (``key_of``)."""

    name: str
    key: tuple[str, ...]
    types: tuple[str, ...]
    sql: tuple[str, ...]
    key_of: Callable[[int], Key]
    values: tuple[Value, ...]
    changes: tuple[Change, Change]
    """What is changed in damaged rows, in turn."""

    @property
    def table(self) -> str:
        """The table's name on every engine."""
        return f"bench_{self.name}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns besides the key."""
        return tuple(value.name for value in self.values)

    def select(self, rows: int) -> str:
        """Return DuckDB's statement for rows 1 to ``rows``."""
        keys = [f"{sql} AS {name}" for sql, name in zip(self.sql, self.key, strict=True)]
        values = [f"{value.sql} AS {value.name}" for value in self.values]
        return f"SELECT {', '.join([*keys, *values])} FROM range(1, {rows} + 1) AS numbers(i)"

    def create_table(self, timestamp: str, ending: str = "") -> str:
        """Return the CREATE TABLE statement; ``timestamp`` is the engine's type of a timestamp with microseconds."""
        keys = [f"{name} {kind} NOT NULL" for name, kind in zip(self.key, self.types, strict=True)]
        values = [f"{value.name} {value.type.format(timestamp=timestamp)}" for value in self.values]
        return f"CREATE TABLE {self.table} ({', '.join([*keys, *values])}, PRIMARY KEY ({', '.join(self.key)})){ending}"


def _digits(i: int) -> str:
    return hashlib.md5(str(i).encode()).hexdigest()


def _uuid(i: int) -> str:
    return str(uuid.UUID(_digits(i)))


def _text(word: str, factor: int, length: str = "12") -> str:
    return f"'{word} ' || substr(md5(CAST(i * {factor} AS VARCHAR)), 1, {length})"


def _null_in_a_hundred(rest: int, sql: str) -> str:
    return f"CASE WHEN i % 100 <> {rest} THEN {sql} END"


def _five(suffix: str = "", factor: int = 1) -> tuple[Value, ...]:
    note = f"CASE WHEN i % 7 <> 0 THEN {_text('note', 17 * factor, 'CAST(4 + i % 28 AS INTEGER)')} END"
    created = (
        f"strftime(TIMESTAMP '2024-01-01 00:00:00' + to_microseconds(i * {1_000_002 + factor}), '%Y-%m-%d %H:%M:%S.%f')"  # text: no format
    )
    return (
        Value(f"name{suffix}", "VARCHAR(60)", _text("customer", 31 * factor)),
        Value(f"note{suffix}", "VARCHAR(100)", note),
        Value(f"amount{suffix}", "DECIMAL(12,2)", f"CAST((i * {7918 + factor}) % 10000000 AS DECIMAL(12, 0)) / 100"),
        Value(f"created{suffix}", "{timestamp}", created),
        Value(f"flag{suffix}", "INT", f"(i + {factor - 1}) % 10"),
    )


def _longer(column: str) -> Change:
    return Change(column, f"CONCAT({column}, '!')", f"LEFT({column}, CHAR_LENGTH({column}) - 1)")


FIVE = _five()
THIRTY = (*FIVE, *(value for number in range(2, 7) for value in _five(f"_{number}", number)))
TEXTS = tuple(
    Value(name, "VARCHAR(120)", _text(name, factor, length))
    for name, factor, length in (
        ("name", 31, "12"), ("street", 37, "CAST(4 + i % 28 AS INTEGER)"), ("city", 41, "9"), ("comment", 43, "32"), ("code", 47, "20"),
    )
)  # fmt: skip
NULLS = tuple(
    Value(value.name, value.type, value.sql if value.name in ("name", "amount") else _null_in_a_hundred(rest, value.sql))
    for rest, value in enumerate((*FIVE[:1], Value("note", "VARCHAR(100)", _text("note", 17)), *FIVE[2:]))
)
"""One in a hundred values of each column is NULL, but of the two that are changed in damaged rows."""

AMOUNT_AND_NAME = (Change("amount", "amount + 0.01", "amount - 0.01"), _longer("name"))
DENSE = (("id",), ("BIGINT",), ("i",), lambda i: (str(i),))
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("dense", *DENSE, FIVE, AMOUNT_AND_NAME),
        Shape("wide", *DENSE, THIRTY, AMOUNT_AND_NAME),
        Shape("texts", *DENSE, TEXTS, (_longer("street"), _longer("name"))),
        Shape("nulls", *DENSE, NULLS, AMOUNT_AND_NAME),
        Shape("sparse", ("id",), ("BIGINT",), (f"i * {SPARSE_STEP}",), lambda i: (str(i * SPARSE_STEP),), FIVE, AMOUNT_AND_NAME),
        Shape(
            "text",
            ("code",),
            ("VARCHAR(40)",),
            ("substr(md5(CAST(i AS VARCHAR)), 1, 16)",),
            lambda i: (_digits(i)[:16],),
            FIVE,
            AMOUNT_AND_NAME,
        ),
        Shape(
            "uuid",
            ("uid",),
            ("VARCHAR(36)",),
            ("CAST(CAST(md5(CAST(i AS VARCHAR)) AS UUID) AS VARCHAR)",),
            lambda i: (_uuid(i),),
            FIVE,
            AMOUNT_AND_NAME,
        ),
        Shape(
            "composite",
            ("shop", "nr"),
            ("INT", "BIGINT"),
            (f"i % {SHOPS} + 1", f"i // {SHOPS} + 1"),
            lambda i: (str(i % SHOPS + 1), str(i // SHOPS + 1)),
            FIVE,
            AMOUNT_AND_NAME,
        ),
    )
}
