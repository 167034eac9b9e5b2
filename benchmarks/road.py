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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import boto3

from auditor.pipeline.binlog.log_connection import log_status
from auditor.pipeline.events import Place
from auditor.store import Store, open_store, pipelines
from benchmarks import process, stream
from benchmarks.copies import BUCKET, ROLE
from benchmarks.servers import Servers
from tests.servers import mysql, postgres, s3, spark_cluster
from tests.servers.process import Unavailable
from tests.servers.redshift import StandIn

ENGINES = stream.ENGINES
PIPELINE, SCHEMA, TABLE = "road", "road", stream.TABLE_NAME
PG, BOTH, S3 = "PostgreSQL", "PostgreSQL and DuckDB", "Redshift stand-in, by COPY from S3"
LARGE = "Redshift stand-in, by merges of 2,000,000"
ONE_CORE, CLUSTER = "PostgreSQL, at local[1]", "PostgreSQL, on a cluster of two workers"
TARGETS = {PG: ("pg",), BOTH: ("pg", "duck"), S3: ("red",), LARGE: ("red",), ONE_CORE: ("pg",), CLUSTER: ("pg",)}

LARGE_MERGE = 2_000_000
"""Rows of a transaction, as a warehouse has them. The stand-in holds the files of a COPY in memory, of which it has too little for ten
million."""

MAX_ROW_BY_ROW = 20_000
"""Inserts that mysql-replication and the upserts have to carry: the log begins with them."""

LATENCIES = 40
"""Rows whose way is timed, one after the other."""

SAMPLING = 1.0
"""Seconds between two samples of memory and CPU time."""

PATIENCE, SLOWEST = 900.0, 2_000
"""Seconds, and events in a further one, after which a pipeline that has not arrived counts as failed."""

CONFIGURATION = """\
connections:
  source: {{url: "{source}"}}
{connections}
audits: {{}}
pipelines:
  {pipeline}:
    source: {{connection: source, tables: [{table}]}}
    staging: {{path: "{folder}/staging"}}
    master: "{master}"
    targets: {{{targets}}}
"""

GROUPS = {
    "SparkSubmit": "Spark's Java",
    "CoarseGrainedExecutorBackend": "Spark's Java",
    "spark.deploy": "Spark's Java",
    "python_streaming_source_runner": "planner",  # of measurements from when Spark's streaming planned the batches
    "pyspark": "Python workers",
    "target_process loader": "loader of DuckDB",
    "target_process publisher": "publisher",
}
"""What the command line of a process contains, and what it is; the driver has none of these."""


Through = tuple[str, Mapping[str, str]]
"""The URL of the stand-in of Redshift or of a cluster, and the environment that leads there; empty where there is none."""


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
    manifests: list[int] = field(default_factory=list)
    """Bytes of the greatest manifest of a COPY, and of the files that it names, and how many these are."""
    row_by_row: float = 0.0
    """Events per second of mysql-replication with an upsert for each row; 0 if it was not measured."""
    direct: float = 0.0
    """Of a road from a topic: the events per second, sustained, of the road from the log in the same run."""
    why: str = ""


def measure(servers: Servers, engine: str, rows: int, words: Sequence[str] = ()) -> list[Road]:
    """Measure one engine as source, with ``rows`` rows, into each choice of targets, or those whose name has one of these words."""
    wanted = [targets for targets in TARGETS if not words or any(word in targets for word in words)]
    try:
        source, target = servers[engine], servers["postgres"]
    except Unavailable as reason:
        return [Road(engine, targets, why=str(reason)) for targets in wanted]
    roads = []
    for targets in wanted:
        print(f"road: {engine} to {targets}", file=sys.stderr, flush=True)
        road = Road(engine, targets, source.version, load=os.getloadavg()[0])
        drop(target.url)
        with tempfile.TemporaryDirectory(prefix="road-", dir=servers.directory) as folder:
            urls = {"pg": target.url, "duck": f"duckdb:///{folder}/warehouse.duckdb"}
            try:
                through: AbstractContextManager[Through] = _stand_in(servers, road) if targets in (S3, LARGE) else nullcontext(("", {}))
                local: Through = ("local[1]" if targets == ONE_CORE else "local[2]", {})
                at: AbstractContextManager[Through] = _cluster(Path(folder)) if targets == CLUSTER else nullcontext(local)
                with through as (redshift, environment), at as (master, more):
                    start = run(road, Path(folder), source.url, {**urls, "red": redshift}, {**environment, **more}, rows, master=master)
            except Unavailable as reason:
                road.why = str(reason)
        if targets == PG:
            road.row_by_row = _row_by_row(source.url, target.url, engine, start, min(rows, MAX_ROW_BY_ROW))
        drop(target.url)
        roads.append(road)
    return roads


@contextmanager
def _stand_in(servers: Servers, road: Road) -> Iterator[Through]:
    """Yield the URL of the stand-in of Redshift, with a bucket of its own, and the environment that leads to it."""
    server = servers["redshift"]
    if not isinstance(server, StandIn):
        raise Unavailable(f"{server.how}, which needs a bucket of its own")
    bucket = s3.start(servers.directory)
    environment = {"AWS_ENDPOINT_URL": bucket.url, "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    done = threading.Event()
    try:
        keys = {"aws_access_key_id": "bench", "aws_secret_access_key": "bench"}
        client = boto3.client("s3", endpoint_url=bucket.url, region_name="us-east-1", **keys)
        client.create_bucket(Bucket=BUCKET)
        watching = threading.Thread(target=_watch_manifests, args=(client, road, done), name="manifests", daemon=True)
        watching.start()
        with server.unloading_to(bucket.url):
            through = f"unload_to={quote(f's3://{BUCKET}/auditor', safe='')}&unload_role={quote(ROLE, safe='')}&region=us-east-1"
            yield f"{server.url}&{through}", environment
        drop(server.behind_database)
    finally:
        done.set()
        bucket.stop()


@contextmanager
def _cluster(folder: Path) -> Iterator[Through]:
    """Run a standalone cluster of two workers of a core each, and yield its master's URL and the environment that leads to it."""
    with spark_cluster.cluster(folder, {}) as master:
        found, here = spark_cluster.environment(folder), os.environ
        yield master, {name: value for name, value in found.items() if here.get(name) != value}


def _cluster_processes() -> list[int]:
    """Return the processes of a cluster that this one started."""
    return [pid for pid in process.process_tree(os.getpid()) if "spark.deploy" in process.command_line(pid)]


def _watch_manifests(client: Any, road: Road, done: threading.Event) -> None:
    """Note the greatest manifest that is there at a moment, and the bytes of what lies beside it."""
    while not done.wait(SAMPLING):
        objects = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        sizes = [stored["Size"] for stored in objects if stored["Key"].endswith("manifest")]
        if sizes and max(sizes) > (road.manifests or [0])[0]:
            road.manifests = [max(sizes), sum(stored["Size"] for stored in objects) - sum(sizes), len(objects) - len(sizes)]


def run(
    road: Road,
    folder: Path,
    source: str,
    urls: Mapping[str, str],
    environment: Mapping[str, str],
    rows: int,
    *,
    is_timed: bool = True,
    master: str = "local[2]",
) -> Place:
    """Let a pipeline catch up with a written log, and then carry single rows if these are timed; return where the log begins."""
    names = TARGETS[road.targets]
    merges = "every: 0s"
    if road.targets == LARGE:
        merges = (
            f"every: 60s, merge_at: {{rows: {min(rows, LARGE_MERGE)}}}, max_transaction: {LARGE_MERGE}, analyze: {{after_rows: {rows}}}"
        )
    chosen = ", ".join(f"{name}: {{connection: {name}, schema: {SCHEMA}, {merges}}}" for name in names)
    connections = "\n".join(f'  {name}: {{url: "{urls[name]}", write: {{url: "{urls[name]}"}}}}' for name in names)
    values = {"source": source, "connections": connections, "folder": folder, "pipeline": PIPELINE, "table": TABLE}
    (folder / "auditor.yaml").write_text(CONFIGURATION.format(**values, targets=chosen, master=master))
    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor:
        stream.make_table(cursor)
        with closing(open_store(f"sqlite:///{folder}/auditor.db")) as store:
            with running(folder, PIPELINE, environment) as pipeline:
                wait(lambda: pipelines.get_pipeline(store, PIPELINE).source_offset is not None, pipeline)
            start = log_status(connection).end
            road.events = stream.write_rows(cursor, rows)
            began = time.monotonic()
            with running(folder, PIPELINE, environment) as pipeline, watching(pipeline.pid, road):
                wait(lambda: merged(store, names) >= road.events, pipeline, patience=PATIENCE + rows / SLOWEST)
                road.seconds = time.monotonic() - began
                road.sustained = road.events / (time.time() - first_batch(folder / "log"))
                if road.targets == PG and is_timed:
                    road.latencies = time_rows(cursor, urls["pg"])
    return start


@contextmanager
def running(folder: Path, name: str, more: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a pipeline for the block, and end it by SIGTERM. Raises RuntimeError if it fails."""
    command = [sys.executable, "-m", "auditor", "pipeline", "run", name]
    environment = {**process.inherited_environment(), "PYTHONPATH": str(Path(__file__).parents[1]), **more}
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


def wait(reached: Callable[[], bool], pipeline: subprocess.Popen[bytes], every: float = 0.05, patience: float = PATIENCE) -> None:
    """Wait until something is reached. Raises RuntimeError if the pipeline ends before, or after so many seconds."""
    deadline = time.monotonic() + patience
    while not reached():
        if pipeline.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the pipeline {'ended' if pipeline.poll() is not None else 'does not arrive'}")
        time.sleep(every)


def merged(store: Store, targets: tuple[str, ...]) -> int:
    """Return how many events the slowest target has merged."""
    reports = pipelines.list_merges(store, PIPELINE)
    return min(sum(progress.events for progress in reports.get(target, {}).values()) for target in targets)


def first_batch(log: Path) -> float:
    """Return when (seconds since 1970) the first batch of a pipeline was begun, from its log."""
    for line in log.read_text(errors="replace").splitlines():
        if '"action": "staged"' in line:
            logged = json.loads(line)
            return dt.datetime.fromisoformat(logged["timestamp"]).timestamp() - float(logged["seconds"])
    raise RuntimeError(f"{log} names no batch")


def time_rows(cursor: Any, target: str) -> list[float]:
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
def watching(root: int, road: Road) -> Iterator[None]:
    """Sample memory and CPU time of a process, those below it, and those of a cluster, during the block."""
    done = threading.Event()

    def sample() -> None:
        processes: dict[int, tuple[str, float]] = {}
        while not done.wait(SAMPLING):
            memory: Counter[str] = Counter()
            for pid in dict.fromkeys(
                [*process.process_tree(root), *(below for top in _cluster_processes() for below in process.process_tree(top))]
            ):
                group = group_of(process.command_line(pid))
                memory[group] += process.proportional_bytes(pid)
                processes[pid] = group, max(process.cpu_seconds(pid), processes.get(pid, ("", 0.0))[1])
            if memory.total() > sum(road.memory.values()):
                road.memory = dict(memory)
            road.cpu = {name: sum(seconds for group, seconds in processes.values() if group == name) for name, _ in processes.values()}

    thread = threading.Thread(target=sample, name="watching", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def group_of(command: str) -> str:
    """Return what a process of a pipeline is, by its command line."""
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


def drop(target: str) -> None:
    with closing(postgres.connect(target)) as connection:
        connection.cursor().execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
