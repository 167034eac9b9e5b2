"""The limit of concurrent statements of a connection holds on a real server, across two processes."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor import config
from auditor.connections import throttle
from auditor.connections.throttle import Waiter
from auditor.errors import StatementCancelled, StoreReadOnly, StoreUnavailable
from auditor.service.workers import request_run
from auditor.store import Store, leases, open_store, runs
from tests import tables
from tests.durations import SetDurations
from tests.live import LiveEngine, engine_params
from tests.programs.workers import Serving

pytestmark = pytest.mark.clock

RUNNING = {
    "postgres": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%shared_statements%'"
    " AND pid <> pg_backend_pid()",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE command = 'Query' AND info LIKE '%shared_statements%'"
    " AND id <> connection_id()",
}
SLEEP = {"postgres": "pg_sleep({})", "mysql": "SLEEP({})"}
AUDITS, FEW_AUDITS = 4, 2
"""Audits without a limit, which show how many statements run at once then, and with one, where they wait for each other."""

ROWS, FEW_ROWS = 3_000, 200
"""With --slow, and without."""
CHUNKED = {"auditor.planning.chunks.CHUNK_ROWS": 100}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    throttle.share_through(None)
    opened.close()


@pytest.mark.parametrize("engine", engine_params("postgres"), indirect=True)
@pytest.mark.parametrize("most", [1, *(pytest.param(most, marks=pytest.mark.slow) for most in (2, None))])
def test_two_processes_share_one_statement_limit(
    engine: LiveEngine, most: int | None, tmp_path: Path, store: Store, request: pytest.FixtureRequest
) -> None:
    count = ROWS if request.config.getoption("--slow") else FEW_ROWS
    from dialects import Kind

    columns = [("id", Kind("integer")), ("v", Kind("text"))]
    tables.execute(engine, "DROP VIEW IF EXISTS shared_statements")
    tables.make(engine, "shared_rows", columns, [(number, "v") for number in range(count)], key=["id"])
    # Each statement on the view takes long enough to be observed, and to meet others where nothing keeps them apart.
    sleep = SLEEP[engine.dialect].format(0.05 if most else 0.4)
    slow = f"SELECT r.id, r.v FROM shared_rows r CROSS JOIN (SELECT {sleep} AS s LIMIT 1) one"
    tables.execute(engine, f"CREATE VIEW shared_statements AS {slow}")
    limited = {"url": engine.url, "connections": 2, "limits": {"statements": most}}
    # Another connection to the same database, without a limit of its own, counts towards the same limit.
    unlimited = {"url": engine.url, "connections": 2}
    sides = {side: {"connection": name, "table": "shared_statements"} for side, name in (("source", "here"), ("target", "too"))}
    audit = {**sides, "key": ["id"], "snapshot": "per_chunk", "partition": {"rows": 100}}
    audits = {f"a{number}": audit for number in range(FEW_AUDITS if most else AUDITS)}
    value = {"connections": {"here": limited, "too": unlimited}, "store": {"url": f"sqlite:///{tmp_path}/store.db"}, "audits": audits}
    path = tmp_path / "auditor.yaml"
    path.write_text(json.dumps(value))
    settings = config.load(path)
    services = [Serving(path, workers=2, settings=CHUNKED) for _ in range(2)]
    try:
        for name in audits:
            request_run(settings, store, name)
        running = _sample_running(engine, store, 90.0)
        assert not runs.get_active_runs(store)
    finally:
        for process in services:
            process.kill()
    assert {audit.state for audit in runs.list_runs(store)} == {"done"}
    # Without a limit more statements run concurrently, which shows that the limit has an effect.
    assert 1 <= max(running) <= most if most else max(running) > 2, (len(running), max(running))


def _sample_running(engine: LiveEngine, store: Store, seconds: float) -> list[int]:
    """Sample the number of running statements on the table until no run is active."""
    import dialects

    session = dialects.connect(engine.url)
    running: list[int] = []
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            running.append(int(session.query(RUNNING[engine.dialect])[0][0]))
            if len(running) % 50 == 0 and not runs.get_active_runs(store):
                break
            time.sleep(0.01)
    finally:
        session.close()
    return running


@pytest.mark.parametrize("together", [True, False])
def test_two_connections_to_one_database_share_their_slots(store: Store, together: bool) -> None:
    limits = {"limits": {"statements": 1}}
    urls = {
        "first": "postgresql://one:a@db/shop",
        "second": "postgres://two:b@DB:5432/shop?sslmode=require",
        "other": "redshift://one@db/shop",
    }
    connections = config.validate_settings(
        {"connections": {name: {"url": url, **limits} for name, url in urls.items()}, "audits": {}}
    ).connections
    if together:
        throttle.share_through(store)
    reasons: list[str] = []
    inside, waiting, done = threading.Event(), threading.Event(), threading.Event()

    def second() -> None:
        def report_waiting(sentence: str) -> None:
            reasons.append(sentence)
            waiting.set()

        with throttle.get_throttle("second", connections["second"]).statement(report_waiting, threading.Event()):
            inside.set()
        done.set()

    thread = threading.Thread(target=second)
    with throttle.get_throttle("first", connections["first"]).statement(reasons.append, threading.Event()):
        thread.start()
        assert waiting.wait(30) and not inside.is_set()
        with throttle.get_throttle("other", connections["other"]).statement(pytest.fail, threading.Event()):
            pass  # another database has slots of its own
    assert done.wait(30)
    thread.join()
    assert reasons == [f"waits for the one statement at once over all {'processes' if together else 'connections'}", ""]


def test_waiting_for_a_slot_can_be_cancelled() -> None:
    stopped = threading.Event()
    stopped.set()
    with throttle.hold_slot(lambda: "db", lambda: 1, Waiter(pytest.fail, threading.Event())):
        with pytest.raises(StatementCancelled), throttle.hold_slot(lambda: "db", lambda: 1, Waiter(pytest.fail, stopped)):
            pytest.fail("the statement was admitted although it was cancelled")
    with throttle.hold_slot(lambda: "db", lambda: 1, Waiter(pytest.fail, threading.Event())):
        pass  # the slot is free again


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
def test_lowest_limit_applies_to_all_connections_of_a_database(
    urls: tuple[str, ...], limits: tuple[int | None, ...], found: tuple[int | None, ...]
) -> None:
    connections = {f"c{n}": {"url": url, "limits": {"statements": limits[n]}} for n, url in enumerate(urls)}
    settings = config.validate_settings({"connections": connections, "audits": {}})
    assert tuple(one.limits.statements for one in settings.connections.values()) == found


def test_store_is_not_queried_without_a_limit_or_outside_a_service(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "take_slot", lambda *_: pytest.fail("the store was queried"))
    stopped = threading.Event()
    with throttle.hold_slot(lambda: "a", lambda: 1, Waiter(pytest.fail, stopped)):
        pass
    throttle.share_through(store)
    with throttle.hold_slot(lambda: "a", lambda: None, Waiter(pytest.fail, stopped)):
        pass


def test_waiting_for_a_slot_is_reported_and_ends_on_release_or_cancellation(store: Store) -> None:
    reasons: list[str] = []
    stopped, inside = threading.Event(), threading.Event()
    throttle.share_through(store)
    assert leases.take_slot(store, "a", 1, "another process", 30.0)

    def enter() -> None:
        with throttle.hold_slot(lambda: "a", lambda: 1, Waiter(reasons.append, stopped)):
            inside.set()

    thread = threading.Thread(target=enter)
    thread.start()
    while not reasons:
        time.sleep(0.01)
    assert not inside.is_set()
    leases.release_slot(store, "a", "another process")
    thread.join()
    assert inside.is_set() and reasons == ["waits for the one statement at once over all processes", ""]
    assert leases.take_slot(store, "a", 1, "another process", 30.0)
    stopped.set()
    with pytest.raises(StatementCancelled):
        enter()


@pytest.mark.parametrize(("error", "waits"), [(StoreUnavailable("gone"), True), (StoreReadOnly("read only"), False)])
def test_unavailable_store_is_retried_and_a_read_only_one_is_not(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception, waits: bool
) -> None:
    take = leases.take_slot
    reasons: list[str] = []
    attempts: list[int] = []

    def failing(*arguments: Any) -> bool:
        attempts.append(1)
        if len(attempts) < 3:
            raise error
        return take(*arguments)

    monkeypatch.setattr(leases, "take_slot", failing)
    throttle.share_through(store)
    with throttle.hold_slot(lambda: "a", lambda: 1, Waiter(reasons.append, threading.Event())):
        pass
    assert len(attempts) == (3 if waits else 1) and bool(reasons) is waits


def test_slot_is_held_as_long_as_the_statement_runs(store: Store, set_durations: SetDurations) -> None:
    set_durations(slot_lease=0.6)
    throttle.share_through(store)
    with throttle.hold_slot(lambda: "a", lambda: 1, Waiter(pytest.fail, threading.Event())):
        time.sleep(1.5)
        assert not leases.take_slot(store, "a", 1, "another process", 30.0)
    leases.release_slot(store, "a", "another process")
    assert leases.take_slot(store, "a", 1, "another process", 30.0)
