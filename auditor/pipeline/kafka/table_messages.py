"""The messages of one table of a target that is topics: its rows, what emptied it, and what every topic of the target says with them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import MessageSettings, TopicTarget
from auditor.pipeline.events import TableSchema
from auditor.pipeline.kafka.topic_writer import Headers
from auditor.pipeline.messages.formats import Register
from auditor.pipeline.messages.source_block import Names
from auditor.pipeline.messages.writing import NEW_KEY, OLD_KEY, Encoder, nullable_additions

PLACE = "auditor"
"""The header that each message has: position, row and schema of its event, with points between.

In a table's topic a fourth part follows, the message's number in its partition, counted from 0 without a gap.
"""

COLUMNS = "auditor.columns"
"""The header of a message in the topic of statements with the table's columns, as JSON, from its position on."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages in their order."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Collection[Headers]
    positions: np.ndarray
    """Those of the events of which they are, without those of tombstones."""


@dataclass(frozen=True, slots=True)
class _MessageHeaders(Collection[Headers]):
    """The headers of messages, which are made one after the other: lists of many at once would be a quarter of all work."""

    places: Sequence[bytes]
    more: dict[int, Headers]
    """By message, those beside its place."""

    def __iter__(self) -> Iterator[Headers]:
        if not self.more:
            for place in self.places:
                yield [(PLACE, place)]
            return
        for number, place in enumerate(self.places):
            yield [(PLACE, place), *self.more.get(number, ())]

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, headers: object) -> bool:
        return any(headers == one for one in self)


class OrderInTransactions:
    """Numbers the events of a table within their transactions, counted from 1, while they come."""

    def __init__(self) -> None:
        self._position, self._count = -1, 0

    def number(self, events: pa.RecordBatch) -> pa.Array:
        """Return the numbers of the next events."""
        positions = events["position"].to_numpy()
        starts = np.flatnonzero(np.r_[True, positions[1:] != positions[:-1]])
        lengths = np.diff(np.r_[starts, len(positions)])
        numbers = np.arange(len(positions)) - np.repeat(starts, lengths) + 1
        if positions[0] == self._position:
            numbers[: lengths[0]] += self._count
        self._position, self._count = int(positions[-1]), int(numbers[-1])
        return pa.array(numbers)


class TableMessages:
    """Writes the events of a table under one schema as messages. ``register`` gives their schemas to a registry, if there is one.

    ``known`` are the columns that all schemas of the table had until then. Raises ColumnRefused for a column that no message holds, and
    what the registry raises.
    """

    def __init__(
        self, schema: TableSchema, known: Sequence[str], settings: MessageSettings, names: Names, register: Register | None
    ) -> None:
        self.schema = schema
        self._encoder = Encoder(nullable_additions(schema, known), settings, names, register)

    def encode(self, events: pa.RecordBatch, orders: pa.Array | None = None) -> Batch:
        """Return the messages of events of rows; with ``orders``, their numbers in their transactions, each says of which one it is.

        Raises ValueRefused for a value that a message cannot hold.
        """
        found = self._encoder.encode(events, time.time_ns(), orders)
        positions, numbers = (events[name].take(found["event"]) for name in ("position", "row"))
        texts = (positions.cast(pa.string()), numbers.cast(pa.string()))
        places = pc.binary_join_element_wise(*texts, pa.scalar(self.schema.id), ".").cast(pa.binary())
        headers = _MessageHeaders(places.to_pylist(), {})
        for name, values in ((NEW_KEY, found["new_key"]), (OLD_KEY, found["old_key"])):
            for at in np.flatnonzero(values.is_valid()).tolist():
                headers.more.setdefault(at, []).append((name, values[at].as_py()))
        written = positions.to_numpy()[found["value"].is_valid().to_numpy(zero_copy_only=False)]
        return Batch(found["key"].to_pylist(), found["value"].to_pylist(), headers, written)

    def truncation(self, gtid: str | None, position: int, micros: int) -> bytes | None:
        """Return the message that says that all rows went; None in a form that has none."""
        return self._encoder.truncate(gtid, position, micros, time.time_ns())


def refuse_registry(chosen: TopicTarget) -> str:
    """Return why messages of a format cannot be written beside a broker without a registry."""
    return f"messages: format: {chosen.messages.format} needs a registry; add registry: {{url: ...}} to the broker {chosen.broker}"


def names_of(pipeline: str, offset: Mapping[str, Any] | None) -> Names:
    """Return what messages say of a pipeline, whose stream stands at an offset."""
    log_name = str((offset or {}).get("file", "binlog.0")).rpartition(".")[0]
    return Names(prefix=pipeline, version=version("auditor"), log_name=log_name)
