"""Two processes that share one store: requested runs are executed once and in order, however the processes end."""

from __future__ import annotations

import datetime as dt
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from auditor.config import Settings
from auditor.model import State, Verdict
from auditor.service.workers import request_run
from auditor.store import Store, audit_state, queue, runs
from auditor.store.queue import tick_claims
from tests.live import engine_params
from tests.store.service import AUDITS, CHUNKED, Serve, finished_chunks, wait_until

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def _slow(*names: str) -> list[ParameterSet]:
    return [pytest.param(*one.values, id=one.id, marks=[*one.marks, pytest.mark.slow]) for one in engine_params(*names)]


pytestmark = pytest.mark.clock

on_all_stores = pytest.mark.parametrize(
    "make_url", [pytest.param("sqlite"), *_slow("postgres", "mysql", "mariadb")], indirect=True, scope="module"
)
"""What these tests ask of a store is proved quickly for every database in `test_queue` and `test_processes`; so only SQLite is not slow."""


@pytest.mark.quick_for("sqlite")
@pytest.mark.parametrize(
    "make_url", [pytest.param("sqlite"), *engine_params("postgres"), *_slow("mysql", "mariadb")], indirect=True, scope="module"
)
def test_two_processes_share_many_runs_in_order(
    configured: tuple[Path, Settings, Store], serve: Serve, request: pytest.FixtureRequest
) -> None:
    _, settings, store = configured
    many = 200 if request.config.getoption("--slow") else 30
    made = [request_run(settings, store, f"a{number}") for number in range(AUDITS)]
    assert {one.how for one in made} == {"new"} and queue.count_waiting(store) == AUDITS
    both = [serve(workers=2) for _ in range(2)]
    requested, owners = [one.run for one in made], set[int]()
    while len(requested) < many:
        for number in range(AUDITS):
            one = request_run(settings, store, f"a{number}") if len(requested) < many else None
            if one and one.how == "new":
                requested.append(one.run)
        for _ in range(20):
            _note_owners(store, owners)
            time.sleep(0.01)
    wait_until(lambda: not _note_owners(store, owners), "some runs have not finished")
    for process in both:
        process.end()
    found = runs.list_runs(store, limit=1000)[::-1]
    assert [one.run for one in found] == requested
    assert {(one.state, one.verdict, one.missing) for one in found} == {(State.DONE, Verdict.MISMATCH, 1)}
    assert sum(one.run_count for one in audit_state.get_states(store).values()) == many  # each ended once
    _assert_audits_never_overlap(found)
    # Oldest first: a run overtakes only those that start at the same moment.
    order = sorted(range(len(found)), key=lambda number: found[number].started)
    assert max(abs(index - number) for index, number in enumerate(order)) <= 4
    assert len(owners) == 2


def _assert_audits_never_overlap(found: list[runs.StoredRun]) -> None:
    for audit in {one.audit for one in found}:
        mine = [one for one in found if one.audit == audit]
        assert all(one.ended and one.ended <= later.started for one, later in pairwise(mine))


def _note_owners(store: Store, owners: set[int]) -> bool:
    """Note the processes that run something, and return whether a run has not ended."""
    active = runs.get_active_runs(store).values()
    owners.update(one.owner.pid for one in active if one.owner)
    return bool(active)


@pytest.mark.slow
@on_all_stores
def test_run_of_a_killed_process_is_resumed_once(configured: tuple[Path, Settings, Store], serve: Serve) -> None:
    _, settings, store = configured
    made = [request_run(settings, store, name).run for name in ("big", "a0", "a1", "a2")]
    first = serve(workers=1, settings=CHUNKED)
    wait_until(lambda: len(finished_chunks(store, made[0])) >= 3, "too few chunks were read")
    first.kill()
    saved = finished_chunks(store, made[0])
    assert saved and runs.get_run(store, made[0]).state is State.RUNNING and queue.count_waiting(store) == 3
    second = serve(workers=1, settings=CHUNKED)
    wait_until(lambda: not runs.get_active_runs(store), "some runs have not finished")
    second.end()
    found = [runs.get_run(store, run) for run in made]
    assert [one.state for one in found] == [State.DONE] * 4 and len(runs.list_runs(store, limit=1000)) == 4
    from auditor.history import records

    report = records.load_report(store, made[0])
    assert report and any("the run was resumed" in note for note in report.notes) and report.comparison
    assert report.comparison.rows == {"source": 20000, "target": 19999}


@pytest.mark.slow
@on_all_stores
def test_stopped_process_leaves_a_resumable_run_within_grace(configured: tuple[Path, Settings, Store], serve: Serve) -> None:
    _, settings, store = configured
    run = request_run(settings, store, "big").run
    first = serve(workers=1, grace=2.0, settings=CHUNKED)
    wait_until(lambda: len(finished_chunks(store, run)) >= 2, "too few chunks were read")
    assert first.end() < 2.0 + 3
    found = runs.get_run(store, run)
    assert found.state in (State.PENDING, State.DONE)
    if found.state is State.PENDING:
        assert found.resumable and finished_chunks(store, run)
    second = serve(workers=1, settings=CHUNKED)
    wait_until(lambda: runs.get_run(store, run).state is State.DONE, "the resumed run has not finished")
    second.end()


@pytest.mark.slow
@on_all_stores
def test_two_schedulers_run_each_tick_once(configured: tuple[Path, Settings, Store], serve: Serve, request: pytest.FixtureRequest) -> None:
    """Simulates eleven days, two of them with clock changes, in seconds. They are in the future, so that no claim is pruned."""
    _, _, store = configured
    fast = {"durations.ticker_poll": 0.02}
    begin, end = dt.datetime(2040, 10, 26, tzinfo=dt.UTC), dt.datetime(2040, 11, 6, tzinfo=dt.UTC)
    clock = {
        "begin": begin.isoformat(),
        "speed": (end - begin).total_seconds() / (15 if request.config.getoption("--slow") else 6),
        "end": end.isoformat(),
    }
    both = [serve(workers=1, settings=fast, clock=clock) for _ in range(2)]

    def last_ticks() -> list[Any]:
        with store.reading() as connection:
            return list(connection.execute(tick_claims.select().where(tick_claims.c.claimed_by.not_like("%first seen"))).all())

    wait_until(
        lambda: max((row.tick for row in last_ticks()), default=begin) > end - dt.timedelta(hours=24) and not runs.get_active_runs(store),
        "the last day has no run yet, or some runs have not finished",
    )
    for process in both:
        process.end()
    berlin = [row.tick for row in last_ticks() if row.audit == "berlin"]
    york = [row.tick for row in last_ticks() if row.audit == "york"]
    for found, switched in ((berlin, dt.datetime(2040, 10, 28, 0, 30)), (york, dt.datetime(2040, 11, 4, 5, 30))):
        assert len({tick.date() for tick in found}) == len(found) >= 8 and switched.replace(tzinfo=dt.UTC) in found
    reasons = [(one.audit, one.reason) for one in runs.list_runs(store, limit=1000)]
    assert len(reasons) == len(set(reasons))
