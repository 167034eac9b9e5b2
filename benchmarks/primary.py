"""Part primary: what audits do to the server that an application works on, by the limits that its connection has.

The application reads the audited table and writes another one, so that each run has to match. Turns without audits and with them, one after
the other for as long, alternate.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import data, oltp
from benchmarks.servers import Servers
from tests.servers import mysql, postgres
from tests.servers.process import Unavailable

ENGINES = ("mysql", "mariadb", "postgres")
SECONDS = 30.0
"""Of a turn, at least; the last audit that began in it is waited for."""

CLIENTS, RATE = 4, 100.0
"""Sessions of the application, and transactions a second of all of them."""

POOL = 128 << 20
"""Bytes of InnoDB's buffer pool, which do not hold the whole table."""

ALONE = "no audit"
LIMITS: Mapping[str, Mapping[str, Any]] = {
    ALONE: {},
    "as it comes": {},
    "connections: 4": {"connections": 4},
    "pause_when": {"limits": {"pause_when": {"active": 2, "give_up": "10m"}}},
}
"""Settings of the source's connection, by what they are called; ``active`` stands for the measure of the engine."""

ACTIVE = {"mysql": "threads_running", "mariadb": "threads_running", "postgres": "active_sessions"}

SAMPLING = 0.25
"""Seconds between two looks at what the server keeps for old snapshots."""


@dataclass
class Primary:
    """The application's latencies in seconds, and what the server kept, by setting, one value a turn; ``why`` if it did not run.

    ``kept`` is the greatest length of InnoDB's history list, or the greatest number of dead rows of the written table in PostgreSQL.
    ``oldest`` is the age of PostgreSQL's oldest snapshot in transactions. ``misses`` are reads of pages that were not in InnoDB's buffer
    pool, of a thousand. ``audits`` are the seconds of each.
    """

    engine: str
    rows: int
    p50: dict[str, list[float]] = field(default_factory=dict)
    p99: dict[str, list[float]] = field(default_factory=dict)
    kept: dict[str, list[int]] = field(default_factory=dict)
    oldest: dict[str, list[int]] = field(default_factory=dict)
    misses: dict[str, list[float]] = field(default_factory=dict)
    audits: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """Of transactions, and of audits that did not match."""
    why: str = ""

    def ratio(self, figures: Mapping[str, list[float]], setting: str) -> float:
        """Return the median of a setting as a multiple of that without audits."""
        return median(figures[setting]) / median(figures[ALONE])


def measure(servers: Servers, engine: str, rows: int, repeat: int, directory: Path, seconds: float = SECONDS) -> Primary:
    """Measure an engine as the primary, audited against a copy of its table in DuckDB."""
    found = Primary(engine, rows)
    try:
        url = servers[engine].url
    except Unavailable as reason:
        found.why = str(reason)
        return found
    shape = data.damages(rows)[0].shape
    path = data.make_file(directory, shape, rows)
    data.load(engine, url, shape, path)
    oltp.fill(engine, url)
    with tempfile.TemporaryDirectory(dir=directory, prefix="primary-") as folder, _small_pool(engine, url):
        copy = f"duckdb:///{folder}/copy.duckdb"
        data.load("duckdb", copy, shape, path)
        data.flush_and_warm(engine, url, shape)
        work = oltp.Work(engine, url, shape.table, rows, CLIENTS, RATE)
        for _ in range(repeat):
            for setting, limits in LIMITS.items():
                _write_config(Path(folder), engine, url, copy, shape.table, limits)
                _measure_turn(found, setting, work, Path(folder), seconds)
    data.drop(engine, url, shape)
    return found


@contextmanager
def _small_pool(engine: str, url: str) -> Iterator[None]:
    """Let InnoDB have a buffer pool that does not hold the whole table, for the block."""
    if engine == "postgres":
        yield
        return
    with closing(mysql.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@innodb_buffer_pool_size")
        [before] = cursor.fetchone() or ()
        cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {POOL}")
        try:
            yield
        finally:
            cursor.execute(f"SET GLOBAL innodb_buffer_pool_size = {before}")


def _write_config(folder: Path, engine: str, url: str, copy: str, table: str, limits: Mapping[str, Any]) -> None:
    text = json.dumps({
        "connections": {"primary": {"url": url, **limits}, "copy": {"url": copy}},
        "audits": {"orders": {"source": {"connection": "primary", "table": table}, "target": {"connection": "copy", "table": table}}},
    })  # fmt: skip
    (folder / "auditor.yaml").write_text(text.replace('"active"', f'"{ACTIVE[engine]}"'), encoding="utf-8")


def _measure_turn(found: Primary, setting: str, work: oltp.Work, folder: Path, seconds: float) -> None:
    with oltp.works(work) as latencies, _sampled(work.engine, work.url) as samples:
        end = time.monotonic() + seconds
        if setting == ALONE:
            time.sleep(seconds)
        while time.monotonic() < end:
            began = time.monotonic()
            _audit(folder, found.errors)
            found.audits.setdefault(setting, []).append(time.monotonic() - began)
    found.errors += latencies.errors
    found.p50.setdefault(setting, []).append(latencies.percentile(0.5))
    found.p99.setdefault(setting, []).append(latencies.percentile(0.99))
    found.kept.setdefault(setting, []).append(samples.kept)
    found.oldest.setdefault(setting, []).append(samples.oldest)
    found.misses.setdefault(setting, []).append(samples.misses)
    print(
        f"  {work.engine} {setting}: p50 {1000 * latencies.percentile(0.5):.1f} ms, p99 {1000 * latencies.percentile(0.99):.1f} ms,"
        f" {len(latencies.seconds):,} transactions, kept {samples.kept:,}, oldest {samples.oldest:,}, misses {samples.misses:.2f}",
        file=sys.stderr,
        flush=True,
    )


def _audit(folder: Path, errors: list[str]) -> None:
    command = [sys.executable, "-m", "auditor", "run", "orders", "-q", "--config", str(folder / "auditor.yaml")]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    if ran.returncode:
        errors.append(f"an audit ended with {ran.returncode}: {ran.stderr.strip() or ran.stdout[:200]}")


@dataclass
class _Samples:
    kept: int = 0
    oldest: int = 0
    misses: float = 0.0


@contextmanager
def _sampled(engine: str, url: str) -> Iterator[_Samples]:
    """Look for the block at what the server keeps for the oldest snapshot; the misses are those of the whole block."""
    samples, stopped = _Samples(), threading.Event()
    connection: Any = postgres.connect(url) if engine == "postgres" else mysql.connect(url)
    cursor = connection.cursor()
    before = _page_reads(cursor) if engine != "postgres" else (0, 0)

    def look() -> None:
        while not stopped.wait(SAMPLING):
            kept, oldest = _look(engine, cursor)
            samples.kept, samples.oldest = max(samples.kept, kept), max(samples.oldest, oldest)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield samples
    finally:
        stopped.set()
        thread.join()
        if engine != "postgres":
            missed, asked = (after - known for after, known in zip(_page_reads(cursor), before, strict=True))
            samples.misses = 1000 * missed / asked if asked else 0.0
        connection.close()


def _look(engine: str, cursor: Any) -> tuple[int, int]:
    if engine == "postgres":
        cursor.execute(
            f"SELECT (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = '{oltp.WRITTEN}'),"
            " (SELECT MAX(age(backend_xmin)) FROM pg_stat_activity WHERE pid <> pg_backend_pid())"
        )
        dead, age = cursor.fetchone()
        return int(dead or 0), int(age or 0)
    if engine == "mysql":
        cursor.execute("SELECT count FROM information_schema.INNODB_METRICS WHERE name = 'trx_rseg_history_len'")
        return int(cursor.fetchone()[0]), 0
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'")
    return int(cursor.fetchone()[1]), 0


def _page_reads(cursor: Any) -> tuple[int, int]:
    """Return how many pages InnoDB read from files, and how many it was asked for, since the server's start."""
    cursor.execute("SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests')")
    found = {name.lower(): int(value) for name, value in cursor.fetchall()}
    return found["innodb_buffer_pool_reads"], found["innodb_buffer_pool_read_requests"]
