"""Several processes on one store, and processes that are killed, on every database."""

from __future__ import annotations

import datetime as dt
import os
import random
import socket
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditor.errors import NotResumable, RunLost
from auditor.model import State, Verdict
from auditor.store import Store, audit_state, leases, run_lifecycle, runs
from auditor.store.leases import Owner, has_ended
from auditor.store.leases import leases as leases_table
from auditor.store.schema import runs as table
from tests.durations import SetDurations
from tests.store.samples import DONE, FAILED, make_chunk, new_audit_name, start_run
from tests.store.worker import Worker, payload

pytestmark = pytest.mark.clock


def test_concurrent_starts_of_an_audit_have_one_winner(store: Store, url: str, request: pytest.FixtureRequest) -> None:
    for audit in (new_audit_name(), new_audit_name())[: 2 if request.config.getoption("--slow") else 1]:
        workers = [Worker("begin", url, audit, f"{audit}-run-{number}") for number in range(2)]
        assert [worker.read_line() for worker in workers] == ["ready", "ready"]
        for worker in workers:
            worker.go()
        answers = sorted(worker.read_line() for worker in workers)
        assert answers[1] == "won" and answers[0].startswith("lost") and f"run {audit}-run-" in answers[0]
        [run] = runs.list_runs(store, audit=audit)
        assert run.owner is not None and run.owner.pid in {worker.process.pid for worker in workers}
        assert run_lifecycle.recover_runs(store).failed == []
        for worker in workers:
            worker.end()
        assert run_lifecycle.recover_runs(store).failed == [run.run]


def test_concurrent_claims_of_a_tick_have_one_winner(store: Store, url: str) -> None:
    audit = new_audit_name()
    workers = [Worker("claim", url, audit, "6", "8") for _ in range(2)]
    assert [worker.read_line() for worker in workers] == ["ready", "ready"]
    for worker in workers:
        worker.go()
    won = [int(tick) for worker in workers for tick in worker.read_line().split()]
    assert sorted(won) == list(range(6))
    for worker in workers:
        worker.end()


def test_killed_process_leaves_consistent_runs(store: Store, url: str, request: pytest.FixtureRequest) -> None:
    chance, audit, states = random.Random(7), new_audit_name(), set()
    for _ in range(5 if request.config.getoption("--slow") else 2):
        worker = Worker("live", url, audit)
        assert worker.read_line() == "ready"
        worker.go()
        worker.read_line()
        time.sleep(chance.uniform(0, 0.4))
        worker.kill()
        given_up = run_lifecycle.recover_runs(store).failed
        assert len(given_up) <= 1
        for run in runs.list_runs(store, audit=audit, limit=1_000):
            states.add(run.state)
            _assert_consistent(store, run)
        for run_id in given_up:
            found = runs.get_run(store, run_id)
            assert (
                found.state == State.FAILED and "its process has died" in found.reasons[0] and str(worker.process.pid) in found.reasons[0]
            )
            if found.resumable:
                assert run_lifecycle.resume_run(store, run_id).plan == b"plan"
                run_lifecycle.finish_run(store, run_id, DONE)
    ended = len(runs.list_runs(store, audit=audit, limit=1_000))
    assert states <= {State.FAILED, State.DONE} and audit_state.get_state(store, audit).run_count == ended


def _assert_consistent(store: Store, run: runs.StoredRun) -> None:
    stored, differences = run_lifecycle.list_chunks(store, run.run), runs.list_differences(store, run.run)
    assert all(one.payload == payload(one.first or 0) for one in stored)
    if run.state == State.DONE:
        assert (
            len(differences) in (300, len(DONE.differences))
            and not stored
            and runs.get_report(store, run.run)
            and runs.get_partition_map(store, run.run)
        )
    else:
        assert not differences and run.verdict == Verdict.UNKNOWN and runs.get_report(store, run.run) is None


def test_former_owner_cannot_write_a_run(store: Store) -> None:
    audit = new_audit_name()
    run = start_run(store, audit)
    _set_lease(store, run, pid=1)  # process 1 is alive, but started at another time
    for step in (
        lambda: run_lifecycle.record_heartbeat(store, run, {}),
        lambda: run_lifecycle.finish_run(store, run, DONE),
        lambda: run_lifecycle.save_plan(store, run, plan=b"", schema={}),
        lambda: run_lifecycle.save_chunk(store, run, make_chunk(5, 10)),
    ):
        with pytest.raises(RunLost, match=r"no longer belongs.*process 1 on"):
            step()
    assert run in run_lifecycle.recover_runs(store).failed
    with pytest.raises(RunLost, match=r"no longer belongs.*it is failed"):
        run_lifecycle.record_heartbeat(store, run, {})
    start_run(store, audit)


def test_process_on_another_host_is_judged_by_its_heartbeat(store: Store) -> None:
    run = start_run(store, new_audit_name())
    run_lifecycle.save_plan(store, run, plan=b"plan", schema={})
    run_lifecycle.save_chunk(store, run, make_chunk())
    _set_lease(store, run, host="elsewhere")
    assert run not in run_lifecycle.recover_runs(store).failed
    _set_lease(store, run, until=dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1))
    assert run in run_lifecycle.recover_runs(store).failed
    found = runs.get_run(store, run)
    assert found.resumable and found.reasons[0].endswith(f"auditor resume {run}")
    assert run_lifecycle.resume_run(store, run).plan == b"plan" and run_lifecycle.list_chunks(store, run) == [make_chunk()]


def test_crashed_run_without_chunks_is_not_offered_for_resuming(store: Store) -> None:
    """It has a plan, and read nothing: a resume would begin anew, with a watermark that has passed."""
    audit = new_audit_name()
    run = start_run(store, audit)
    run_lifecycle.save_plan(store, run, plan=b"plan", schema={})
    _set_lease(store, run, pid=1)
    assert run in run_lifecycle.recover_runs(store).failed
    found = runs.get_run(store, run)
    assert not found.resumable and found.reasons[0].endswith(f"start a new run: auditor run {audit}")
    with pytest.raises(NotResumable, match="nothing to go on from"):
        run_lifecycle.resume_run(store, run)
    unread = start_run(store, audit)
    run_lifecycle.save_plan(store, unread, plan=b"plan", schema={})
    run_lifecycle.finish_run(store, unread, FAILED)
    assert not runs.get_run(store, unread).resumable and runs.get_plan(store, unread) is None


def test_heartbeat_in_the_future_ages_from_now(store: Store, set_durations: SetDurations) -> None:
    """A heartbeat in the future ages from when it is first seen; a process that writes further ones is alive."""
    here, elsewhere = start_run(store, new_audit_name()), start_run(store, new_audit_name())
    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(days=3)
    _set_lease(store, here, heartbeat=ahead, until=ahead)
    _set_lease(store, elsewhere, heartbeat=ahead, until=ahead, host="elsewhere")
    set_durations(run_lease=0.2)
    assert not {here, elsewhere} & set(run_lifecycle.recover_runs(store).failed)
    with store.reading() as connection:
        beats = {row.name: row.heartbeat for row in connection.execute(sa.select(leases_table))}
    assert beats[here] == ahead and beats[elsewhere] < ahead
    assert run_lifecycle.record_heartbeat(store, here, {}) is False
    time.sleep(0.3)
    given_up = run_lifecycle.recover_runs(store).failed
    assert elsewhere in given_up and here not in given_up


def test_order_of_runs_does_not_depend_on_the_clock(store: Store) -> None:
    audit = new_audit_name()
    first = start_run(store, audit)
    run_lifecycle.finish_run(store, first, DONE)
    _set_columns(store, first, started=dt.datetime.now(dt.UTC) + dt.timedelta(days=3))
    second = start_run(store, audit)
    run_lifecycle.finish_run(store, second, DONE)
    latest = runs.get_latest_run(store, audit)
    assert latest is not None and latest.run == second
    assert [run.run for run in runs.list_runs(store, audit=audit)] == [second, first]


def test_ended_processes_are_distinguished_from_later_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    me = leases.this_process()
    assert has_ended(me) is False and me.started and str(me) == f"process {os.getpid()} on {socket.gethostname()}"
    assert has_ended(Owner(me.host, me.pid, f"{me.started}0")) is True  # another process got its id
    assert has_ended(Owner(me.host, 2**22 + 1, me.started)) is True
    assert has_ended(Owner("elsewhere", me.pid, me.started)) is None
    assert (
        has_ended(Owner(me.host, me.pid, f"another-boot{me.started}")) is None
    )  # another boot, or another container with the same host name
    assert has_ended(Owner(me.host, me.pid, "")) is None
    assert has_ended(Owner(me.host, 2**22 + 1, "")) is True
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError))
    assert leases.this_process().started == ""


def _set_lease(store: Store, run: str, **values: object) -> None:
    store.write(lambda connection: connection.execute(sa.update(leases_table).where(leases_table.c.name == run).values(**values)) and None)


def _set_columns(store: Store, run: str, **values: object) -> None:
    store.write(lambda connection: connection.execute(sa.update(table).where(table.c.run == run).values(**values)) and None)
