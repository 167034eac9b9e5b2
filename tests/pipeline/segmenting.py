"""A writer of segments without Spark: ``python -m tests.pipeline.segmenting CONFIG PIPELINE START RANGE_BYTES BATCH_BYTES``.

It reads the source's log from where the store says, else from START, stages batches of so many bytes by tasks of so many, cuts segments
after each batch, and ends where the log ends.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadMaxBytes

from auditor import config
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.segments.registering import registrations_of
from auditor.pipeline.segments.writer import open_writer
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.pipeline.stage_task import TableRules, read_entry, stage_task
from auditor.store import open_store, parts, pipelines


def main(config_file: Path, name: str, start: str, range_bytes: str, batch_bytes: int) -> None:
    """Stage and cut until the end of the log."""
    settings = config.load(config_file)
    pipeline = settings.pipeline(name)
    root = Path(pipeline.staging.path)
    LocalFolder(root).make()
    assert settings.store
    with closing(open_store(settings.store.url)) as store:
        writer = open_writer(store, name, pipeline, registrations_of(settings, name))
        offset = pipelines.get_pipeline(store, name).source_offset
        options = {"config": str(config_file), "connection": "shop", "tables": ",".join(pipeline.source.tables), "range_bytes": range_bytes}
        reader: Any = MySQLBinlog({**options, "start": start if offset is None else json.dumps(offset)}).streamReader(EVENT_TYPE)
        begin = reader.initialOffset()
        while (end := reader.latestOffset(begin, ReadMaxBytes(batch_bytes))) != begin:
            found = [one for part in reader.partitions(begin, end) for one in _staged(reader, part, root, TableRules(pipeline, b"salt"))]
            parts.record_batch(store, name, [one.part for one in found if one.part.rows], {}, end)
            while writer.step():
                pass
            begin = end
        reader.stop()
        while writer.step():
            pass


def _staged(reader: Any, part: Any, root: Path, rules: TableRules) -> list[Any]:
    batches: list[pa.RecordBatch] = list(reader.read(part))
    entries = [row for batch in stage_task(str(root), rules, batches) for row in batch.to_pylist()]
    return [read_entry(row) for row in entries]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
