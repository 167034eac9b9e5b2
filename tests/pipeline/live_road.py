"""A pipeline from a live server's log into DuckDB without Spark: its events are read, staged and merged in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql.streaming.datasource import ReadMaxBytes

from auditor import config
from auditor.connections.writer import open_writer
from auditor.pipeline.binlog.server import end_of_log
from auditor.pipeline.bootstrap.source_tables import refreshes_of
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.pipeline.stage_task import TableRules, read_entry, stage_task
from auditor.pipeline.staged_parts import make_folder
from auditor.pipeline.watch import source_of
from auditor.store import Store, open_store, parts, pipelines
from tests.live import LiveEngine
from tests.pipeline.road import PIPELINE, run_here


class LiveRoad:
    """One pipeline from tables of a live server into a file of DuckDB; it begins where the log ends now."""

    def __init__(self, folder: Path, source: LiveEngine, tables: str, columns: str = "{}") -> None:
        duckdb = f"duckdb:///{folder}/warehouse.duckdb"
        self.database = urlsplit(source.url).path.strip("/")
        self.config_file = folder / "auditor.yaml"
        self.config_file.write_text(
            f"""\
connections:
  source: {{url: "{source.url}", write: {{url: "{source.url}"}}}}
  warehouse: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: ["{tables}"]}}
    columns: {columns}
    staging: {{path: "{folder}/staging"}}
    segment: {{rows: 100}}
    targets: {{wh: {{connection: warehouse, schema: shop, every: 0s}}}}
"""
        )
        self.settings = config.load(self.config_file)
        self.pipeline = self.settings.pipeline(PIPELINE)
        self.root = folder / "staging"
        make_folder(self.root)
        assert self.settings.store
        self.store: Store = open_store(self.settings.store.url)
        parts.record_batch(self.store, PIPELINE, [], {}, end_of_log(source_of(self.settings, PIPELINE)))
        where = Where(self.store, PIPELINE, str(self.config_file), "warehouse", "shop", str(self.root), run_here)
        self.loader = Loader(where, "wh", self.settings.connections["warehouse"])

    def close(self) -> None:
        """Close the store."""
        self.loader.close()
        self.store.close()

    def stage(self, range_bytes: int = 1 << 20) -> None:
        """Stage everything that the log has by now, by tasks of so many bytes of it."""
        begin = pipelines.get_pipeline(self.store, PIPELINE).source_offset
        refreshes = refreshes_of(self.settings, PIPELINE)
        options = {"config": str(self.config_file), "connection": "source", "tables": ",".join(self.pipeline.source.tables)}
        options |= {"refreshes": f"{refreshes.schema}/{refreshes.pipeline}", "range_bytes": str(range_bytes)}
        reader: Any = MySQLBinlog({**options, "start": json.dumps(begin)}).streamReader(EVENT_TYPE)
        reader.prepareForTriggerAvailableNow()
        while (end := reader.latestOffset(begin, ReadMaxBytes(8 << 20))) != begin:
            rules = TableRules(self.pipeline, b"salt")
            entries = [
                entry
                for part in reader.partitions(begin, end)
                for batch in stage_task(str(self.root), rules, list(reader.read(part)))
                for entry in batch.to_pylist()
            ]
            found = [read_entry(entry) for entry in entries]
            schemas = {one.part.schema_id: json.loads(one.schema_json) for one in found if one.schema_json}
            parts.record_batch(self.store, PIPELINE, [one.part for one in found if one.part.rows], schemas, end)
            begin = end
        reader.stop()

    def merge(self) -> None:
        """Stage and merge everything that the log has by now."""
        self.stage()
        self.loader.merge_all()
        reports = pipelines.list_merges(self.store, PIPELINE).get("wh", {})
        assert {one.reason for one in reports.values()} <= {""}, reports

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """What the target answers."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            return session.query(sql)

    def execute(self, *statements: str) -> None:
        """Run statements on the target."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            for statement in statements:
                session.execute(statement)
