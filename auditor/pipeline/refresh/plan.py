"""Which chunks a refresh consists of, and where the next one begins: the source keeps that, so that any process can go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from auditor.pipeline.events import ColumnSchema, TableSchema
from auditor.pipeline.refresh.keys import Key, KeyColumns
from auditor.store.refreshes import RefreshScope

MOST_KEYS = 500
"""Keys of a chunk of listed keys: MariaDB looks more of them up by reading the table."""


@dataclass(frozen=True, slots=True)
class Next:
    """Where the next chunk begins."""

    number: int = 1
    """Of that chunk, from 1."""
    range: int = 0
    """The range that it is of; as many as there are ranges once all of them are done."""
    low: Key = ()
    """The greatest key before it."""
    keys: int = 0
    """How many of the listed keys are done."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Rows that a chunk itself holds."""

    columns: tuple[ColumnSchema, ...]
    rows: Sequence[Sequence[str | None]]
    """As texts of events."""


@dataclass(frozen=True, slots=True)
class ChunkKeys:
    """Which rows a chunk has."""

    condition: str
    """As SQL."""
    bounds: list[Key] | None = None
    """The interval of keys that it replaces: the greatest key below, and the last one."""
    keys: Sequence[Key] = field(default=())
    """The listed keys that it replaces."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The chunks of one refresh."""

    key: KeyColumns
    ranges: Sequence[tuple[Key, Key]]
    keys: Sequence[Key]
    empties: bool
    """Whether the first chunk empties the table in targets, because no other interval of its keys is the same rows there."""

    def first(self) -> Next:
        """Return where the first chunk begins."""
        return Next(low=self.ranges[0][0] if self.ranges else ())

    def is_done(self, place: Next) -> bool:
        """Return whether no chunk is left."""
        return place.range >= len(self.ranges) and place.keys >= len(self.keys)

    def after(self, place: Next, end: Key | None, keys: int = 0) -> Next:
        """Return where the chunk after this one begins, which ended with the key ``end``, or with its range, or had so many keys."""
        number = place.number + 1
        if place.range >= len(self.ranges):
            return Next(number, place.range, (), place.keys + keys)
        if end is not None:
            return Next(number, place.range, end, place.keys)
        later = place.range + 1
        return Next(number, later, self.ranges[later][0] if later < len(self.ranges) else (), place.keys)

    def bounds(self, place: Next, end: Key | None) -> list[Key] | None:
        """Return the bounds that a chunk states; None for none."""
        if self.empties:
            return [(), ()] if place.number == 1 else None
        return [place.low, self.ranges[place.range][1] if end is None else end]

    def body(self, chunk: ChunkKeys, then: Next, content: Sent | Sequence[str]) -> str:
        """Return the JSON that says in the log what a chunk is, and in the source where the next one begins.

        ``content`` are its rows, or where these follow in a refresh table, the columns that may be NULL in the source.
        """
        schema = self.key.schema
        rows = self._sent(content) if isinstance(content, Sent) else {"nullable": list(content)}
        names = {"database": schema.database, "table": schema.table, "key": list(schema.key)}
        follows = {"number": then.number, "range": then.range, "low": list(then.low), "keys": then.keys}
        position = {"bounds": chunk.bounds, "keys": [list(key) for key in chunk.keys], "next": follows}
        return json.dumps({**names, **position, **rows}, ensure_ascii=False, separators=(",", ":"))

    def _sent(self, sent: Sent) -> dict[str, Any]:
        schema = self.key.schema
        return {"schema": TableSchema(schema.database, schema.table, sent.columns, schema.key).to_json(), "rows": sent.rows}


def make_plan(key: KeyColumns, scope: RefreshScope) -> Plan:
    """Return the plan of a request. Raises ColumnRefused for a table whose key has no order."""
    ranges = [(_plain(low), _plain(high)) for low, high in scope.ranges]
    if scope.is_all or ranges:
        assert key.chunked
    return Plan(key, [((), ())] if scope.is_all else ranges, [_plain(keys) for keys in scope.keys], scope.is_all and not key.is_ordered)


def read_next(body: str) -> Next | None:
    """Return where a refresh goes on whose last chunk has this body; None if it has none yet."""
    if not body:
        return None
    follows: dict[str, Any] = json.loads(body)["next"]
    return Next(follows["number"], follows["range"], tuple(follows["low"]), follows["keys"])


def _plain(key: Sequence[str | None]) -> Key:
    return tuple(text for text in key if text is not None)
