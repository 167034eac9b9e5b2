"""Two zones that read the same topics, each by a pipeline of its own with segments, and the audit of both; without Spark.

``python -m tests.pipeline.read_topics.zones CONFIG PIPELINE UNTIL LOST`` is the process of one: it stages and cuts what comes, begins again
where the store is away, and ends once the file UNTIL is there and nothing is left. It loses the rows of the ids LOST, with commas between.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from auditor import config
from auditor.errors import IncarnationsDiffer, StoreError
from auditor.model import Report, Segment
from auditor.pipeline.batch_driver import BatchDriver
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.folders import Folder, folder_at
from auditor.pipeline.incarnation import packed
from auditor.pipeline.kafka.topic_sources import source_and_begin
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import SegmentWriter, open_writer
from auditor.pipeline.stage_task import TableRules
from auditor.pipeline.staging import Staging
from auditor.service import segment_audits, segment_files
from auditor.service.segment_files import Verified
from auditor.store import Store, open_store, parts, pipelines, salt, segments
from tests.pipeline.read_topics.topics import Topics
from tests.pipeline.road import run_here
from tests.staged_files import Rows

AUDIT = "zones"

EAST, WEST = "east", "west"


def configure(
    folder: Path,
    topics: Topics,
    source: str,
    *,
    segment: str = "rows: 40, offsets: 10, age: 1h",
    store: str = "",
    more: str = "",
    by: str = "",
    is_archived: bool = True,
) -> Path:
    """Write the configuration of two zones; ``source`` are the lines of a source below its broker, ``more`` those of all else.

    Segments are files of their own in an archive, or blocks of files in the staging's folder.
    """
    lines = "\n".join(f"      {line}" for line in source.strip().splitlines())
    rest = f", by: {by}" if by else ""
    written = "".join(
        f"""\
  {name}:
    source:
      broker: kafka
      group: auditor.{topics.prefix}.{name}
{lines}
    staging: {{path: "{folder}/{name}"}}
    segment: {{{segment}{rest}{f", path: '{folder}/archive-{name}'" if is_archived else ""}}}
    targets: {{wh: {{connection: warehouse, schema: {name}, every: 0s}}}}
"""
        for name in (EAST, WEST)
    )
    path = folder / "auditor.yaml"
    path.write_text(
        f"""\
connections:
  warehouse: {{url: "duckdb:///{folder}/warehouse.duckdb", write: {{url: "duckdb:///{folder}/warehouse.duckdb"}}}}
brokers:
  kafka: {{servers: ["{topics.server}"]}}
audits: {{}}
pipelines:
{written}segments:
  {AUDIT}: {{pipelines: [{EAST}, {WEST}]}}
store: {{url: "{store or f"sqlite:///{folder}/auditor.db"}"}}
{more}
"""
    )
    return path


class WrongStaging(Staging):
    """Stages other events than were read, as a pipeline does that is wrong."""

    change: Callable[[Rows], Rows] | None = None

    def writer(self) -> Callable[[Any], Any]:
        """Return what changes a task's events and writes their parts."""
        write, change = super().writer(), self.change
        if change is None:
            return write

        def changed(batches: Iterable[pa.RecordBatch]) -> Any:
            return write(pa.RecordBatch.from_pylist(change(batch.to_pylist()), ARROW_SCHEMA) for batch in batches)

        return changed


class Zone:
    """A pipeline from topics whose batches are planned, read, staged and cut in this process."""

    def __init__(self, config_file: Path, store: Store, name: str, run_tasks: Callable[[Any, Sequence[Any]], list[Any]] = run_here) -> None:
        self.settings, self.store, self.name = config.load(config_file), store, name
        self.pipeline = self.settings.pipeline(name)
        self.root: Folder = folder_at(self.pipeline.staging.path)
        self.root.make()
        source, begin = source_and_begin(self.settings, name)
        offset = pipelines.get_pipeline(store, name).source_offset
        if offset is None:
            offset = begin().to_json()
            parts.record_batch(store, name, [], {}, offset, topics_through=packed(offset))
        options = {"config": str(config_file), "pipeline": name, "start": json.dumps(offset)}
        self.staging = WrongStaging(store, name, self.root, TableRules(self.pipeline, salt.get_salt(store)))
        self.driver = BatchDriver(source, options, self.staging, run_tasks, 0.01)
        self.writer = self.open_writer()

    def open_writer(self) -> SegmentWriter:
        """A writer that begins where the store says."""
        return open_writer(self.store, self.name, self.pipeline, registrations_of(self.settings, self.name))

    def stage(self) -> None:
        """Stage what there is."""
        while self.driver._stage_next() is not None:
            pass

    def cut(self) -> None:
        """Cut what is staged."""
        while self.writer.step():
            pass

    def work(self) -> None:
        """Stage and cut batch after batch."""
        while self.driver._stage_next() is not None:
            self.cut()
        self.cut()

    def listed(self, stream: str) -> list[Segment]:
        """The segments of a stream in the manifest."""
        return segments.list_segments(self.store, self.name, stream)

    def files(self) -> dict[str, bytes]:
        """The files of the archive, by their paths in it, but for those that a writer had not finished when it was killed."""
        root = Path(str(self.writer.folder.url))
        found = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "unfinished"]
        return {str(path.relative_to(root)): path.read_bytes() for path in found}

    def close(self) -> None:
        """End the driver."""
        self.driver._close()


class Zones:
    """Both zones, and the audit that compares them."""

    def __init__(self, config_file: Path, empty_store: Path | None = None) -> None:
        self.config_file = config_file
        self.settings = config.load(config_file)
        assert self.settings.store
        if empty_store is not None:
            shutil.copy(empty_store, config_file.parent / "auditor.db")
        self.store = open_store(self.settings.store.url)
        self.east, self.west = (Zone(config_file, self.store, name) for name in (EAST, WEST))

    def again(self, name: str) -> Zone:
        """A zone whose process was killed, and begins again."""
        getattr(self, name).close()
        setattr(self, name, Zone(self.config_file, self.store, name))
        return getattr(self, name)  # type: ignore[no-any-return]

    def work(self) -> None:
        """Let both stage and cut what there is."""
        self.east.work()
        self.west.work()

    def run(self) -> Report:
        """Run the audit."""
        return segment_audits.run(self.settings, self.store, AUDIT, requested_by="ada")

    def verify(self, table: str | None = None) -> list[Verified]:
        """Verify the files of both zones."""
        return list(segment_files.verify(self.settings, self.store, AUDIT, table))

    def close(self) -> None:
        """End both."""
        self.east.close()
        self.west.close()
        self.store.close()


def lose(ids: Iterable[str]) -> Callable[[Rows], Rows]:
    """Return what loses the rows whose first column has one of these values."""
    gone = set(ids)
    return lambda rows: [one for one in rows if one["kind"] == "schema" or not one["after"] or one["after"][0] not in gone]


def main(config_file: Path, name: str, until: Path, lost: str) -> None:
    """Stage and cut until a file is there."""
    settings = config.load(config_file)
    assert settings.store
    zone: Zone | None = None
    while True:
        is_last = until.exists()
        try:
            if zone is None:
                zone = Zone(config_file, open_store(settings.store.url), name)
                zone.staging.change = lose(lost.split(","))
                print("begins", flush=True)
            zone.work()
            if is_last:
                return
        except (StoreError, IncarnationsDiffer) as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            if zone is not None:
                zone.close()
            zone = None
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), sys.argv[4])
