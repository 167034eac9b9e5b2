"""The columns that tables had at each place of a log in which they are missing, as a schema tracker knows them.

With binlog_row_metadata=MINIMAL or NO_LOG, and on servers that are too old for it, a table map has numbers of types and no names.
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypedDict

from auditor.errors import LogRefused
from auditor.pipeline.binlog import column_types as types
from auditor.pipeline.binlog.charsets import collation_of
from auditor.pipeline.binlog.table_map import GEOMETRY_NAMES, HIDDEN_TYPES, Column, TableMap, is_fixed_binary

Name = tuple[str, str]
"""Database and table."""

MINIMAL_WAYS = "SET GLOBAL binlog_row_metadata = 'FULL', or give the pipeline a tracker: {url: ...}"
"""What to do about a log in which the names of columns are missing."""

_TYPES: Mapping[str, Sequence[int]] = {
    **{name: (number,) for number, name in types.INTEGER_NAMES.items()},
    "float": (types.FLOAT,),
    "double": (types.DOUBLE,),
    "decimal": (types.NEWDECIMAL,),
    "year": (types.YEAR,),
    "date": (types.DATE, types.NEWDATE),
    "time": (types.TIME, types.TIME2),
    "datetime": (types.DATETIME, types.DATETIME2),
    "timestamp": (types.TIMESTAMP, types.TIMESTAMP2),
    "char": (types.STRING,),
    "binary": (types.STRING,),
    "bit": (types.BIT,),
    "varchar": (types.VARCHAR, types.VAR_STRING, types.VARCHAR_COMPRESSED),
    "enum": (types.ENUM,),
    "set": (types.SET,),
    "varbinary": (types.VARCHAR, types.VAR_STRING, types.VARCHAR_COMPRESSED),
    "json": (types.JSON,),
    **dict.fromkeys(HIDDEN_TYPES, (types.STRING,)),
    **dict.fromkeys((*GEOMETRY_NAMES, "geometrycollection"), (types.GEOMETRY,)),
    **dict.fromkeys(
        (f"{size}{kind}" for size in ("tiny", "", "medium", "long") for kind in ("text", "blob")), (types.BLOB, types.BLOB_COMPRESSED)
    ),
}
"""The numbers in a log of information_schema's data types."""


@dataclass(frozen=True, slots=True)
class TrackedColumn:
    """A column as information_schema describes it."""

    name: str
    type: str
    """Its ``data_type``."""
    unsigned: bool = False
    charset: str | None = None
    labels: tuple[str, ...] = ()


class TrackedBody(TypedDict, total=False):
    """A `TrackedTable` as JSON holds it: the reason, or the columns and their key."""

    reason: str
    columns: list[list[Any]]
    """The fields of each."""
    key: list[str]


@dataclass(frozen=True, slots=True)
class TrackedTable:
    """The columns of a table, in their order; or why they are not known."""

    columns: tuple[TrackedColumn, ...] = ()
    key: tuple[str, ...] = ()
    """The names of the primary key's columns."""
    reason: str = ""
    """Why nobody knows the columns; '' if they are known."""

    def to_body(self) -> TrackedBody:
        """Return it as JSON holds it."""
        if self.reason:
            return {"reason": self.reason}
        return {
            "columns": [[column.name, column.type, column.unsigned, column.charset, list(column.labels)] for column in self.columns],
            "key": [*self.key],
        }

    @classmethod
    def from_body(cls, body: TrackedBody) -> TrackedTable:
        """Return what ``to_body`` made JSON of."""
        if "reason" in body:
            return cls(reason=body["reason"])
        columns = (TrackedColumn(name, kind, unsigned, charset, tuple(labels)) for name, kind, unsigned, charset, labels in body["columns"])
        return cls(tuple(columns), tuple(body["key"]))


class TrackedColumns:
    """The columns of all tables that are read, by the position in the log after which they had them."""

    def __init__(self, versions: Mapping[Name, Sequence[tuple[int, TrackedBody]]]) -> None:
        self._positions = {name: [position for position, _ in history] for name, history in versions.items()}
        self._tables = {name: [TrackedTable.from_body(body) for _, body in history] for name, history in versions.items()}

    def __contains__(self, name: Name) -> bool:
        return name in self._positions

    def version(self, name: Name, position: int) -> int:
        """Return the number of the columns that a table has in events at a position, for `table`; 0 if none are known."""
        return bisect_left(self._positions.get(name, ()), position)

    def table(self, name: Name, version: int) -> TrackedTable:
        """Return the columns of a table by their number."""
        if version:
            return self._tables[name][version - 1]
        return TrackedTable(reason="the tracker began later" if name in self else "the tracker has no such table")


def pack_versions(versions: Mapping[Name, Sequence[tuple[int, TrackedBody]]], since: int) -> bytes:
    """Return what tasks need that decode events after position ``since``, to be unpacked by `unpack_versions`."""
    needed = [
        [*name, history[max(0, bisect_left([position for position, _ in history], since + 1) - 1) :]] for name, history in versions.items()
    ]
    return zlib.compress(json.dumps(needed, ensure_ascii=False, separators=(",", ":")).encode())


@lru_cache(maxsize=4)
def unpack_versions(packed: bytes) -> TrackedColumns:
    """Return what `pack_versions` packed; a worker of Spark keeps it from one task to the next."""
    needed = json.loads(zlib.decompress(packed))
    return TrackedColumns({(database, table): [(position, body) for position, body in history] for database, table, history in needed})


def complete(table: TableMap, tracked: TrackedTable) -> TableMap:
    """Return a table map with what is missing in its log. Raises LogRefused, without a place, if it has other columns."""
    if tracked.reason:
        raise LogRefused(
            f"{table.name} is logged without the names of its columns, and the tracker does not know them: {tracked.reason};"
            " SET GLOBAL binlog_row_metadata = 'FULL', then refresh the table"
        )
    if len(tracked.columns) != len(table.columns):
        raise _misfit(table, f"{len(tracked.columns)} columns, and the log {len(table.columns)}")
    columns = tuple(_completed(table, *pair) for pair in zip(table.columns, tracked.columns, strict=True))
    names = [column.name for column in columns]
    return replace(table, columns=columns, key=tuple(names.index(name) for name in tracked.key), is_full=True)


def _completed(table: TableMap, logged: Column, known: TrackedColumn) -> Column:
    if logged.type not in _TYPES.get(known.type, (logged.type,)):
        raise _misfit(table, f"{known.name} as {known.type}, and the log the type {logged.type} in its place")
    collation = logged.collation
    if collation is None and (logged.type in types.CHARACTER_TYPES or logged.type in (types.ENUM, types.SET)):
        collation = collation_of(known.charset) if known.charset else types.BINARY_COLLATION
    hidden = (
        known.type if known.type in HIDDEN_TYPES and is_fixed_binary(replace(logged, collation=collation), HIDDEN_TYPES[known.type]) else ""
    )
    shape = GEOMETRY_NAMES.index(known.type) if known.type in GEOMETRY_NAMES else GEOMETRY_NAMES.index("geomcollection")
    return replace(
        logged,
        name=known.name,
        unsigned=known.unsigned,
        collation=collation,
        labels=known.labels,
        geometry=shape if logged.type == types.GEOMETRY else 0,
        hidden_type=hidden,
    )


def _misfit(table: TableMap, difference: str) -> LogRefused:
    return LogRefused(
        f"the tracker has of {table.name} {difference}; SET GLOBAL binlog_row_metadata = 'FULL', then refresh the table, and report this"
    )
