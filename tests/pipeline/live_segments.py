"""Writers of segments over a live server's log, without Spark: what is staged is read and cut in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadMaxBytes

from auditor.config import Settings
from auditor.pipeline.events import ARROW_SCHEMA
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import open_writer
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.store import Store, parts, pipelines, salt
from tests.staged_files import Rows


class LogWriter:
    """A pipeline that reads a live server's log from a place on."""

    def __init__(self, settings: Settings, config_file: Path, store: Store, name: str, start: str = "latest") -> None:
        self.settings, self.store, self.name = settings, store, name
        self.pipeline = settings.pipeline(name)
        self.root = Path(self.pipeline.staging.path)
        LocalFolder(self.root).make()
        self._options = {
            "config": str(config_file),
            "connection": self.pipeline.source_name,
            "tables": ",".join(self.pipeline.source.tables),
        }
        self.offset = self._reader(start).initialOffset()

    def _reader(self, start: str, range_bytes: int = 1 << 20) -> Any:
        return MySQLBinlog({**self._options, "start": start, "range_bytes": str(range_bytes)}).streamReader(EVENT_TYPE)

    def read(self, change: Callable[[Rows], Rows] | None = None, *, batch_bytes: int = 8 << 20, range_bytes: int = 1 << 20) -> None:
        """Stage what the log has by now, in batches of so many bytes, and cut each; ``change`` is what a wrong decoder does to events."""
        reader = self._reader(json.dumps(self.offset), range_bytes)
        reader.prepareForTriggerAvailableNow()
        writer = open_writer(self.store, self.name, self.pipeline, registrations_of(self.settings, self.name))
        rules = TableRules(self.pipeline, salt.get_salt(self.store))
        while (end := reader.latestOffset(self.offset, ReadMaxBytes(batch_bytes))) != self.offset:
            ranges = reader.partitions(self.offset, end)
            read = (self._read(reader, one, change) for one in ranges)
            rows = [row for one in read for batch in stage_task(str(self.root), rules, one) for row in batch.to_pylist()]
            found, _ = read_entries(rows)
            schemas = {one.part.schema_id: json.loads(one.schema_json) for one in found if one.schema_json}
            listed = [one.part for one in found if one.part.rows]
            parts.record_batch(self.store, self.name, listed, schemas, end)
            while writer.step():
                pass
            self.offset = end
        reader.stop()
        assert pipelines.get_pipeline(self.store, self.name).source_offset == self.offset

    def _read(self, reader: Any, part: Any, change: Callable[[Rows], Rows] | None) -> Iterator[pa.RecordBatch]:
        """Yield the events of a range of the log, changed as a pipeline does that decodes wrongly."""
        for batch in reader.read(part):
            yield pa.RecordBatch.from_pylist(change(batch.to_pylist()), schema=ARROW_SCHEMA) if change else batch
