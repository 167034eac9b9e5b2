"""Several processes on one store, and processes that die, on every database."""

from __future__ import annotations

import datetime as dt
import os
import random
import socket
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditor.errors import UnknownRun
from auditor.model import State, Verdict
from auditor.store import Store, _life, chunks, runs, standing
from auditor.store._process import Owner, gone
from auditor.store._schema import runs as table
from tests.store.samples import DONE, begun, chunk, new_audit
from tests.store.worker import Worker, payload


def test_of_processes_that_begin_an_audit_at_once_one_wins(store: Store, url: str) -> None:
    audits = [new_audit() for _ in range(2)]
    for audit in audits:
        workers = [Worker("begin", url, audit, f"{audit}-run-{number}") for number in range(2)]
        assert [worker.said() for worker in workers] == ["ready", "ready"]
        for worker in workers:
            worker.go()
        said = sorted(worker.said() for worker in workers)
        assert said[1] == "won" and said[0].startswith("lost") and f"run {audit}-run-" in said[0]
        [run] = runs.listed(store, audit=audit)
        assert run.owner is not None and run.owner.pid in {worker.process.pid for worker in workers}
        assert runs.recover(store) == []
        for worker in workers:
            worker.end()
        assert runs.recover(store) == [run.run]


def test_a_tick_is_claimed_by_one_of_many(store: Store, url: str) -> None:
    audit = new_audit()
    workers = [Worker("claim", url, audit, "6", "8") for _ in range(2)]
    assert [worker.said() for worker in workers] == ["ready", "ready"]
    for worker in workers:
        worker.go()
    won = [int(tick) for worker in workers for tick in worker.said().split()]
    assert sorted(won) == list(range(6))
    for worker in workers:
        worker.end()


def test_what_a_killed_process_leaves_is_whole(store: Store, url: str) -> None:
    chance, audit, states = random.Random(7), new_audit(), set()
    for _ in range(5):
        worker = Worker("live", url, audit)
        assert worker.said() == "ready"
        worker.go()
        worker.said()
        time.sleep(chance.uniform(0, 0.4))
        worker.kill()
        given_up = runs.recover(store)
        assert len(given_up) <= 1
        for run in runs.listed(store, audit=audit, limit=1_000):
            states.add(run.state)
            _is_whole(store, run)
        for run_id in given_up:
            found = runs.find(store, run_id)
            assert found.state == State.FAILED and "its process is gone" in found.reasons[0] and str(worker.process.pid) in found.reasons[0]
            if found.resumable:
                assert runs.take_up(store, run_id).plan == b"plan"
                runs.finish(store, run_id, DONE)
    ended = len(runs.listed(store, audit=audit, limit=1_000))
    assert states <= {State.FAILED, State.DONE} and standing.get(store, audit).runs == ended


def _is_whole(store: Store, run: runs.StoredRun) -> None:
    kept, differences = chunks.done(store, run.run), runs.differences(store, run.run)
    assert all(one.payload == payload(one.first or 0) for one in kept)
    if run.state == State.DONE:
        assert (
            len(differences) in (300, len(DONE.differences)) and not kept and runs.report(store, run.run) and runs.picture(store, run.run)
        )
    else:
        assert not differences and run.verdict == Verdict.UNKNOWN and runs.report(store, run.run) is None


def test_a_run_that_was_taken_away_is_no_longer_written(store: Store) -> None:
    audit = new_audit()
    run = begun(store, audit)
    _make(store, run, pid=1)  # the machine's first process lives, and started at another time
    for step in (
        lambda: runs.beat(store, run, {}),
        lambda: runs.finish(store, run, DONE),
        lambda: runs.pin(store, run, plan=b"", schema={}),
        lambda: chunks.save(store, run, chunk(5, 10)),
    ):
        with pytest.raises(UnknownRun, match=r"taken away.*process 1 on"):
            step()
    assert run in runs.recover(store)
    with pytest.raises(UnknownRun, match=r"taken away.*it is failed"):
        runs.beat(store, run, {})
    begun(store, audit)


def test_another_machines_process_is_judged_by_its_heartbeat(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run = begun(store, new_audit())
    runs.pin(store, run, plan=b"plan", schema={})
    chunks.save(store, run, chunk())
    _make(store, run, host="elsewhere")
    assert run not in runs.recover(store)
    monkeypatch.setattr(_life, "STALE", -1.0)
    assert run in runs.recover(store)
    found = runs.find(store, run)
    assert found.resumable and found.reasons[0].endswith(f"auditor resume {run}")
    assert runs.take_up(store, run).plan == b"plan" and chunks.done(store, run) == [chunk()]


def test_a_clock_that_was_set_back_kills_nothing_and_keeps_nothing_for_ever(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heartbeat in the future ages from when it is first seen; one that is written again is alive."""
    here, elsewhere = begun(store, new_audit()), begun(store, new_audit())
    ahead = dt.datetime.now(dt.UTC) + dt.timedelta(days=3)
    _make(store, here, heartbeat=ahead)
    _make(store, elsewhere, heartbeat=ahead, host="elsewhere")
    assert not {here, elsewhere} & set(runs.recover(store))
    with store.reading() as connection:
        beats = {row.run: row.heartbeat for row in connection.execute(sa.select(table.c.run, table.c.heartbeat))}
    assert beats[here] == ahead and beats[elsewhere] < ahead
    assert runs.beat(store, here, {}) is False
    monkeypatch.setattr(_life, "STALE", 0.2)
    time.sleep(0.3)
    given_up = runs.recover(store)
    assert elsewhere in given_up and here not in given_up


def test_order_is_not_the_clocks(store: Store) -> None:
    audit = new_audit()
    first = begun(store, audit)
    runs.finish(store, first, DONE)
    _make(store, first, started=dt.datetime.now(dt.UTC) + dt.timedelta(days=3))
    second = begun(store, audit)
    runs.finish(store, second, DONE)
    latest = runs.latest(store, audit)
    assert latest is not None and latest.run == second
    assert [run.run for run in runs.listed(store, audit=audit)] == [second, first]


def test_processes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    me = runs.this_process()
    assert gone(me) is False and me.started and str(me) == f"process {os.getpid()} on {socket.gethostname()}"
    assert gone(Owner(me.host, me.pid, f"{me.started}0")) is True  # its number went to another
    assert gone(Owner(me.host, 2**22 + 1, me.started)) is True
    assert gone(Owner("elsewhere", me.pid, me.started)) is None
    assert gone(Owner(me.host, me.pid, f"another-boot{me.started}")) is None  # or another container of the same name
    assert gone(Owner(me.host, me.pid, "")) is None
    assert gone(Owner(me.host, 2**22 + 1, "")) is True
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: (_ for _ in ()).throw(FileNotFoundError))
    assert runs.this_process().started == ""


def _make(store: Store, run: str, **values: object) -> None:
    store.write(lambda connection: connection.execute(sa.update(table).where(table.c.run == run).values(**values)) and None)
