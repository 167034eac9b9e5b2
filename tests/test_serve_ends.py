"""``auditor serve``, as somebody runs it, killed or asked to end in the middle of its work, and started again."""

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
from auditor.service import queueing
from auditor.store import Store, chunks, open_store, queue, runs
from auditor.store._schema import claims
from dialects import Kind
from tests import tables
from tests.engines import LiveEngine, engine_params
from tests.servers._process import free_port

pytestmark = pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)

ROOT = Path(__file__).parents[1]
SMALL_CHUNKS = "import sys; from auditor import cli, plan; plan.CHUNK_ROWS = 200; sys.exit(cli.console_main())"
ROWS = 3_000


@dataclass
class Place:
    """A configuration with slow and quick audits, its store, and the processes that serve it."""

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

    def request(self, *audits: str) -> list[str]:
        return [queueing.request_run(self.settings, self.store, name).run for name in audits]

    def read(self, run: str) -> list[Any]:
        return [(one.side, one.first, one.at) for one in chunks.done(self.store, run)]


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
    found = Place(tmp_path, config.load(path), store, engine)
    yield found
    for process in found.started:
        process.kill()
        process.wait()
    store.close()


def until(true: Callable[[], Any], what: str, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_what_runs_waits_and_is_scheduled_is_taken_up_after_a_kill(place: Place) -> None:
    store = place.store
    slow, *waiting = place.request("slow", "waits", "waits too")
    first = place.serve()
    until(lambda: len(place.read(slow)) >= 3 and runs.listed(store, audit="scheduled"), "it reads, and what is scheduled waits")
    first.kill()
    first.wait()
    kept, [scheduled] = place.read(slow), [one.run for one in runs.listed(store, audit="scheduled")]
    assert runs.find(store, slow).state is State.RUNNING and queue.waiting(store) == 3

    second = place.serve()
    until(lambda: len(place.read(slow)) > len(kept), "it goes on")
    assert set(kept) <= set(place.read(slow))
    until(lambda: all(runs.find(store, run).ended for run in (slow, *waiting, scheduled)), "they all ended")
    second.send_signal(signal.SIGTERM)
    assert second.wait(60) == 0
    assert {runs.find(store, run).state for run in (slow, *waiting, scheduled)} == {State.DONE}
    made = Counter(one.audit for one in runs.listed(store))
    assert (made["slow"], made["waits"], made["waits too"]) == (1, 1, 1)
    ticks = [one.reason for one in runs.listed(store, audit="scheduled")]
    with store.reading() as connection:
        claimed = len(connection.execute(claims.select()).all())
    assert len(ticks) == len(set(ticks)) <= claimed


def test_a_database_that_does_not_answer_keeps_it_no_longer_than_its_grace(place: Place) -> None:
    [slow] = place.request("slow")
    process = place.serve()
    until(lambda: len(place.read(slow)) >= 2, "it reads")
    busy = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
    until(lambda: tables.query(place.engine, busy), "a statement runs")
    frozen = [int(row[0]) for row in tables.query(place.engine, busy)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert runs.find(place.store, slow).state in (State.PENDING, State.RUNNING)
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)
    again = place.serve()
    until(lambda: runs.find(place.store, slow).state is State.DONE, "it was taken up")
    again.send_signal(signal.SIGTERM)
    assert again.wait(60) == 0
