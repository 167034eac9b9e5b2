"""Part tables: how long a change takes to be visible in the target when a pipeline carries many tables.

The source commits small transactions over the tables at a steady rate. Rows are numbered in the order of their commits, and a reader of the
target asks again and again for the greatest number in some of the tables: so it knows when each of their rows was there. DuckDB's file is
opened for each look, so that the loader can write it between two; they wait for each other, and that is measured.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import duckdb

from auditor.store import open_store, pipelines
from benchmarks import process, road
from benchmarks.servers import Servers
from tests.servers import mysql, postgres
from tests.servers.process import Unavailable

PIPELINE, SCHEMA = "tables", "tables"
ENGINES = ("mariadb",)
SECONDS = 60.0
"""How long changes are committed."""

ROWS_PER_TRANSACTION = 5
WATCHED = 20
"""Tables that the reader of the target asks for."""

POLL = 0.1
"""Seconds between two looks at the target."""

DRAIN = 120.0
"""Seconds after the last commit in which the target must have come so far."""

DEFINITION = (
    "(id BIGINT PRIMARY KEY, customer INT NOT NULL, status VARCHAR(20), price DECIMAL(12,2), note VARCHAR(200), created DATETIME(6))"
)

CONFIGURATION = """\
connections:
  source: {{url: "{source}"}}
  warehouse: {{url: "{target}", write: {{url: "{target}"}}}}
audits: {{}}
pipelines:
  {pipeline}:
    source: {{connection: source, tables: ["many_*"]}}
    staging: {{path: "{folder}/staging"}}
    targets: {{warehouse: {{connection: warehouse, schema: {schema}, every: 0s}}}}
"""


@dataclass(frozen=True)
class Scenario:
    """So many tables, of which so many change, so many rows a second in all."""

    tables: int
    changing: int
    rate: int


SCENARIOS = (Scenario(1, 1, 1000), Scenario(20, 20, 1000), Scenario(200, 200, 1000), Scenario(2000, 200, 1000))


@dataclass
class Tables:
    """One scenario; ``why`` has the reason if it did not run. Times are in seconds."""

    scenario: str
    target: str = "PostgreSQL"
    server: str = ""
    load: float = 0.0
    events: int = 0
    first: float = 0.0
    """From the start of the process to the first row in the target."""
    lags: dict[str, float] = field(default_factory=dict)
    """From the commit of a watched row to when it was visible: the median (p50), of 99 in a hundred (p99), the longest."""
    missing: int = 0
    """Watched rows that did not arrive in time."""
    together: float = 0.0
    """From the commit of a transaction with a row in each changing table to when all were visible; 0 if they did not arrive."""
    torn: float = 0.0
    """Of these seconds, how long some of the rows were visible and others not."""
    files: int = 0
    cpu: dict[str, float] = field(default_factory=dict)
    """Of the pipeline's processes by group, while changes were carried."""
    stop: float = 0.0
    """From the signal to the end of the process."""
    why: str = ""


class Reader(Protocol):
    """Looks into a target."""

    pause: float
    """Seconds between two looks for rows that are awaited at once."""

    def greatest(self, names: Sequence[str]) -> dict[str, int]:
        """Return the greatest number in each of these tables that is there and has rows, at one moment; none if it cannot look now."""

    def close(self) -> None:
        """End it."""


class PostgresReader:
    """Looks into PostgreSQL, by one session."""

    pause = POLL / 5

    def __init__(self, url: str) -> None:
        self._connection = postgres.connect(url)
        self.close = self._connection.close

    def greatest(self, names: Sequence[str]) -> dict[str, int]:
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (SCHEMA,))
            there = {name for (name,) in cursor.fetchall()}
            if not (asked := _ask(names, there)):
                return {}
            cursor.execute(asked)
            return {str(name): int(number) for name, number in cursor.fetchall() if number is not None}


class DuckDBReader:
    """Looks into a file of DuckDB, which is open as long as a look takes; none succeeds while the loader has it open."""

    pause = POLL

    def __init__(self, url: str) -> None:
        self._path = url.removeprefix("duckdb:///").partition("?")[0]

    def greatest(self, names: Sequence[str]) -> dict[str, int]:
        with suppress(duckdb.IOException), duckdb.connect(self._path, read_only=True) as connection:
            found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = ?", [SCHEMA]).fetchall()
            if asked := _ask(names, {name for (name,) in found}):
                return {str(name): int(number) for name, number in connection.execute(asked).fetchall() if number is not None}
        return {}

    def close(self) -> None:
        pass


BLOCK_SIZE = 16_384
"""Bytes of a block of DuckDB's file, which is what docs/connections.md says of many small tables."""

READERS: Mapping[str, Callable[[str], Reader]] = {"PostgreSQL": PostgresReader, "DuckDB": DuckDBReader}
"""What looks into each target."""


def measure(
    servers: Servers, engine: str, words: Sequence[str] = (), seconds: float = SECONDS, targets: Sequence[str] = tuple(READERS)
) -> list[Tables]:
    """Measure one engine as source, with these targets, in each scenario, or those whose number of tables is one of the words."""
    results = []
    for scenario, target in itertools.product(SCENARIOS, targets):
        if words and str(scenario.tables) not in words:
            continue
        said = f"{scenario.tables:,} tables, {scenario.changing:,} change, {scenario.rate:,} rows/s"
        result = Tables(said, target, load=os.getloadavg()[0])
        print(f"tables: {target}: {result.scenario}", file=sys.stderr, flush=True)
        try:
            source = servers[engine]
            result.server = source.version
            with tempfile.TemporaryDirectory(prefix="tables-", dir=servers.directory) as folder:
                url = f"duckdb:///{folder}/wh.duckdb?default_block_size={BLOCK_SIZE}" if target == "DuckDB" else servers["postgres"].url
                _run(result, scenario, Path(folder), source.url, url, seconds)
        except (Unavailable, RuntimeError) as reason:
            result.why = str(reason)
        results.append(result)
    return results


def _run(result: Tables, scenario: Scenario, folder: Path, source: str, target: str, seconds: float) -> None:
    _clear(target)
    values = {"source": source, "target": target, "folder": folder, "pipeline": PIPELINE, "schema": SCHEMA}
    (folder / "auditor.yaml").write_text(CONFIGURATION.format(**values))
    names = [f"many_{number:04d}" for number in range(scenario.tables)]
    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor:
        for name in names:
            cursor.execute(f"DROP TABLE IF EXISTS {name}")
            cursor.execute(f"CREATE TABLE {name} {DEFINITION}")
        try:
            began = time.monotonic()
            with road.running(folder, PIPELINE, {}) as pipeline:
                with closing(open_store(f"sqlite:///{folder}/auditor.db")) as store:
                    road.wait(lambda: pipelines.get_pipeline(store, PIPELINE).source_offset is not None, pipeline)
                changing = names[: scenario.changing]
                for name in changing:
                    cursor.execute(f"INSERT INTO {name} VALUES {values_of(0)}")
                with closing(READERS[result.target](target)) as reader:
                    road.wait(lambda: reader.greatest(changing) == dict.fromkeys(changing, 0), pipeline, every=POLL)
                    result.first = time.monotonic() - began
                    before = _cpu_seconds(pipeline.pid)
                    _carry(result, scenario, source, reader, changing, seconds)
                    result.cpu = {group: after - before.get(group, 0.0) for group, after in _cpu_seconds(pipeline.pid).items()}
                    _carry_one(result, cursor, reader, changing)
                _write_backlog(cursor, changing, scenario.rate * 10)
                stopping = time.monotonic()
            result.stop = time.monotonic() - stopping
            result.files = sum(len(files) for _, _, files in os.walk(folder / "staging"))
        finally:
            for name in names:
                cursor.execute(f"DROP TABLE IF EXISTS {name}")
            _clear(target)


def _cpu_seconds(root: int) -> dict[str, float]:
    """Return the seconds of CPU time of a process and those below it, by group."""
    found: dict[str, float] = {}
    for pid in process.process_tree(root):
        group = road.group_of(process.command_line(pid))
        found[group] = found.get(group, 0.0) + process.cpu_seconds(pid) + process.reaped_seconds(pid)
    return found


def _carry(result: Tables, scenario: Scenario, source: str, reader: Reader, changing: Sequence[str], seconds: float) -> None:
    """Commit rows at the scenario's rate, and note when those of the watched tables are visible."""
    watched = sorted(random.Random(1).sample(list(changing), min(WATCHED, len(changing))))
    committed: dict[str, list[tuple[int, float]]] = {name: [] for name in watched}
    seen = dict.fromkeys(watched, 0)
    ended = threading.Event()
    lags: list[float] = []
    failed: list[BaseException] = []

    def commit() -> None:
        try:
            result.events = _commit(source, scenario, changing, committed, seconds)
        except BaseException as error:
            failed.append(error)
        finally:
            ended.set()

    writer = threading.Thread(target=commit, name="writer", daemon=True)
    writer.start()
    deadline = float("inf")
    while time.monotonic() < deadline:
        if ended.is_set():
            deadline = min(deadline, time.monotonic() + DRAIN)
        for name, number in reader.greatest(watched).items():
            now, rows = time.monotonic(), committed[name]
            while seen[name] < len(rows) and rows[seen[name]][0] <= number:
                lags.append(now - rows[seen[name]][1])
                seen[name] += 1
        if ended.is_set() and all(seen[name] == len(committed[name]) for name in watched):
            break
        time.sleep(POLL)
    writer.join()
    if failed:
        raise failed[0]
    result.missing = sum(len(committed[name]) - seen[name] for name in watched)
    lags.sort()
    if lags:
        result.lags = {"p50": lags[len(lags) // 2], "p99": lags[len(lags) * 99 // 100], "longest": lags[-1]}


def _commit(
    source: str, scenario: Scenario, changing: Sequence[str], committed: Mapping[str, list[tuple[int, float]]], seconds: float
) -> int:
    """Commit transactions at a steady rate for so many seconds; return the number of rows."""
    choice, number = random.Random(2), 0
    began = time.monotonic()
    with closing(mysql.connect(source)) as connection, connection.cursor() as cursor:
        while (now := time.monotonic()) < began + seconds:
            if number > (now - began) * scenario.rate:
                time.sleep(ROWS_PER_TRANSACTION / scenario.rate)
                continue
            chosen = [choice.choice(changing) for _ in range(ROWS_PER_TRANSACTION)]
            rows = [(name, number + place + 1) for place, name in enumerate(chosen)]
            cursor.execute("BEGIN")
            for name, row in rows:
                cursor.execute(f"INSERT INTO {name} VALUES {values_of(row)}")
            cursor.execute("COMMIT")
            at = time.monotonic()
            for name, row in rows:
                if name in committed:
                    committed[name].append((row, at))
            number += len(rows)
    return number


def _carry_one(result: Tables, cursor: Any, reader: Reader, changing: Sequence[str]) -> None:
    """Commit one transaction with a row in each table, and note when all of them are visible."""
    row = 1 << 40
    cursor.execute("BEGIN")
    for name in changing:
        cursor.execute(f"INSERT INTO {name} VALUES {values_of(row)}")
    cursor.execute("COMMIT")
    began, torn = time.monotonic(), None
    while time.monotonic() < began + DRAIN:
        there = sum(number == row for number in reader.greatest(changing).values())
        now = time.monotonic()
        if there == len(changing):
            result.together, result.torn = now - began, now - torn if torn else 0.0
            return
        torn = torn or (now if there else None)
        time.sleep(reader.pause)


def _write_backlog(cursor: Any, changing: Sequence[str], rows: int) -> None:
    """Commit what a pipeline that is stopped now has not carried yet."""
    first = 1 << 41
    for start in range(0, rows, 100):
        name = changing[start // 100 % len(changing)]
        cursor.execute(f"INSERT INTO {name} VALUES " + ", ".join(values_of(first + number) for number in range(start, start + 100)))


def _ask(names: Sequence[str], there: Collection[str]) -> str:
    """Return the statement that asks for the greatest number in each of these tables that is there; '' if none is."""
    return " UNION ALL ".join(f"SELECT '{name}', MAX(id) FROM {SCHEMA}.{name}" for name in names if name in there)


def values_of(number: int) -> str:
    """Return the values of a row of `DEFINITION`, in parentheses."""
    return f"({number}, {number % 5000}, 'paid', {number % 100000 / 100}, 'a note of order {number}', '2026-01-02 03:04:05.000006')"


def _clear(target: str) -> None:
    """Drop what a server has of this part; a file goes with its folder."""
    if not target.startswith("duckdb"):
        drop_schema(target)


def drop_schema(target: str) -> None:
    """Drop what PostgreSQL has of a pipeline of this part."""
    with closing(postgres.connect(target)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT format('DROP TABLE %%I.%%I', schemaname, tablename) FROM pg_tables WHERE schemaname = %s", (SCHEMA,))
        for (statement,) in cursor.fetchall():  # one by one: a transaction has locks for some thousand tables only
            cursor.execute(statement)
        cursor.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
