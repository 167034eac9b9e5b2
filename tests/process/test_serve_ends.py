"""Kill or terminate ``auditor serve`` in the middle of its work and start it again: no run is lost or repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from auditor import config
from auditor.config import Settings
from auditor.model import State
from auditor.service import workers
from auditor.store import Store, open_store, queue, run_lifecycle, runs
from auditor.store.queue import tick_claims
from dialects import Kind
from tests import tables
from tests.live import LiveEngine, engine_params
from tests.servers.process import free_port

pytestmark = [pytest.mark.clock, pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)]

ROOT = Path(__file__).parents[2]
SMALL_CHUNKS = """
import sys
from auditor import cli
from auditor.planning import chunks
chunks.CHUNK_ROWS = 200
sys.exit(cli.console_main())
"""
ROWS = 2_000


@dataclass
class Place:
    """A configuration with a slow audit and fast ones, its store, and the service processes started on it."""

    folder: Path
    settings: Settings
    store: Store
    engine: LiveEngine
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def serve(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SMALL_CHUNKS, "serve", "--insecure", "--port", str(free_port())]
        with (self.folder / "serve.log").open("a") as log:
            self.started.append(
                subprocess.Popen(command, cwd=self.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=log, text=True)
            )
        return self.started[-1]

    def request_runs(self, *audits: str) -> list[str]:
        return [workers.request_run(self.settings, self.store, name).run for name in audits]

    def list_read_chunks(self, run: str) -> list[Any]:
        return [(one.side, one.first, one.at) for one in run_lifecycle.list_chunks(self.store, run)]


@pytest.fixture
def place(engine: LiveEngine, tmp_path: Path) -> Iterator[Place]:
    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    tables.execute(engine, "DROP VIEW IF EXISTS served_slowly")
    tables.make(engine, "served", columns, [(number, "v") for number in range(ROWS)], key=["id"])
    slow = "SELECT r.id, r.v FROM served r CROSS JOIN (SELECT pg_sleep(0.3) AS s LIMIT 1) one"
    tables.execute(engine, f"CREATE VIEW served_slowly AS {slow}")

    def audit(table: str, **more: Any) -> dict[str, Any]:
        side = {"connection": "here", "table": table}
        return {"source": side, "target": side, "key": ["id"], "method": "signature", **more}

    value: dict[str, Any] = {
        "connections": {"here": {"url": engine.url, "connections": 1}},
        "store": {"url": f"sqlite:///{tmp_path}/store.db"},
        "service": {"workers": 1, "grace": 4},
        "audits": {
            "slow": audit("served_slowly", snapshot="per_chunk", partition={"rows": 100}),
            "waits": audit("served"),
            "waits too": audit("served"),
            "scheduled": audit("served", schedule="* * * * *"),
        },
    }
    path = tmp_path / "auditor.yaml"
    path.write_text(json.dumps(value))
    store = open_store(value["store"]["url"])
    place = Place(tmp_path, config.load(path), store, engine)
    yield place
    for process in place.started:
        process.kill()
        process.wait()
    store.close()


def wait_until(condition: Callable[[], Any], failure: str, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, failure
        time.sleep(0.05)


def test_restarted_service_finishes_running_queued_and_scheduled_runs(place: Place) -> None:
    store = place.store
    slow, *waiting = place.request_runs("slow", "waits", "waits too")
    first = place.serve()
    wait_until(
        lambda: len(place.list_read_chunks(slow)) >= 3 and runs.list_runs(store, audit="scheduled"),
        "the slow run never read three chunks, or the scheduled run was never queued",
    )
    first.kill()
    first.wait()
    read_before, [scheduled] = place.list_read_chunks(slow), [one.run for one in runs.list_runs(store, audit="scheduled")]
    assert runs.get_run(store, slow).state is State.RUNNING and queue.count_waiting(store) == 3

    second = place.serve()
    wait_until(lambda: len(place.list_read_chunks(slow)) > len(read_before), "the second process did not continue the slow run")
    assert set(read_before) <= set(place.list_read_chunks(slow))
    wait_until(lambda: all(runs.get_run(store, run).ended for run in (slow, *waiting, scheduled)), "not all runs ended")
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    assert {runs.get_run(store, run).state for run in (slow, *waiting, scheduled)} == {State.DONE}
    run_counts = Counter(one.audit for one in runs.list_runs(store))
    assert (run_counts["slow"], run_counts["waits"], run_counts["waits too"]) == (1, 1, 1)
    ticks = [one.reason for one in runs.list_runs(store, audit="scheduled")]
    with store.reading() as connection:
        claimed = len(connection.execute(tick_claims.select()).all())
    assert len(ticks) == len(set(ticks)) <= claimed


@pytest.mark.slow
def test_shutdown_takes_no_longer_than_grace_when_a_database_hangs(place: Place) -> None:
    [slow] = place.request_runs("slow")
    process = place.serve()
    wait_until(lambda: len(place.list_read_chunks(slow)) >= 2, "the slow run never read two chunks")
    busy_query = (
        "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        " AND datname = current_database()"
    )
    wait_until(lambda: tables.query(place.engine, busy_query), "no statement ran")
    frozen = [int(row[0]) for row in tables.query(place.engine, busy_query)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert runs.get_run(place.store, slow).state in (State.PENDING, State.RUNNING)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    second = place.serve()
    wait_until(lambda: runs.get_run(place.store, slow).state is State.DONE, "the second process did not finish the run")
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
