"""What a task of the stream does: project its events and write their parts.

Tasks run in processes of Spark's own, which import this module and not the store.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor import errors
from auditor.config import Pipeline
from auditor.errors import AuditorError, StagingFailed
from auditor.model import Part
from auditor.pipeline.columns import Projection, Rules
from auditor.pipeline.events import ARROW_SCHEMA, TableSchema
from auditor.pipeline.staged_parts import WrittenPart, write_parts

MANIFEST = pa.schema([("part", pa.string()), ("error", pa.string())])
"""What a task that wrote parts returns to the driver: no row, but a part each, or why it could not be written."""


def stage_task(root: str, rules: TableRules, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Project a task's events and write their parts, and yield the entries of the manifest.

    It runs in the process that decodes, so that what is excluded or masked reaches no disk.
    """
    try:
        found = _project(batches, rules)
        yield _entries([_to_json(one) for events in found for one in write_parts(Path(root), events)], "")
    except AuditorError as error:
        yield _entries([], f"{type(error).__name__}: {error}")


def _project(batches: Iterable[pa.RecordBatch], rules: TableRules) -> list[pa.Table]:
    """Return the projected events of each table, of batches that announce each schema before its rows.

    Each batch is projected before the next one is decoded, and only what is left of it is kept. Raises ColumnRefused, BadExpression,
    ValueRefused and StagingFailed.
    """
    projections: dict[str, Projection] = {}
    tables: dict[tuple[str, str], list[pa.RecordBatch]] = {}
    for batch in batches:
        announced = batch.filter(pc.equal(batch["kind"], "schema"))
        for row in announced.select(["schema_id", "after"]).to_pylist():
            schema = TableSchema.from_json(row["after"][0])
            projections.setdefault(row["schema_id"], Projection(schema, rules.of(schema.table)))
        for schema_id in sorted(batch["schema_id"].unique().to_pylist()):
            if (projection := projections.get(schema_id)) is None:
                raise StagingFailed(f"the source announced no schema {schema_id} before its events; report this as a bug of the source")
            chosen = batch.filter(pc.equal(batch["schema_id"], schema_id))
            tables.setdefault((projection.schema.database, projection.schema.table), []).append(projection.apply(chosen))
    return [pa.Table.from_batches(some, ARROW_SCHEMA) for _, some in sorted(tables.items())]


@dataclass(frozen=True, slots=True)
class TableRules:
    """What happens to the columns of each table of a pipeline."""

    pipeline: Pipeline
    salt: bytes = field(repr=False)

    def of(self, table: str) -> Rules:
        """Return the rules of a table."""
        return Rules(self.pipeline.columns_of(table), self.salt)


def _entries(found: list[str], error: str) -> pa.RecordBatch:
    texts = [*found, *([""] if error else [])]
    errors = [""] * len(found) + ([error] if error else [])
    return pa.RecordBatch.from_arrays([pa.array(texts, pa.string()), pa.array(errors, pa.string())], schema=MANIFEST)


def _to_json(written: WrittenPart) -> str:
    part = dataclasses.asdict(written.part)
    return json.dumps({**part, "time": written.part.time.isoformat(), "schema": written.schema_json})


def read_entry(row: Any) -> WrittenPart:
    """Return a part that a task wrote. Raises the task's error."""
    if row["error"]:
        name, _, message = str(row["error"]).partition(": ")
        known = getattr(errors, name, StagingFailed)
        raise known(message)
    values = json.loads(row["part"])
    schema_json, when = values.pop("schema"), values.pop("time")
    return WrittenPart(Part(**values, time=dt.datetime.fromisoformat(when)), schema_json)
