"""Part refresh: how long the first fill of many tables takes, by ``auditor pipeline refresh`` beside a pipeline that runs.

Time is from the start of the command to when a query of PostgreSQL sees all rows of all tables.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from auditor.store import open_store, pipelines
from benchmarks import process, road, tables
from benchmarks.servers import Servers
from tests.servers import mysql, postgres
from tests.servers.process import Unavailable

ENGINES = ("mariadb",)
ROWS = 1000
"""Of each table."""

COUNTS, LARGEST = (200,), 2000
"""How many tables there are; the largest only where it is asked for."""

POLL = 0.2
"""Seconds between two looks at the target."""

PATIENCE = 1800.0
"""Seconds after which a fill counts as failed."""

CONFIGURATION = """\
connections:
  source: {{url: "{source}", write: {{url: "{source}"}}}}
  pg: {{url: "{target}", write: {{url: "{target}"}}}}
audits: {{}}
pipelines:
  {pipeline}:
    source: {{connection: source, tables: ["many_*"]}}
    staging: {{path: "{folder}/staging"}}
    targets: {{pg: {{connection: pg, schema: {schema}, every: 0s}}}}
"""


@dataclass
class Refreshed:
    """One first fill; ``why`` has the reason if it did not run. Times are in seconds."""

    engine: str
    tables: int
    rows: int
    """Of each table."""
    server: str = ""
    load: float = 0.0
    sent: float = 0.0
    """Until the command ended, and so all rows were in the source's log."""
    seconds: float = 0.0
    """Until all rows were visible in the target."""
    statements: int = 0
    """Of all sessions of the source."""
    commits: int = 0
    """Transactions of the target's database."""
    cpu: dict[str, float] = field(default_factory=dict)
    """By process: the command, those of the pipeline, and both servers."""
    why: str = ""


def measure(servers: Servers, engine: str, words: Sequence[str] = (), larger: bool = False) -> list[Refreshed]:
    """Measure one engine as source, with PostgreSQL as target, for each number of tables, or those that are among the words."""
    results = []
    for count in (*COUNTS, LARGEST):
        if str(count) not in words if words else count == LARGEST and not larger:
            continue
        result = Refreshed(engine, count, ROWS, load=os.getloadavg()[0])
        print(f"refresh: {count:,} tables", file=sys.stderr, flush=True)
        try:
            source, target = servers[engine], servers["postgres"]
            result.server = source.version
            with tempfile.TemporaryDirectory(prefix="refresh-", dir=servers.directory) as folder:
                _run(result, Path(folder), source.url, target.url)
        except (Unavailable, RuntimeError) as reason:
            result.why = str(reason)
        results.append(result)
    return results


def _run(result: Refreshed, folder: Path, source: str, target: str) -> None:
    tables.drop_schema(target)
    values = {"source": source, "target": target, "folder": folder, "pipeline": tables.PIPELINE, "schema": tables.SCHEMA}
    (folder / "auditor.yaml").write_text(CONFIGURATION.format(**values))
    names = [f"many_{number:04d}" for number in range(result.tables)]
    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor, closing(postgres.connect(target)) as reader:
        make_tables(cursor, names, result.rows)
        try:
            with road.running(folder, tables.PIPELINE, {}) as pipeline:
                with closing(open_store(f"sqlite:///{folder}/auditor.db")) as store:
                    road.wait(lambda: pipelines.get_pipeline(store, tables.PIPELINE).source_offset is not None, pipeline)
                wait_for_driver(pipeline, folder)
                costs = _Costs(pipeline.pid, cursor, reader)
                _fill(result, folder, pipeline, reader, names)
                costs.note(result)
        finally:
            for name in names:
                cursor.execute(f"DROP TABLE IF EXISTS {name}")
            tables.drop_schema(target)


def make_tables(cursor: Any, names: Sequence[str], rows: int) -> None:
    """Make tables with rows before a pipeline begins."""
    values = ", ".join(tables.values_of(number) for number in range(rows))
    for name in names:
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute(f"CREATE TABLE {name} {tables.DEFINITION}")
        cursor.execute(f"INSERT INTO {name} VALUES {values}")


def wait_for_driver(pipeline: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the pipeline has its Python workers, so that the start of Spark is not measured."""

    def works() -> bool:
        return any("pyspark" in process.command_line(pid) for pid in process.process_tree(pipeline.pid))

    road.wait(lambda: works() or '"action": "staged"' in (folder / "log").read_text(errors="replace"), pipeline, patience=60.0)
    time.sleep(2.0)


def _fill(result: Refreshed, folder: Path, pipeline: subprocess.Popen[bytes], reader: Any, names: Sequence[str]) -> None:
    """Refresh all tables, and wait until the target has their rows."""
    began, left = time.monotonic(), list(names)
    command = [sys.executable, "-m", "auditor", "pipeline", "refresh", tables.PIPELINE, "--apply", "--quiet", "--json"]
    environment = {**process.inherited_environment(), "PYTHONPATH": str(Path(__file__).parents[1])}
    with (folder / "refreshed").open("wb") as out:
        sender = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            while left:
                if pipeline.poll() is not None or time.monotonic() > began + PATIENCE:
                    raise RuntimeError(f"{len(left):,} tables do not arrive")
                if sender.poll() is None:
                    result.cpu["command"] = process.cpu_seconds(sender.pid)
                elif not result.sent:
                    result.sent = time.monotonic() - began
                    _check(sender.returncode, folder / "refreshed", len(names))
                time.sleep(POLL)
                left = _lacking(reader, left, result.rows)
            result.seconds = time.monotonic() - began
        finally:
            if sender.poll() is None and not left:
                sender.wait(60.0)  # it follows what the pipeline's process does
            sender.kill()
            sender.wait()
    if not result.sent:
        result.sent = time.monotonic() - began
        _check(sender.returncode, folder / "refreshed", len(names))


def _check(code: int, output: Path, count: int) -> None:
    text = output.read_text(errors="replace")
    done = [refresh for refresh in json.loads(text) if refresh["state"] == "done"] if not code else []
    if len(done) != count:
        raise RuntimeError(f"the command ended with {code}: {text[-500:]}")


def _lacking(reader: Any, names: Sequence[str], rows: int) -> list[str]:
    """Return those of the tables that lack rows in the target, looking at no more after the first hundred that do."""
    with reader.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (tables.SCHEMA,))
        there = {name for (name,) in cursor.fetchall()}
        lacking = [name for name in names if name not in there]
        looked = [name for name in names if name in there][:100]
        if looked:
            cursor.execute(" UNION ALL ".join(f"SELECT '{name}', COUNT(*) FROM {tables.SCHEMA}.{name}" for name in looked))
            lacking += [name for name, count in cursor.fetchall() if count < rows]
        return [*lacking, *[name for name in names if name in there][100:]]


class _Costs:
    """What processes and servers did since it was made."""

    def __init__(self, pipeline: int, cursor: Any, reader: Any) -> None:
        cursor.execute("SELECT @@pid_file")
        source = int(Path(cursor.fetchone()[0]).read_text())
        with reader.cursor() as asked:
            asked.execute("SHOW data_directory")
            target = int(Path(asked.fetchone()[0], "postmaster.pid").read_text().splitlines()[0])
        self._groups: dict[str, Callable[[], float]] = {
            "source": lambda: process.cpu_seconds(source),
            "target": lambda: sum(process.cpu_seconds(pid) for pid in process.process_tree(target)) + process.reaped_seconds(target),
            **{name: partial(self._of_pipeline, name) for name in ("Spark's Java", "Python workers", "driver")},
        }
        self._pipeline, self._cursor, self._reader = pipeline, cursor, reader
        self._cpu = {name: seconds() for name, seconds in self._groups.items()}
        self._statements, self._commits = self._counted()

    def note(self, result: Refreshed) -> None:
        """Write it into a result."""
        result.cpu |= {name: seconds() - self._cpu[name] for name, seconds in self._groups.items()}
        statements, commits = self._counted()
        result.statements, result.commits = statements - self._statements, commits - self._commits

    def _of_pipeline(self, name: str) -> float:
        tree = [pid for pid in process.process_tree(self._pipeline) if road.group_of(process.command_line(pid)) == name]
        return sum(process.cpu_seconds(pid) + process.reaped_seconds(pid) for pid in tree)

    def _counted(self) -> tuple[int, int]:
        self._cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
        [(_, statements)] = self._cursor.fetchall()
        with self._reader.cursor() as asked:
            asked.execute("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")
            [(commits,)] = asked.fetchall()
        return int(statements), int(commits)
