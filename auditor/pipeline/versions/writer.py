"""Write the versions of rows as their events are staged, for the audits that look rows up: the work of a process beside the driver.

A history is complete from where it begins: where events are missing, or a statement may have changed rows without an event of each, it
begins again behind that, and says why. It loses its oldest files beyond what the pipeline's settings let it keep.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from auditor import config
from auditor.background import Backoff, Service
from auditor.config import Settings
from auditor.durations import durations
from auditor.errors import HistoryUnusable, PartDamaged, PartsGone, StagingFailed, TableStopped, ValueRefused
from auditor.history.stored_plan import load_plan
from auditor.model import TableNote
from auditor.pipeline.child_process import Child, ignore_signals, log_as_driver, serve
from auditor.pipeline.events import TableSchema
from auditor.pipeline.folders import Folder, folder_at
from auditor.pipeline.restaging import repair_all
from auditor.pipeline.stream_positions import staged_through
from auditor.pipeline.table_events import EventPlace, TableEvents
from auditor.pipeline.versions.files import FOLDER, VersionMaker, pack, unpack
from auditor.pipeline.versions.files import VERSIONS as ENDING
from auditor.points import reach
from auditor.store import Store, open_store, parts, pipelines, row_versions, table_notes
from auditor.store.row_versions import RowHistory, VersionFile

log = logging.getLogger(__name__)

FILE_VERSIONS = 1_000_000
"""Versions of a file at most, but for those of one transaction."""

SMALL, MANY = 4_000_000, 32
"""Bytes of a file up to which it is joined with others, once so many of them follow each other."""


@dataclass(slots=True)
class VersionWriter:
    """Writes the histories of a pipeline; one process at a time."""

    store: Store
    pipeline: str
    root: Folder
    """The folder of the staging."""
    keep: float
    """Seconds for which a version is kept."""
    most_bytes: int
    """Bytes that the versions for one audit may take."""
    names: Callable[[str], dict[str, str]]
    """Returns what the stream calls the columns of a table that the pipeline renames."""
    _schemas: dict[str, TableSchema] = field(default_factory=dict)

    def sweep(self) -> None:
        """Delete the files that no history has. Raises StagingFailed and StoreError."""
        listed = {
            file.path
            for history in row_versions.list_histories(self.store, self.pipeline)
            for file in row_versions.list_files(self.store, history.id)
        }
        try:
            self.root.delete([path for path in self.root.names() if path.startswith(f"{FOLDER}/") and path not in listed])
        except OSError as error:
            raise StagingFailed(f"the histories in {self.root} cannot be swept: {error.strerror or error}") from error

    def step(self) -> bool:
        """Write what was staged since the last step, and return whether it was anything. Raises PartDamaged, StagingFailed, StoreError."""
        wrote = False
        for history in row_versions.list_histories(self.store, self.pipeline):
            wrote = self._continue(history) or wrote
        return wrote

    def _continue(self, history: RowHistory) -> bool:
        if history.begins is None:
            return self._begin(history)
        staged = staged_through(self.store, self.pipeline)
        if staged <= history.through:
            return False
        if note := self._last_statement(history, staged):
            why = f"a statement changed {history.table} there, of which the log has no event for each row"
            return self._restart(history, note.position, why, note.time)
        try:
            return self._write(history, staged)
        except PartsGone as error:
            pruned = parts.get_table(self.store, self.pipeline, history.table).pruned_through
            return self._restart(history, pruned if pruned > history.through else staged, str(error))
        except (HistoryUnusable, ValueRefused) as error:
            return self._restart(history, staged, str(error))
        except TableStopped as error:
            if history.stopped != str(error):
                row_versions.stop(self.store, history, str(error))
            return False

    def _begin(self, history: RowHistory) -> bool:
        """Let a history begin as early as the parts that are kept, and its settings, allow."""
        now, staged = dt.datetime.now(dt.UTC), staged_through(self.store, self.pipeline)
        since = parts.list_parts_since(self.store, self.pipeline, history.table, now - dt.timedelta(seconds=self.keep), 1)
        if not since:
            return self._restart(history, staged, "")
        events = TableEvents(self.store, self.pipeline, self.root, history.table, EventPlace(since[0].first - 1))
        first = next((found.batch["time"][0].as_py() for found in events.read() if not isinstance(found, TableNote)), since[0].time)
        return self._restart(history, since[0].first - 1, "", first)

    def _restart(self, history: RowHistory, position: int, why: str, time: dt.datetime | None = None) -> bool:
        """Let a history begin behind a position, by default as of the newest event that is staged."""
        if why:
            extra = {"action": "history_restarted", "pipeline": self.pipeline, "audit": history.audit}
            log.warning("%s: the history of %s begins again: %s", self.pipeline, history.audit, why, extra=extra)
        time = time or pipelines.get_pipeline(self.store, self.pipeline).staged_time
        gone = row_versions.list_files(self.store, history.id)
        if restarted := row_versions.restart(self.store, history, position, time, why):
            self._delete(gone)
        return restarted

    def _last_statement(self, history: RowHistory, staged: int) -> TableNote | None:
        notes = table_notes.list_notes(self.store, self.pipeline, [history.table], after=history.through)
        behind = [note for note in notes if history.through < note.position <= staged and not note.target and not note.stops]
        return behind[-1] if behind else None

    def _write(self, history: RowHistory, staged: int) -> bool:
        """Write a history's next files, and say up to where."""
        plan = load_plan(json.dumps(history.plan).encode())
        if plan is None:
            raise HistoryUnusable("it was begun by another version of the auditor")
        maker = VersionMaker(plan, self.names(history.table), history.where)
        made, shape = list[pa.Table](), history.shape
        for schema, events in self._events(history):
            now = maker.shape(schema)
            if shape not in ("", now):
                raise HistoryUnusable(f"the compared columns of {history.table} became others")
            shape = now
            first = events["position"][0].as_py()
            if sum(map(len, made)) >= FILE_VERSIONS and first > (last := made[-1]["position"][-1].as_py()):
                if not self._record(history, made, last, shape):
                    return True
                made, history = [], row_versions.get(self.store, history.id) or history
            if (versions := maker.make(schema, events)).num_rows:
                made.append(versions)
        through = max(staged, made[-1]["position"][-1].as_py()) if made else staged
        if self._record(history, made, through, shape):
            self._keep_house(history.id)
        return True

    def _events(self, history: RowHistory) -> Iterator[tuple[TableSchema, pa.RecordBatch]]:
        for found in TableEvents(self.store, self.pipeline, self.root, history.table, EventPlace(history.through)).read():
            if isinstance(found, TableNote):
                raise HistoryUnusable(f"events of {history.table} are missing, or a statement emptied it")
            yield self._schema(found.part.schema_id), found.batch

    def _schema(self, schema_id: str) -> TableSchema:
        if schema_id not in self._schemas:
            body = parts.get_schema(self.store, self.pipeline, schema_id)
            if body is None:
                raise PartsGone(f"the schema {schema_id} of a part is not in the store")
            self._schemas[schema_id] = TableSchema.from_json(json.dumps(body))
        return self._schemas[schema_id]

    def _record(self, history: RowHistory, made: list[pa.Table], through: int, shape: str) -> bool:
        file = self._put(history.id, pa.concat_tables(made)) if made else None
        reach("history.written")
        recorded = row_versions.record(self.store, history, through, shape, file)
        reach("history.recorded")
        return recorded

    def _put(self, history: str, versions: pa.Table, mark: str = "") -> VersionFile:
        content, (first, last) = pack(versions), (versions["position"][place].as_py() for place in (0, -1))
        path = f"{FOLDER}/{history}-{first:019d}{mark}{ENDING}"
        try:
            self.root.put(path, content)
        except OSError as error:
            raise StagingFailed(f"the history {self.root}/{path} cannot be written: {error.strerror or error}") from error
        return VersionFile(first, last, path, versions.num_rows, len(content), max(versions["time"].to_pylist()))

    def _keep_house(self, id_: str) -> None:
        """Join the newest files, if many of them are small, and leave out the oldest that the settings do not let stay."""
        listed = row_versions.list_files(self.store, id_)
        small = len(listed)
        while small and listed[small - 1].bytes < SMALL:
            small -= 1
        if len(old := listed[small:]) >= MANY:
            joined = pa.concat_tables([unpack(self._get(file)) for file in old])
            new = self._put(id_, joined, f"-{old[-1].last:019d}")
            row_versions.join(self.store, id_, old, new)
            self._delete(old)
            listed = [*listed[:small], new]
        oldest, left = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=self.keep), sum(file.bytes for file in listed)
        gone, why = list[VersionFile](), ""
        for file in listed:
            if file.newest >= oldest and left <= self.most_bytes:
                break
            why = "older versions are not kept (keep: versions)" if file.newest < oldest else "no more bytes are kept (history: bytes)"
            gone.append(file)
            left -= file.bytes
        history = row_versions.get(self.store, id_)
        if gone and history and row_versions.drop(self.store, history, gone, why):
            self._delete(gone)

    def _get(self, file: VersionFile) -> bytes:
        try:
            return self.root.get(file.path)
        except OSError as error:
            raise StagingFailed(f"the history {self.root}/{file.path} cannot be read: {error.strerror or error}") from error

    def _delete(self, files: list[VersionFile]) -> None:
        try:
            self.root.delete([file.path for file in files])
        except OSError as error:
            raise StagingFailed(f"old files of a history in {self.root} cannot be deleted: {error.strerror or error}") from error


def open_writer(settings: Settings, store: Store, pipeline: str) -> VersionWriter:
    """Return the writer of a pipeline's histories, without those of audits that do not ask for one any more."""
    chosen = settings.pipeline(pipeline)
    assert chosen.history
    asking = {name for name, audit in settings.audits.items() if audit.history and audit.history.pipeline == pipeline}
    groups = tuple(
        f"{name}." for name, group in settings.groups.items() if group.template.history and group.template.history.pipeline == pipeline
    )
    known = {history.audit for history in row_versions.list_histories(store, pipeline)}
    row_versions.forget(store, pipeline, but=[name for name in known if name in asking or name.startswith(groups)])
    names = lambda table: dict(chosen.columns_of(table.partition(".")[2]).rename)  # noqa: E731
    writer = VersionWriter(store, pipeline, folder_at(chosen.staging.path), settings.keep.versions, chosen.history.bytes, names)
    writer.sweep()
    return writer


def version_process(config_file: str, pipeline: str) -> Child:
    """Return the process that writes a pipeline's histories."""
    return Child(__name__, (config_file, pipeline), f"history of {pipeline}")


def writing_service(
    writer: VersionWriter, stopped: threading.Event, staged: threading.Event, paused: threading.Event, mend: Callable[[], None]
) -> Service:
    """Return what writes versions until ``stopped`` is set; what fails is tried again, damaged parts after ``mend``."""

    def write() -> None:
        try:
            if writer.step():
                return
        except PartDamaged:
            mend()
            raise
        staged.wait(durations().staged_poll)
        staged.clear()

    failure, fields = f"{writer.pipeline}: its history waits, and nothing is lost", {"pipeline": writer.pipeline}
    backoff = Backoff(durations().pipeline_first_retry, durations().pipeline_longest_retry)
    return Service("history", write, failure=failure, action="history_failed", fields=fields, backoff=backoff, stopping=stopped)


def _write_until_ended(config_file: Path, pipeline: str, level: str) -> None:
    settings = config.load(config_file)
    log_as_driver(settings, level)
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        writer = open_writer(settings, store, pipeline)
        mend = partial(repair_all, settings, store, pipeline, writer.root)
        serve(lambda stopped, staged, paused: writing_service(writer, stopped, staged, paused, mend))


if __name__ == "__main__":
    ignore_signals()
    _write_until_ended(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
