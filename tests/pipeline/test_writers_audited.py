"""Two processes cut one server's log at the same time, killed again and again, and register in one store: nothing is missed."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from auditor import config
from auditor.model import Verdict
from auditor.service import segment_audits, segment_files
from auditor.store import Store, open_store, segment_register
from tests.binlog import LiveLog
from tests.live import Engines, LiveEngine, engine_params
from tests.store import databases

pytestmark = [pytest.mark.alone, pytest.mark.slow]  # tests/store/test_segment_register.py proves the same of two sessions in every run

ROOT = Path(__file__).parents[2]
KILLS = 4
SIDES = ("east", "west")


@pytest.mark.parametrize("kept_in", ["sqlite", "postgres"])
@pytest.mark.parametrize("engine", engine_params("mysql", "mariadb"), indirect=True)
def test_two_writers_at_once_are_compared(engine: LiveEngine, engines: Engines, kept_in: str, tmp_path: Path) -> None:
    log = LiveLog(engine.url)
    log.run("DROP TABLE IF EXISTS audited", "CREATE TABLE audited (id int AUTO_INCREMENT PRIMARY KEY, t varchar(300))")
    start = log.end()
    writing = threading.Thread(target=_write, args=(log,))
    writing.start()
    server = engines.live(kept_in).url if kept_in != "sqlite" else ""
    url = databases.create(server) if server else f"sqlite:///{tmp_path}/auditor.db"
    path = _configure(tmp_path, log.url, url)
    try:
        threads = [threading.Thread(target=_run, args=(path, side, str(start), number)) for number, side in enumerate(SIDES)]
        for thread in threads:
            thread.start()
        for thread in [writing, *threads]:
            thread.join()
        for side in SIDES:  # up to the end of the log, which may have grown since
            _run(path, side, str(start), None)
        settings = config.load(path)
        with closing(open_store(url)) as store:
            report = segment_audits.run(settings, store, "zones")
            assert report.verdict is Verdict.MATCH and len(report.reasons) == 1, report.reasons
            _check(store)
            assert [(one.problems, one.findings) for one in segment_files.verify(settings, store, "zones")] == [((), ())]
    finally:
        if server:
            databases.drop(server, url)


def _check(store: Store) -> None:
    [state] = segment_register.list_tables(store, "zones")
    print(f"{state.matches} pairs of segments with {state.matched_rows} events")
    assert state.matches > 10 and all(one.segments == state.matches and not one.waiting for one in state.sides)


def _write(log: LiveLog) -> None:
    chance = random.Random(4)
    for _ in range(200):
        rows = ", ".join(f"('{chance.choice(['|', 'é', 'x' * 200, ''])}')" for _ in range(chance.choice([1, 3, 300])))
        log.run("BEGIN", f"INSERT INTO audited (t) VALUES {rows}", "UPDATE audited SET t = 'u' ORDER BY id DESC LIMIT 3", "COMMIT")
        time.sleep(0.01)


def _configure(folder: Path, url: str, store: str) -> Path:
    def pipeline(name: str, kept: str = "") -> str:
        return (
            f"  {name}:\n    source: {{connection: shop, tables: [audited]}}\n    staging: {{path: '{folder}/{name}'}}\n"
            f"    segment: {{rows: 700, bytes: 80KB, age: 2s{kept}}}\n    targets: {{duck: {{connection: duck, schema: main}}}}\n"
        )

    path, archive = folder / "auditor.yaml", f", path: '{folder}/archive', format: csv"
    path.write_text(
        f"connections:\n  shop: {{url: '{url}'}}\n  duck: {{url: 'duckdb:///x.duckdb', write: {{url: 'duckdb:///x.duckdb'}}}}\n"
        f"audits: {{}}\npipelines:\n{pipeline('east')}{pipeline('west', archive)}segments:\n  zones: {{pipelines: [east, west]}}\n"
        f"store: {{url: '{store}'}}\n"
    )
    return path


def _run(path: Path, name: str, start: str, seed: int | None) -> None:
    """Run a writer to the end of the log; with a seed it is killed at random moments."""
    chance = random.Random(seed)
    command = [sys.executable, "-m", "tests.pipeline.segmenting", str(path), name, start, "60000", "400000"]
    killed = 0 if seed is not None else KILLS
    while True:
        process = subprocess.Popen(command, cwd=ROOT)
        try:
            assert process.wait(timeout=2 + 3 * chance.random() if killed < KILLS else 600) == 0
            return
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
