"""Statements at once on a real server, over two processes, are never more than the connection's limit says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor import config, guest, sharing
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


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
@pytest.mark.parametrize("most", [1, pytest.param(2, marks=pytest.mark.slow), None])
def test_two_processes_keep_to_one_limit(engine: LiveEngine, most: int | None, tmp_path: Path, store: Store) -> None:
    from dialects import Kind

    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    tables.execute(engine, "DROP VIEW IF EXISTS shared_statements")
    tables.make(engine, "shared_rows", columns, [(number, "v") for number in range(ROWS)], key=["id"])
    # Each statement on it takes long enough to be seen.
    slow = f"SELECT r.id, r.v FROM shared_rows r CROSS JOIN (SELECT {SLEEP[engine.dialect]} AS s LIMIT 1) one"
    tables.execute(engine, f"CREATE VIEW shared_statements AS {slow}")
    here = {"url": engine.url, "connections": 2, "limits": {"statements": most}}
    # Another connection to the same database, which says no limit, counts with it.
    too = {"url": engine.url, "connections": 2}
    sides = {side: {"connection": name, "table": "shared_statements"} for side, name in (("source", "here"), ("target", "too"))}
    one = {**sides, "key": ["id"], "snapshot": "per_chunk", "partition": {"rows": 100}}
    audits = {f"a{number}": one for number in range(4)}
    value = {"connections": {"here": here, "too": too}, "store": {"url": f"sqlite:///{tmp_path}/store.db"}, "audits": audits}
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
    assert 1 <= max(seen) <= most if most else max(seen) > 2, (len(seen), max(seen))


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


@pytest.mark.parametrize("together", [True, False])
def test_two_connections_to_one_database_count_as_one(store: Store, together: bool) -> None:
    limits = {"limits": {"statements": 1}}
    urls = {
        "first": "postgresql://one:a@db/shop",
        "second": "postgres://two:b@DB:5432/shop?sslmode=require",
        "other": "redshift://one@db/shop",
    }
    connections = config.checked({"connections": {name: {"url": url, **limits} for name, url in urls.items()}, "audits": {}}).connections
    if together:
        sharing.share(store)
    told: list[str] = []
    inside, waits, done = threading.Event(), threading.Event(), threading.Event()

    def second() -> None:
        def tell(sentence: str) -> None:
            told.append(sentence)
            waits.set()

        with guest.gate("second", connections["second"]).statement(tell, threading.Event()):
            inside.set()
        done.set()

    thread = threading.Thread(target=second)
    with guest.gate("first", connections["first"]).statement(told.append, threading.Event()):
        thread.start()
        assert waits.wait(30) and not inside.is_set()
        with guest.gate("other", connections["other"]).statement(pytest.fail, threading.Event()):
            pass  # another database, and nobody is waited for
    assert done.wait(30)
    thread.join()
    assert told == [f"waits for the one statement at once over all {'processes' if together else 'connections'}", ""]


def test_who_waits_for_another_connection_is_stopped() -> None:
    stopped = threading.Event()
    stopped.set()
    with sharing.slot("db", lambda: 1, pytest.fail, threading.Event()):
        with pytest.raises(StatementCancelled), sharing.slot("db", lambda: 1, pytest.fail, stopped):
            pytest.fail("it went on")
    with sharing.slot("db", lambda: 1, pytest.fail, threading.Event()):
        pass  # nothing is left of it


@pytest.mark.parametrize(
    ("urls", "limits", "found"),
    [
        (("mysql://u:p@db/shop", "mariadb://v@DB:3306/shop"), (3, None), (3, 3)),
        (("mysql://u:p@db/shop", "mysql://u:p@db/shop"), (3, 2), (2, 2)),
        (("mysql://u:p@db/shop", "mysql://u:p@db/other"), (3, None), (3, None)),
        (("mysql://u:p@db/shop", "mysql://u:p@db:3307/shop"), (3, None), (3, None)),
        (("mysql://u@localhost/d?unix_socket=/a", "mysql://u@localhost/d?unix_socket=/b"), (3, None), (3, None)),
        (("postgresql://db/shop", "redshift://db:5432/shop"), (3, None), (3, None)),
        (("duckdb:///a.duckdb", "duckdb:///./a.duckdb?access_mode=read_only"), (1, None), (1, 1)),
        (("sc://spark", "sc://spark:15002/"), (None, 4), (4, 4)),
        (("no URL at all", "no URL at all"), (3, None), (3, None)),
    ],
)
def test_the_least_limit_of_a_database_counts(urls: tuple[str, ...], limits: tuple[int | None, ...], found: tuple[int | None, ...]) -> None:
    connections = {f"c{n}": {"url": url, "limits": {"statements": limits[n]}} for n, url in enumerate(urls)}
    settings = config.checked({"connections": connections, "audits": {}})
    assert tuple(one.limits.statements for one in settings.connections.values()) == found


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
