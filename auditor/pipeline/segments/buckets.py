"""Digests of a segment's events by bucket: 256 buckets, by a hash of the value of a column such as the customer's number.

A value is the text that the event has of it, so it does not depend on the writer, on the width of the column's type, or on its place in the
table; of a masked column it is the digest that stands for it. An event is in the bucket of the value before and in that of the value after.
Where it has neither, as the keys and bounds of a refresh have no values of other columns, it is in the bucket of NULL.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from auditor.config import Pipeline
from auditor.pipeline.events import table_of_stream
from auditor.pipeline.segments.partitions import NAMED, value_named
from auditor.store import Store, parts
from auditor.summary.bucket_sums import HASH_BYTES, BucketSums, bucket_of

log = logging.getLogger(__name__)

NONE = -1
"""Stands for the bucket of a row that is not there."""


def refuse_missing_column(table: str, by: str, columns: list[str]) -> str:
    """Return why segments of a table have no digests by a column, and the ways out."""
    listed = f"its columns are {', '.join(columns)}" if columns else "its columns are not known"
    return (
        f"{table} has no column {by!r}, which the pipeline's segment: by: names, so its segments have no digests by bucket; {listed};"
        f" correct the name, or write by: {{TABLE: COLUMN}} for the tables that have one"
    )


@dataclass(frozen=True, slots=True)
class Bucketed:
    """How events of one table and schema come into buckets."""

    by: str
    """The source's name of the column."""
    index: int | None
    """The number of its value in an event; None if the table has no such column, or events bring the names of their columns."""
    refused: str = ""
    """Why there is none."""
    name: str = ""
    """What events call it that bring the names of their columns: those of a topic's partition."""

    @property
    def is_known(self) -> bool:
        """Whether events have the column, as far as is known."""
        return not self.refused


@dataclass(slots=True)
class BucketColumns:
    """Which columns the settings of a pipeline name, found in the schemas of its events."""

    store: Store
    listed_as: str
    """The name under which the store lists the pipeline's schemas."""
    pipeline: Pipeline
    _found: dict[tuple[str, str], Bucketed] = field(default_factory=dict)

    def find(self, table: str, schema_id: str) -> Bucketed | None:
        """Return how events of a table come into buckets; None if it is not asked for. Raises StoreError.

        The settings name the source's column, and events have the target's name of it. Logs once of a schema that it has none.
        """
        table = table_of_stream(table)
        by = self.pipeline.segment.column_of(table) if self.pipeline.segment else None
        if by is None:
            return None
        if (table, schema_id) not in self._found:
            found = self._found[table, schema_id] = self._find(table, schema_id, by)
            if found.refused:
                extra = {"action": "segments_without_buckets", "pipeline": self.listed_as, "table": table}
                log.warning("%s: %s", self.listed_as, found.refused, extra=extra)
        return self._found[table, schema_id]

    def _find(self, table: str, schema_id: str, by: str) -> Bucketed:
        renamed = {old.lower(): new for old, new in self.pipeline.columns_of(table.partition(".")[2]).rename.items()}
        wanted = renamed.get(by.lower(), by).lower()
        if schema_id == NAMED:
            return Bucketed(by, None, name=wanted)
        body = parts.get_schema(self.store, self.listed_as, schema_id)
        names = [str(column["name"]) for column in body["columns"]] if isinstance(body, dict) and "columns" in body else []
        index = next((number for number, name in enumerate(names) if name.lower() == wanted), None)
        return Bucketed(by, index, "" if index is not None else refuse_missing_column(table, by, names))


def values_of(events: pa.RecordBatch, bucketed: Bucketed) -> Iterator[tuple[npt.NDArray[np.bool_], pa.Array]]:
    """Yield for the rows before and after whether each is there, and its value of a column; NULL for one that is not."""
    for name in ("before", "after"):
        rows = events[name]
        is_there = rows.is_valid().to_numpy(zero_copy_only=False)
        if (index := bucketed.index) is None:
            yield is_there, value_named(rows, bucketed.name)
            continue
        has_value = is_there & (pc.fill_null(pc.list_value_length(rows), 0).to_numpy(zero_copy_only=False) > index)
        places = rows.offsets.to_numpy()[:-1].astype(np.int64) + index
        yield is_there, pc.take(rows.values, pa.array(places, mask=~has_value))


def find_buckets(events: pa.RecordBatch, bucketed: Bucketed) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the numbers of events and the bucket of each; an event whose row comes from another bucket has two."""
    before, after = (_buckets(is_there, values) for is_there, values in values_of(events, bucketed))
    after[(before == NONE) & (after == NONE)] = bucket_of(None)
    numbers = np.arange(len(before))
    left = (before != NONE) & (before != after)
    arrived = after != NONE
    return np.concatenate([numbers[arrived], numbers[left]]), np.concatenate([after[arrived], before[left]])


def _buckets(is_there: npt.NDArray[np.bool_], values: pa.Array) -> npt.NDArray[np.int64]:
    encoded = values.dictionary_encode()
    buckets = np.array([*map(bucket_of, encoded.dictionary.to_pylist()), bucket_of(None)])
    chosen: npt.NDArray[np.int64] = buckets[pc.fill_null(encoded.indices, len(encoded.dictionary)).to_numpy(zero_copy_only=False)]
    chosen[~is_there] = NONE
    return chosen


def hashes_of(texts: pa.BinaryArray) -> list[bytes]:
    """Return the hash of each event that is added up: the beginning of the SHA-256 of its text."""
    sha256 = hashlib.sha256
    return [sha256(text).digest()[:HASH_BYTES] for text in texts.to_pylist()]


def sums_of(texts: pa.BinaryArray, numbers: npt.NDArray[np.int64], buckets: npt.NDArray[np.int64]) -> BucketSums:
    """Return the sums of events with these texts, by `find_buckets`."""
    hashes = hashes_of(texts)
    return BucketSums.of(buckets, b"".join(hashes[number] for number in numbers.tolist()))
