"""Statements that change tables, while rows are written and the process that merges is killed; and 10,000 tables in one schema."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

from auditor.store import pipelines, schema_changes
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine
from tests.pipeline.conftest import opened_url
from tests.pipeline.killed import Killed
from tests.pipeline.road import PIPELINE, Road
from tests.programs.forking import ROOT
from tests.servers import mysql

pytestmark = pytest.mark.slow

NAMES = ("moving", "moving_on", "_moving_gho", "_moving_del")
TABLE = "CREATE TABLE moving (id int PRIMARY KEY, v int, b varchar(10), d decimal(8,2) DEFAULT 1.25)"

STORY = {
    "add": ["ALTER TABLE moving ADD COLUMN c int NOT NULL DEFAULT 5"],
    "rename": ["ALTER TABLE moving RENAME COLUMN c TO e, RENAME COLUMN b TO c"],
    "widen": ["ALTER TABLE moving MODIFY d decimal(12,4), MODIFY v bigint"],
    "key": ["ALTER TABLE moving DROP PRIMARY KEY, ADD PRIMARY KEY (id, e)"],
    "key again": ["ALTER TABLE moving DROP PRIMARY KEY, ADD PRIMARY KEY (id)"],
    "drop": ["ALTER TABLE moving DROP COLUMN e"],
    "swap": ["CREATE TABLE _moving_gho LIKE moving", "ALTER TABLE _moving_gho ADD COLUMN n int NOT NULL DEFAULT 7",
             "INSERT INTO _moving_gho (id, v, c, d) SELECT id, v, c, d FROM moving",
             "RENAME TABLE moving TO _moving_del, _moving_gho TO moving", "DROP TABLE _moving_del"],
    "truncate": ["TRUNCATE TABLE moving"],
    "re-create": ["DROP TABLE moving", TABLE],
    "rename table": ["RENAME TABLE moving TO moving_on", TABLE],
}  # fmt: skip

EMPTIED, MIGRATED = ("clear", "cleared", "changed"), ("migrate", "migrated", "changed")
STEPS = {"truncate": EMPTIED, "re-create": EMPTIED, "rename table": ("move", "moved", "changed")}
"""Steps before, inside and after what is done to the target; of the others those of a migration."""

BY_COMMITS = {"truncate": ("merge", "commit", "committed"), "re-create": ("merge", "commit", "committed")}
"""The same where one commit empties a table, which is before or after it: steps of the merge behind it."""

PAIRS = [
    ("mysql", "postgres"), ("mariadb", "duckdb"), ("mysql", "redshift"), ("mariadb", "mysql"), ("mysql", "mariadb"), ("mysql", "delta"),
    ("mysql", "iceberg"),
]  # fmt: skip


class Writer:
    """Writes into the table ``moving``, whatever columns it has beside ``id`` and ``v``."""

    def __init__(self, url: str) -> None:
        self.url, self.rows = url, 0
        self.may_write, self.stop = threading.Lock(), threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        choice, last = random.Random(3), 0
        with closing(mysql.connect(self.url)) as connection, connection.cursor() as cursor:
            while not self.stop.wait(0.002):
                last += 1
                some = choice.randrange(last) + 1
                statement = choice.choice(
                    [f"INSERT INTO moving (id, v) VALUES ({last}, 1)", f"UPDATE moving SET v = v + 1 WHERE id >= {some} LIMIT 5",
                     f"INSERT INTO moving (id, v) VALUES ({last}, 2)", f"DELETE FROM moving WHERE id = {some}"]
                )  # fmt: skip
                with self.may_write, suppress(pymysql.err.ProgrammingError, pymysql.err.OperationalError):  # no such table meanwhile
                    self.rows += cursor.execute(statement)


@contextmanager
def writing(url: str) -> Iterator[Writer]:
    writer = Writer(url)
    writer.thread.start()
    try:
        yield writer
    finally:
        writer.stop.set()
        writer.thread.join()


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_each_change_with_a_kill_before_inside_and_after_it(
    engines: Engines, source: str, target: str, tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LiveLog(engines.live(source).url)
    with opened_url(engines.live(target), tmp_path, engines, monkeypatch) as url:
        _tell_story(log, Road(tmp_path, url, empty_store, "under_load"), f"{source} to {target}")


def _tell_story(log: LiveLog, road: Road, named: str) -> None:
    log.run(*(f"DROP TABLE IF EXISTS {name}" for name in NAMES))
    by_commits, place, kills = road.dialect.writing.WRITES_COMMITS, log.end(), 0
    killed = Killed(road.config_file, road.schema)

    def stage() -> None:
        nonlocal place
        end = log.end()
        reading = replace(log.reading(["moving*"]), notes=True)
        for one in log.scan(place, end):
            road.stage_task(*reading.batches(one))
        place = end

    log.run(TABLE)
    began = time.monotonic()
    with writing(log.url) as writer:
        for change, statements in STORY.items():
            time.sleep(0.5)
            stage()
            road.loader().merge_all()
            if change == "swap":
                with writer.may_write:
                    log.run(*statements)
            else:
                log.run(*statements)
            time.sleep(0.5)
            stage()
            known = {**STEPS, **BY_COMMITS} if by_commits else STEPS
            for step in known.get(change, ("migrate", "altered", "changed") if by_commits else MIGRATED):
                assert killed.merge_until(step) == "killed", (change, step)
                kills += 1
            with writer.may_write:
                stage()
                for _ in range(3):
                    road.loader().merge_all()
                reports = pipelines.list_merges(road.store, PIPELINE)["wh"]
                assert {name: one.reason for name, one in reports.items() if one.reason} == {}, change
                for table in ("moving", "moving_on") if change == "rename table" else ("moving",):
                    _compare(log, road, table, change)
    print(f"{named}: {writer.rows:,} rows written, {kills} kills, {time.monotonic() - began:.0f} s")
    assert {one.state for one in schema_changes.list_migrations(road.store, PIPELINE)} == {"applied"}
    killed.close()
    road.close()


def _compare(log: LiveLog, road: Road, table: str, change: str) -> None:
    wanted = f"table_schema = '{log.database}' AND table_name = '{table}'"
    names = [row[0] for row in log.run(f"SELECT column_name FROM information_schema.columns WHERE {wanted} ORDER BY ordinal_position")]
    rows = [tuple(row) for row in log.run(f"SELECT {', '.join(names)} FROM {table} ORDER BY id")]
    target = road.dialect.names.table(road.schema, table)
    assert road.query(f"SELECT {', '.join(names)} FROM {target} ORDER BY id") == rows, (change, table)


MEASURE = """
import json, resource, sys, time
from dataclasses import replace
from auditor.pipeline.events import Place
from auditor.pipeline.binlog.ranges import LogRange
from tests.binlog import LiveLog
log, start, end = LiveLog(sys.argv[1], range_bytes=4 << 20), Place.parse(sys.argv[2]), Place.parse(sys.argv[3])
usage = lambda: resource.getrusage(resource.RUSAGE_SELF)
before = usage()
ranges = log.scan(start, end)
scanned = usage()
cpu = scanned.ru_utime + scanned.ru_stime - before.ru_utime - before.ru_stime
found = {"before_mib": before.ru_maxrss / 1024, "scan_cpu": cpu, "planner_mib": scanned.ru_maxrss / 1024}
reading = replace(log.reading([f"carried_{n}" for n in range(20)]), notes=True)
found["events"] = sum(batch.num_rows for one in ranges for batch in reading.batches(one))
decoded = usage()
found["decode_cpu"] = decoded.ru_utime + decoded.ru_stime - scanned.ru_utime - scanned.ru_stime
found["worker_mib"] = decoded.ru_maxrss / 1024
print(json.dumps(found))
"""


@pytest.mark.parametrize("engine", [pytest.param("mysql", marks=pytest.mark.mysql)])
def test_ten_thousand_tables_of_which_twenty_are_carried(engines: object, engine: str) -> None:
    found: LiveEngine = engines.live(engine)  # type: ignore[attr-defined]
    log, tables = LiveLog(found.url), 10_000
    log.run("DROP DATABASE IF EXISTS many", "CREATE DATABASE many")
    many = LiveLog(found.url.replace(f"/{log.database}", "/many"))
    names = [f"carried_{n}" if n < 20 else f"other_{n}" for n in range(tables)]
    _side_by_side(many, [f"CREATE TABLE {name} (id int PRIMARY KEY, a varchar(20), b decimal(10,2), c datetime(6))" for name in names])
    start = many.end()
    _side_by_side(many, [f"INSERT INTO {name} VALUES (1, 'a', 1.5, NOW(6)), (2, 'b', 2.5, NULL)" for name in names])
    end = many.end()
    command = [sys.executable, "-c", MEASURE, many.url, str(start), str(end)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    size = end.offset - start.offset if start.file == end.file else -1
    print(f"{tables:,} tables, as many transactions, {size:,} bytes of log: {told}")
    assert told["events"] == 20 * 2 + 20
    log.run("DROP DATABASE many")


def _side_by_side(log: LiveLog, statements: list[str]) -> None:
    def run(some: list[str]) -> None:
        log.run(*some)

    threads = [threading.Thread(target=run, args=(statements[number::4],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
