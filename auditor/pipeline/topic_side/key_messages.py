"""What the messages of a topic made of the rows of a few keys, and what the topic says of when its source committed them."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from auditor.compare.accounting import Key
from auditor.errors import NoKey
from auditor.model import ColumnPlan, Plan
from auditor.pipeline.events import ColumnSchema, TableSchema, source_kind
from auditor.pipeline.key_history import KeyHistory, Version
from auditor.pipeline.topic_side.fixed_topic import OFFSET_BITS, OUR_LOG
from auditor.run.live.plans import why_not_told

TEXTS = ("text", "char", "enum", "set")

HOLDS: Mapping[str, Sequence[str]] = {
    "boolean": ("boolean",),
    "integer": ("integer", "year", "boolean"),
    "year": ("year",),
    "decimal": ("decimal", "integer", "year", "boolean"),
    "float32": ("float32",),
    "float64": ("float64", "float32"),
    "bit": ("bit",),
    **dict.fromkeys(TEXTS, TEXTS),
    "binary": ("binary",),
    "date": ("date",),
    "timestamp": ("timestamp", "timestamptz"),
    "timestamptz": ("timestamp", "timestamptz"),
    "time": ("time",),
}
"""By the kind that a column has in messages, of which kinds of the source's column it holds all values."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a message stands."""

    partition: int
    offset: int
    written: int
    """When, in milliseconds since 1970, by its producer's clock or the broker's."""
    log: str | None
    position: int | None
    """Where its change stands in its source's ``log``, and its ``row`` there; None if it does not say that."""
    row: int | None
    committed: int | None
    """When the source committed the change, in milliseconds since 1970; None if it was read in a table, or does not say that."""
    gtid: str | None

    @property
    def at(self) -> str:
        """Its partition and offset, for a person."""
        return f"{self.partition}:{self.offset}"

    @property
    def source_place(self) -> str | None:
        """Where the source's binary log has its change, as the server names it; None if it does not say that, or is of our publisher."""
        if self.log is None or self.position is None or self.log == OUR_LOG:
            return None
        name, number = self.log.partition(" ")[2], self.position >> OFFSET_BITS
        return f"{name}.{number:06d}:{self.position & ((1 << OFFSET_BITS) - 1)}"

    def is_before(self, other: Placed) -> bool:
        """Return whether its change is an earlier one than another's; false if the two do not say that."""
        if self.log is None or self.log != other.log or self.position is None or other.position is None:
            return False
        return (self.position, self.row or 0) < (other.position, other.row or 0)

    @property
    def time(self) -> dt.datetime:
        """When the source committed its change, or else when it was written."""
        return dt.datetime.fromtimestamp((self.written if self.committed is None else self.committed) / 1000, dt.UTC)


@dataclass(slots=True)
class KeyMessages:
    """Collects the messages of keys: a sink of `read_topic`."""

    plan: Plan
    where: str
    """The audit's filter in the portable language; '' for all rows."""
    keys: Sequence[Key]
    asks_when: bool = True
    messages: int = 0
    """How many were read."""
    not_told: dict[str, str] = field(default_factory=dict)
    """Why columns are not compared with messages, by their names."""
    last_committed: dict[int, int] = field(default_factory=dict)
    """By partition, when the source committed the change of the last message that says it."""
    origins: set[str | None] = field(default_factory=set)
    """The connectors that wrote messages which say it."""
    _histories: dict[str, KeyHistory] = field(default_factory=dict)
    _versions: dict[Key, list[Version]] = field(default_factory=lambda: defaultdict(list))
    _placed: dict[int, Placed] = field(default_factory=dict)
    _cleared: dict[int, list[Version]] = field(default_factory=lambda: defaultdict(list))
    _batch: Mapping[str, pa.Array] = field(default_factory=dict)

    def add_schema(self, schema: TableSchema) -> None:
        """Take a schema. Raises NoKey."""
        if not schema.key:
            raise NoKey(f"topic {schema.database}.{schema.table}: its messages have no key, so that no message is of a row")

    def add_messages(self, columns: Mapping[str, pa.Array]) -> None:
        """Take messages."""
        self._batch = columns
        self.messages += len(columns["offset"])
        partition = columns["partition"][0].as_py()
        said = [(one, origin) for one, origin in zip(columns["committed"].to_pylist(), columns["origin"].to_pylist(), strict=True) if one]
        self.origins.update(origin for _, origin in said)
        if said:
            self.last_committed[partition] = said[-1][0]
        for number, clears in enumerate(columns["clears"].to_pylist()):
            if clears:
                position = self._place(number)
                self._cleared[partition].append(Version(position, 0, "clear", None, self._placed[position].time))

    def add_events(self, schema: TableSchema, events: pa.RecordBatch) -> None:
        """Take the events of messages of the batch. Raises NoKey, TraceRefused and ValueRefused."""
        if schema.id not in self._histories:
            self.add_schema(schema)
            told = [column for column in self.plan.columns if self._is_told(column, schema)]
            names = {column.name: column.name for column in self.plan.columns}
            self._histories[schema.id] = KeyHistory(self.plan, names, told, self.where, frozenset(self.keys), self._versions)
        counted = {key: len(self._versions[key]) for key in self.keys}
        self._histories[schema.id].take(schema, events)
        numbers = {offset: number for number, offset in enumerate(self._batch["offset"].to_pylist())}
        for key, count in counted.items():
            for version in self._versions[key][count:]:
                self._place(numbers[version.position & ((1 << OFFSET_BITS) - 1)])

    def _place(self, number: int) -> int:
        """Note where a message of the batch stands, and return its place among all."""
        names = ("partition", "offset", "written", "log", "position", "row", "committed", "gtid")
        placed = Placed(*(self._batch[name][number].as_py() for name in names))
        position = (placed.partition << OFFSET_BITS) + placed.offset
        self._placed[position] = placed
        return position

    def _is_told(self, column: ColumnPlan, schema: TableSchema) -> bool:
        """Return whether messages of a schema tell what the audit compares of a column; note why not."""
        found = next((one for one in schema.columns if one.name.lower() == column.name.lower()), None)
        if column.pieces:
            why = f"of {column.name} the databases tell only digests of long values"
        elif found is None:
            why = f"messages have no {column.name}"
        else:
            why = why_not_told(column) or _why_not_held(column, found)
        if why:
            self.not_told[column.name] = why
        return not why

    def versions(self, key: Key) -> list[Version]:
        """Return what messages made of a key's row, by their partitions and offsets."""
        found = self._versions.get(key, [])
        partitions = {self.placed(version).partition for version in found}
        return sorted([*found, *(one for number in partitions for one in self._cleared[number])], key=lambda version: version.position)

    def placed(self, version: Version) -> Placed:
        """Return where the message of a version stands."""
        return self._placed[version.position]


def _why_not_held(column: ColumnPlan, found: ColumnSchema) -> str:
    """Return why a column of messages does not hold what the audit compares of the source's; '' if it does."""
    kind, native, what = source_kind(found), column.native["source"], f"{column.name} is {found.type} in messages"
    then = None if kind is None else replace(column, native={**column.native, "source": kind}).unrounded("source")
    if kind is None or then is None or why_not_told(then) or native.name not in HOLDS.get(kind.name, ()):
        return f"{what}, and {column.types['source']} in the source, whose values that does not hold as they are"
    if _is_coarser(kind.scale, native.scale) and _is_coarser(kind.scale, column.kind.scale):
        return f"{what}, with fewer digits than the source's {column.types['source']}"
    if "bigint" in column.types["source"].lower() and native.unsigned and not kind.unsigned and kind.name == "integer":
        return f"{what}, where large numbers of the source's {column.types['source']} are negative"
    return ""


def _is_coarser(scale: int | None, other: int | None) -> bool:
    """Return whether fewer digits are behind the point; None is as many as there can be."""
    return scale is not None and (other is None or scale < other)
