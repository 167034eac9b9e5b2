"""A source whose log names no columns, read through a schema tracker: its events, and processes that are killed at steps of the tracker.

``python -m tests.pipeline.tracked CONFIG TABLES`` reads from each line the start and end of a batch, a step, and which time it is reached
that is fatal; it forks a child that plans the batch and kills itself there as ``kill -9`` does, and prints how the child ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxBytes

from auditor import config
from auditor.pipeline.binlog.log_connection import source_of
from auditor.pipeline.binlog.server import end_of_log
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.points import armed
from auditor.store import Store, open_store
from tests.binlog import Event, LiveLog
from tests.programs.forking import ROOT, Forked
from tests.servers import mysql

PIPELINE = "shop"
METADATA = {"mysql": "MINIMAL", "mariadb": "NO_LOG"}
"""The default of binlog_row_metadata of each kind of server."""
ROWS = ("insert", "update", "delete", "refresh")


class TrackedLog:
    """The log of a live server, read by a pipeline that has a tracker."""

    def __init__(self, folder: Path, log: LiveLog, tracker: str, tables: str) -> None:
        self.log, self.tables = log, tables
        self.config_file = folder / "auditor.yaml"
        self.config_file.write_text(
            f"""\
connections:
  source: {{url: "{log.url}", write: {{url: "{log.url}"}}}}
  warehouse: {{url: "duckdb:///{folder}/warehouse.duckdb", write: {{url: "duckdb:///{folder}/warehouse.duckdb"}}}}
audits: {{}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: [{tables}]}}
    staging: {{path: "{folder}/staging"}}
    tracker: {{url: "{tracker}"}}
    targets: {{wh: {{connection: warehouse, schema: shop}}}}
"""
        )
        self.settings = config.load(self.config_file)
        assert self.settings.store
        self.store: Store = open_store(self.settings.store.url)
        self.at: dict[str, Any] = self.here()
        self._reader: Any = None

    def here(self) -> dict[str, Any]:
        """Return where the log ends now, as the offset of a pipeline that no tracker has seen."""
        return {**end_of_log(source_of(self.settings, PIPELINE))}

    def reader(self) -> Any:
        """The stream's reader; one goes on until `restart`."""
        self._reader = self._reader or _reader(self.config_file, self.tables, self.at)
        return self._reader

    def restart(self) -> None:
        """Read on by another process, as it were."""
        if self._reader:
            self._reader.stop()
        self._reader = None

    def plan(self) -> dict[str, Any]:
        """Return the end of a batch up to where the log ends now."""
        found: dict[str, Any] = self.reader().latestOffset(self.at, ReadMaxBytes(64 << 20))
        return found

    def read(self) -> list[Event]:
        """Return the events since the last call, with notes on what could not be had."""
        end = self.plan()
        return self.read_batch(end)

    def read_batch(self, end: dict[str, Any]) -> list[Event]:
        """Return the events of the batch that ends there, and go on behind it."""
        found = [
            event for part in self.reader().partitions(self.at, end) for batch in self.reader().read(part) for event in batch.to_pylist()
        ]
        self.at = end
        return sorted(found, key=lambda event: (event["position"], event["row"]))

    def rows(self) -> list[dict[str, str | None]]:
        """Return the rows since the last call after each event, or before a delete, by the names of their columns."""
        return as_rows(self.read())

    def close(self) -> None:
        """Close the store and the connections."""
        self.restart()
        self.store.close()


def as_rows(events: list[Event]) -> list[dict[str, str | None]]:
    """Return the rows of events after each of them, or before a delete, by the names of their columns."""
    schemas = {event["schema_id"]: json.loads(event["after"][0]) for event in events if event["kind"] == "schema"}
    found = []
    for event in events:
        if event["kind"] in ROWS:
            names = [column["name"] for column in schemas[event["schema_id"]]["columns"]]
            found.append(dict(zip(names, event["after"] or event["before"], strict=True)))
    return found


def _reader(config_file: Path, tables: str, start: dict[str, Any]) -> Any:
    options = {"config": str(config_file), "connection": "source", "tables": tables, "start": json.dumps(start), "notes": "true"}
    return MySQLBinlog({**options, "pipeline": PIPELINE, "refreshes": f"auditor_refresh/{PIPELINE}"}).streamReader(EVENT_TYPE)


def empty_server(url: str) -> None:
    """Drop all databases of a server but its own."""
    with mysql.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        for (name,) in list(cursor.fetchall()):
            if name not in ("mysql", "sys", "information_schema", "performance_schema"):
                cursor.execute(f"DROP DATABASE `{name}`")


class Killed:
    """The process that forks children which die, as seen by the test."""

    def __init__(self, tracked: TrackedLog) -> None:
        self.process = Forked("tests.pipeline.tracked", [str(tracked.config_file), tracked.tables], ROOT)

    def plan_until(self, start: dict[str, Any], end: dict[str, Any], step: str, time: int = 1) -> str:
        """Plan a batch in a process that is killed when it reaches this step for the nth time; return ``killed``, or how it ended."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([start, end, step, time]) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        """End the process."""
        self.process.communicate(timeout=60)


def _main() -> None:
    for module in ("auditor.store.trackers", "sqlalchemy.dialects.sqlite", "pymysql", "dialects.duckdb.dialect"):
        import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                start, end, fatal, count = json.loads(line)
                with armed(f"tracker.{fatal}", lambda: os.kill(os.getpid(), signal.SIGKILL), nth=count):
                    _reader(Path(sys.argv[1]), sys.argv[2], start).partitions(start, end)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL else f"ended with {status}", flush=True)


if __name__ == "__main__":
    _main()
