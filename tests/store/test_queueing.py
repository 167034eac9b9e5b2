"""Two processes that share one store: what was requested is carried out once, in order, whatever ends the processes."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

from auditor import config
from auditor.config import Settings
from auditor.errors import ConfigError, NotResumable, QueueFull, UnknownAudit
from auditor.model import Report, State, Verdict
from auditor.service import audits, queueing, running
from auditor.service.queueing import Workers, request_resume, request_run
from auditor.store import Store, chunks, events, open_store, queue, runs, standing
from auditor.store._schema import claims
from tests.engines import engine_params
from tests.serving import Serving
from tests.store.conftest import Make

RUNS, AUDITS = 200, 40
CHUNKED = {
    "auditor.plan.CHUNK_ROWS": 50,
    "auditor.plan.COLUMN_CHUNK_ROWS": 50,
    "auditor.chunks.AIM": 1e-4,
    "auditor.service.queueing.LOST": 0.5,
}
"""A big table is read in several hundred chunks."""


STORES = [pytest.param("sqlite"), *engine_params("postgres")]
STORES += [pytest.param(*one.values, id=one.id, marks=[*one.marks, pytest.mark.slow]) for one in engine_params("mysql", "mariadb")]
pytestmark = pytest.mark.parametrize("make_url", STORES, indirect=True, scope="module")
"""Here a store is not tested but what is done with it, which takes long: two kinds of it serve a normal run."""


@pytest.fixture
def place(make_url: Make, tmp_path: Path) -> Iterator[tuple[Path, Settings, Store]]:
    """A configuration with many audits of two small files, and its store."""
    with duckdb.connect(str(tmp_path / "a.duckdb")) as source, duckdb.connect(str(tmp_path / "b.duckdb")) as target:
        for connection in (source, target):
            connection.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(100) r(i)")
            connection.execute("CREATE TABLE big AS SELECT i AS id, 'v' || i AS v FROM range(20000) r(i)")
        target.execute("DELETE FROM t WHERE id = 7")
        target.execute("DELETE FROM big WHERE id = 7")

    def audit(table: str, **more: Any) -> dict[str, Any]:
        return {"source": {"connection": "a", "table": table}, "target": {"connection": "b", "table": table}, "key": ["id"], **more}

    value = {
        "connections": {side: {"url": f"duckdb:///{tmp_path}/{side}.duckdb"} for side in "ab"},
        "store": {"url": make_url()},
        "service": {"queue": 1000},
        "audits": {
            **{f"a{number}": audit("t") for number in range(AUDITS)},
            "big": audit("big", snapshot="per_chunk", method="signature", partition={"rows": 50}),
            "berlin": audit("t", schedule={"cron": "30 2 * * *", "timezone": "Europe/Berlin"}),
            "york": audit("t", schedule={"cron": "30 1 * * *", "timezone": "America/New_York"}),
        },
    }
    path = tmp_path / "auditor.yaml"
    path.write_text(json.dumps(value))
    configured = config.load(path)
    assert configured.store
    store = open_store(configured.store.url)
    yield path, configured, store
    store.close()


Serve = Callable[..., Serving]


@pytest.fixture
def serve(place: tuple[Path, Settings, Store]) -> Iterator[Serve]:
    """Starts processes that carry out what waits; none outlives its test."""
    started: list[Serving] = []

    def start(**options: Any) -> Serving:
        started.append(Serving(place[0], **options))
        return started[-1]

    yield start
    for process in started:
        process.kill()


def until(true: Callable[[], Any], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_two_processes_share_many_runs(place: tuple[Path, Settings, Store], serve: Serve) -> None:
    _, settings, store = place
    many = RUNS // 3 if store.engine.dialect.name == "sqlite" else RUNS  # one writer at a time takes three times as long
    made = [request_run(settings, store, f"a{number}") for number in range(AUDITS)]
    assert {one.how for one in made} == {"new"} and queue.waiting(store) == AUDITS
    both = [serve(workers=2) for _ in range(2)]
    requested = [one.run for one in made]
    while len(requested) < many:
        for number in range(AUDITS):
            one = request_run(settings, store, f"a{number}") if len(requested) < many else None
            if one and one.how == "new":
                requested.append(one.run)
        time.sleep(0.2)
    until(lambda: not runs.living(store), "they all ended")
    for process in both:
        process.end()
    found = runs.listed(store, limit=1000)[::-1]
    assert [one.run for one in found] == requested
    assert {(one.state, one.verdict, one.missing) for one in found} == {(State.DONE, Verdict.MISMATCH, 1)}
    assert sum(one.runs for one in standing.every(store).values()) == many  # each ended once, whoever carried it out
    _never_two_at_once(found)
    # The oldest first: nobody overtakes more than those that are begun at the same moment.
    order = sorted(range(len(found)), key=lambda number: found[number].started)
    assert max(abs(place - number) for place, number in enumerate(order)) <= 4
    assert len(set(_hosts(store, found))) == 2


def _never_two_at_once(found: list[runs.StoredRun]) -> None:
    for audit in {one.audit for one in found}:
        mine = [one for one in found if one.audit == audit]
        assert all(one.ended and one.ended <= later.started for one, later in pairwise(mine))


def _hosts(store: Store, found: list[runs.StoredRun]) -> list[int]:
    from auditor.store._schema import runs as table

    with store.reading() as connection:
        return [row.pid for row in connection.execute(table.select())]


def test_what_a_killed_process_had_is_taken_up_and_nothing_is_done_twice(place: tuple[Path, Settings, Store], serve: Serve) -> None:
    _, settings, store = place
    made = [request_run(settings, store, name).run for name in ("big", "a0", "a1", "a2")]
    first = serve(workers=1, settings=CHUNKED)
    until(lambda: len(_done(store, made[0])) >= 3, "chunks were read")
    first.kill()
    kept = _done(store, made[0])
    assert kept and runs.find(store, made[0]).state is State.RUNNING and queue.waiting(store) == 3
    second = serve(workers=1, settings=CHUNKED)
    until(lambda: not runs.living(store), "they all ended")
    second.end()
    found = [runs.find(store, run) for run in made]
    assert [one.state for one in found] == [State.DONE] * 4 and len(runs.listed(store, limit=1000)) == 4
    from auditor import keep

    report = keep.report(store, made[0])
    assert report and any("the run was resumed" in note for note in report.notes) and report.comparison
    assert report.comparison.rows == {"source": 20000, "target": 19999}


def _done(store: Store, run: str) -> list[tuple[str, int | None]]:
    return [(one.side, one.first) for one in chunks.done(store, run)]


def test_who_is_asked_to_end_leaves_what_it_has_in_time(place: tuple[Path, Settings, Store], serve: Serve) -> None:
    _, settings, store = place
    run = request_run(settings, store, "big").run
    first = serve(workers=1, grace=2.0, settings=CHUNKED)
    until(lambda: len(_done(store, run)) >= 2, "chunks were read")
    assert first.end() < 2.0 + 3
    found = runs.find(store, run)
    assert found.state in (State.PENDING, State.DONE)
    if found.state is State.PENDING:
        assert found.resumable and _done(store, run)
    second = serve(workers=1, settings=CHUNKED)
    until(lambda: runs.find(store, run).state is State.DONE, "it ended")
    second.end()


def test_two_fast_clocks_run_each_tick_once(place: tuple[Path, Settings, Store], serve: Serve) -> None:
    """Eleven days, on two of which clocks are set back, in fifteen seconds; they lie ahead, so that no claim is pruned."""
    _, _, store = place
    fast = {"auditor.schedule.PERIOD": 0.02}
    begin, end = dt.datetime(2040, 10, 26, tzinfo=dt.UTC), dt.datetime(2040, 11, 6, tzinfo=dt.UTC)
    clock = {"begin": begin.isoformat(), "speed": (end - begin).total_seconds() / 15, "end": end.isoformat()}
    both = [serve(workers=1, settings=fast, clock=clock) for _ in range(2)]

    def last_ticks() -> list[Any]:
        with store.reading() as connection:
            return list(connection.execute(claims.select().where(claims.c.claimed_by.not_like("%first seen"))).all())

    until(lambda: max((row.tick for row in last_ticks()), default=begin) > end - dt.timedelta(hours=24) and not runs.living(store), "ticks")
    for process in both:
        process.end()
    berlin = [row.tick for row in last_ticks() if row.audit == "berlin"]
    york = [row.tick for row in last_ticks() if row.audit == "york"]
    for found, switched in ((berlin, dt.datetime(2040, 10, 28, 0, 30)), (york, dt.datetime(2040, 11, 4, 5, 30))):
        assert len({tick.date() for tick in found}) == len(found) >= 8 and switched.replace(tzinfo=dt.UTC) in found
    reasons = [(one.audit, one.reason) for one in runs.listed(store, limit=1000)]
    assert len(reasons) == len(set(reasons))


def test_requests_are_checked_first(place: tuple[Path, Settings, Store]) -> None:
    _, settings, store = place
    with pytest.raises(UnknownAudit):
        request_run(settings, store, "b0")
    with pytest.raises(ConfigError, match="cannot override"):
        request_run(settings, store, "a0", overrides={"where": "1=1"})
    assert runs.listed(store) == []
    one = request_run(settings, store, "a0", overrides={"method": "signature"}, reason="why", requested_by="me", idempotency="x")
    assert request_run(settings, store, "a0", overrides={"method": "signature"}, idempotency="x").how == "same"
    assert request_run(settings, store, "a0").how == "pending"
    [event] = events.listed(store)
    assert (event.who, event.what, event.subject, event.detail["overrides"]) == ("me", "run requested", one.run, {"method": "signature"})
    full = settings.model_copy(update={"service": settings.service.model_copy(update={"queue": 1})})
    with pytest.raises(QueueFull):
        request_run(full, store, "a1")


def test_workers_end_a_run_that_is_here(place: tuple[Path, Settings, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    _, settings, store = place
    for name, value in CHUNKED.items():
        monkeypatch.setattr(name, value)
    run = request_run(settings, store, "big").run
    workers = Workers(settings, store, 1)
    workers.start()
    until(lambda: _done(store, run), "it reads")
    assert workers.running() == [run] and workers.stop_run(run) and not workers.stop_run("another")
    until(lambda: runs.find(store, run).ended, "it ended")
    found = runs.find(store, run)
    assert found.state is State.CANCELLED and found.resumable
    assert request_resume(settings, store, run, requested_by="me").state is State.PENDING
    monkeypatch.undo()
    until(lambda: runs.find(store, run).state is State.DONE, "it went on")
    with pytest.raises(NotResumable):
        request_resume(settings, store, run)
    workers.stop(5.0)
    assert workers.running() == []


def test_a_run_whose_audit_is_gone_fails_and_the_next_is_carried_out(place: tuple[Path, Settings, Store]) -> None:
    _, settings, store = place
    gone, broken, fine = (request_run(settings, store, name).run for name in ("a0", "a1", "a2"))
    left = settings.model_copy(update={"audits": {name: one for name, one in settings.audits.items() if name != "a0"}})
    reports = list(queueing.work_off(left, store))
    assert [(report.run, report.exit_code) for report in reports] == [(gone, 2), (broken, 1), (fine, 1)] and queue.waiting(store) == 0
    failed = runs.find(store, gone)
    assert failed.state is State.FAILED and failed.exit_code == 2 and "there is no audit" in failed.reasons[0]
    assert (reports[0].state, reports[0].verdict, reports[0].reasons) == (State.FAILED, Verdict.UNKNOWN, failed.reasons)


def test_the_channels_are_told_of_a_run_whose_audit_is_gone(place: tuple[Path, Settings, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    _, settings, store = place
    told: list[Report] = []
    monkeypatch.setattr("auditor.notify.tell", lambda _, __, report: told.append(report))
    request_run(settings, store, "a0")
    assert list(queueing.work_off(settings.model_copy(update={"audits": {}}), store)) == told != []


def test_a_fault_of_the_auditor_itself_ends_one_run_only(place: tuple[Path, Settings, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    _, settings, store = place
    first, second = (request_run(settings, store, name).run for name in ("a0", "a1"))
    carry_on = running.carry_on

    def faulty(settings: Settings, store: Store, claimed: Any, *more: Any) -> Any:
        if claimed.run == first:
            raise ZeroDivisionError
        return carry_on(settings, store, claimed, *more)

    monkeypatch.setattr(running, "carry_on", faulty)
    assert [(report.run, report.exit_code) for report in queueing.work_off(settings, store)] == [(first, 3), (second, 1)]
    assert "ZeroDivisionError" in runs.find(store, first).reasons[0]


def test_settings_that_changed_since_a_run_was_requested_are_those_of_now(place: tuple[Path, Settings, Store]) -> None:
    _, settings, store = place
    run = request_run(settings, store, "a0").run
    now = settings.audits["a0"].model_copy(update={"method": "signature"})
    [report] = queueing.work_off(settings.model_copy(update={"audits": {**settings.audits, "a0": now}}), store)
    assert report.method == "signature" and runs.find(store, run).definition["method"] == "signature"


def test_how_audits_stand(place: tuple[Path, Settings, Store]) -> None:
    _, settings, store = place
    request_run(settings, store, "a0")
    list(queueing.work_off(settings, store))
    waits = request_run(settings, store, "a0").run
    found = {one.name: one for one in audits.overview(settings, store)}
    a0 = found["a0"]
    assert a0.latest and a0.latest.state is State.DONE and a0.running and a0.running.run == waits and len(a0.trend) == 1
    assert found["a1"].latest is None and found["a1"].trend == () and found["berlin"].next_due and not found["a1"].next_due
    audits.pause(settings, store, "berlin", by="me")
    [berlin] = [one for one in audits.overview(settings, store) if one.name == "berlin"]
    assert berlin.paused and berlin.next_due is None
    assert [one.what for one in events.listed(store, limit=1)] == ["audit paused"]


def test_an_audit_is_defined_by_names_alone(place: tuple[Path, Settings, Store]) -> None:
    _, settings, store = place
    fine: dict[str, Any] = {"source": {"connection": "a", "table": "t"}, "target": {"connection": "b", "table": "t"}, "key": ["id"]}
    wrong: list[dict[str, Any]] = [
        {"where": "1 = 1"},
        {"columns": {"override": {"v": {"expr": "1", "kind": "integer"}}}},
        {"source": {"connection": "a", "table": "/etc/passwd.csv"}},
        {"source": {"connection": "a", "table": "x", "format": "csv"}},
        {"source": {"connection": "nowhere", "table": "t"}},
        {"settle": {"grace": "1m", "column": "v"}},
        {"via": {"connection": "a", "table": "t"}},
    ]
    for more in wrong:
        with pytest.raises(ConfigError):
            audits.define(settings, store, "mine", {**fine, **more}, "me")
    for name in ("a0", "a.b", "", "../x"):
        with pytest.raises(ConfigError):
            audits.define(settings, store, name, fine, "me")
    assert audits.every(settings, store) is settings
    audits.define(settings, store, "mine", fine, "me")
    assert "mine" in audits.every(settings, store).audits
    request_run(settings, store, "mine")
    [report] = queueing.work_off(settings, store)
    assert report.audit == "mine" and report.verdict is Verdict.MISMATCH
    audits.drop(store, "mine", "me")
    with pytest.raises(UnknownAudit):
        request_run(settings, store, "mine")
