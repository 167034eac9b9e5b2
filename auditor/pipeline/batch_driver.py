"""The driver of a pipeline's batches: it plans a batch, lets tasks write its parts, lists them, and plans the next one.

Nothing but tasks leaves this process, which alone needs the store and its password. The store holds, in one transaction with a batch's
parts, where the next one begins; a file beside the parts says where the one under way ends. So a batch is planned the same way again
whatever ended it, and tasks that still run of an earlier attempt write the same files.

It is no query of Spark's streaming: that would keep the same places in a checkpoint of its own, which can be lost or restored without the
store, can lie in no bucket and behind no Spark Connect server, and takes 0.2 to 0.3 s more for each batch.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from auditor.background import NEVER, Service
from auditor.durations import durations
from auditor.errors import StagingFailed
from auditor.pipeline.folders import Folder
from auditor.pipeline.reader_tasks import RunsTasks, read_and_write
from auditor.pipeline.spark import RunTasks
from auditor.pipeline.staging import Staging

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

FORMAT = 1
"""The number of the form of that file; another one is refused."""

PLANNED = "planned.json"
"""The file that says where the last batch begins and ends."""

MANY_EVENTS = 20_000
"""Events of a batch whose costs are those of the events: there is no rest after it."""

MANY_BYTES = 4 << 20
"""Bytes of a batch's parts, which may be compressed, of which the same is true: of large rows a batch has few."""

SHARE = 6
"""A pipeline with few events works at most one of so many seconds at batches, unless it would rest for longer than the longest rest.

What a batch of few events costs, and the merges that come after it, is paid for it, not for its events: one that waits has more of them.
"""


class BatchDriver:
    """Stages batch after batch, from one thread, until it is stopped or an error ends it."""

    def __init__(self, events: type[DataSource], options: Mapping[str, str], staging: Staging, run_tasks: RunTasks, every: float) -> None:
        self._events, self._options, self._staging, self._run_tasks = events, dict(options), staging, run_tasks
        self._stopped = threading.Event()
        self._service = Service("batches", self._run_batch, every, at_end=self._close, stopping=self._stopped)
        self._reader: Any = None
        self._offset: Any = None
        self.batches = 0
        """How many it has staged."""
        self.error: Exception | None = None
        """What ended it: an error of the source, of Spark, or of the store."""

    def start(self) -> BatchDriver:
        """Begin in a thread, and return the driver."""
        self._service.start()
        return self

    def is_running(self) -> bool:
        """Return whether it was neither stopped nor ended by an error."""
        return self._service.alive()

    def stop(self) -> None:
        """End it after the batch under way."""
        self._service.stop(durations().batch_end)

    def _run_batch(self) -> float | None:
        """Stage the next batch, if there is one."""
        try:
            return self._stage_next()
        except Exception as error:
            self.error = error
            return NEVER

    def _stage_next(self) -> float | None:
        if self._reader is None:
            source: Any = self._events(self._options)
            self._reader = source.streamReader(source.schema())
            self._offset = json.loads(self._options["start"]) if "start" in self._options else self._reader.initialOffset()
        reader, offset = self._reader, self._offset
        end = self._planned(offset) or reader.latestOffset(offset, reader.getDefaultReadLimit())
        if end == offset:
            return None
        self.write_plan(offset, end)
        if self._staging.stopping() or self._stopped.is_set():
            return NEVER
        began = time.monotonic()
        events = self._staging.stage(partial(self._entries, reader, reader.partitions(offset, end)), self.batches, end, offset)
        reader.commit(end)
        self._offset, self.batches = end, self.batches + 1
        is_full = isinstance(reader, RunsTasks) and reader.is_full
        if is_full or events >= MANY_EVENTS or self._staging.size >= MANY_BYTES:
            return 0.0
        return min((SHARE - 1) * (time.monotonic() - began), durations().longest_rest)

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.stop()

    def _planned(self, start: Any) -> Any:
        """Return where the batch ends that was begun at this offset before; None if there is none. Raises StagingFailed."""
        planned = read_plan(self._staging.root)
        return planned.get("end") if planned.get("start") == start else None

    def write_plan(self, start: Any, end: Any) -> None:
        """Write where the next batch starts and ends, so that it has the same end if it is begun again. Raises StagingFailed."""
        try:
            self._staging.root.put(PLANNED, json.dumps({"format": FORMAT, "start": start, "end": end}).encode())
        except OSError as error:
            raise StagingFailed(f"the staging's folder {self._staging.root} cannot be written: {error}; correct staging: path") from error

    def _entries(self, reader: Any, partitions: Sequence[Any]) -> list[Any]:
        """Let a task write the parts of each partition, and return their entries."""
        if isinstance(reader, RunsTasks):
            return reader.run_tasks(self._run_tasks, self._staging.writer(), self._staging.root, partitions)
        answers = self._run_tasks(partial(read_and_write, reader, self._staging.writer()), partitions)
        return [entry for entries in answers for entry in entries]


def read_plan(root: Folder) -> Mapping[str, Any]:
    """Return between which offsets the last batch lies that was planned, ``start`` and ``end``; empty if none was. Raises StagingFailed."""
    try:
        plan: Mapping[str, Any] = json.loads(root.read_note(PLANNED) or "{}")
    except (OSError, ValueError) as error:
        raise StagingFailed(f"{root}/{PLANNED} cannot be read: {error}; check the folder under staging: path") from error
    if plan and plan.get("format") != FORMAT:
        raise StagingFailed(
            f"{root}/{PLANNED} has format {plan.get('format')}, which another version of auditor writes, and this one reads {FORMAT}; start"
            " that version again, or reset the pipeline and copy its tables again"
        )
    return plan
