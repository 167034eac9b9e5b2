"""Runs that wait, on every database: their order, who takes them, and what becomes of them when a process is gone."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from auditor.errors import ConfigError, NotResumable, QueueFull, UnknownRun
from auditor.model import State
from auditor.store import Store, chunks, queue, retention, runs, standing
from auditor.store._schema import runs as table
from tests.store.samples import DONE, FAILED, T0, begun, chunk, new_audit


@pytest.fixture
def own(store: Store) -> Store:
    """The module's store, in which nothing waits but what the test lets wait."""
    store.write(lambda connection: connection.execute(table.delete()) and None)
    return store


def asked(store: Store, audit: str, **more: Any) -> queue.Enqueued:
    values = {"run": uuid.uuid4().hex, "audit": audit, "definition": {"n": 1}, "method": "exact", "most": 1_000, **more}
    return queue.enqueue(store, **values)


def claimed(store: Store) -> runs.StoredRun:
    found = queue.claim(store)
    assert found is not None
    return found


def orphan(store: Store, run: str) -> None:
    """As if the run's process had been killed."""
    store.write(lambda c: c.execute(table.update().where(table.c.run == run).values(pid=1)) and None)


def test_who_waited_longest_comes_first(own: Store) -> None:
    audits = [new_audit() for _ in range(5)]
    made = [asked(own, audit, reason="why", requested_by="who", overrides={"k": 3}) for audit in audits]
    assert [one.how for one in made] == ["new"] * 5 and queue.waiting(own) == 5
    first = runs.find(own, made[0].run)
    assert (first.state, first.owner, first.ended, first.overrides) == (State.PENDING, None, None, {"k": 3})
    taken = [claimed(own) for _ in range(5)]
    assert [one.run for one in taken] == [one.run for one in made]
    assert all(one.state is State.RUNNING and one.owner == runs.this_process() and not one.resumable for one in taken)
    assert queue.claim(own) is None and queue.waiting(own) == 0


def test_one_run_of_an_audit_waits_and_none_is_taken_while_another_runs(own: Store) -> None:
    audit = new_audit()
    first = asked(own, audit)
    assert asked(own, audit) == queue.Enqueued(first.run, "pending")
    assert claimed(own).run == first.run
    assert asked(own, audit) == queue.Enqueued(first.run, "running")
    runs.finish(own, first.run, DONE)
    by_hand = begun(own, other := new_audit())
    runs.finish(own, by_hand, DONE)
    waits = asked(own, other)
    by_hand = begun(own, other)  # on the command line, past the queue
    assert waits.how == "new" and queue.claim(own) is None
    runs.finish(own, by_hand, DONE)
    assert claimed(own).run == waits.run


def test_a_key_finds_the_run_that_it_asked_for(own: Store) -> None:
    audit = new_audit()
    first = asked(own, audit, idempotency="mine", overrides={"k": 1})
    assert asked(own, audit, idempotency="mine", overrides={"k": 1}) == queue.Enqueued(first.run, "same")
    joined = asked(own, audit, idempotency="another")
    assert joined == queue.Enqueued(first.run, "pending")
    claimed(own)
    runs.finish(own, first.run, DONE)
    assert asked(own, audit, idempotency="mine", overrides={"k": 1}) == queue.Enqueued(first.run, "same")
    assert asked(own, audit, idempotency="another").run == first.run
    for k in ({"k": 2}, {}):
        with pytest.raises(ConfigError, match="used to ask for something else"):
            asked(own, audit, idempotency="mine", overrides=k)
    with pytest.raises(ConfigError, match="used to ask for something else"):
        asked(own, new_audit(), idempotency="mine", overrides={"k": 1})
    assert asked(own, audit).how == "new"


def test_a_full_queue_refuses_more(own: Store) -> None:
    for _ in range(3):
        asked(own, new_audit(), most=3)
    with pytest.raises(QueueFull, match=r"3 runs are waiting already"):
        asked(own, audit := new_audit(), most=3)
    assert runs.listed(own, audit=audit) == [] and QueueFull.retryable
    claimed(own)
    assert asked(own, audit, most=3).how == "new"


def test_a_run_is_taken_by_one_of_many(own: Store) -> None:
    made = [asked(own, new_audit()).run for _ in range(40)]
    taken: list[str] = []

    def take() -> None:
        while found := queue.claim(own):
            taken.append(found.run)

    _at_once(take, 4)
    rest = iter(lambda: queue.claim(own), None)  # who found every row just being taken by others has left early
    taken.extend(one.run for one in rest if one)
    assert sorted(taken) == sorted(made)


def test_of_equal_requests_at_once_one_is_new(own: Store) -> None:
    audit, found = new_audit(), []
    _at_once(lambda: found.append(asked(own, audit, idempotency="once")), 6)
    assert len({one.run for one in found}) == 1 and sorted(one.how for one in found) == ["new", *["same"] * 5]


def test_a_tick_makes_one_run_or_none(own: Store) -> None:
    audit, found = new_audit(), []
    values: dict[str, Any] = {"audit": audit, "definition": {}, "method": None, "reason": "due", "requested_by": "schedule"}

    def tick() -> None:
        found.append(queue.enqueue_tick(own, tick=T0, by="one", run=uuid.uuid4().hex, most=1, **values))

    _at_once(tick, 6)
    [made] = [one for one in found if one]
    assert made.how == "new" and [one.run for one in runs.listed(own, audit=audit)] == [made.run]
    other = {**values, "audit": new_audit()}
    for _ in range(2):  # what finds no room is due as before
        with pytest.raises(QueueFull):
            queue.enqueue_tick(own, tick=T0, by="one", run=uuid.uuid4().hex, most=1, **other)
    assert queue.enqueue_tick(own, tick=T0, by="one", run=uuid.uuid4().hex, most=2, **other) is not None


def test_a_run_that_waits_can_be_cancelled_and_not_resumed(own: Store) -> None:
    run = asked(own, audit := new_audit()).run
    with pytest.raises(NotResumable, match="waits for its turn"):
        runs.take_up(own, run)
    found = runs.ask_cancel(own, run)
    assert (found.state, found.resumable) == (State.CANCELLED, False) and found.ended and "while it waited" in found.reasons[0]
    assert queue.claim(own) is None and asked(own, audit).how == "new" and standing.get(own, audit).runs == 1


def test_what_a_process_leaves_waits_again_and_goes_on(own: Store) -> None:
    begun_run, planned = asked(own, new_audit()).run, asked(own, new_audit()).run
    by_hand = begun(own, new_audit())
    assert {claimed(own).run, claimed(own).run} == {begun_run, planned}
    runs.pin(own, planned, plan=b"plan", schema={})
    chunks.save(own, planned, chunk())
    for run in (begun_run, planned, by_hand):
        orphan(own, run)
    assert sorted(queue.requeue_lost(own)) == sorted([begun_run, planned])
    assert runs.find(own, by_hand).state is State.FAILED and runs.recover(own) == []
    assert [(one.run, one.resumable) for one in (claimed(own), claimed(own))] == [(begun_run, False), (planned, True)]
    assert runs.plan(own, planned) == b"plan" and chunks.done(own, planned) == [chunk()]
    with pytest.raises(UnknownRun, match="taken away"):
        orphan(own, planned)
        runs.finish(own, planned, DONE)


def test_looking_at_runs_loses_none_of_them(own: Store) -> None:
    run = asked(own, new_audit()).run
    claimed(own)
    orphan(own, run)
    assert runs.recover(own) == [] and claimed(own).run == run


def test_a_run_that_ends_its_processes_is_given_up(own: Store) -> None:
    run = asked(own, new_audit()).run
    for _ in range(2):
        assert claimed(own).run == run
        orphan(own, run)
        assert queue.requeue_lost(own) == [run]
    claimed(own)
    orphan(own, run)
    assert queue.requeue_lost(own) == [] and runs.find(own, run).state is State.FAILED and queue.waiting(own) == 0


def test_a_run_that_was_to_be_cancelled_does_not_wait_again(own: Store) -> None:
    run = asked(own, new_audit()).run
    claimed(own)
    runs.ask_cancel(own, run)
    orphan(own, run)
    assert queue.requeue_lost(own) == [] and runs.find(own, run).state is State.CANCELLED


def test_a_run_is_put_back_where_it_stands(own: Store) -> None:
    run, other = asked(own, audit := new_audit()).run, asked(own, new_audit()).run
    claimed(own)
    runs.pin(own, run, plan=b"plan", schema={})
    queue.put_back(own, run)
    found = runs.find(own, run)
    assert (found.state, found.resumable, found.owner) == (State.PENDING, True, None) and standing.get(own, audit).runs == 0
    assert [claimed(own).run, claimed(own).run] == [run, other]
    orphan(own, run)
    with pytest.raises(UnknownRun, match="taken away"):
        queue.put_back(own, run)


def test_a_run_that_ended_early_is_requested_again(own: Store) -> None:
    audit = new_audit()
    run = begun(own, audit)
    runs.pin(own, run, plan=b"plan", schema={})
    with pytest.raises(NotResumable, match="is running"):
        queue.requeue(own, run, 1)
    runs.finish(own, run, FAILED)
    assert queue.requeue(own, run, 1).state is State.PENDING and standing.get(own, audit).runs == 0
    with pytest.raises(NotResumable, match="is pending"):
        queue.requeue(own, run, 1)
    assert claimed(own).resumable
    runs.finish(own, run, replace(FAILED, resumable=False))
    with pytest.raises(NotResumable, match="start a new one"):
        queue.requeue(own, run, 1)


def test_what_waits_is_not_pruned(own: Store) -> None:
    run = asked(own, audit := new_audit()).run
    retention.prune(own, runs=1, days=0.0, now=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    assert [one.run for one in runs.listed(own, audit=audit)] == [run] and claimed(own).run == run


def _at_once(work: Callable[[], Any], count: int) -> None:
    barrier = threading.Barrier(count)
    failures: list[BaseException] = []

    def one() -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:  # told by the thread that waits
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
