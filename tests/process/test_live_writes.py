"""Audits of tables that are written and replicated meanwhile: rows in flight are never reported as differences, and permanently
corrupted rows are always found.

A writer changes the source and its heartbeat, and a replicator applies each change to the target DELAY seconds later. A deletion has no
time: only a recheck distinguishes recently deleted rows from extra ones, so the runs with ``settle`` alone have no deletions.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from auditor.config import Audit, ConnectionSettings
from auditor.model import Report, Verdict
from auditor.planning import chunks
from auditor.run import audit_run
from tests.durations import SetDurations
from tests.live import Engines
from tests.servers import mysql, postgres

pytestmark = [pytest.mark.clock, pytest.mark.mysql, pytest.mark.postgres]

DELAY = 1.0
LATE = 0.6
"""Seconds beyond DELAY that the replicator may take; a run during which it took longer is discarded and repeated."""

RATE = 200
BATCH = 10
"""Rows per transaction."""

CORRUPTED = 10


@dataclass
class Pipeline:
    """A writer and a replicator that run until ``stopped`` is set. Keys that are multiples of 100 are never written."""

    source: str
    target: str
    rows: int
    deletes: bool
    stopped: threading.Event = field(default_factory=threading.Event)
    late: float = 0.0
    written: int = 0
    failure: BaseException | None = None
    _queue: deque[tuple[float, list[tuple[str, tuple[Any, ...]]]]] = field(default_factory=deque)

    def write(self) -> None:
        """Change RATE rows per second and update the heartbeat."""
        chance, greatest = random.Random(self.rows), self.rows
        with mysql.connect(self.source) as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            connection.autocommit(False)
            following = time.monotonic()
            while not self.stopped.wait(max(0.0, following - time.monotonic())):
                following += BATCH / RATE
                cursor.execute("SELECT UTC_TIMESTAMP(6)")
                [(at,)] = cursor.fetchall()
                changes: list[tuple[str, tuple[Any, ...]]] = []
                for _ in range(BATCH):
                    what = chance.random()
                    if what < 0.1:
                        greatest += 1
                        changes.append(("INSERT INTO live (id, v, updated_at) VALUES (%s, %s, %s)", (greatest, chance.random(), at)))
                    elif what < 0.2 and self.deletes:
                        changes.append(("DELETE FROM live WHERE id = %s", (self._random_key(chance, greatest),)))
                    else:
                        value = (chance.random(), at, self._random_key(chance, greatest))
                        changes.append(("UPDATE live SET v = %s, updated_at = %s WHERE id = %s", value))
                changes.append(("UPDATE beats SET at = %s", (at,)))
                for sql, values in changes:
                    cursor.execute(sql, values)
                connection.commit()
                self._queue.append((time.monotonic(), changes))
                self.written += BATCH

    def _random_key(self, chance: random.Random, greatest: int) -> int:
        key = chance.randint(1, greatest)
        return key if key % 100 else key + 1

    def replicate(self) -> None:
        """Apply each change to the target DELAY seconds after it was written."""
        connection = postgres.connect(self.target)
        connection.autocommit = False
        with connection.cursor() as cursor:
            while not self.stopped.is_set():
                if not self._queue or time.monotonic() < self._queue[0][0] + DELAY:
                    self.stopped.wait(0.01)
                    continue
                at, changes = self._queue.popleft()
                cursor.execute("; ".join(cursor.mogrify(sql, values).decode() for sql, values in changes))
                connection.commit()
                self.late = max(self.late, time.monotonic() - at - DELAY)
        connection.close()

    def _record_failure(self, work: Any) -> None:
        try:
            work()
        except BaseException as error:
            self.failure = error
            self.stopped.set()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the writer and the replicator for the block, which begins after the first changes have arrived."""
        threads = [threading.Thread(target=self._record_failure, args=(work,)) for work in (self.write, self.replicate)]
        for thread in threads:
            thread.start()
        try:
            self.stopped.wait(DELAY + 1)
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join()
        if self.failure:
            raise self.failure


@pytest.fixture(scope="module")
def urls(engines: Engines) -> tuple[str, str]:
    return engines.live("mysql").url, engines.live("postgres").url


def fill(urls: tuple[str, str], rows: int) -> list[int]:
    """Fill both tables with the same rows except for the corrupted keys, and return these keys."""
    corrupted = sorted(random.Random(rows).sample(range(100, rows, 100), CORRUPTED))
    with mysql.connect(urls[0]) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS live, beats")
        cursor.execute("CREATE TABLE live (id BIGINT PRIMARY KEY, v DOUBLE, updated_at DATETIME(6))")
        cursor.execute("CREATE TABLE beats (at DATETIME(6))")
        cursor.execute("INSERT INTO beats VALUES (UTC_TIMESTAMP(6))")
        cursor.execute("SET SESSION cte_max_recursion_depth = 10000000")
        numbers = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        cursor.execute(f"INSERT INTO live {numbers} SELECT i, i, '2026-01-01' FROM n")
        cursor.execute("ANALYZE TABLE live")
    with postgres.connect(urls[1]) as target, target.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS live; DROP TABLE IF EXISTS beats")
        cursor.execute("CREATE TABLE live (id BIGINT PRIMARY KEY, v DOUBLE PRECISION, updated_at TIMESTAMP)")
        cursor.execute("CREATE TABLE beats (at TIMESTAMP)")
        cursor.execute("INSERT INTO beats VALUES (NOW() AT TIME ZONE 'UTC')")
        cursor.execute(f"INSERT INTO live SELECT i, i, '2026-01-01' FROM generate_series(1, {rows}) AS i")
        for number, key in enumerate(corrupted):
            cursor.execute(f"DELETE FROM live WHERE id = {key}" if number % 3 == 0 else f"UPDATE live SET v = -1 WHERE id = {key}")
        cursor.execute("ANALYZE live")
    return corrupted


SETTLE = {"settle": {"column": "updated_at", "lag": "3s"}}
RECHECK = {"recheck": {"times": 3, "wait": "2s", "backoff": 1}}
BEAT = {"settle": {"column": "updated_at", "heartbeat": {"table": "beats", "column": "at"}, "lag": "1s"}}
WAYS: dict[str, dict[str, Any]] = {
    "settle": SETTLE,
    "recheck": RECHECK,
    "both": {**SETTLE, **RECHECK},
    "heartbeat": BEAT,
    "heartbeat and recheck": {**BEAT, **RECHECK},
}


def run_audit(urls: tuple[str, str], **audit: Any) -> Report:
    connections = {name: ConnectionSettings(url=url, connections=2) for name, url in zip(("here", "there"), urls, strict=True)}
    ends = {side: {"connection": name, "table": "live"} for side, name in (("source", "here"), ("target", "there"))}
    return audit_run.run("live", Audit.model_validate({**ends, "key": ["id"], "partition": {"rows": 256}, **audit}), connections)


def audit_while_written(urls: tuple[str, str], rows: int, way: str, snapshot: str) -> Report:
    """Audit the tables while they are written, assert that exactly the corrupted rows are found, and return the report."""
    for _ in range(5):
        corrupted = fill(urls, rows)
        pipeline = Pipeline(*urls, rows, deletes="recheck" in WAYS[way])
        with pipeline.running():
            report = run_audit(urls, snapshot=snapshot, **WAYS[way])
            details = f"{report.reasons}; {pipeline.written} rows written, at most {pipeline.late:.2f} s late"
        if pipeline.late <= LATE:
            break
    else:
        pytest.skip("this machine is too busy to replicate within the delay")
    differences = report.differences
    assert differences is not None, details
    found = {int(next(iter(one.key.values())) or 0): one.state for one in differences.named}
    confirmed = sorted(key for key, state in found.items() if state == "confirmed")
    assert confirmed == corrupted, details
    assert differences.missing + differences.changed == CORRUPTED and not differences.extra, details
    assert not [one for one in differences.ranges if one.state == "confirmed"], details
    assert report.verdict is Verdict.MISMATCH, details
    return report


@pytest.mark.parametrize(
    ("way", "snapshot"),
    [
        pytest.param("settle", "whole", marks=pytest.mark.slow),
        ("both", "per_chunk"),
        pytest.param("heartbeat", "whole", marks=pytest.mark.slow),
    ],
)
def test_rows_in_flight_are_not_reported_as_differences(
    urls: tuple[str, str], way: str, snapshot: str, monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 4000)
    set_durations(chunk_aim=0.2)
    audit_while_written(urls, 20_000, way, snapshot)


@pytest.mark.slow
@pytest.mark.parametrize("snapshot", ["whole", "per_chunk"])
@pytest.mark.parametrize("way", list(WAYS))
def test_many_runs_on_tables_being_written_find_exactly_the_corrupted_rows(
    urls: tuple[str, str], way: str, snapshot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 20_000)
    for _ in range(10):
        audit_while_written(urls, 120_000, way, snapshot)


def test_only_unsettled_differences_give_an_unknown_verdict(urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is written continuously, and no change reaches the target."""
    fill(urls, 2000)
    with postgres.connect(urls[1]) as target, target.cursor() as cursor:
        cursor.execute("DELETE FROM live WHERE id > 50")
        cursor.execute("UPDATE live SET v = id, updated_at = '2026-01-01'")
    stopped = threading.Event()

    def write() -> None:
        with mysql.connect(urls[0]) as connection, connection.cursor() as cursor:
            cursor.execute("DELETE FROM live WHERE id > 50")
            first.set()
            while not stopped.wait(0.01):
                cursor.execute("UPDATE live SET v = v + 1 WHERE id < 20")

    first = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    first.wait(30)
    try:
        report = run_audit(urls, recheck={"times": 2, "wait": "500ms", "backoff": 1})
    finally:
        stopped.set()
        writer.join()
    assert report.verdict is Verdict.UNKNOWN and report.exit_code == 3, report.reasons
    assert report.differences is not None and report.differences.unsettled and not report.differences.changed
    assert any("only unsettled differences" in reason for reason in report.reasons)
