"""The keys of a table as texts of events, as literals of its source, and as conditions there."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import dialects
from auditor.errors import ColumnRefused, ConfigError, NoKey
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind

ORDERED = frozenset({"integer", "decimal", "date", "timestamp", "timestamptz", "binary"})
"""Kinds whose values every engine puts into the same order."""

COMPARED = ORDERED | {"text", "char", "uuid", "network", "time", "year"}
"""Kinds by whose order the source can be read in chunks."""

LISTED = COMPARED | {"enum", "bit"}
"""Kinds that a list of keys may have."""

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?")
FORMS = {
    "integer": re.compile(r"-?(0|[1-9]\d*)"),
    "year": re.compile(r"\d{4}"),
    "bit": re.compile(r"0|[1-9]\d*"),
    "decimal": NUMBER,
    "binary": re.compile(r"([0-9a-f]{2})*"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "timestamp": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?"),
    "time": re.compile(r"\d\d:\d\d:\d\d(\.\d+)?"),
    "uuid": re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "network": re.compile(r"[0-9a-f.:]+"),
}
"""How values of a kind are written in events; those of others are any characters but U+0000."""

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}

Key = tuple[str, ...]
"""The first values of a key, as texts of events; empty for no bound."""


@dataclass(frozen=True)
class KeyColumns:
    """The key of a table. Raises NoKey."""

    schema: TableSchema

    def __post_init__(self) -> None:
        if not self.schema.key:
            raise NoKey(f"{self.name} has no primary key, so its rows cannot be sent again; add one in the source")

    @property
    def name(self) -> str:
        """Database and table, for messages."""
        return f"{self.schema.database}.{self.schema.table}"

    @cached_property
    def columns(self) -> tuple[ColumnSchema, ...]:
        """The columns of the key, in its order."""
        by_name = {column.name: column for column in self.schema.columns}
        return tuple(by_name[name] for name in self.schema.key)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The canonical kinds of the columns; '' for a type without one."""
        return tuple(kind.name if (kind := source_kind(column)) else "" for column in self.columns)

    @property
    def is_ordered(self) -> bool:
        """Whether every engine puts rows into the same order by the first column, so that an interval of keys is the same rows there."""
        return self.kinds[0] in ORDERED

    @cached_property
    def chunked(self) -> tuple[ColumnSchema, ...]:
        """The first columns of the key, by which the table is read in chunks. Raises ColumnRefused."""
        wanted = ORDERED if self.is_ordered else COMPARED
        width = next((number for number, kind in enumerate(self.kinds) if kind not in wanted), len(self.kinds))
        if not width:
            column = self.columns[0]
            raise ColumnRefused(f"{self.name} has a key that begins with {column.name}, of type {column.type}: name its keys one by one")
        return self.columns[:width]

    def parse(self, values: Sequence[str]) -> Key:
        """Return a whole key that somebody wrote. Raises ConfigError."""
        if len(values) != len(self.columns):
            named = ", ".join(column.name for column in self.columns)
            raise ConfigError(f"the key of {self.name} has {len(self.columns)} columns ({named}), and {len(values)} values were given")
        return tuple(self._checked(column, kind, value) for column, kind, value in zip(self.columns, self.kinds, values, strict=True))

    def parse_range(self, first: int | None, last: int | None) -> tuple[Key, Key]:
        """Return the interval of keys from one number to another, both inclusive. Raises ConfigError."""
        if self.kinds[0] != "integer":
            raise ConfigError(f"the key of {self.name} does not begin with an integer, so it has no ranges of numbers; write --key-list")
        least, most = limits(self.columns[0])
        if (first is not None and first > most) or (last is not None and last < least) or (last is not None and (first or least) > last):
            raise ConfigError(f"no key of {self.name} can lie in this range: {self.columns[0].name} is {self.columns[0].type}")
        low = () if first is None or first <= least else (str(first - 1),)
        return low, () if last is None or last >= most else (str(last),)

    def _checked(self, column: ColumnSchema, kind: str, value: str) -> str:
        if kind not in LISTED:
            raise ConfigError(f"{self.name}.{column.name} is {column.type}, whose values cannot be named; refresh the whole table")
        text = value.lower() if kind in ("binary", "uuid", "network") else value
        form = FORMS.get("timestamp" if kind == "timestamptz" else kind)
        if (form and not form.fullmatch(text)) or "\0" in text or not self._is_possible(column, kind, text):
            raise ConfigError(f"{value!r} is no value of {self.name}.{column.name}, which is {column.type}, as the pipeline writes it")
        return text

    def _is_possible(self, column: ColumnSchema, kind: str, text: str) -> bool:
        if kind == "integer":
            least, most = limits(column)
            return least <= int(text) <= most
        if kind in ("date", "timestamp", "timestamptz"):
            try:
                dt.datetime.fromisoformat(text)
            except ValueError:
                return False
        return True


def limits(column: ColumnSchema) -> tuple[int, int]:
    """Return the least and the greatest value of an integer column."""
    bits = INTEGER_BITS.get(re.split(r"\W", column.type, maxsplit=1)[0], 64)
    return (0, (1 << bits) - 1) if "unsigned" in column.type else (-(1 << bits - 1), (1 << bits - 1) - 1)


def text_of(column: ColumnSchema) -> str:
    """Return SQL for the text of a column of a key."""
    kind, quoted = source_kind(column), quote(column.name)
    if kind and kind.name == "binary":
        return f"LOWER(HEX({quoted}))"
    return quoted if kind and kind.is_free_text else f"CAST({quoted} AS CHAR)"


def literal_of(column: ColumnSchema, text: str) -> str:
    """Return a value of a key as a literal of the source."""
    kind = source_kind(column)
    assert kind
    if kind.name in ("integer", "decimal", "year", "bit"):
        assert NUMBER.fullmatch(text)
        return text
    if kind.name == "binary":
        return f"X'{bytes.fromhex(text).hex()}'"
    if kind.is_free_text:
        return f"_utf8mb4 X'{text.encode().hex()}'"
    return dialects.get("mysql").names.literal(text)


def interval(columns: Sequence[ColumnSchema], low: Key, high: Key) -> str:
    """Return the condition that a key lies behind ``low`` and not behind ``high``, each of them its first values."""
    return " AND ".join([*_beyond(columns, low, ">", "FALSE"), *_beyond(columns, high, "<", "TRUE")]) or "TRUE"


def _beyond(columns: Sequence[ColumnSchema], end: Key, sign: str, at_end: str) -> Sequence[str]:
    if not end:
        return []
    pairs = [(quote(column.name), literal_of(column, text)) for column, text in zip(columns, end, strict=False)]
    condition = at_end
    for column, value in reversed(pairs):
        condition = f"({column} {sign} {value} OR ({column} = {value} AND {condition}))"
    return [f"{pairs[0][0]} {sign}= {pairs[0][1]}", condition]


def one_of(columns: Sequence[ColumnSchema], keys: Sequence[Key]) -> str:
    """Return the condition that a row has one of these keys."""
    if len(columns) == 1:
        return f"{quote(columns[0].name)} IN ({', '.join(literal_of(columns[0], key[0]) for key in keys)})"
    rows = (" AND ".join(f"{quote(c.name)} = {literal_of(c, text)}" for c, text in zip(columns, key, strict=True)) for key in keys)
    return "(" + " OR ".join(f"({row})" for row in rows) + ")"


def quote(name: str) -> str:
    """Return a name as an identifier of the source."""
    return dialects.get("mysql").names.quote(name)
