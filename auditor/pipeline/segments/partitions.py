"""Staged messages of topics as segments have them: by partition, each at its offset, whatever batches a pipeline read them in.

A pipeline numbers messages in the order in which its batches read them, and gives rows all columns that their table had by then. Both
differ between two pipelines. So an event of a partition has its message's offset as ``position``; as ``gtid`` what a message is known
by for ever, ``TOPIC-ID:PARTITION:OFFSET``; and in ``before`` and ``after`` the name of each column that is not NULL before its value,
sorted by name. A column that a message lacks is NULL in the pipeline, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import Pipeline
from auditor.pipeline.events import ARROW_SCHEMA, name_partition
from auditor.pipeline.kafka.offsets import Range, StreamOffset, from_json, ranges_between
from auditor.store import Store, segments, topic_batches

NAMED = "named"
"""The schema id of events that bring the names of their columns."""

_ROWS = ARROW_SCHEMA.field("before").type


@dataclass(frozen=True, slots=True)
class PartitionEvents:
    """Events of one partition, in the order of its messages."""

    partition: int
    events: pa.RecordBatch
    positions: npt.NDArray[np.int64]
    """The positions that they have in the pipeline's stream."""

    def after(self, offset: int) -> PartitionEvents:
        """Return those of messages behind an offset."""
        is_later = self.events["position"].to_numpy() > offset
        if is_later.all():
            return self
        return PartitionEvents(self.partition, self.events.filter(pa.array(is_later)), self.positions[is_later])


@dataclass(frozen=True, slots=True)
class StagedRanges:
    """Which offsets of which partitions the positions of a pipeline's stream are."""

    ranges: tuple[Range, ...]
    """In the order of the stream."""
    ids: tuple[str, ...]
    """The id of the topic of each."""
    replaced: dict[str, str]
    """Topics whose offsets are not those of before any more, each with a sentence."""

    @classmethod
    def of(cls, offsets: Sequence[StreamOffset]) -> StagedRanges:
        """Return the ranges of consecutive batches, by the offset at the end of each and before the first."""
        found: list[tuple[Range, str]] = []
        replaced: dict[str, str] = {}
        for start, end in pairwise(offsets):
            ranges = ranges_between(start, end)
            found += [(one, end.topics[one.topic].id) for one in ranges if one.start < one.end]
            for name, topic in end.topics.items():
                if name in start.topics and start.topics[name].id != topic.id:
                    replaced[name] = f"the topic {name} was deleted and made again"
            replaced |= {one.topic: one.lost for one in ranges if one.lost and one.topic not in replaced}
        return cls(tuple(one for one, _ in found), tuple(id for _, id in found), replaced)

    @property
    def topics(self) -> set[str]:
        """The topics that they are of."""
        return {one.topic for one in self.ranges} | self.replaced.keys()

    def has_partition(self, first: int, last: int, partition: int) -> bool:
        """Return whether a partition of this number has messages from one position to another, both inclusive."""
        return any(
            one.partition == partition and one.position(one.start) <= last and one.position(one.end - 1) >= first for one in self.ranges
        )

    def split(self, events: pa.RecordBatch, names_of: Callable[[str], Sequence[str]]) -> Iterator[PartitionEvents]:
        """Yield a table's events, in the order of the stream, by partition; ``names_of`` returns the columns of a schema."""
        positions = events["position"].to_numpy()
        begins = np.array([one.position(one.start) for one in self.ranges], np.int64)
        places = np.searchsorted(begins, positions, "right") - 1
        schema_ids = np.array(events["schema_id"].to_pylist(), object)
        changes = (places[1:] != places[:-1]) | (schema_ids[1:] != schema_ids[:-1])
        for start, end in pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(positions)]):
            one = self.ranges[places[start]]
            offsets = positions[start:end] - begins[places[start]] + one.start
            assert places[start] >= 0 and offsets[-1] < one.end, "events are within the batches in which they were read"
            some = events.slice(start, end - start)
            identified = _identified(some, f"{self.ids[places[start]]}:{one.partition}:", offsets, names_of(str(schema_ids[start])))
            yield PartitionEvents(one.partition, identified, positions[start:end])


def find_open_partitions(store: Store, pipeline: str, chosen: Pipeline) -> set[str]:
    """Return the partitions of topics, as streams, of which messages were counted that are in no finished segment. Raises StoreError."""
    source, cut = chosen.topic_source, segments.get_cut(store, pipeline)
    assert source is not None, "partitions are those of topics"
    found: set[str] = set()
    for table, free in cut.free.items():
        bodies = topic_batches.list_around(store, pipeline, free + 1, free + 1) if free < cut.through else []
        bodies += topic_batches.list_around(store, pipeline, cut.through, cut.through) if bodies else []
        if not bodies:
            continue
        start, end = from_json(bodies[0]), from_json(bodies[-1])
        for name, topic in end.topics.items():
            if source.table_of(name).lower() == chosen.origin_of(table).lower():
                before = start.topics[name].ends if name in start.topics else ()
                found |= {
                    name_partition(table, number)
                    for number, offset in enumerate(topic.ends)
                    if offset > (before[number] if number < len(before) else 0)
                }
    return found


def _identified(events: pa.RecordBatch, prefix: str, offsets: npt.NDArray[np.int64], names: Sequence[str]) -> pa.RecordBatch:
    changed: dict[str, Any] = {
        "schema_id": pa.array([NAMED] * len(offsets), pa.string()),
        "gtid": pc.binary_join_element_wise(pa.scalar(prefix), pa.array(offsets).cast(pa.string()), ""),
        "position": pa.array(offsets),
        "row": pa.array(np.zeros(len(offsets), np.int64)),
        "before": _named(events["before"], names),
        "after": _named(events["after"], names),
    }
    return pa.RecordBatch.from_arrays([changed.get(one.name, events[one.name]) for one in ARROW_SCHEMA], schema=ARROW_SCHEMA)


def _named(rows: pa.ListArray, names: Sequence[str]) -> pa.ListArray:
    """Return rows as the names and values of those columns that are not NULL, sorted by name."""
    order = np.argsort(np.array(names, object), kind="stable")
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    flat = rows.flatten()
    has_value = flat.is_valid().to_numpy(zero_copy_only=False).reshape(int(present.sum()), len(names))[:, order]
    numbers, columns = np.nonzero(has_value)
    values = flat.take(pa.array(numbers * len(names) + order[columns]))
    labels = pa.array([names[place] for place in order], pa.string()).take(pa.array(columns))
    pairs = np.arange(2 * len(values)).reshape(2, -1).T.ravel()
    lengths = np.zeros(len(rows), np.int32)
    lengths[present] = 2 * has_value.sum(axis=1)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    joined = pa.concat_arrays([labels, values.cast(pa.string())]).take(pa.array(pairs))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), joined, type=_ROWS, mask=pa.array(~present))


def value_named(rows: pa.ListArray, name: str) -> pa.Array:
    """Return of each row the value that follows the name of a column, whatever its case; NULL where there is none."""
    flat, starts = rows.values, rows.offsets.to_numpy().astype(np.int64)
    labels = pc.utf8_lower(flat).to_numpy(zero_copy_only=False)
    chosen = np.full(len(rows), -1, np.int64)
    places = np.arange(starts[0], starts[-1])
    owners = np.searchsorted(starts, places, "right") - 1
    is_label = (places - starts[owners]) % 2 == 0
    hits = is_label & (labels[starts[0] : starts[-1]] == name.lower())
    chosen[owners[hits]] = places[hits] + 1
    return pc.take(flat, pa.array(chosen, mask=chosen < 0))


def spread(row: Sequence[str] | None, names: Sequence[str]) -> list[str | None] | None:
    """Return a row of names and values as the values of these columns."""
    if row is None:
        return None
    values = dict(zip(row[::2], row[1::2], strict=True))
    return [values.get(name) for name in names]
