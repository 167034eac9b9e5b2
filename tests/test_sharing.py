"""Statements at once on a real server, over two processes, are never more than the connection's limit says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor import config, sharing
from auditor.errors import StatementCancelled, StoreReadOnly, StoreUnavailable
from auditor.service.queueing import request_run
from auditor.store import Store, open_store, runs, slots
from tests import tables
from tests.engines import LiveEngine, engine_params
from tests.serving import Serving

RUNNING = {
    "postgres": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%shared_statements%'"
    " AND pid <> pg_backend_pid()",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE command = 'Query' AND info LIKE '%shared_statements%'"
    " AND id <> connection_id()",
}
SLEEP = {"postgres": "pg_sleep(0.05)", "mysql": "SLEEP(0.05)"}
ROWS = 3_000
CHUNKED = {"auditor.plan.CHUNK_ROWS": 200}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    sharing.share(None)
    opened.close()


@pytest.mark.parametrize("engine", engine_params("postgres", "mysql"), indirect=True)
@pytest.mark.parametrize("most", [1, 2, None])
def test_two_processes_keep_to_one_limit(engine: LiveEngine, most: int | None, tmp_path: Path, store: Store) -> None:
    from dialects import Kind

    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    tables.execute(engine, "DROP VIEW IF EXISTS shared_statements")
    tables.make(engine, "shared_rows", columns, [(number, "v") for number in range(ROWS)], key=["id"])
    # Each statement on it takes long enough to be seen.
    slow = f"SELECT r.id, r.v FROM shared_rows r CROSS JOIN (SELECT {SLEEP[engine.dialect]} AS s LIMIT 1) one"
    tables.execute(engine, f"CREATE VIEW shared_statements AS {slow}")
    here = {"url": engine.url, "connections": 2, "limits": {"statements": most}}
    side = {"connection": "here", "table": "shared_statements"}
    one = {"source": side, "target": side, "key": ["id"], "snapshot": "per_chunk", "partition": {"rows": 100}}
    audits = {f"a{number}": one for number in range(4)}
    value = {"connections": {"here": here}, "store": {"url": f"sqlite:///{tmp_path}/store.db"}, "audits": audits}
    path = tmp_path / "auditor.yaml"
    path.write_text(json.dumps(value))
    settings = config.load(path)
    both = [Serving(path, workers=2, settings=CHUNKED) for _ in range(2)]
    try:
        for name in audits:
            request_run(settings, store, name)
        seen = _watched(engine, store, 90.0)
        assert not runs.living(store)
    finally:
        for process in both:
            process.kill()
    assert {one.state for one in runs.listed(store)} == {"done"}
    # Without a limit more of them are seen at once: what is seen with one is its doing.
    assert max(seen) == most if most else max(seen) > 2, (len(seen), max(seen))


def _watched(engine: LiveEngine, store: Store, seconds: float) -> list[int]:
    """How many statements on the table ran at each look, until nothing is left to do."""
    import dialects

    session = dialects.connect(engine.url)
    seen: list[int] = []
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            seen.append(int(session.query(RUNNING[engine.dialect])[0][0]))
            if len(seen) % 50 == 0 and not runs.living(store):
                break
            time.sleep(0.005)
    finally:
        session.close()
    return seen


def test_without_a_limit_or_a_process_that_serves_no_store_is_asked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "take", lambda *_: pytest.fail("the store was asked"))
    stopped = threading.Event()
    with sharing.slot("a", lambda: 1, pytest.fail, stopped):
        pass
    sharing.share(store)
    with sharing.slot("a", lambda: None, pytest.fail, stopped):
        pass


def test_who_waits_is_told_and_goes_on_or_is_stopped(store: Store) -> None:
    told: list[str] = []
    stopped, inside = threading.Event(), threading.Event()
    sharing.share(store)
    assert slots.take(store, "a", 1, "another process", 30.0)

    def enter() -> None:
        with sharing.slot("a", lambda: 1, told.append, stopped):
            inside.set()

    thread = threading.Thread(target=enter)
    thread.start()
    while not told:
        time.sleep(0.01)
    assert not inside.is_set()
    slots.release(store, "a", "another process")
    thread.join()
    assert inside.is_set() and told == ["waits for the one statement at once over all processes", ""]
    assert slots.take(store, "a", 1, "another process", 30.0)
    stopped.set()
    with pytest.raises(StatementCancelled):
        enter()


@pytest.mark.parametrize(("error", "waits"), [(StoreUnavailable("gone"), True), (StoreReadOnly("read only"), False)])
def test_a_store_that_comes_back_is_waited_for(store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception, waits: bool) -> None:
    take = slots.take
    told: list[str] = []
    tried: list[int] = []

    def failing(*arguments: Any) -> bool:
        tried.append(1)
        if len(tried) < 3:
            raise error
        return take(*arguments)

    monkeypatch.setattr(slots, "take", failing)
    sharing.share(store)
    with sharing.slot("a", lambda: 1, told.append, threading.Event()):
        pass
    assert len(tried) == (3 if waits else 1) and bool(told) is waits


def test_a_slot_is_kept_as_long_as_the_statement_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "LAPSE", 0.6)
    sharing.share(store)
    with sharing.slot("a", lambda: 1, pytest.fail, threading.Event()):
        time.sleep(1.5)
        assert not slots.take(store, "a", 1, "another process", 30.0)
    slots.release(store, "a", "another process")
    assert slots.take(store, "a", 1, "another process", 30.0)
