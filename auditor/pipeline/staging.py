"""Stage the batches of a stream: tasks write parts, and the manifest lists them once all of a batch are there."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from auditor.model import Part, TableNote
from auditor.pipeline.binlog.ddl import ALL_TABLES
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import Folder
from auditor.pipeline.incarnation import packed
from auditor.pipeline.kafka.offsets import is_of_topics
from auditor.pipeline.part_deletion import make_room
from auditor.pipeline.part_writer import WrittenPart
from auditor.pipeline.poison import report_poison
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.pipeline.watch import Watch
from auditor.store import Store, parts

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Staging:
    """Stages a pipeline's batches: what their tasks have written is listed."""

    store: Store
    pipeline: str
    root: Folder
    rules: TableRules
    staged: Callable[[], None] = lambda: None
    """Called after each batch that has events."""
    stopping: Callable[[], bool] = lambda: False
    complete: Callable[[Mapping[str, TableSchema]], Mapping[str, Any]] = lambda _: {}
    """Returns what the source's catalogue says of the columns of schemas, by their ids; nothing of those of which it says nothing."""
    watch: Watch | None = None
    """Knows how far the source is ahead; `note_batch` is called for each batch that has events."""
    size: int = 0
    """Bytes of the parts of the last batch."""
    _recorded: set[str] = field(default_factory=set)
    """The ids of schemas that it has recorded: each part comes with its own."""

    def writer(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return what writes the parts of a task's events, and yields their entries; it is pickled, and runs in the task."""
        return partial(stage_task, str(self.root), self.rules)

    def stage(self, run: Callable[[], Iterable[Any]], batch_id: int, offset: Any, begin: Any = None) -> int:
        """Run the tasks of a batch that ends at ``offset``, which return the entries of its parts, and list these.

        ``begin`` is the offset at which it begins; None if it is not checked that the batch before ended there. Returns the number of
        events. Raises AuditorError.
        """
        began = time.monotonic()
        make_room(self.store, self.pipeline, self.rules.pipeline, self.root)
        found, notes = read_entries(run())
        self.record_batch(found, offset, notes, begin)
        self._report(batch_id, [one.part for one in found if one.part.rows], time.monotonic() - began, offset)
        rows, self.size = parts.totals([one.part for one in found if one.part.rows])
        return rows

    def record_batch(self, found: list[WrittenPart], offset: Any, notes: Sequence[TableNote] = (), begin: Any = None) -> None:
        """List a batch's parts in the manifest, with the offset at which the batch ends and notes on tables.

        ``begin`` as `stage` has it. Raises StoreError, and IncarnationsDiffer if the batch before ended elsewhere.
        """
        schemas = {
            one.part.schema_id: json.loads(one.schema_json) for one in found if one.schema_json and one.part.schema_id not in self._recorded
        }
        listed, catalogue = [one.part for one in found if one.part.rows], self._complete(schemas)
        through = packed(offset) if is_of_topics(offset) else None
        parts.record_batch(self.store, self.pipeline, listed, schemas, offset, self._of_each_table(notes), catalogue, through, begin)
        self._recorded.update(schemas)
        report_poison(self.pipeline, notes)
        self.staged()

    def _complete(self, schemas: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what the source's catalogue says of schemas that were not seen before."""
        unseen = parts.list_unknown(self.store, self.pipeline, schemas)
        return self.complete({key: TableSchema.from_json(json.dumps(schemas[key])) for key in unseen}) if unseen else {}

    def _of_each_table(self, notes: Sequence[TableNote]) -> list[TableNote]:
        """Return the notes, with one for each table of a database that was dropped."""
        if not any(note.table.endswith(f".{ALL_TABLES}") for note in notes):
            return list(notes)
        known = [*parts.list_tables(self.store, self.pipeline), *(note.table for note in notes)]
        return [replace(note, table=table) for note in notes for table in _named(note.table, known)]

    def _report(self, batch_id: int, found: list[Part], seconds: float, offset: Any) -> None:
        """Write the progress line of a batch that has events."""
        rows, size = parts.totals(found)
        if not rows:
            return
        behind = self.watch.bytes_behind(offset) if self.watch else None
        lag = max(0.0, time.time() - max(part.time for part in found).timestamp())
        pace = rows / max(seconds, 0.001)
        far = f"{lag:.1f} s" + ("" if behind is None else f" and {behind:,} bytes")
        extra = {"pipeline": self.pipeline, "action": "staged", "batch": batch_id, "events": rows, "bytes": size}
        extra |= {"seconds": round(seconds, 3), "events_per_second": round(pace), "lag_seconds": round(lag, 3), "lag_bytes": behind}
        line = f"batch {batch_id}: {rows:,} events staged in {seconds:.2f} s, {pace:,.0f} a second; {far} behind the source"
        log.info("%s: %s", self.pipeline, line, extra=extra)
        if self.watch:
            self.watch.note_batch(rows, size, seconds)


def _named(table: str, known: Sequence[str]) -> list[str]:
    """Return the known tables of a database, written as ``shop.*``, or the table of another name."""
    database, _, name = table.partition(".")
    if name != ALL_TABLES:
        return [table]
    return sorted({one for one in known if one.partition(".")[0] == database and one != table})
