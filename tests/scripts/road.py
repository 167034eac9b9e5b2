"""The pipeline of one script, from the server's log into PostgreSQL and DuckDB, and what became of its tables."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadMaxBytes

from auditor import config
from auditor.config import Audit, table_name
from auditor.connections.writer import open_writer
from auditor.errors import EngineError
from auditor.model import State, Verdict
from auditor.pipeline.binlog.log_connection import source_of
from auditor.pipeline.binlog.log_scope import check_scope
from auditor.pipeline.binlog.refreshes import refreshes_of
from auditor.pipeline.binlog.selection import Selection
from auditor.pipeline.binlog.server import end_of_log
from auditor.pipeline.folders import LocalFolder
from auditor.pipeline.merge.load_tasks import close_sessions
from auditor.pipeline.merge.loader import Loader
from auditor.pipeline.merge.positions import Where
from auditor.pipeline.reader_tasks import read_and_write
from auditor.pipeline.run import read_values
from auditor.pipeline.source import EVENT_TYPE, MySQLBinlog
from auditor.pipeline.stage_task import TableRules
from auditor.pipeline.staging import Staging
from auditor.run import audit_run
from auditor.service.pipeline_status import status
from auditor.store import Store, open_store, parts, pipelines, table_notes
from tests.pipeline.road import PIPELINE, run_here
from tests.servers import mysql

TARGETS = ("pg", "duck")

TABLES = ("test*.*", "mysqltest*.*", "db*.*", "d[0-9]*.*", "t[0-9]*.*")
"""Databases that scripts use; of others nothing is carried."""

PREFIX = "scripts_"
"""How schemas in targets begin."""

LIMITS = "{statement_timeout: 60s, lock_timeout: 3s}"


@dataclass(frozen=True)
class Found:
    """What became of one table in one target at one point."""

    kind: str
    """``match``, ``stopped``, ``not carried``, ``empty``, ``not comparable``, ``locked``, or ``wrong``."""
    sentence: str = ""


class ScriptRoad:
    """A pipeline that begins where the log ends now."""

    def __init__(self, folder: Path, empty_store: Path, source: str, postgres: str) -> None:
        self._postgres, self._source = postgres, source
        duckdb = f"duckdb:///{folder}/warehouse.duckdb"
        self.config_file = folder / "auditor.yaml"
        self.config_file.write_text(
            f"""\
connections:
  source: {{url: "{source}", limits: {LIMITS}}}
  pg: {{url: "{postgres}", write: {{url: "{postgres}"}}, limits: {LIMITS}}}
  duck: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {{}}
store: {{url: "sqlite:///{folder}/auditor.db"}}
pipelines:
  {PIPELINE}:
    source: {{connection: source, tables: {json.dumps(TABLES)}}}
    staging: {{path: "{folder}/staging"}}
    targets:
      pg: {{connection: pg, schema: "{PREFIX}{{database}}", every: 0s}}
      duck: {{connection: duck, schema: "{PREFIX}{{database}}", every: 0s}}
"""
        )
        shutil.copy(empty_store, folder / "auditor.db")
        self.settings = config.load(self.config_file)
        self.pipeline = self.settings.pipeline(PIPELINE)
        self._root = folder / "staging"
        LocalFolder(self._root).make()
        assert self.settings.store
        self._store: Store = open_store(self.settings.store.url)
        check_scope(source_of(self.settings, PIPELINE), self.pipeline.source.tables)
        parts.record_batch(self._store, PIPELINE, [], {}, end_of_log(source_of(self.settings, PIPELINE)))
        self._staging = Staging(self._store, PIPELINE, LocalFolder(self._root), TableRules(self.pipeline, b"salt"))
        self._staging.complete = partial(read_values, self.settings, PIPELINE)
        self._loaders = {target: self._loader(target) for target in TARGETS}
        self._clock = itertools.count(1000, 1000)
        self._selection = Selection(TABLES, "test")

    def _loader(self, target: str) -> Loader:
        chosen = self.pipeline.table_targets[target]
        about = (str(self.config_file), chosen.connection, chosen.schema_, str(self._root))
        where = Where(self._store, PIPELINE, *about, run_here, target, chosen)
        loader = Loader(where, target, self.settings.connections[chosen.connection])
        loader.clock = lambda: float(next(self._clock))  # what waits is tried again at each point
        return loader

    def close(self) -> None:
        """Close the store, and drop what PostgreSQL has of it."""
        close_sessions()
        for loader in self._loaders.values():
            loader.close()
        self._store.close()
        with open_writer("pg", self.settings.connections["pg"]) as session:
            for (schema,) in session.query(f"SELECT nspname FROM pg_namespace WHERE nspname LIKE '{PREFIX}%'"):
                session.execute(f"DROP SCHEMA {session.dialect.names.quote(str(schema))} CASCADE")

    def catch_up(self) -> None:
        """Stage and merge everything that the log has by now. Raises AuditorError where the pipeline ends."""
        options: dict[str, str] = {"config": str(self.config_file), "connection": "source", "tables": ",".join(TABLES), "notes": "true"}
        refreshes = refreshes_of(self.settings, PIPELINE)
        begin = pipelines.get_pipeline(self._store, PIPELINE).source_offset
        options |= {"refreshes": f"{refreshes.schema}/{refreshes.pipeline}", "start": json.dumps(begin), "patience": "20"}
        reader: Any = MySQLBinlog(options).streamReader(EVENT_TYPE)
        try:
            reader.prepareForTriggerAvailableNow()
            while (end := reader.latestOffset(begin, ReadMaxBytes(8 << 20))) != begin:
                self._staging.stage(partial(self._entries, reader, reader.partitions(begin, end)), 0, end)
                begin = end
        finally:
            reader.stop()
        for loader in self._loaders.values():
            loader.merge_all()

    def _entries(self, reader: Any, ranges: list[Any]) -> list[Any]:
        return [entry for one in ranges for entry in read_and_write(reader, self._staging.writer(), one)]

    def judge(self) -> Iterator[tuple[str, str, Found]]:
        """Yield table, target, and what became of it there, for each table that the source has now."""
        told = status(self.settings, self._store, PIPELINE, look=False)
        staged = parts.list_tables(self._store, PIPELINE)
        for database, table, kind in self._tables():
            name = f"{database}.{table}"
            for target in TARGETS:
                if kind not in ("BASE TABLE", "SYSTEM VERSIONED"):
                    yield name, target, Found("not carried", f"a {kind.lower()} is passed by")
                    continue
                stop = next((one.reason for one in told.stopped if one.table == name and one.target in (None, target)), "")
                report = told.targets[target].tables.get(name)
                if reason := (stop or (report.reason if report else "")):
                    yield name, target, Found("stopped", reason)
                elif name not in staged:
                    yield name, target, self._unseen(database, table)
                else:
                    yield name, target, self._audit(database, table, target)

    def is_done(self) -> bool:
        """Whether a table stopped, and the source has no table now, so that another pipeline may begin here."""
        reports = pipelines.list_merges(self._store, PIPELINE).values()
        stops = any(one.stops for one in table_notes.list_notes(self._store, PIPELINE))
        return (stops or any(one.reason for found in reports for one in found.values())) and not self._tables()

    def _tables(self) -> list[tuple[str, str, str]]:
        with closing(mysql.connect(self._source)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 3")
            cursor.execute("SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 1, 2")
            listed = [(str(database), str(table), str(kind)) for database, table, kind in cursor.fetchall()]
        return [one for one in listed if "." not in one[0] and self._selection.has(one[0], one[1])]

    def _count(self, database: str, table: str) -> int:
        with closing(mysql.connect(self._source)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION lock_wait_timeout = 3")
            cursor.execute(f"SELECT COUNT(*) FROM `{database.replace('`', '``')}`.`{table.replace('`', '``')}`")
            found = cursor.fetchone()
        assert found
        return int(found[0])

    def _unseen(self, database: str, table: str) -> Found:
        if count := self._count(database, table):
            return Found("wrong", f"the source has {count} rows, and nothing of them came, nor was anything said")
        return Found("empty")

    def _count_there(self, database: str, table: str, target: str) -> int | None:
        """How many rows a target has of a table; None if it lacks the table."""
        with open_writer(target, self.settings.connections[target]) as session:
            name = session.dialect.names.table(*self.pipeline.table_targets[target].place_of(f"{database}.{table}"))
            try:
                return int(session.query(f"SELECT COUNT(*) FROM {name}")[0][0])
            except EngineError:
                return None

    def _audit(self, database: str, table: str, target: str) -> Found:
        into = {"connection": target, "table": table_name(*self.pipeline.table_targets[target].place_of(f"{database}.{table}"))}
        source = {"connection": "source", "table": table_name(database, table)}
        audit = Audit.model_validate({"source": source, "target": into, "allow_empty": True})
        report = audit_run.run(f"{table}_{target}", audit, self.settings.connections)
        said = "; ".join(report.reasons)
        if report.state is not State.DONE:
            if re.search(r"lock wait|lock timeout|locked|metadata lock", said, re.IGNORECASE):
                return Found("locked", said)
            here, there = self._count(database, table), self._count_there(database, table, target)
            if here != (there or 0):
                return Found("wrong", f"the source has {here} rows and the target {there}: {said}")
            return Found("not comparable", said) if here else Found("empty")
        if report.verdict is Verdict.MATCH:
            return Found("match")
        return Found("wrong" if report.verdict is Verdict.MISMATCH else "not comparable", said)
