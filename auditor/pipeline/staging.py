"""Stage the batches of a stream: tasks write parts, and the manifest lists them once all of a batch are there."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from auditor import errors
from auditor.config import Pipeline
from auditor.errors import AuditorError, StagingFailed
from auditor.pipeline.columns import Projection, Rules
from auditor.pipeline.events import ARROW_SCHEMA, TableSchema
from auditor.pipeline.staged_parts import WrittenPart, write_parts
from auditor.store import Store, parts
from auditor.store.parts import Part

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

MANIFEST = "part string, error string"
"""What a task that wrote parts returns to the driver: no row, but a part each, or why it could not be written."""

LEAST_FREE_BYTES = 256 << 20
"""Free bytes on the staging's disk below which a warning is logged."""


@dataclass(slots=True)
class Staging:
    """Stages a pipeline's batches; ``foreach_batch`` is given to a streaming query."""

    store: Store
    pipeline: str
    root: Path
    rules: TableRules
    checkpoint: Path | None = None
    """Where the streaming query logs the offsets of its batches."""
    staged: Callable[[], None] = lambda: None
    """Called after each batch that has events."""
    stopping: Callable[[], bool] = lambda: False
    working: threading.Lock = field(default_factory=threading.Lock)
    """Held while a batch is staged."""
    failure: AuditorError | None = None
    """Why the last batch could not be staged."""
    _warned: bool = field(default=False)

    def foreach_batch(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch's parts and list them, all or none. A replay writes and lists the same ones again.

        Raises StagingFull, StagingFailed and StoreError; the batch is then not committed, and replayed later.
        """
        with self.working:
            if self.stopping():
                raise Stopping
            self._stage(batch, batch_id)

    def _stage(self, batch: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        try:
            found = [_read(row) for row in batch.mapInArrow(partial(stage_task, str(self.root), self.rules), MANIFEST).collect()]
            self._list(found, _logged_offset(self.checkpoint, batch_id))
        except AuditorError as error:
            self.failure = error
            raise
        self._report(batch_id, [one.part for one in found if one.part.rows], time.monotonic() - began)

    def _list(self, found: list[WrittenPart], offset: Any) -> None:
        schemas = {one.part.schema_id: json.loads(one.schema_json) for one in found if one.schema_json}
        parts.record_batch(self.store, self.pipeline, [one.part for one in found if one.part.rows], schemas, offset)
        self.failure = None
        self.staged()

    def _report(self, batch_id: int, found: list[Part], seconds: float) -> None:
        rows, size = parts.totals(found)
        if rows:
            lag = time.time() - max(part.time for part in found).timestamp()
            pace = f"{rows:,} events staged in {seconds:.2f} s, {rows / max(seconds, 0.001):,.0f} a second"
            line = f"batch {batch_id}: {pace}, {lag:.1f} s behind the source"
            about = {"action": "staged", "batch": batch_id, "events": rows, "bytes": size, "seconds": seconds, "lag": lag}
            log.info("%s: %s", self.pipeline, line, extra={"pipeline": self.pipeline, **about})
        free = shutil.disk_usage(self.root).free if self.root.exists() else LEAST_FREE_BYTES
        if (low := free < LEAST_FREE_BYTES) and not self._warned:
            log.warning("the staging's disk has %d MB left; free some space", free >> 20, extra={"action": "staging_nearly_full"})
        self._warned = low


def _logged_offset(checkpoint: Path | None, batch_id: int) -> Any:
    """Return the offset at which a batch ends, which Spark logged before it; None if there is no log here.

    The file has a line with its version, one with settings, and one with the offset of each source.
    """
    try:
        lines = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines() if checkpoint else []
        return json.loads(lines[2]) if len(lines) == 3 else None
    except (OSError, ValueError):  # a checkpoint on another file system; the query still has it
        return None


class Stopping(Exception):
    """A batch that was begun while the pipeline stops; it is replayed when it starts again."""


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


def _read(row: Any) -> WrittenPart:
    """Return a part that a task wrote. Raises the task's error."""
    if row["error"]:
        name, _, message = str(row["error"]).partition(": ")
        known = getattr(errors, name, StagingFailed)
        raise known(message)
    values = json.loads(row["part"])
    schema_json, when = values.pop("schema"), values.pop("time")
    return WrittenPart(Part(**values, time=dt.datetime.fromisoformat(when)), schema_json)
