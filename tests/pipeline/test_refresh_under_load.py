"""A large table is refreshed while others write into it, by a command that is killed again and again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from auditor.config import Audit
from auditor.model import Verdict
from auditor.run import audit_run
from auditor.store import refreshes
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.pipeline.conftest import opened_url
from tests.pipeline.live_road import LiveRoad, delivering
from tests.pipeline.one_table import allow_one_table
from tests.pipeline.road import PIPELINE

pytestmark = [pytest.mark.slow, pytest.mark.alone]
ON_BOTH = pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)

TABLE, ROWS, WRITES, KILLS = "refreshed_large", 1_000_000, 500, 10
BEFORE = 15.0
"""Seconds for which the writers' latency is measured before the refresh."""
ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine(request: pytest.FixtureRequest, engines: object) -> LiveEngine:
    found: LiveEngine = engines.live(request.param)  # type: ignore[attr-defined]
    return found


@pytest.fixture
def road(engine: LiveEngine, tmp_path: Path) -> Iterator[LiveRoad]:
    fill(LiveLog(engine.url))
    made = LiveRoad(tmp_path, engine, TABLE)
    yield made
    made.close()


def fill(log: LiveLog) -> None:
    """Make the table, in transactions of a thousandth of it."""
    digits = " CROSS JOIN ".join(f"digits AS d{place}" for place in range(3))
    number = " + ".join(f"d{place}.n * {10**place}" for place in range(3))
    values = f"{number}, CONCAT('an item of some length ', d0.n), d1.n"
    log.run(
        f"DROP TABLE IF EXISTS {TABLE}, digits",
        "CREATE TABLE digits (n int PRIMARY KEY)",
        f"INSERT INTO digits VALUES {', '.join(f'({n})' for n in range(10))}",
        f"CREATE TABLE {TABLE} (id bigint PRIMARY KEY, item varchar(60), price decimal(12,2), at datetime(3) DEFAULT '2026-11-23')",
        *(f"INSERT INTO {TABLE} (id, item, price) SELECT {thousand * 1000} + {values} FROM {digits}" for thousand in range(ROWS // 1000)),
    )


@contextmanager
def written_to(engine: LiveEngine, folder: Path) -> Iterator[list[Path]]:
    """Write into the table from two processes; yield the files with their latencies."""
    files = [folder / f"latency{number}" for number in range(2)]
    with ExitStack() as held:
        for number, path in enumerate(files):
            about = [engine.url, TABLE, str(ROWS), str(WRITES / len(files)), str(number), str(path), "0"]
            process = subprocess.Popen([sys.executable, "-m", "tests.pipeline.paced_writer", *about], cwd=ROOT, stdin=subprocess.PIPE)
            held.callback(process.wait, 60)
            assert process.stdin
            held.callback(process.stdin.close)
        yield files


def _killed_after(process: subprocess.Popen[bytes], road: LiveRoad, rows: int, wait: float) -> bool:
    """Kill a refresh at some moment of the chunk that follows so many rows, and return whether it had not ended by then."""
    while process.poll() is None:
        if any(one.progress.get("rows", 0) >= rows for one in refreshes.list_unfinished(road.store, PIPELINE)):
            time.sleep(wait)
            break
        time.sleep(0.02)
    process.kill()
    return process.wait() != 0


@ON_BOTH
@pytest.mark.parametrize("made", ["with tables", "with one table"])
def test_the_target_equals_the_source_after_ten_kills(road: LiveRoad, engine: LiveEngine, tmp_path: Path, made: str) -> None:
    if made == "with one table":
        allow_one_table(road, engine)
    refresh_with_kills(road, engine, tmp_path, f"{engine.name}, {made}")


INTO = [("mysql", "redshift"), ("mysql", "mariadb"), ("mariadb", "mysql"), ("mysql", "delta")]


@pytest.mark.parametrize(("source", "target"), INTO, ids=["-".join(pair) for pair in INTO])
def test_other_kinds_of_targets_do_as_well(
    engines: Engines, source: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engines.live(source)
    fill(LiveLog(engine.url))
    with opened_url(engines.live(target), tmp_path, engines, monkeypatch) as url:
        road = LiveRoad(tmp_path, engine, TABLE, into=url, schema="refreshed_into")
        refresh_with_kills(road, engine, tmp_path, f"{source} to {target}")
        if target != "delta":  # whose folder is the test's own
            road.drop()
        road.close()


def refresh_with_kills(road: LiveRoad, engine: LiveEngine, folder: Path, named: str) -> None:
    """Send all rows while others write, by a command that is killed ten times; the target then equals the source."""
    chance = random.Random(16)
    command = [sys.executable, "-m", "auditor", "pipeline", "refresh", PIPELINE, "--table", TABLE, "--apply"]
    thresholds = sorted(chance.sample(range(ROWS // 100, int(ROWS * 0.9)), KILLS))
    kills = 0
    with written_to(engine, folder) as files, delivering(road, every=1.0):
        time.sleep(BEFORE)
        began = time.monotonic()
        for threshold in thresholds:
            process = subprocess.Popen([*command, "--config", str(road.config_file)], cwd=ROOT)
            kills += _killed_after(process, road, threshold, chance.uniform(0, 0.03))
        subprocess.run([*command, "--config", str(road.config_file)], cwd=ROOT, check=True)
        ended = time.monotonic()
    [found] = refreshes.list_refreshes(road.store, PIPELINE)
    assert found.state == "done" and found.progress["longest"] < 1.5 and kills == KILLS
    started = time.monotonic()
    road.merge()
    merged = time.monotonic() - started
    latencies = np.concatenate([np.loadtxt(path) for path in files])
    phases = {"before": (began - BEFORE, began), "during": (began, ended)}
    told = []
    for name, (first, last) in phases.items():
        chosen = latencies[(latencies[:, 0] >= first) & (latencies[:, 0] < last), 1] * 1000
        p50, p95, most = np.percentile(chosen, [50, 95, 100])
        told.append(f"{name}: {len(chosen) / (last - first):,.0f} writes/s, p50 {p50:.2f} ms, p95 {p95:.2f} ms, max {most:,.0f} ms")
    about = f"{found.progress['rows']:,} rows in {found.progress['chunks']:,} chunks, {ended - began:,.1f} s with {kills} kills"
    locked = f"locked for {found.progress['longest']:.2f} s at most"
    print(f"\n{named}: {about}, {locked}; {'; '.join(told)}; last merge {merged:.1f} s")
    ends = {"source": {"connection": "source", "table": TABLE}, "target": {"connection": "warehouse", "table": f"{road.schema}.{TABLE}"}}
    report = audit_run.run("large", Audit.model_validate({**ends, "method": "exact"}), road.settings.connections)
    assert report.verdict == Verdict.MATCH and report.comparison, report.reasons
    assert report.comparison.rows["source"] > ROWS * 0.9
