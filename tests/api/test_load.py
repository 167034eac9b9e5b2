"""The service under load: every reader gets its answers while audits run, and a thousand runs do not grow its memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor.api_models.run import Run
from auditor.client import Client
from tests import tables
from tests.live import LivePair
from tests.programs.readers import Reading, reads
from tests.programs.serve import serve

pytestmark = pytest.mark.slow

PAIR = pytest.param(("mysql", "postgres"), id="mysql-postgres", marks=[pytest.mark.mysql, pytest.mark.postgres])
NAMES = ("a1", "a2", "a3", "a4")
DOUBLED = 18
DAMAGED = 5
SECONDS = 30.0

RUNS = 1_000
WARM = 200
"""Runs after which all modules are imported, all connections open and all caches of constant size full."""

GROWTH = 24 * 2**20
"""Bytes by which the memory may grow during the remaining runs; a leak of 30 KB per run exceeds it. It includes the store's caches,
2 MB for each of its connections, which are filled meanwhile."""


@pytest.mark.parametrize("pair", [PAIR], indirect=True)
def test_fifty_readers_get_all_answers_while_four_audits_run(pair: LivePair, tmp_path: Path) -> None:
    for engine in (pair.source, pair.target):
        tables.execute(engine, "DROP TABLE IF EXISTS under_load")
        tables.execute(engine, "CREATE TABLE under_load (id BIGINT PRIMARY KEY, name VARCHAR(40))")
        tables.execute(engine, "INSERT INTO under_load VALUES (1, 'name 1')")
        for power in range(DOUBLED):
            tables.execute(engine, f"INSERT INTO under_load SELECT id + {2**power}, CONCAT('name ', id) FROM under_load")
    tables.execute(pair.target, f"UPDATE under_load SET name = 'another' WHERE id <= {DAMAGED}")
    urls = {"source": pair.source.url, "target": pair.target.url}
    with serve(tmp_path, make_configuration(tmp_path, urls, "under_load", NAMES, workers=len(NAMES))) as served:
        client = Client(served.url, served.token)
        finished = run_all_audits(client)  # so that there are runs to read
        with reads(Reading(served.url, served.readers(50), NAMES, 0.2)) as answers:
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                finished += run_all_audits(client)
    assert answers.errors == []
    assert len(answers.listed) > 50 < len(answers.others)
    assert {(run.verdict, run.changed, run.missing, run.extra) for run in finished} == {("mismatch", DAMAGED, 0, 0)}


def run_all_audits(client: Client) -> list[Run]:
    """Run all audits concurrently and return their finished runs."""
    requested = [client.request(name) for name in NAMES]
    return [client.wait(run.run) for run in requested]


def test_thousand_runs_do_not_grow_the_memory(tmp_path: Path) -> None:
    urls = {side: f"duckdb:///{tmp_path}/{side}.duckdb" for side in ("source", "target")}
    for side in urls:
        with duckdb.connect(f"{tmp_path}/{side}.duckdb") as database:
            database.execute("CREATE TABLE short (id BIGINT PRIMARY KEY, name VARCHAR)")
            database.execute("INSERT INTO short SELECT i, 'name ' || i FROM range(1, 2001) r(i)")
            if side == "target":
                database.execute("DELETE FROM short WHERE id = 700")
    names = [f"a{number:02}" for number in range(20)]
    memory: dict[int, int] = {}
    with serve(tmp_path, make_configuration(tmp_path, urls, "short", names, workers=2)) as served:
        client = Client(served.url, served.token)
        for done in range(len(names), RUNS + 1, len(names)):
            for name in names:
                client.request(name)
            while any(one.active_run for one in client.audits()):
                time.sleep(0.1)
            memory[done] = served.memory()
        stored = [run for name in names for run in client.runs(name, "done", limit=RUNS)]
    print({runs: f"{found / 2**20:.1f} MB" for runs, found in memory.items() if runs in (20, 100) or runs % WARM == 0})
    assert len(stored) == RUNS and {(run.verdict, run.missing) for run in stored} == {("mismatch", 1)}
    assert memory[RUNS] - memory[WARM] < GROWTH


def make_configuration(folder: Path, urls: dict[str, str], table: str, names: Any, *, workers: int) -> dict[str, Any]:
    """Return a configuration with audits of one table and a SQLite store."""
    audit = {side: {"connection": side, "table": table} for side in urls} | {"key": ["id"]}
    return {
        "connections": {side: {"url": url} for side, url in urls.items()},
        "audits": dict.fromkeys(names, audit),
        "store": {"url": f"sqlite:///{folder}/store.db"},
        "service": {"workers": workers, "requests_per_minute": 1_000_000},
    }
