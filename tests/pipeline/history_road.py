"""A pipeline that only keeps a history, and a table that somebody else's pipeline fills, which the auditor knows nothing of."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from auditor import config
from auditor.connections.writer import open_writer
from auditor.model import Report
from auditor.pipeline.binlog.log_connection import source_of
from auditor.pipeline.binlog.server import end_of_log
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.versions.writer import VersionWriter
from auditor.pipeline.versions.writer import open_writer as open_version_writer
from auditor.service import running
from auditor.store import Store, open_store, parts, row_versions
from auditor.store.row_versions import RowHistory
from tests.binlog import LiveLog
from tests.live import LiveEngine
from tests.pipeline.live_road import LiveRoad

AUDIT, CAPTURE = "orders", "capture"


class HistoryRoad(LiveRoad):
    """A capture of one table of a live server, and an audit between that and a table of another one."""

    notes = True

    def __init__(
        self, folder: Path, source: LiveEngine, target: LiveEngine, table: str, *, at_most: str = "1s", more: str = "", kept: str = "{}",
        convention: str = "",
    ) -> None:  # fmt: skip
        self.name, self.schema, self.table, self.log = CAPTURE, "sink", table, LiveLog(source.url)
        self.database = urlsplit(source.url).path.strip("/")
        follows = f", convention: {convention}" if convention else ""
        self.config_file = folder / "auditor.yaml"
        self.config_file.write_text(
            f"""\
connections:
  source: {{url: "{source.url}"}}
  warehouse: {{url: "{target.url}", write: {{url: "{target.url}"}}}}
store: {{url: "sqlite:///{folder}/auditor.db"}}
audits:
  {AUDIT}:
    source: {{connection: source, table: {table}}}
    target: {{connection: warehouse, table: {self.schema}.{table}{follows}}}
    history: {{pipeline: {CAPTURE}, at_most: {at_most}}}
    {more}
pipelines:
  {CAPTURE}:
    source: {{connection: source, tables: [{table}]}}
    staging: {{path: "{folder}/staging"}}
    history: {kept}
"""
        )
        self.settings = config.load(self.config_file)
        self.pipeline = self.settings.pipeline(self.name)
        self.root = folder / "staging"
        LocalFolder(self.root).make()
        assert self.settings.store
        self.store: Store = open_store(self.settings.store.url)
        self.begin_stream()
        self.writer: VersionWriter = open_version_writer(self.settings, self.store, self.name)

    def begin_stream(self) -> None:
        """Let the capture begin where the log ends now."""
        parts.record_batch(self.store, self.name, [], {}, end_of_log(source_of(self.settings, self.name)))

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def create(self, columns: str, rows: str, target_columns: str = "") -> None:
        """Make both tables anew, with the same rows."""
        place = f"{self.schema}.{self.table}"
        self.log.run(
            f"DROP TABLE IF EXISTS {self.table}", f"CREATE TABLE {self.table} ({columns})", f"INSERT INTO {self.table} VALUES {rows}"
        )
        self.execute(
            f"CREATE SCHEMA IF NOT EXISTS {self.schema}",
            f"DROP TABLE IF EXISTS {place}",
            f"CREATE TABLE {place} ({target_columns or columns})",
            f"INSERT INTO {place} VALUES {rows}",
        )

    def capture(self) -> None:
        """Stage everything that the log has by now, and write its versions."""
        self.stage()
        while self.writer.step():
            pass

    @contextmanager
    def capturing(self, every: float = 0.05) -> Iterator[None]:
        """Do that in a thread, as a running pipeline does; fail if it fails."""
        done, failures = threading.Event(), list[BaseException]()

        def work() -> None:
            while not done.wait(every):
                try:
                    self.capture()
                except BaseException as error:
                    failures.append(error)
                    raise

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        assert not failures

    def run(self) -> Report:
        """Run the audit."""
        return running.run_audit(self.settings, AUDIT, store=self.store)

    def history(self) -> RowHistory:
        """Return the history that the capture keeps."""
        [found] = row_versions.list_histories(self.store, self.name)
        return found

    def until(self, holds: Callable[[RowHistory], bool]) -> None:
        """Wait until this holds of the history that is captured meanwhile."""
        end = time.monotonic() + 30
        while not holds(self.history()):
            assert time.monotonic() < end, "the history did not come so far"
            time.sleep(0.02)

    def sink(self, *statements: str) -> None:
        """Do what the other pipeline does to the target, or what somebody does there."""
        with open_writer("warehouse", self.settings.connections["warehouse"]) as session:
            for statement in statements:
                session.execute(statement)

    def allow(self, at_most: str) -> None:
        """Let changes take so long at most."""
        text = re.sub("at_most: [0-9a-z]+", f"at_most: {at_most}", self.config_file.read_text())
        fresh = self.config_file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.config_file)  # at once, as the capture reads it meanwhile
        self.settings = config.load(self.config_file)

    def pass_time(self, seconds: float) -> None:
        """Let a change become older than the audit lets it be in flight."""
        time.sleep(seconds)

    def looked_up(self, report: Report) -> dict[str, Any]:
        """Return what a report counts of its history, without what is 0."""
        assert report.differences is not None
        check = report.differences.history
        assert check is not None
        kinds = ("current", "in_flight", "late", "foreign", "doubled", "unlogged", "untold")
        return {kind: count for kind in kinds if (count := getattr(check, kind))}
