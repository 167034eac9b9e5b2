"""Files of versions: for each change of a row a hash of its key, those of the row before and after, the position, and the time.

They are Parquet, in the order of the stream. A state that the version before it in the same file left stands there once: so a version takes
16 bytes of hashes and a few more, and 8 more if it is the first of its key in the file. Pages have checksums, which are verified.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auditor.compare.accounting import Key
from auditor.compare.row_versions import NO_ROW
from auditor.errors import HistoryUnusable, ValueRefused
from auditor.model import ColumnPlan, Plan
from auditor.pipeline.events import TableSchema
from auditor.pipeline.live.images import canonical_texts, columns_of, hash_texts, row_texts
from auditor.pipeline.live.staged_sums import shape_of
from auditor.pipeline.row_expressions import RowFilter
from auditor.summary.arrays import Integers

VERSIONS = ".versions"
"""How the names of the files end."""

FOLDER = "histories"
"""The folder of histories below that of the staging."""

AS_LEFT = -2
"""Stands for the state before a change that is the one which the key's change before it in the file left."""

SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("before", pa.int64()),
        ("after", pa.int64()),
        ("position", pa.int64()),
        ("time", pa.timestamp("us", tz="UTC")),
    ]
)

STATES = ("before", "after")

KINDS = {"before": ["update", "delete"], "after": ["insert", "update"]}
"""The kinds of events that have each image; a refresh changes no row of the source."""


def hash_keys(texts: Sequence[pa.Array], columns: Sequence[ColumnPlan]) -> Integers:
    """Return a hash of each key, 63 bits, from the canonical texts of its columns."""
    rows = row_texts(list(texts), list(columns), "").cast(pa.binary()).to_pylist()
    return np.fromiter((int.from_bytes(hashlib.sha256(row).digest()[:8], "big") >> 1 for row in rows), np.int64, len(rows))


def hash_key_texts(keys: Sequence[Key], plan: Plan) -> Integers:
    """Return the hashes of keys as a run has them: tuples of canonical texts."""
    columns = [pa.array([key[number] for key in keys], pa.string()) for number in range(plan.key)]
    return hash_keys(columns, plan.key_columns)


@dataclass(slots=True)
class VersionMaker:
    """Makes versions of events, which have to come in the order of the stream."""

    plan: Plan
    names: dict[str, str]
    """What the stream calls columns that the pipeline renames."""
    where: str
    """The audit's filter in the portable language; '' for all rows."""
    _filters: dict[str, RowFilter] = field(default_factory=dict)

    def shape(self, schema: TableSchema) -> str:
        """Return a digest of the compared columns, as a schema has them. Raises HistoryUnusable if it lacks one."""
        return shape_of(schema, self._indexes(schema))

    def make(self, schema: TableSchema, events: pa.RecordBatch) -> pa.Table:
        """Return the versions that events of one schema made. Raises HistoryUnusable, and ValueRefused for a value that has no text."""
        changes = events.filter(pc.is_in(events["kind"], pa.array(["insert", "update", "delete"])))
        keys, states = {}, {}
        for image, kinds in KINDS.items():
            has = pc.is_in(changes["kind"], pa.array(kinds)).to_numpy(zero_copy_only=False)
            keys[image], states[image] = (np.full(changes.num_rows, NO_ROW, np.int64) for _ in STATES)
            if has.any():
                keys[image][has], states[image][has] = self._hash(schema, changes.filter(pa.array(has))[image])
        stays = keys["before"] == keys["after"]
        place = np.arange(changes.num_rows)
        goes, comes = ((keys[image] != NO_ROW) & ~stays for image in STATES)
        none = np.full(changes.num_rows, NO_ROW, np.int64)
        rows = [
            (place[chosen] * 2 + step, key[chosen], before[chosen], after[chosen])
            for chosen, step, key, before, after in (
                (stays, 0, keys["after"], states["before"], states["after"]),
                (goes, 0, keys["before"], states["before"], none),
                (comes, 1, keys["after"], none, states["after"]),
            )
        ]
        order, key, before, after = (np.concatenate(column) for column in zip(*rows, strict=True))
        told = (before != NO_ROW) | (after != NO_ROW)  # else the filter takes neither
        by_place = np.argsort(order[told], kind="stable")
        key, before, after, order = (column[told][by_place] for column in (key, before, after, order))
        about = [changes[name].take(pa.array(order // 2)) for name in ("position", "time")]
        return pa.table([pa.array(key), pa.array(before), pa.array(after), *about], schema=SCHEMA)

    def _hash(self, schema: TableSchema, rows: pa.ListArray) -> tuple[Integers, Integers]:
        """Return the hashes of the keys and of the rows of some images; NO_ROW for rows that the filter does not take."""
        width, plans = len(schema.columns), self.plan.columns
        columns = columns_of(rows, width, self._indexes(schema))
        try:
            texts = [canonical_texts(column, plan) for column, plan in zip(columns, plans, strict=True)]
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise ValueRefused(f"an unexpected {type(error).__name__} in the texts of {schema.database}.{schema.table}") from error
        hashes = hash_texts(texts, self.plan)[:, 0]
        if self.where:
            if schema.id not in self._filters:
                self._filters[schema.id] = RowFilter(self.where, schema)
            condition = self._filters[schema.id]
            read = dict(zip(condition.indexes, columns_of(rows, width, condition.indexes), strict=True))
            hashes = np.where(condition.select(read, len(rows)).to_numpy(zero_copy_only=False), hashes, NO_ROW)
        return hash_keys(texts[: self.plan.key], self.plan.key_columns), hashes

    def _indexes(self, schema: TableSchema) -> list[int]:
        known = [column.name.lower() for column in schema.columns]
        wanted = [self.names.get(column.name, column.name).lower() for column in self.plan.columns]
        if lost := next((name for name in wanted if name not in known), None):
            raise HistoryUnusable(f"events of {schema.database}.{schema.table} have no column {lost}, which is compared")
        return [known.index(name) for name in wanted]


def pack(versions: pa.Table) -> bytes:
    """Return the content of a file."""
    sink = io.BytesIO()
    table = versions.set_column(1, "before", pa.array(_without_repeats(versions)))
    encodings = {"key": "PLAIN", "before": "PLAIN", "after": "PLAIN", "position": "DELTA_BINARY_PACKED", "time": "DELTA_BINARY_PACKED"}
    pq.write_table(
        table, sink, compression="zstd", use_dictionary=False, column_encoding=encodings, write_statistics=False, write_page_checksum=True
    )
    return sink.getvalue()


def unpack(content: bytes, keys: Collection[int] | None = None) -> pa.Table:
    """Return the versions in a file, or those of some keys, by their hashes. Raises pyarrow's errors for a damaged one."""
    file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    found = file.read(["key"])["key"] if keys is not None else None
    if found is not None and not pc.any(chosen := pc.is_in(found, pa.array(sorted(keys or ()), pa.int64()))).as_py():
        return SCHEMA.empty_table()
    table = file.read().cast(SCHEMA)
    if found is not None:
        table = table.filter(chosen)
    return table.set_column(1, "before", pa.array(_with_repeats(table)))


def _order(versions: pa.Table) -> tuple[Integers, Integers, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the order by keys, what the version before each left in it, and which in it are not their key's first."""
    key = versions["key"].to_numpy()
    order = np.argsort(key, kind="stable")
    follows = np.append(False, np.diff(key[order]) == 0)[: len(order)]
    return order, np.append(NO_ROW, versions["after"].to_numpy()[order])[: len(order)], follows


def _without_repeats(versions: pa.Table) -> Integers:
    order, left, follows = _order(versions)
    before: Integers = versions["before"].to_numpy().copy()
    before[order] = np.where(follows & (before[order] == left), AS_LEFT, before[order])
    return before


def _with_repeats(versions: pa.Table) -> Integers:
    order, left, _ = _order(versions)
    before: Integers = versions["before"].to_numpy().copy()
    before[order] = np.where(before[order] == AS_LEFT, left, before[order])
    return before
