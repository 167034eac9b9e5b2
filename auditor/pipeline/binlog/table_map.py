"""Parse table maps: what the binary log says of a table before rows of it.

https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Table__map__event.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from auditor.errors import LogRefused
from auditor.pipeline.binlog import column_types as types
from auditor.pipeline.binlog.charsets import BYTES_PER_CHARACTER, charset_of, decoder
from auditor.pipeline.binlog.compression import packed_integer
from auditor.pipeline.events import SHORT_YEAR, ColumnSchema, TableSchema

T = TypeVar("T")

SIGNEDNESS, DEFAULT_CHARSET, COLUMN_CHARSET, COLUMN_NAME, SET_VALUES, ENUM_VALUES, GEOMETRY_TYPE = 1, 2, 3, 4, 5, 6, 7
SIMPLE_PRIMARY_KEY, PRIMARY_KEY_WITH_PREFIX, LABEL_DEFAULT_CHARSET, LABEL_COLUMN_CHARSET = 8, 9, 10, 11
"""Fields of the optional metadata that binlog_row_metadata=FULL writes. What is not among them is skipped."""

HIDDEN_TYPES: Mapping[str, int] = {"uuid": 16, "inet4": 4, "inet6": 16}
"""Types of MariaDB that the log describes as BINARY, with their bytes.
https://mariadb.com/kb/en/uuid-data-type/ https://mariadb.com/kb/en/inet6/"""

LONG_YEARS = ("year", "year(4)")
"""What catalogues call a YEAR that shows the year that it holds."""

SEQUENCE_COLUMNS = (
    "next_not_cached_value",
    "minimum_value",
    "maximum_value",
    "start_value",
    "increment",
    "cache_size",
    "cycle_option",
    "cycle_count",
)
"""The columns of a sequence, which MariaDB logs as a table. https://mariadb.com/kb/en/sequence-overview/"""

MOST_COLUMNS = 4096
"""Columns of a table at most. https://dev.mysql.com/doc/refman/9.4/en/column-count-limit.html"""

GEOMETRY_NAMES = ("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection")


@dataclass(frozen=True, slots=True)
class Column:
    """A column as its table map describes it."""

    name: str
    type: int
    """A number of `column_types`; ENUM and SET, which the log writes as strings, by their own."""
    meta: int
    """What the type needs beside its number; see `column_types`."""
    nullable: bool
    unsigned: bool = False
    collation: int | None = None
    labels: tuple[str, ...] = ()
    """Labels of ENUM and SET."""
    geometry: int = 0
    hidden_type: str = ""
    """``uuid``, ``inet4`` or ``inet6``, which MariaDB logs as BINARY, or ``year(2)``, which it logs as YEAR; '' for every other column."""

    @property
    def charset(self) -> str | None:
        """The character set of its text; None for other types and for bytes."""
        charset = charset_of(self.collation) if self.collation is not None else None
        return charset if charset != "binary" else None

    @property
    def is_text(self) -> bool:
        """Whether its values are characters."""
        return self.type in types.CHARACTER_TYPES and self.collation not in (None, types.BINARY_COLLATION)


@dataclass(frozen=True)
class TableMap:
    """A table as rows events refer to it."""

    database: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    """Numbers of the primary key's columns, in its order."""
    is_full: bool
    """Whether the names of the columns are there, as with binlog_row_metadata=FULL."""
    ends: int | None = field(default=None, kw_only=True)
    """The number of the column that says until when a row of a system-versioned table was valid; None for other tables."""
    hidden: tuple[int, ...] = field(default=(), kw_only=True)
    """Numbers of columns that no SELECT shows."""

    @property
    def name(self) -> str:
        """Database and table, for messages."""
        return f"{self.database}.{self.table}"

    @property
    def is_sequence(self) -> bool:
        """Whether it is a sequence, whose only row says which numbers were taken."""
        return not self.key and tuple(column.name for column in self.columns) == SEQUENCE_COLUMNS

    @cached_property
    def schema(self) -> TableSchema:
        """The table's columns, as events carry them."""
        shown = (self.columns[number] for number in self.places)
        columns = tuple(ColumnSchema(c.name, type_text(c), c.nullable, c.charset) for c in shown)
        key = tuple(self.columns[number].name for number in self.key if number != self.ends)
        return TableSchema(self.database, self.table, columns, key)

    @property
    def places(self) -> tuple[int, ...]:
        """Numbers of the columns that a SELECT shows."""
        return tuple(number for number in range(len(self.columns)) if number not in self.hidden)

    @cached_property
    def schema_id(self) -> str:
        """The identifier of the schema."""
        return self.schema.id


def table_name(data: bytes) -> tuple[str, str]:
    """Return the database and table of a table map's body, which begins after the number that rows events refer to."""
    size = data[2]
    database = data[3 : 3 + size]
    at = 3 + size + 1
    return database.decode(), data[at + 1 : at + 1 + data[at]].decode()


def parse_table_map(data: bytes, mariadb: bool) -> TableMap:
    """Parse the body of a table map, from its flags on and without its checksum.

    Raises ValueError, LookupError or OverflowError if it is none.
    """
    characters = types.CHARACTER_TYPES | {types.GEOMETRY} if mariadb else types.CHARACTER_TYPES
    database, table = table_name(data)
    at = 3 + data[2] + 1
    at += data[at] + 2
    count, at = packed_integer(data, at)
    if not 0 < count <= MOST_COLUMNS:
        raise ValueError(f"there is no table of {count:,} columns")
    codes, at = data[at : at + count], at + count
    size, at = packed_integer(data, at)
    metas = list(_metadata(codes, data[at : at + size]))
    at += size
    nulls = data[at : at + (count + 7) // 8]
    fields = dict(_optional_fields(data, at + (count + 7) // 8))
    numbers = [types.resolve(code, meta) for code, meta in zip(codes, metas, strict=True)]
    names = [name.decode() for name in _strings(fields.get(COLUMN_NAME, b""))]
    signs = _by_column(_bits(fields.get(SIGNEDNESS, b"")), numbers, types.NUMERIC_TYPES)
    collations = _collations(fields, DEFAULT_CHARSET, COLUMN_CHARSET, numbers, characters)
    collations |= _collations(fields, LABEL_DEFAULT_CHARSET, LABEL_COLUMN_CHARSET, numbers, frozenset({types.ENUM, types.SET}))
    enums = _by_column(_label_lists(fields.get(ENUM_VALUES, b"")), numbers, frozenset({types.ENUM}))
    sets = _by_column(_label_lists(fields.get(SET_VALUES, b"")), numbers, frozenset({types.SET}))
    shapes = _by_column(_integers(fields.get(GEOMETRY_TYPE, b"")), numbers, frozenset({types.GEOMETRY}))
    columns = tuple(
        Column(
            name=names[number] if number < len(names) else "",
            type=numbers[number],
            meta=types.plain_meta(code, meta),
            nullable=bool(nulls[number >> 3] >> (number & 7) & 1),
            unsigned=bool(signs.get(number, 0)),
            collation=collations.get(number),
            labels=_labels(enums.get(number) or sets.get(number) or (), collations.get(number)),
            geometry=shapes.get(number, 0),
        )
        for number, (code, meta) in enumerate(zip(codes, metas, strict=True))
    )
    key = list(_integers(fields.get(SIMPLE_PRIMARY_KEY, b""))) or list(_integers(fields.get(PRIMARY_KEY_WITH_PREFIX, b"")))[::2]
    return TableMap(database, table, columns, tuple(key), len(names) == count)


def with_hidden_types(table: TableMap, named: Mapping[str, str]) -> TableMap:
    """Return the table with the types that its log hides, which the server names by column: ``uuid``, ``inet4``, ``inet6``."""
    columns = tuple(
        replace(column, hidden_type=named[column.name])
        if named.get(column.name) in HIDDEN_TYPES and is_fixed_binary(column, HIDDEN_TYPES[named[column.name]])
        else column
        for column in table.columns
    )
    return replace(table, columns=columns)


def with_short_years(table: TableMap, named: Mapping[str, str]) -> TableMap:
    """Return the table with its columns that may have been YEAR(2) when they were logged, by the types that the server names now.

    ALTER TABLE changes no byte between YEAR(2) and YEAR(4), so what is YEAR(4) now shows the years that are logged, whatever it was. What
    has another type by now may show two digits of them.
    """
    columns = tuple(
        replace(column, hidden_type=SHORT_YEAR)
        if column.type == types.YEAR and named.get(column.name, LONG_YEARS[0]) not in LONG_YEARS
        else column
        for column in table.columns
    )
    return replace(table, columns=columns)


def check_old_times(table: TableMap, named: Mapping[str, str], like: tuple[str, str] | None) -> None:
    """Raise LogRefused, without a place, for a time of MariaDB's own format before 10.1 with a fraction: nothing says how long it is.

    ``named`` are the types that the server names now; ``like`` is the table for whose rows the table stands, if it is another one.
    https://mariadb.com/kb/en/server-system-variables/#mysql56_temporal_format
    """
    for column in table.columns:
        if column.type in types.OLD_TIMES and "(" in (named_type := named.get(column.name, "")):
            raise LogRefused(refuse_old_time(".".join(like) if like else table.name, column.name, named_type))


def is_old_time(kind: str) -> bool:
    """Return whether a type, as MariaDB's catalogue prints it, is such a time."""
    return "(" in kind.partition("/*")[0] and kind.endswith("/* mariadb-5.3 */")


def refuse_old_time(table: str, column: str, kind: str) -> str:
    """Return why a table with such a time is not read, and the way out."""
    return (
        f"{table}: {column!r} is a {kind.partition(' /*')[0]} in the format before mysql56_temporal_format, whose length the log does not"
        f" tell; SET GLOBAL mysql56_temporal_format = ON, run ALTER TABLE {table} FORCE in a new session, skip what stopped, and send the"
        " table's rows again: auditor pipeline refresh; or leave the table out"
    )


def is_fixed_binary(column: Column, size: int) -> bool:
    """Return whether the log says of a column that it is a BINARY of so many bytes."""
    return column.type == types.STRING and not column.is_text and column.meta == size


def _metadata(codes: bytes, data: bytes) -> Iterator[int]:
    at = 0
    for code in codes:
        size = types.METADATA_BYTES.get(code, 0)
        yield int.from_bytes(data[at : at + size], "little")
        at += size


def _optional_fields(data: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(data):
        kind = data[at]
        size, at = packed_integer(data, at + 1)
        yield kind, _cut(data, at, size)
        at += size


def _cut(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ValueError("a field of a table map ends after it")
    return data[at : at + size]


def _integers(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = packed_integer(data, at)
        yield value


def _strings(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = packed_integer(data, at)
        yield _cut(data, at, size)
        at += size


def _label_lists(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = packed_integer(data, at)
        labels = []
        for _ in range(count):
            size, at = packed_integer(data, at)
            labels.append(_cut(data, at, size))
            at += size
        yield tuple(labels)


def _labels(labels: tuple[bytes, ...], collation: int | None) -> tuple[str, ...]:
    """Return labels of ENUM or SET, which are logged in the column's character set."""
    charset = charset_of(collation) if collation is not None else None
    decode = (decoder(charset) if charset else None) or (lambda data: data.decode(errors="replace"))
    return tuple(decode(label) for label in labels)


def _bits(data: bytes) -> Iterator[int]:
    return (byte >> shift & 1 for byte in data for shift in range(7, -1, -1))


def _by_column(values: Iterator[T], numbers: list[int], of: frozenset[int]) -> dict[int, T]:
    """Return the values, which are given for columns of some types only, by the number of the column."""
    return dict(zip((number for number, code in enumerate(numbers) if code in of), values, strict=False))


def _collations(fields: Mapping[int, bytes], default: int, each: int, numbers: list[int], of: frozenset[int]) -> dict[int, int]:
    if each in fields:
        return _by_column(_integers(fields[each]), numbers, of)
    if default not in fields:
        return {}
    usual, *others = _integers(fields[default])
    exceptions = dict(zip(others[::2], others[1::2], strict=True))
    columns = [number for number, code in enumerate(numbers) if code in of]
    return {number: exceptions.get(place, usual) for place, number in enumerate(columns)}


def type_text(column: Column) -> str:
    """Return the type as ``information_schema.columns.column_type`` prints it, as far as the log tells."""
    if column.type in types.INTEGER_NAMES:
        return types.INTEGER_NAMES[column.type] + (" unsigned" if column.unsigned else "")
    if column.hidden_type:
        return column.hidden_type
    per_character = BYTES_PER_CHARACTER.get(column.charset or "", 1)
    match column.type:
        case types.FLOAT | types.DOUBLE:
            return ("float" if column.type == types.FLOAT else "double") + (" unsigned" if column.unsigned else "")
        case types.NEWDECIMAL:
            return f"decimal({column.meta & 0xFF},{column.meta >> 8})" + (" unsigned" if column.unsigned else "")
        case types.VARCHAR | types.VAR_STRING | types.VARCHAR_COMPRESSED:
            size = column.meta - (column.type == types.VARCHAR_COMPRESSED)  # which has a byte for the method
            return f"varchar({size // per_character})" if column.is_text else f"varbinary({size})"
        case types.STRING:
            return f"char({column.meta // per_character})" if column.is_text else f"binary({column.meta})"
        case types.BLOB | types.BLOB_COMPRESSED:
            return ("tiny", "", "medium", "long")[column.meta - 1] + ("text" if column.is_text else "blob")
        case types.ENUM | types.SET:
            labels = ",".join("'" + label.replace("'", "''") + "'" for label in column.labels)
            return f"{'enum' if column.type == types.ENUM else 'set'}({labels})"
        case types.BIT:
            return f"bit({(column.meta >> 8) * 8 + (column.meta & 0xFF)})"
        case types.GEOMETRY:
            return GEOMETRY_NAMES[column.geometry] if column.geometry < len(GEOMETRY_NAMES) else "geometry"
    name = types.TIME_NAMES.get(column.type) or types.OTHER_NAMES.get(column.type, f"type {column.type}")
    return f"{name}({column.meta})" if column.type in types.FRACTIONAL_TYPES and column.meta else name
