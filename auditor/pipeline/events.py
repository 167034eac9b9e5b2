"""What the parts of the pipeline hand to each other: events as Arrow batches, positions, and the columns of a table at its time.

An event holds its row twice, before and after, as texts in the order of the table's columns, generated ones among them. Which columns
these are says the event's ``schema_id``; the source announces each schema before the first event that has it, in each range of the log
that is decoded alone, by an event of kind ``schema`` whose ``after`` is the schema's JSON. A value's text is what the server itself
prints for it, in UTC; binary strings, which the server prints as bytes, are lower-case hexadecimal digits:

===============================  ====================================================================================
type                             text
===============================  ====================================================================================
integers, ``BIT``                decimal digits, with ``-`` before negative numbers
``DECIMAL``                      all digits of its scale: ``-12.30``
``FLOAT``, ``DOUBLE``            the shortest decimal number that reads back as the same value of that width: ``1.5``, ``-0``,
                                 ``0.0000001``; with an exponent above 15 digits before or after the point: ``1e15``, ``1.5e-15``
``DATE``                         ``2024-02-29``; zero dates as they are stored: ``0000-00-00``, ``2024-00-10``
``DATETIME``, ``TIMESTAMP``      ``2024-02-29 23:59:59``, followed by ``.`` and as many digits as the column has
``TIME``                         ``-838:59:59`` with a fraction likewise; ``YEAR``: ``2024`` or ``0000``
``CHAR``, ``VARCHAR``, ``TEXT``  the characters
``BINARY``, ``BLOB`` and such    hexadecimal digits, ``BINARY(n)`` with all its n bytes; spatial values: their SRID in four bytes, the
                                 lowest first, and WKB
``UUID``, ``INET4``, ``INET6``   as PostgreSQL prints them, if the table still has such a column: MariaDB logs them as ``BINARY``
``ENUM``, ``SET``                the label; the labels separated by commas; an invalid ``ENUM`` is the empty text
``JSON``                         the document as the server prints it; MariaDB logs it as ``LONGTEXT``, as it was written
===============================  ====================================================================================
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Literal

import pyarrow as pa

import dialects
from auditor.errors import ConfigError
from dialects import Kind

EventKind = Literal["insert", "update", "delete", "refresh", "absent", "bounds", "schema", "poison", "change"]
"""What happened to a row. A refresh sends three kinds: ``refresh`` is a row that exists; ``absent`` a key that no row has; ``bounds`` an
interval of keys, whose rows are those that follow it in its transaction, and no others. ``schema`` announces a table's columns.

``poison`` and ``change`` are notes, which the source writes if its option ``notes`` is true: that rows of a table are not available, and
that a statement changed the table. ``after`` is then JSON with ``last`` position, ``events`` and ``body``, of `auditor.model.TableNote`;
their ``schema_id`` is empty; ``row`` of a change is -1."""

OFFSET_BITS = 32
"""Bits of the offset in a position: offsets in a binary log file are 32 bits wide in its own event headers."""

FILE_BITS = 24
"""Bits of the binary log file's number in a position; the 7 bits above them hold the epoch, which a failover raises."""

SHORT_YEAR = "year(2)"
"""The type of a column of which the log may hold other years than a SELECT shows, so that no pipeline carries it.

MariaDB's YEAR(2) keeps and logs 1901, and every statement reads the digits 01, which mean 2001.
https://mariadb.com/kb/en/year-data-type/"""

ARROW_SCHEMA = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("database", pa.string(), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("schema_id", pa.string(), nullable=False),
        pa.field("gtid", pa.string()),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("before", pa.list_(pa.field("element", pa.string()))),
        pa.field("after", pa.list_(pa.field("element", pa.string()))),
    ]
)
"""An event.

``position`` (see `Position`) is where the event's transaction ends in the log; of a prepared XA transaction, where its commit does.
``row`` is the event's number in the transaction, counted from 0 over the tables that are read; rows that are not available count as one for
each event of the log. So (position, row) is unique and sorts as the source applied the rows. An event of kind ``schema`` has the position
of the first row that it announces, and a negative ``row``. A statement that makes a table for rows of its own transaction comes before
them: it has the position before theirs.

``gtid`` is MySQL's (``uuid:7``, ``uuid:tag:7``) or MariaDB's (``0-1-7``), if there is one.
``time`` is when the transaction was committed, in microseconds; MariaDB logs only the second in which the statement began that committed
it. An insert and a refresh have no ``before``, a delete and an absent key have no ``after``. Of an absent key, and of bounds, only
columns of the key have values. Bounds have the greatest key below the interval as ``before`` and its last key as ``after``: the first
columns of a key stand for all keys that begin with them, and no value at all for no bound.
"""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in a binary log: sortable over files, and over servers by the epoch."""

    epoch: int
    file: int
    """Number of the file, from the digits at the end of its name."""
    offset: int

    def pack(self) -> int:
        """Return the position as one integer of 63 bits that sorts alike. Raises OverflowError if a part is too large."""
        if self.epoch >> 7 or self.file >> FILE_BITS or self.offset >> OFFSET_BITS:
            raise OverflowError(f"{self} does not fit into a position")
        return (self.epoch << FILE_BITS | self.file) << OFFSET_BITS | self.offset

    @classmethod
    def unpack(cls, packed: int) -> Position:
        """Return the position that ``pack`` made an integer of."""
        above = packed >> OFFSET_BITS
        return cls(above >> FILE_BITS, above & ((1 << FILE_BITS) - 1), packed & ((1 << OFFSET_BITS) - 1))


FIRST_MESSAGES = 1 << (FILE_BITS - 1)
"""Positions of messages of topics have numbers of files from this one on, which no log of a database reaches with six digits."""


def message_position(number: int) -> int:
    """Return the position of a message of topics, by its number in the stream."""
    return Position(0, FIRST_MESSAGES + (number >> OFFSET_BITS), number & ((1 << OFFSET_BITS) - 1)).pack()


def message_number(position: int) -> int | None:
    """Return the number of the message of topics that has a position; None if it is a place in the log of a database."""
    found = Position.unpack(position)
    return (found.file - FIRST_MESSAGES) << OFFSET_BITS | found.offset if found.file >= FIRST_MESSAGES else None


def place_text(position: int, file: str = "") -> str:
    """Return a position for people: as ``FILE:POS``, or as the number of a message.

    ``file`` is any file of the same log; without it only the file's number is known.
    """
    number, log_position = message_number(position), Position.unpack(position)
    if number is not None:
        return f"message {number}"
    base, short = file.rpartition(".")[0], f"{log_position.file:06d}:{log_position.offset}"
    return f"{base}.{short}" if base else short


PARTITION = " partition "
"""What stands between a table and the number in the name of a stream that is one partition of its topic."""

_OF_PARTITION = re.compile(rf"(.+){PARTITION}(\d+)")


def name_partition(table: str, partition: int) -> str:
    """Return the name of the stream that is one partition of the topic of a table, ``database.table``."""
    return f"{table}{PARTITION}{partition}"


def split_stream(stream: str) -> tuple[str, int]:
    """Return the table and the number of a stream that is one partition of a topic."""
    table, _, number = stream.rpartition(PARTITION)
    return table, int(number)


def table_of_stream(stream: str) -> str:
    """Return the table of a stream, which is the stream itself where that is not one partition of a topic."""
    found = _OF_PARTITION.fullmatch(stream)
    return found[1] if found else stream


def is_partition(stream: str) -> bool:
    """Return whether a stream is one partition of a topic."""
    return _OF_PARTITION.fullmatch(stream) is not None


def is_of_table(stream: str, name: str | None) -> bool:
    """Return whether a person means a stream by a name: of itself, or of its table, with or without the database. None means every one."""
    table = table_of_stream(stream)
    return name in (None, stream, stream.partition(".")[2], table, table.partition(".")[2])


def stream_place(stream: str, position: int, file: str = "") -> str:
    """Return a position in a stream for people: an offset of a partition, else as `place_text` has it."""
    return f"offset {position}" if is_partition(stream) else place_text(position, file)


FIRST_OFFSET = 4
"""Where the first event of a file begins, after the file's four magic bytes."""


_FILE = re.compile(r"[^\x00-\x1f\x7f/\\]{1,512}\.[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a binary log."""

    file: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Return the place that ``FILE:POS`` names. Raises ConfigError."""
        file, _, offset = text.rpartition(":")
        if not file or not offset.isdecimal() or not re.search(r"\.\d+$", file):
            raise ConfigError(f"{text!r} is no place in a binary log; write its file and position as in binlog.000012:4567")
        return cls(file, int(offset))

    @classmethod
    def of_server(cls, file: str, offset: int) -> Place:
        """Return a place that a server names. Raises ValueError or OverflowError if no log has it."""
        if not _FILE.fullmatch(file):
            raise ValueError(f"{file[:80]!r} is no file of a binary log")
        place = cls(file, offset)
        place.position(0).pack()
        return place

    @property
    def file_number(self) -> int:
        """The number at the end of the file's name."""
        return int(self.file.rpartition(".")[2])

    @property
    def order(self) -> tuple[int, int]:
        """What sorts places of one server as its log does."""
        return self.file_number, self.offset

    def position(self, epoch: int) -> Position:
        """Return the place as a position of a stream."""
        return Position(epoch, self.file_number, self.offset)


@dataclass(frozen=True, slots=True)
class ColumnSchema:
    """A column as the binary log's table map describes it."""

    name: str
    type: str
    """The type as ``information_schema.columns.column_type`` prints it, as far as the log tells: ``int unsigned``, ``varchar(40)``
    with its length in characters, ``decimal(10,2)``, ``datetime(6)``, ``enum('a','b')``, ``bit(3)``, ``binary(16)``. It does not tell
    the display width of integers, ZEROFILL and COMPRESSED."""
    nullable: bool
    charset: str | None = None
    """The character set of its text, or of the labels of ENUM and SET; None for other types."""
    computed: str | None = None
    """By what the pipeline computes it: an expression, or a function; None for a column of the source."""
    inputs: tuple[str, ...] = ()
    """The columns of the source that the expression reads, each followed by its type: ``price decimal(10,2)``."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of a table at one time."""

    database: str
    table: str
    columns: tuple[ColumnSchema, ...]
    key: tuple[str, ...]
    """The columns of the primary key, in its order; empty if there is none."""

    def to_json(self) -> str:
        """Return the schema as JSON with sorted keys."""
        return _json_of(self)

    @classmethod
    def from_json(cls, text: str) -> TableSchema:
        """Return the schema that ``to_json`` wrote."""
        return _schema_of(text)

    @property
    def id(self) -> str:
        """The schema's identifier: the first 12 hexadecimal digits of the SHA-256 of its JSON."""
        return _id_of(self)


@lru_cache(maxsize=10_000)
def _json_of(schema: TableSchema) -> str:
    body = asdict(schema)
    for column in body["columns"]:
        if column["computed"] is None:
            del column["computed"], column["inputs"]
    return json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=10_000)
def _schema_of(text: str) -> TableSchema:
    body = json.loads(text)
    columns = tuple(ColumnSchema(**{**column, "inputs": tuple(column.get("inputs", ()))}) for column in body["columns"])
    return TableSchema(body["database"], body["table"], columns, tuple(body["key"]))


@lru_cache(maxsize=10_000)
def _id_of(schema: TableSchema) -> str:
    return hashlib.sha256(schema.to_json().encode()).hexdigest()[:12]


MOST_SHOWN = 80
"""Characters of a value of a key that a message shows."""


def describe_key(values: Mapping[str, str | None]) -> str:
    """Return the key of a row as conditions, from its columns' texts."""
    return ", ".join(f"{name} = {_shown(value)}" for name, value in values.items())


def _shown(value: str | None) -> str:
    return "NULL" if value is None else value if len(value) <= MOST_SHOWN else f"{value[:MOST_SHOWN]}..."


@lru_cache(maxsize=10_000)
def source_kind(column: ColumnSchema) -> Kind | None:
    """Return the canonical kind of a source's column; None for a type that no target takes, as geometries and vectors."""
    return dialects.get("mysql").types.kind(column.type)
