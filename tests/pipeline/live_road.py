"""A pipeline from a live server's log into DuckDB, or another target, without Spark: its events are read and staged in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadMaxBytes

from auditor import config
from auditor.connections.writer import open_writer
from auditor.model import Part
from auditor.pipeline.binlog.log_connection import source_of
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.binlog.server import end_of_log
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.pipeline.stage_task import TableRules, read_entries, stage_task
from auditor.store import Store, open_store, parts, pipelines
from tests.live import LiveEngine
from tests.pipeline.road import PIPELINE, run_here


class LiveRoad:
    """One pipeline from tables of a live server into a schema of a file of DuckDB, or of ``into``; it begins where the log ends now.

    Pipelines of one store have different names.
    """

    salt = b"salt"
    """What texts are masked with; that of the store in a pipeline that runs."""
    notes = False
    """Whether statements that change tables are noted."""
    archives = False
    """Whether each segment has a file of its own."""

    def __init__(
        self, folder: Path, source: LiveEngine, tables: str, columns: str = "{}", into: str = "", schema: str = "shop",
        audits: str = "{}", name: str = PIPELINE, store: str = "",
    ) -> None:  # fmt: skip
        self.name, self.schema, store = name, schema, store or f"sqlite:///{folder}/auditor.db"
        archive = f', path: "{folder}/archive"' if self.archives else ""
        into = into or f"duckdb:///{folder}/warehouse.duckdb"
        self.database = urlsplit(source.url).path.strip("/")
        self.config_file = folder / "auditor.yaml"
        self.config_file.write_text(
            f"""\
connections:
  source: {{url: "{source.url}", write: {{url: "{source.url}"}}}}
  warehouse: {{url: "{into}", write: {{url: "{into}"}}}}
audits: {audits}
store: {{url: "{store}"}}
pipelines:
  {name}:
    source: {{connection: source, tables: ["{tables}"]}}
    columns: {columns}
    staging: {{path: "{folder}/staging"}}
    segment: {{rows: 100{archive}}}
    targets: {{wh: {{connection: warehouse, schema: {schema}, every: 0s}}}}
"""
        )
        self.settings = config.load(self.config_file)
        self.pipeline = self.settings.pipeline(self.name)
        self.root = folder / "staging"
        LocalFolder(self.root).make()
        assert self.settings.store
        self.store: Store = open_store(self.settings.store.url)
        parts.record_batch(self.store, self.name, [], {}, end_of_log(source_of(self.settings, self.name)))
        chosen = self.pipeline.table_targets["wh"]
        where = Where(self.store, self.name, str(self.config_file), "warehouse", chosen.schema_, str(self.root), run_here, "wh", chosen)
        self.loader = Loader(where, "wh", self.settings.connections["warehouse"])

    def close(self) -> None:
        """Close the store."""
        self.loader.close()
        self.store.close()

    def stage(self, range_bytes: int = 1 << 20) -> None:
        """Stage everything that the log has by now, by tasks of so many bytes of it."""
        begin = pipelines.get_pipeline(self.store, self.name).source_offset
        refreshes = refreshes_of(self.settings, self.name)
        options = {
            "config": str(self.config_file),
            "connection": self.pipeline.source_name,
            "tables": ",".join(self.pipeline.source.tables),
        }
        options |= {"refreshes": f"{refreshes.schema}/{refreshes.pipeline}", "range_bytes": str(range_bytes), "notes": str(self.notes)}
        reader: Any = MySQLBinlog({**options, "start": json.dumps(begin)}).streamReader(EVENT_TYPE)
        reader.prepareForTriggerAvailableNow()
        while (end := reader.latestOffset(begin, ReadMaxBytes(8 << 20))) != begin:
            rules = TableRules(self.pipeline, self.salt)
            entries = [
                entry
                for part in reader.partitions(begin, end)
                for batch in stage_task(str(self.root), rules, self.read(reader, part))
                for entry in batch.to_pylist()
            ]
            found, notes = read_entries(entries)
            self.written([one.part for one in found if one.part.rows])
            schemas = {one.part.schema_id: json.loads(one.schema_json) for one in found if one.schema_json}
            parts.record_batch(self.store, self.name, [one.part for one in found if one.part.rows], schemas, end, notes)
            begin = end
        reader.stop()

    def read(self, reader: Any, part: Any) -> list[pa.RecordBatch]:
        """Return the events of a range of the log, as they are staged."""
        return list(reader.read(part))

    def written(self, found: Sequence[Part]) -> None:
        """Do nothing with the parts of a batch that were written, and are not listed yet."""

    def merge(self) -> None:
        """Stage and merge everything that the log has by now."""
        self.stage()
        self.loader.merge_all()
        reports = pipelines.list_merges(self.store, self.name).get("wh", {})
        assert {one.reason for one in reports.values()} <= {""}, reports

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a target's table, in order."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            return sorted(session.query(f"SELECT * FROM {session.dialect.names.table(self.schema, table)}"))

    def drop(self) -> None:
        """Drop what a shared server has of the target."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            cascade = "" if session.dialect.name == "mysql" else " CASCADE"
            session.execute(f"DROP SCHEMA IF EXISTS {session.dialect.names.quote(self.schema)}{cascade}")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """What the target answers."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            return session.query(sql)

    def execute(self, *statements: str) -> None:
        """Run statements on the target."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            for statement in statements:
                session.execute(statement)


@contextmanager
def delivering(road: LiveRoad, every: float = 0.1) -> Iterator[None]:
    """Stage and merge in a thread every so many seconds, as a running pipeline does; fail if that fails."""
    done, failures = threading.Event(), list[BaseException]()

    def deliver() -> None:
        while not done.wait(every):
            try:
                road.merge()
            except BaseException as error:
                failures.append(error)
                raise

    thread = threading.Thread(target=deliver)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not failures
