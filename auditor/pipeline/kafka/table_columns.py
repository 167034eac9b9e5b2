"""The columns of a table as its messages together have them.

The partitions of a topic, and its producers, do not change their schemas together: messages with a new column come beside others without
it, in whichever order. So a table has all columns that any message had, each with the type that holds the values of all, and a message
without one has NULL there. What a producer drops stays in the targets, with NULL from then on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from auditor.errors import MessageRefused, StagingFailed
from auditor.pipeline.events import ARROW_SCHEMA, ColumnSchema, TableSchema
from auditor.pipeline.folders import Folder
from auditor.pipeline.schema_differences import holds_all

NOTE = "columns.json"
"""The file beside the parts that has the columns of all tables, so that the next batch begins with them."""

_ROWS = ARROW_SCHEMA.field("before").type


def widen(known: TableSchema | None, found: TableSchema) -> TableSchema:
    """Return the columns that a table has once messages of another schema belong to it.

    Raises MessageRefused if a column has a type that holds not all values of the other, nor the other way round, and for another key.
    """
    if known is None or known == found:
        return found
    if known.key != found.key:
        raise MessageRefused(f"its key is ({', '.join(found.key)}), and the table's is ({', '.join(known.key)})")
    theirs, ours = {column.name: column for column in found.columns}, {column.name for column in known.columns}
    kept = [_together(column, theirs.get(column.name)) for column in known.columns]
    added = [_together(column, None) for column in found.columns if column.name not in ours]
    return replace(known, columns=(*kept, *added))


def _together(column: ColumnSchema, other: ColumnSchema | None) -> ColumnSchema:
    if other is None:
        return replace(column, nullable=True)
    if not holds_all(other, column):
        if not holds_all(column, other):
            raise MessageRefused(
                f"its column {column.name} is {other.type}, and {column.type} in messages before, of which none holds both"
            )
        column = replace(other, nullable=column.nullable)
    return replace(column, nullable=column.nullable or other.nullable)


def fit(events: pa.RecordBatch, found: TableSchema, wide: TableSchema) -> pa.RecordBatch:
    """Return events of one schema as those of a wider one."""
    if found == wide:
        return events
    places = {column.name: place for place, column in enumerate(found.columns)}
    taken = np.array([places.get(column.name, -1) for column in wide.columns])
    changed = {
        "schema_id": pa.array([wide.id] * events.num_rows, pa.string()),
        "before": _rows(events["before"], len(places), taken),
        "after": _rows(events["after"], len(places), taken),
    }
    return pa.RecordBatch.from_arrays([changed.get(one.name, events[one.name]) for one in ARROW_SCHEMA], schema=ARROW_SCHEMA)


def _rows(rows: pa.ListArray, width: int, taken: np.ndarray) -> pa.ListArray:
    """Return rows with other columns: by their places in the row, -1 for NULL."""
    present = rows.is_valid().to_numpy(zero_copy_only=False)
    starts = np.arange(int(present.sum()))[:, None] * width
    is_missing = np.broadcast_to(taken < 0, (len(starts), len(taken)))
    values = rows.flatten().take(pa.array((starts + taken).ravel(), mask=is_missing.ravel()))
    offsets = np.concatenate([[0], np.cumsum(present)]).astype(np.int32) * len(taken)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=_ROWS, mask=pa.array(~present))


def announce(wide: TableSchema, events: pa.RecordBatch) -> pa.RecordBatch:
    """Return the event that announces a schema before events."""
    first = events.slice(0, 1)
    changed = {
        "kind": pa.array(["schema"], pa.string()),
        "schema_id": pa.array([wide.id], pa.string()),
        "row": pa.array([-1], pa.int64()),
        "before": pa.nulls(1, _ROWS),
        "after": pa.array([[wide.to_json()]], _ROWS),
    }
    return pa.RecordBatch.from_arrays([changed.get(one.name, first[one.name]) for one in ARROW_SCHEMA], schema=ARROW_SCHEMA)


def read_columns(root: Folder) -> dict[str, TableSchema]:
    """Return the columns that tables had in earlier batches, by ``database.table``. Raises StagingFailed."""
    try:
        return {table: TableSchema.from_json(text) for table, text in json.loads(root.read_note(NOTE) or "{}").items()}
    except (OSError, ValueError) as error:
        raise StagingFailed(f"{root}/{NOTE} cannot be read: {error}; check the folder under staging: path") from error


def write_columns(root: Folder, columns: Mapping[str, TableSchema]) -> None:
    """Write the columns of tables. Raises StagingFailed."""
    try:
        root.put(NOTE, json.dumps({table: schema.to_json() for table, schema in sorted(columns.items())}).encode())
    except OSError as error:
        raise StagingFailed(f"{root}/{NOTE} cannot be written: {error}; correct staging: path") from error
