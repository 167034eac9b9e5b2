"""Part in_flight: how soon an audit of a table that another pipeline fills is right, by how it tells rows in flight from wrong ones.

A batch sink that knows nothing of the auditor brings each change of a busy table to the target after up to some seconds. Three audits of
that table know the same bound of its delay: one looks rows up in the history of a capture, one rechecks them, one leaves out what is young.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import yaml

from auditor import config
from auditor.connections.prefetch import keeping
from auditor.model import Report, Verdict
from auditor.service import running
from benchmarks.servers import Servers
from tests.live import LiveEngine
from tests.pipeline.batch_sink import BatchSink
from tests.pipeline.history_road import CAPTURE, HistoryRoad
from tests.servers import mysql
from tests.servers.process import Unavailable

SOURCE, TARGET, TABLE = "mysql", "postgres", "in_flight"
KEYS = 5_000
BATCH, BOUND = 3.0, 15.0
"""Seconds that the sink holds a batch back at most, and that a change may take by the audits' settings."""

PAUSE = 0.05
"""Seconds between two changes."""

WAYS: Mapping[str, Mapping[str, Any]] = {
    "history": {"history": {"pipeline": CAPTURE, "at_most": f"{BOUND:g}s"}},
    "recheck": {"recheck": {"times": 2, "wait": f"{BOUND / 3:g}s", "backoff": 2}},
    "settle": {"settle": {"column": "changed", "lag": f"{BOUND:g}s"}},
}
"""What the audit of each name has, in its configuration."""

ATTEMPTS = 100
"""Runs within which a wrong row has to be named."""

EDITED, LOST = "a row that is edited in the target", "an update that never comes"


@dataclass
class InFlight:
    """What an audit said of a target behind a delay; ``why`` if nothing was measured.

    ``runs`` has the seconds and verdict of each run while nothing but rows in flight differed. ``named`` has the seconds from each damage
    until a run that named its row had ended, by damage. ``false`` counts runs of all that named a row as wrong which was on its way.
    """

    way: str
    runs: list[tuple[float, str]] = field(default_factory=list)
    named: dict[str, list[float]] = field(default_factory=dict)
    false: int = 0
    of: int = 0
    """All runs."""
    slowest: float = 0.0
    """Seconds that a change took at most."""
    why: str = ""


def measure(servers: Servers, repeat: int) -> list[InFlight]:
    """Let each audit run ``4 * repeat`` times without a wrong row, and until it names one, ``repeat`` times of each damage."""
    found = {way: InFlight(way) for way in WAYS}
    try:
        urls = {engine: servers[engine].url for engine in (SOURCE, TARGET)}
    except Unavailable as reason:
        return [InFlight(way, why=str(reason)) for way in WAYS]
    with tempfile.TemporaryDirectory(prefix="in-flight-") as folder:
        road = HistoryRoad(Path(folder), LiveEngine(SOURCE, SOURCE, urls[SOURCE]), LiveEngine(TARGET, TARGET, urls[TARGET]), TABLE)
        try:
            _make(road)
            sink = BatchSink(urls[TARGET], f"{road.schema}.{TABLE}", BATCH)
            writer = _Writer(urls[SOURCE], sink)
            with road.capturing(), sink.running(), writer.writing(), keeping():
                running.run_audit(road.settings, "history", store=road.store)
                time.sleep(BOUND + 1)  # from here on the history reaches back far enough
                for _ in range(repeat):
                    for way, one in found.items():
                        _measure_round(one, partial(running.run_audit, road.settings, way, store=road.store), writer, road)
                        one.slowest = sink.lag
            if sink.lag > BOUND:
                raise RuntimeError(f"a change took {sink.lag:.1f} s, more than the audits allow: nothing can be said")
        finally:
            road.close()
            road.execute(f"DROP TABLE IF EXISTS {road.schema}.{TABLE}")
            road.log.run(f"DROP TABLE IF EXISTS {TABLE}")
    return list(found.values())


def _make(road: HistoryRoad) -> None:
    rows = ", ".join(f"({n}, 'item {n}', {n}.25, '2026-01-01 00:00:00', NULL)" for n in range(KEYS))
    road.create(
        "id int PRIMARY KEY, item varchar(40), price decimal(10,2), changed datetime(6), note varchar(20)",
        rows,
        "id int, item varchar(40), price decimal(10,2), changed timestamp(6), note varchar(20)",
    )
    road.sink(f"CREATE INDEX ON {road.schema}.{TABLE} (id)")
    road.begin_stream()
    settings = yaml.safe_load(road.config_file.read_text(encoding="utf-8"))
    [audit] = settings["audits"].values()
    del audit["history"]
    settings["audits"] = {way: {**audit, **more, "key": ["id"]} for way, more in WAYS.items()}
    road.config_file.write_text(json.dumps(settings), encoding="utf-8")
    road.settings = config.load(road.config_file)


def _measure_round(one: InFlight, run: Callable[[], Report], writer: _Writer, road: HistoryRoad) -> None:
    for _ in range(4):
        began = time.monotonic()
        report = run()
        one.runs.append((time.monotonic() - began, report.verdict.value))
        _count(one, report, "")
    for damage, spoil in ((EDITED, writer.edit), (LOST, writer.lose)):
        key = spoil(road)
        began = time.monotonic()
        for _ in range(ATTEMPTS):
            report = run()
            if _count(one, report, key) and report.verdict is Verdict.MISMATCH:
                break
        else:
            raise RuntimeError(f"{one.way} did not name {damage} in {ATTEMPTS} runs; the last one says {report.verdict}: {report.reasons}")
        one.named.setdefault(damage, []).append(time.monotonic() - began)
        print(f"  {one.way}: {damage} was named after {one.named[damage][-1]:.1f} s", file=sys.stderr, flush=True)
        writer.mend(key)


def _count(one: InFlight, report: Report, key: str) -> bool:
    """Count a run; return whether it names ``key`` as wrong."""
    assert report.differences is not None, report.reasons
    wrong = {row.key["id"] for row in report.differences.named if row.state == "confirmed"}
    one.of += 1
    one.false += bool(wrong - {key})
    return key in wrong


class _Writer:
    """Changes rows of the source, one at a time, and hands them to the sink."""

    def __init__(self, url: str, sink: BatchSink) -> None:
        self.sink = sink
        self.chance = random.Random(3)
        self.lock = threading.Lock()
        self.connection = mysql.connect(url)
        self.connection.autocommit(True)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Change rows for the block, of which the last tenth of the keys is left alone."""
        done, failures = threading.Event(), list[BaseException]()

        def work() -> None:
            while not done.wait(PAUSE):
                key = str(self.chance.randrange(KEYS * 9 // 10))
                try:
                    with self.lock:
                        self.sink.send(key, self._delete(key) if self.chance.random() < 0.2 else [self._replace(key)])
                except pymysql.MySQLError as error:
                    failures.append(error)
                    raise

        thread = threading.Thread(target=work)
        thread.start()
        with closing(self.connection):
            try:
                yield
            finally:
                done.set()
                thread.join()
        assert not failures, failures

    def edit(self, road: HistoryRoad) -> str:
        """Let somebody edit a row in the target that the source changed long ago; return its key."""
        key = str(self.chance.randrange(KEYS * 9 // 10, KEYS))
        road.sink(f"UPDATE {road.schema}.{TABLE} SET note = 'edited' WHERE id = {key}")
        return key

    def lose(self, _road: HistoryRoad) -> str:
        """Change a row in the source alone; return its key."""
        key = str(self.chance.randrange(KEYS * 9 // 10, KEYS))
        with self.lock:
            self._replace(key)
        return key

    def mend(self, key: str) -> None:
        """Let a row arrive as it is, and wait until it and its time count as settled for every audit."""
        with self.lock:
            self.sink.send(key, [self._replace(key)])
        time.sleep(BOUND + BATCH)

    def _replace(self, key: str) -> tuple[str | None, ...]:
        price = f"{self.chance.randrange(1000)}.{self.chance.randrange(10, 100)}"
        row = (key, f"item {self.chance.randrange(1000)}", price, f"{dt.datetime.now(dt.UTC):%Y-%m-%d %H:%M:%S.%f}", None)
        with self.connection.cursor() as cursor:
            cursor.execute(f"REPLACE INTO {TABLE} VALUES (%s, %s, %s, %s, %s)", row)
        return row

    def _delete(self, key: str) -> list[tuple[str | None, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {TABLE} WHERE id = %s", (key,))
        return []
