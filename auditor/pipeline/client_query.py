"""A streaming query that this process drives itself: it plans a batch, lets tasks write its parts, lists them, and plans the next one.

For Spark Connect: there `foreachBatch` runs in a process of the server's host, which would need the store and its password, and the source
would be planned there, too. Here nothing but tasks leaves this process. And for parts in S3, where Spark alone keeps no checkpoint. The
store holds, in one transaction with a batch's parts, where the next one begins; a file beside the parts says where the one under way ends.
So a batch is planned the same way again whatever ended it, and tasks that still run of an earlier attempt write the same files.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from auditor.background import NEVER, Service
from auditor.errors import StagingFailed
from auditor.pipeline.folders import Folder
from auditor.pipeline.staging import Staging
from auditor.waits import waits

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

PLANNED = "planned.json"
"""The file that says where the last batch begins and ends."""


class ClientQuery:
    """The query; a run checks it like one of Spark."""

    def __init__(
        self,
        events: type[DataSource],
        options: Mapping[str, str],
        staging: Staging,
        run_tasks: Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]],
        every: float,
    ) -> None:
        self._events, self._options, self._staging, self._run_tasks = events, dict(options), staging, run_tasks
        self._error: Exception | None = None
        self._stopped = threading.Event()
        self._service = Service("query", self._run_batch, every, at_end=self._close, stopping=self._stopped)
        self._reader: Any = None
        self._offset: Any = None
        self._batch = 0
        self.lastProgress: Mapping[str, Any] | None = None
        """What the last batch was; None before there was one."""

    def start(self) -> ClientQuery:
        """Begin in a thread, and return the query."""
        self._service.start()
        return self

    @property
    def isActive(self) -> bool:
        """Whether it runs."""
        return self._service.alive()

    @property
    def status(self) -> Mapping[str, Any]:
        """What it does beside staging: nothing that a stop would have to wait for."""
        return {"isTriggerActive": False}

    def exception(self) -> Exception | None:
        """Return the error that ended it; None if it runs, or was stopped."""
        return self._error

    def stop(self) -> None:
        """End it after the batch under way."""
        self._service.stop(waits().query_end)

    def _run_batch(self) -> float | None:
        """Stage the next batch, if there is one. Any error ends the query: of the source, of Spark, or of the store; the run reports it."""
        try:
            return self._stage_next()
        except Exception as error:
            self._error = error
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
        self._plan(offset, end)
        with self._staging.working:
            if self._staging.stopping() or self._stopped.is_set():
                return NEVER
            self._staging.stage(partial(self._entries, reader, reader.partitions(offset, end)), self._batch, end)
        self._offset, self._batch, self.lastProgress = end, self._batch + 1, {"batchId": self._batch}
        return 0.0

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.stop()

    def _planned(self, start: Any) -> Any:
        """Return where the batch ends that was begun at this offset before; None if there is none. Raises StagingFailed."""
        try:
            planned = json.loads(self._staging.root.read_note(PLANNED) or "{}")
        except (OSError, ValueError) as error:
            raise StagingFailed(f"{self._staging.root}/{PLANNED} cannot be read: {error}; check the folder under staging: path") from error
        return planned.get("end") if planned.get("start") == start else None

    def _plan(self, start: Any, end: Any) -> None:
        try:
            self._staging.root.put(PLANNED, json.dumps({"start": start, "end": end}).encode())
        except OSError as error:
            raise StagingFailed(f"the staging's folder {self._staging.root} cannot be written: {error}; correct staging: path") from error

    def _entries(self, reader: Any, partitions: Sequence[Any]) -> list[Any]:
        """Let a task write the parts of each partition, and return their entries."""
        answers = self._run_tasks(partial(read_and_write, reader, self._staging.writer()), partitions)
        return [entry for entries in answers for entry in entries]


def planned_from(root: Folder) -> Any:
    """Return the offset at which the batch begins that was planned last; None if there is none. Raises StagingFailed."""
    try:
        return json.loads(root.read_note(PLANNED) or "{}").get("start")
    except (OSError, ValueError) as error:
        raise StagingFailed(f"{root}/{PLANNED} cannot be read: {error}; check the folder under staging: path") from error


def read_and_write(reader: Any, write: Callable[[Any], Any], partition: Any) -> list[dict[str, str]]:
    """Read a partition, write its parts, and return their entries; a task does this."""
    return [entry for batch in write(reader.read(partition)) for entry in batch.to_pylist()]
