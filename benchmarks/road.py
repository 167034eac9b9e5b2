"""Part road: from the binary log to merged targets as `auditor pipeline run` does it, beside mysql-replication with an upsert for each row.

The pipeline begins where the log of an empty table ends, and is stopped. Then the log is written, and the pipeline started again: so source
and writer do not share the cores with what is measured, and what it does from its start to the last merge is known.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from auditor.pipeline.binlog.dump import log_status
from auditor.pipeline.binlog.place import Place
from auditor.store import Store, open_store, pipelines
from benchmarks import process, stream
from benchmarks.servers import Servers
from tests.servers import mysql, postgres
from tests.servers._process import Unavailable

ENGINES = stream.ENGINES
PIPELINE, SCHEMA, TABLE = "road", "road", stream.TABLE_NAME
PG, BOTH = "PostgreSQL", "PostgreSQL and DuckDB"
TARGETS = {PG: ("pg",), BOTH: ("pg", "duck")}

MAX_ROW_BY_ROW = 20_000
"""Inserts that mysql-replication and the upserts have to carry: the log begins with them."""

LATENCIES = 40
"""Rows whose way is timed, one after the other."""

SAMPLING = 1.0
"""Seconds between two samples of memory and CPU time."""

PATIENCE = 900.0
"""Seconds after which a pipeline that has not arrived counts as failed."""

CONFIGURATION = """\
connections:
  source: {{url: "{source}"}}
  pg: {{url: "{postgres}", write: {{url: "{postgres}"}}}}
  duck: {{url: "{duckdb}", write: {{url: "{duckdb}"}}}}
audits: {{}}
pipelines:
  {pipeline}:
    source: {{connection: source, tables: [{table}]}}
    staging: {{path: "{folder}/staging"}}
    targets: {{{targets}}}
"""

GROUPS = {
    "SparkSubmit": "Spark's Java",
    "python_streaming_source_runner": "planner",
    "pyspark": "Python workers",
    "loader_process": "loader of DuckDB",
}
"""What the command line of a process contains, and what it is; the driver has none of these."""

GROUP_NAMES = (*GROUPS.values(), "driver")


@dataclass
class Road:
    """One pipeline; ``why`` has the reason if it did not run.

    ``seconds`` are from the start of the process to the last merge, ``sustained`` events per second from the beginning of the first batch
    to then. ``latencies`` are seconds from the commit of a row to its merge, ``memory`` the PSS bytes by group of processes when all
    together had most, ``cpu`` the seconds of CPU time by group.
    """

    engine: str
    targets: str
    server: str = ""
    events: int = 0
    load: float = 0.0
    seconds: float = 0.0
    sustained: float = 0.0
    latencies: list[float] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    row_by_row: float = 0.0
    """Events per second of mysql-replication with an upsert for each row; 0 if it was not measured."""
    why: str = ""


def measure(servers: Servers, engine: str, rows: int) -> list[Road]:
    """Measure one engine as source, with ``rows`` rows, into PostgreSQL alone and beside DuckDB."""
    try:
        source, target = servers[engine], servers["postgres"]
    except Unavailable as reason:
        return [Road(engine, targets, why=str(reason)) for targets in TARGETS]
    found = []
    for targets in TARGETS:
        print(f"road: {engine} to {targets}", file=sys.stderr, flush=True)
        road = Road(engine, targets, source.version, load=os.getloadavg()[0])
        _drop(target.url)
        with tempfile.TemporaryDirectory(prefix="road-", dir=servers.directory) as folder:
            start = _run(road, Path(folder), source.url, target.url, rows)
        if targets == PG:
            road.row_by_row = _row_by_row(source.url, target.url, engine, start, min(rows, MAX_ROW_BY_ROW))
        _drop(target.url)
        found.append(road)
    return found


def _run(road: Road, folder: Path, source: str, target: str, rows: int) -> Place:
    """Let a pipeline catch up with a written log, and then carry single rows; return where the log begins."""
    names = TARGETS[road.targets]
    chosen = ", ".join(f"{name}: {{connection: {name}, schema: {SCHEMA}, every: 0s}}" for name in names)
    duckdb = f"duckdb:///{folder}/warehouse.duckdb"
    about = {"source": source, "postgres": target, "duckdb": duckdb, "folder": folder, "pipeline": PIPELINE, "table": TABLE}
    (folder / "auditor.yaml").write_text(CONFIGURATION.format(**about, targets=chosen))
    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor:
        stream.make_table(cursor)
        with closing(open_store(f"sqlite:///{folder}/auditor.db")) as store:
            with _running(folder) as pipeline:
                _wait(lambda: pipelines.get_pipeline(store, PIPELINE).source_offset is not None, pipeline)
            start = log_status(connection).end
            road.events = stream.write_rows(cursor, rows)
            began = time.monotonic()
            with _running(folder) as pipeline, _watching(pipeline.pid, road):
                _wait(lambda: _merged(store, names) >= road.events, pipeline)
                road.seconds = time.monotonic() - began
                road.sustained = road.events / (time.time() - _first_batch(folder / "log"))
                if road.targets == PG:
                    road.latencies = _time_rows(cursor, target)
    return start


@contextmanager
def _running(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the pipeline for the block, and end it by SIGTERM. Raises RuntimeError if it fails."""
    command = [sys.executable, "-m", "auditor", "pipeline", "run", PIPELINE]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with (folder / "log").open("wb") as log:
        pipeline = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield pipeline
        finally:
            pipeline.send_signal(signal.SIGTERM)
            code = pipeline.wait(PATIENCE)
    if code:
        lines = (folder / "log").read_text(errors="replace").splitlines()[-5:]
        raise RuntimeError(f"the pipeline ended with {code}: {lines}")


def _wait(reached: Callable[[], bool], pipeline: subprocess.Popen[bytes], every: float = 0.05) -> None:
    deadline = time.monotonic() + PATIENCE
    while not reached():
        if pipeline.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the pipeline {'ended' if pipeline.poll() is not None else 'does not arrive'}")
        time.sleep(every)


def _merged(store: Store, targets: tuple[str, ...]) -> int:
    """Return how many events the slowest target has merged."""
    reports = pipelines.list_merges(store, PIPELINE)
    return min(sum(one.events for one in reports.get(target, {}).values()) for target in targets)


def _first_batch(log: Path) -> float:
    """Return when (seconds since 1970) the first batch of a pipeline was begun, from its log."""
    for line in log.read_text(errors="replace").splitlines():
        if '"action": "staged"' in line:
            found = json.loads(line)
            return dt.datetime.fromisoformat(found["timestamp"]).timestamp() - float(found["seconds"])
    raise RuntimeError(f"{log} tells of no batch")


def _time_rows(cursor: Any, target: str) -> list[float]:
    """Commit single rows in the source, and return the seconds until PostgreSQL has each."""
    times = []
    with closing(postgres.connect(target)) as connection, connection.cursor() as reader:
        for number in range(LATENCIES):
            row = -1 - number
            cursor.execute(f"INSERT INTO {TABLE} (id, customer) VALUES ({row}, 1)")
            began = time.monotonic()
            while True:
                reader.execute(f"SELECT 1 FROM {SCHEMA}.{TABLE} WHERE id = {row}")
                if reader.fetchone():
                    break
                if time.monotonic() > began + PATIENCE:
                    raise RuntimeError("a row does not arrive")
            times.append(time.monotonic() - began)
            time.sleep(0.3 * (number % 5) / 5)  # at every moment between two batches
    return times


@contextmanager
def _watching(root: int, road: Road) -> Iterator[None]:
    """Sample memory and CPU time of a process and those below it during the block."""
    done = threading.Event()

    def sample() -> None:
        seen: dict[int, tuple[str, float]] = {}
        while not done.wait(SAMPLING):
            memory: Counter[str] = Counter()
            for pid in process.process_tree(root):
                group = _group(process.command_line(pid))
                memory[group] += process.proportional_bytes(pid)
                seen[pid] = group, max(process.cpu_seconds(pid), seen.get(pid, ("", 0.0))[1])
            if memory.total() > sum(road.memory.values()):
                road.memory = dict(memory)
            road.cpu = {name: sum(seconds for group, seconds in seen.values() if group == name) for name, _ in seen.values()}

    thread = threading.Thread(target=sample, name="watching", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _group(command: str) -> str:
    return next((name for part, name in GROUPS.items() if part in command), "driver")


def _row_by_row(source: str, target: str, engine: str, start: Place, events: int) -> float:
    """Return how many events per second mysql-replication carries with an upsert or a delete for each row."""
    from pymysqlreplication import BinLogStreamReader
    from pymysqlreplication.event import XidEvent
    from pymysqlreplication.row_event import WriteRowsEvent

    parts, done = urlsplit(source), 0
    with closing(postgres.connect(target)) as connection, connection.cursor() as cursor:
        connection.autocommit = False
        cursor.execute(f"TRUNCATE {SCHEMA}.{TABLE}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # it uses old names of the driver
            reader = BinLogStreamReader(
                connection_settings={"host": parts.hostname, "port": parts.port, "user": parts.username, "charset": "utf8mb4"},
                server_id=50_003, log_file=start.file, log_pos=start.offset, resume_stream=True, is_mariadb=engine == "mariadb",
                only_events=[WriteRowsEvent, XidEvent], only_tables=[TABLE],
            )  # fmt: skip
            began = time.monotonic()
            with closing(reader):
                for event in reader:
                    for row in getattr(event, "rows", ()):
                        cursor.execute(*_upsert(row["values"]))
                        done += 1
                    if isinstance(event, XidEvent):
                        connection.commit()
                        if done >= events:
                            return done / (time.monotonic() - began)
    raise RuntimeError(f"mysql-replication carried {done} of {events} events")


def _upsert(values: dict[str, object]) -> tuple[str, list[object]]:
    places = ", ".join(["%s"] * len(values))
    changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in values if name != "id")
    into = f"INSERT INTO {SCHEMA}.{TABLE} ({', '.join(values)}) VALUES ({places})"
    return f"{into} ON CONFLICT (id) DO UPDATE SET {changes}", list(values.values())


def _drop(target: str) -> None:
    with closing(postgres.connect(target)) as connection:
        connection.cursor().execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
