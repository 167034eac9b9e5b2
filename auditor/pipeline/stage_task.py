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

MANIFEST = "part string, error string"
"""What a task that wrote parts returns to the driver: no row, but a part each, or why it could not be written."""


def stage_task(root: str, rules: TableRules, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Project a task's events and write their parts, and yield the entries of the manifest: the function of ``mapInArrow``.

    It runs in the task that decodes, without a shuffle between, so that what is excluded or masked reaches no disk.
    """
    try:
        found = _project([_plain(one) for one in batches if one.num_rows], rules)
        yield _entries([_to_json(one) for events in found for one in write_parts(Path(root), events)], "")
    except AuditorError as error:
        yield _entries([], f"{type(error).__name__}: {error}")


def _project(batches: list[pa.RecordBatch], rules: TableRules) -> list[pa.Table]:
    """Return the projected events of each table. Raises ColumnRefused, BadExpression, ValueRefused and StagingFailed."""
    if not batches:
        return []
    whole = pa.Table.from_batches(batches, ARROW_SCHEMA)
    announced = whole.filter(pc.equal(whole["kind"], "schema")).select(["schema_id", "after"]).to_pylist()
    schemas = {row["schema_id"]: TableSchema.from_json(row["after"][0]) for row in announced}
    if unknown := sorted(set(whole["schema_id"].unique().to_pylist()) - set(schemas)):
        raise StagingFailed(f"the source announced no schema {unknown[0]} before its events; report this as a bug of the source")
    tables: dict[tuple[str, str], list[pa.RecordBatch]] = {}
    for schema_id, schema in sorted(schemas.items()):
        chosen = whole.filter(pc.equal(whole["schema_id"], schema_id)).combine_chunks().to_batches()
        projection = Projection(schema, rules.of(schema.table))
        tables.setdefault((schema.database, schema.table), []).extend(projection.apply(one) for one in chosen)
    return [pa.Table.from_batches(some, ARROW_SCHEMA) for _, some in sorted(tables.items())]


@dataclass(frozen=True, slots=True)
class TableRules:
    """What happens to the columns of each table of a pipeline."""

    pipeline: Pipeline
    salt: bytes = field(repr=False)

    def of(self, table: str) -> Rules:
        """Return the rules of a table."""
        return Rules(self.pipeline.columns_of(table), self.salt)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with exactly the fields of an event: Spark drops what it does not know of them."""
    return pa.RecordBatch.from_arrays([batch[field.name].cast(field.type) for field in ARROW_SCHEMA], schema=ARROW_SCHEMA)


def _entries(found: list[str], error: str) -> pa.RecordBatch:
    texts = [*found, *([""] if error else [])]
    errors = [""] * len(found) + ([error] if error else [])
    return pa.RecordBatch.from_pydict({"part": pa.array(texts, pa.string()), "error": pa.array(errors, pa.string())})


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
