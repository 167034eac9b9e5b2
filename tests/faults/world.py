"""One pipeline under load, from MySQL into a target: its log is decoded, staged, cut and merged here, as tasks of Spark do it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from auditor.model import Part
from auditor.pipeline import stage_task
from auditor.pipeline.events import ARROW_SCHEMA, Place
from auditor.pipeline.folders import Folder, folder_at
from auditor.pipeline.incarnation import check_staging
from auditor.pipeline.merge.load_tasks import close_sessions
from auditor.pipeline.part_writer import WrittenPart, write_parts
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import open_writer as open_segments
from auditor.store import parts, pipelines, segments
from tests.binlog import LiveLog
from tests.faults.load import KEYS, PROBE, PROBES, Load, row_of
from tests.live import LiveEngine
from tests.pipeline.live_road import LiveRoad
from tests.pipeline.road import PIPELINE

SEGMENTS = "log"
"""The segment audit: what the pipeline staged against the source's log, read anew."""

LOOK, PATIENCE = 0.05, 180.0
"""Seconds between two looks, and until something counts as stuck."""

Events = list[dict[str, Any]]


class Crashed(BaseException):
    """The loader's process is gone, as after ``kill -9``: nothing of it catches this."""


class World(LiveRoad):
    """The pipeline, its audits, and the hooks by which a fault gets in."""

    archives = True

    def __init__(self, folder: Path, empty_store: Path, source: LiveEngine, into: str, name: str, scans: Sequence[str]) -> None:
        """``name`` is the table's, and its schema's in the target; ``scans`` are the settings of audits, each with its name before it."""
        shutil.copy(empty_store, folder / "auditor.db")  # making one takes longer than a merge
        self.log, self.table = LiveLog(source.url), name
        self.log.run("FLUSH BINARY LOGS")  # what is read anew begins with a file
        sides = f"source: {{connection: source, table: {name}}}, target: {{connection: warehouse, table: {name}.{name}}}, key: [id]"
        audits = ", ".join(one.replace("{", f"{{{sides}, ", 1) for one in scans)
        super().__init__(
            folder, source, name, into=into, schema=name, audits=f"{{{audits}}}\nsegments: {{{SEGMENTS}: {{pipelines: [{PIPELINE}]}}}}"
        )
        self.misread: Callable[[Events], Events] | None = None
        """Changes events while they are decoded."""
        self.mangle: Callable[[Events], Events] | None = None
        """Changes events between decoding and staging."""
        self.tamper: Callable[[Path], bool] | None = None
        """Changes a staged file before it is listed; returns whether it did."""
        self.hits = 0
        """How often the fault took place."""
        self.said: list[str] = []
        """What the pipeline itself reported."""
        self.is_stopped = False
        """Whether it stands still since, until somebody lets it go on."""
        self.failures: list[BaseException] = []
        """What ended its threads, which nothing should."""
        self.staging, self.halted = threading.Lock(), threading.Event()
        self.load = Load(source.url, name)
        self.arrival = 0.0
        """Seconds from the fault to when the target held what it brought."""
        self.fault_at = 0
        """The position of the last event of the fault."""

    def fill(self, rows: int = KEYS) -> None:
        """Make the table and its rows in the source, and bring them to the target and into the first segments."""
        check_staging(self.store, PIPELINE, folder_at(str(self.root)))
        keys = [*range(1, rows + 1), *range(PROBE, PROBE + PROBES)]
        columns = "item varchar(60), city varchar(60), note varchar(20), amount decimal(12,3), weight double, moved datetime(6)"
        self.log.run(
            f"DROP TABLE IF EXISTS {self.table}",
            f"CREATE TABLE {self.table} (id int PRIMARY KEY, {columns}) CHARACTER SET utf8mb4",
            f"INSERT INTO {self.table} VALUES {', '.join(row_of(key) for key in keys)}",
        )
        self.merge()

    def stage(self, range_bytes: int = 1 << 20) -> None:
        """Stage what the log has by now, and cut it into segments."""
        with self.staging, mock.patch.object(stage_task, "write_parts", self._write_parts):
            super().stage(range_bytes)
            writer = open_segments(self.store, PIPELINE, self.pipeline, registrations_of(self.settings, PIPELINE))
            while writer.step():
                pass

    def read(self, reader: Any, part: Any) -> list[pa.RecordBatch]:
        """Return the events of a range of the log, as the fault lets them be decoded."""
        return self._changed(super().read(reader, part), self.misread)

    def _write_parts(self, root: Folder, batches: Iterable[pa.RecordBatch]) -> list[WrittenPart]:
        """Write the parts of a task, as the fault lets its events be staged; what the task sums up was taken before.

        What a segment audit reads anew is written elsewhere, and left as it is.
        """
        return write_parts(root, self._changed(list(batches), self.mangle) if str(root) == str(self.root) else batches)

    def _changed(self, found: list[pa.RecordBatch], change: Callable[[Events], Events] | None) -> list[pa.RecordBatch]:
        if change is None or not found:
            return found
        events = [event for batch in found for event in batch.to_pylist()]
        changed = change([dict(event) for event in events])
        self.hits += changed != events
        return [pa.RecordBatch.from_pylist(changed, schema=ARROW_SCHEMA)]

    def written(self, found: Sequence[Part]) -> None:
        """Let the fault change the files of parts that were written, and are not listed yet."""
        if tamper := self.tamper:
            self.hits += sum(tamper(self.root / path) for path in {one.path for one in found})

    def crash(self) -> None:
        """Let the loader crash."""
        self.hits += 1
        raise Crashed

    def report(self, sentence: str) -> None:
        """Note what the pipeline said, once, and that it stopped."""
        self.is_stopped = True
        self.note(sentence)

    def note(self, sentence: str) -> None:
        """Note what the pipeline said, once."""
        sentence = sentence.replace(f"{self.root}/", "")  # which is another folder in each run
        if sentence not in self.said:
            self.said.append(sentence)

    def strike(self, *statements: str) -> None:
        """Commit what the fault is to hit, and wait until the target holds it."""
        began, self.fault_at = time.monotonic(), 0
        self.arrived(self.commit(*statements))
        self.arrival = time.monotonic() - began

    def commit(self, *statements: str) -> Place:
        """Run statements in one transaction of the source, and return where the log ended then."""
        self.log.run("BEGIN", *statements, "COMMIT")
        return self.log.end()

    def arrived(self, end: Place) -> bool:
        """Wait until the target holds what the log has up to a place; return False if the pipeline stopped before it."""
        deadline = time.monotonic() + PATIENCE
        name, wanted = f"{self.database}.{self.table}", 0  # what is staged later need not be merged, however fast the load is
        while time.monotonic() < deadline and not self.failures:
            offset = pipelines.get_pipeline(self.store, PIPELINE).source_offset
            if Place(offset["file"], offset["position"]).order >= end.order:
                staged = parts.list_tables(self.store, PIPELINE)[name].staged_through
                wanted = wanted or staged
                self.fault_at = self.fault_at or staged
                merged = pipelines.list_merges(self.store, PIPELINE)["wh"][name]
                if merged.state == "stopped":
                    self.report(f"the table is stopped: {merged.reason}")
                    return False
                if merged.position >= wanted:
                    return True
            elif self.is_stopped:
                return False
            time.sleep(LOOK)
        raise AssertionError(
            f"{end} did not arrive within {PATIENCE} s; {self.failures} {self.said} {pipelines.list_merges(self.store, PIPELINE)}"
        )

    def go_on(self) -> None:
        """Let what had stopped the pipeline be over, and wait until the target holds what the log has now."""
        with self.staging:
            self.is_stopped = False
        self.arrived(self.log.end())

    def is_cut(self) -> bool:
        """Return whether the segment has ended that holds the last event of the fault."""
        last = segments.last_places(self.store, PIPELINE).get(f"{self.database}.{self.table}", (0, 0))
        return last[0] >= self.fault_at

    @contextmanager
    def lull(self) -> Iterator[None]:
        """Let nobody write in the block, and begin it once the target has caught up, if the pipeline goes on."""
        with self.load.paused():
            self.arrived(self.log.end())
            yield

    def close(self) -> None:
        """Close everything, and drop what the servers have of this world."""
        close_sessions()
        self.execute(f"DROP SCHEMA IF EXISTS {self.table} CASCADE")
        super().close()
        self.log.run(f"DROP TABLE IF EXISTS {self.table}")
