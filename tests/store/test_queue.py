"""The queue on every database: order and claims of pending runs, and recovery of runs whose process has died."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from auditor.errors import ConfigError, NotResumable, QueueFull, RunLost
from auditor.model import State
from auditor.store import Store, audit_state, leases, pruning, queue, run_lifecycle, runs
from auditor.store.leases import leases as leases_table
from auditor.store.schema import runs as table
from tests.store.samples import DONE, FAILED, T0, make_chunk, new_audit_name, start_run


@pytest.fixture
def empty_queue(store: Store) -> Store:
    """The module's store without any runs."""
    store.write(lambda connection: connection.execute(table.delete()) and None)
    return store


def enqueue(store: Store, audit: str, **more: Any) -> queue.Enqueued:
    values = {"run": uuid.uuid4().hex, "audit": audit, "definition": {"n": 1}, "method": "exact", "max_pending": 1_000, **more}
    return queue.enqueue_run(store, **values)


def claim(store: Store) -> runs.StoredRun:
    found = queue.claim_run(store)
    assert found is not None
    return found


def set_dead_process(store: Store, run: str) -> None:
    """Assign the run to a process that has ended."""
    store.write(lambda c: c.execute(leases_table.update().where(leases_table.c.name == run).values(pid=1)) and None)


def test_runs_are_claimed_in_order(empty_queue: Store) -> None:
    audits = [new_audit_name() for _ in range(5)]
    made = [enqueue(empty_queue, audit, reason="why", requested_by="who", overrides={"k": 3}) for audit in audits]
    assert [one.how for one in made] == ["new"] * 5 and queue.count_waiting(empty_queue) == 5
    first = runs.get_run(empty_queue, made[0].run)
    assert (first.state, first.owner, first.ended, first.overrides) == (State.PENDING, None, None, {"k": 3})
    taken = [claim(empty_queue) for _ in range(5)]
    assert [one.run for one in taken] == [one.run for one in made]
    assert all(one.state is State.RUNNING and one.owner == leases.this_process() and not one.resumable for one in taken)
    assert queue.claim_run(empty_queue) is None and queue.count_waiting(empty_queue) == 0


def test_one_pending_run_per_audit_and_no_claim_while_it_is_running(empty_queue: Store) -> None:
    audit = new_audit_name()
    first = enqueue(empty_queue, audit)
    assert enqueue(empty_queue, audit) == queue.Enqueued(first.run, "pending")
    assert claim(empty_queue).run == first.run
    assert enqueue(empty_queue, audit) == queue.Enqueued(first.run, "running")
    run_lifecycle.finish_run(empty_queue, first.run, DONE)
    by_hand = start_run(empty_queue, other := new_audit_name())
    run_lifecycle.finish_run(empty_queue, by_hand, DONE)
    waits = enqueue(empty_queue, other)
    by_hand = start_run(empty_queue, other)  # started on the command line, not through the queue
    assert waits.how == "new" and queue.claim_run(empty_queue) is None
    run_lifecycle.finish_run(empty_queue, by_hand, DONE)
    assert claim(empty_queue).run == waits.run


def test_idempotency_key_returns_the_run_of_the_earlier_request(empty_queue: Store) -> None:
    audit = new_audit_name()
    first = enqueue(empty_queue, audit, idempotency_key="mine", overrides={"k": 1})
    assert enqueue(empty_queue, audit, idempotency_key="mine", overrides={"k": 1}) == queue.Enqueued(first.run, "same")
    joined = enqueue(empty_queue, audit, idempotency_key="another")
    assert joined == queue.Enqueued(first.run, "pending")
    claim(empty_queue)
    run_lifecycle.finish_run(empty_queue, first.run, DONE)
    assert enqueue(empty_queue, audit, idempotency_key="mine", overrides={"k": 1}) == queue.Enqueued(first.run, "same")
    own = enqueue(empty_queue, audit, idempotency_key="another")
    assert own.how == "new", "the run that it met was not its own, and may have begun too early for it"
    claim(empty_queue)
    run_lifecycle.finish_run(empty_queue, own.run, DONE)
    assert enqueue(empty_queue, audit, idempotency_key="another") == queue.Enqueued(own.run, "same")
    for k in ({"k": 2}, {}):
        with pytest.raises(ConfigError, match="used for another request"):
            enqueue(empty_queue, audit, idempotency_key="mine", overrides=k)
    with pytest.raises(ConfigError, match="used for another request"):
        enqueue(empty_queue, new_audit_name(), idempotency_key="mine", overrides={"k": 1})
    assert enqueue(empty_queue, audit).how == "new"


def test_full_queue_rejects_runs(empty_queue: Store) -> None:
    for _ in range(3):
        enqueue(empty_queue, new_audit_name(), max_pending=3)
    with pytest.raises(QueueFull, match=r"queue is full: 3 runs are pending"):
        enqueue(empty_queue, audit := new_audit_name(), max_pending=3)
    assert runs.list_runs(empty_queue, audit=audit) == [] and QueueFull.retryable
    claim(empty_queue)
    assert enqueue(empty_queue, audit, max_pending=3).how == "new"


def test_concurrent_claims_take_each_run_once(empty_queue: Store) -> None:
    made = [enqueue(empty_queue, new_audit_name()).run for _ in range(40)]
    taken: list[str] = []

    def take() -> None:
        while found := queue.claim_run(empty_queue):
            taken.append(found.run)

    _run_concurrently(take, 4)
    rest = iter(lambda: queue.claim_run(empty_queue), None)  # a thread that found every row locked by others has stopped early
    taken.extend(one.run for one in rest if one)
    assert sorted(taken) == sorted(made)


def test_concurrent_equal_requests_enqueue_one_run(empty_queue: Store) -> None:
    audit, found = new_audit_name(), []
    _run_concurrently(lambda: found.append(enqueue(empty_queue, audit, idempotency_key="once")), 6)
    assert len({one.run for one in found}) == 1 and sorted(one.how for one in found) == ["new", *["same"] * 5]


def test_tick_enqueues_one_run_or_stays_due(empty_queue: Store) -> None:
    audit, found = new_audit_name(), []
    values: dict[str, Any] = {"audit": audit, "definition": {}, "method": None, "reason": "due", "requested_by": "schedule"}

    def tick() -> None:
        found.append(queue.enqueue_due_run(empty_queue, tick=T0, by="one", run=uuid.uuid4().hex, max_pending=1, **values))

    _run_concurrently(tick, 6)
    [made] = [one for one in found if one]
    assert made.how == "new" and [one.run for one in runs.list_runs(empty_queue, audit=audit)] == [made.run]
    other = {**values, "audit": new_audit_name()}
    for _ in range(2):  # a tick whose run is rejected stays due
        with pytest.raises(QueueFull):
            queue.enqueue_due_run(empty_queue, tick=T0, by="one", run=uuid.uuid4().hex, max_pending=1, **other)
    assert queue.enqueue_due_run(empty_queue, tick=T0, by="one", run=uuid.uuid4().hex, max_pending=2, **other) is not None


def test_tick_stays_due_while_a_one_off_run_is_active(empty_queue: Store) -> None:
    """A run with other settings does not stand in for the scheduled one."""
    audit = new_audit_name()
    values: dict[str, Any] = {"audit": audit, "definition": {}, "method": None, "reason": "due", "requested_by": "schedule"}

    def tick() -> queue.Enqueued | None:
        return queue.enqueue_due_run(empty_queue, tick=T0, by="one", run=uuid.uuid4().hex, max_pending=9, **values)

    one_off = enqueue(empty_queue, audit, overrides={"threshold": 0}).run
    assert tick() is None, "it is pending"
    assert queue.claim_run(empty_queue) and tick() is None, "it is running"
    run_lifecycle.finish_run(empty_queue, one_off, DONE)
    found = tick()
    assert found and found.how == "new" and not runs.get_run(empty_queue, found.run).is_one_off


def test_pending_run_can_be_cancelled_but_not_resumed(empty_queue: Store) -> None:
    run = enqueue(empty_queue, audit := new_audit_name()).run
    with pytest.raises(NotResumable, match="is pending"):
        run_lifecycle.resume_run(empty_queue, run)
    found = run_lifecycle.request_cancel(empty_queue, run)
    assert (found.state, found.resumable) == (State.CANCELLED, False) and found.ended and "while it was pending" in found.reasons[0]
    assert (
        queue.claim_run(empty_queue) is None
        and enqueue(empty_queue, audit).how == "new"
        and audit_state.get_state(empty_queue, audit).run_count == 1
    )


def test_runs_of_a_dead_process_are_requeued_and_resumed(empty_queue: Store) -> None:
    begun_run, planned = enqueue(empty_queue, new_audit_name()).run, enqueue(empty_queue, new_audit_name()).run
    by_hand = start_run(empty_queue, new_audit_name())
    assert {claim(empty_queue).run, claim(empty_queue).run} == {begun_run, planned}
    for run in (begun_run, planned):
        run_lifecycle.save_plan(empty_queue, run, plan=b"plan", schema={})
    run_lifecycle.save_chunk(empty_queue, planned, make_chunk())
    for run in (begun_run, planned, by_hand):
        set_dead_process(empty_queue, run)
    assert sorted(run_lifecycle.recover_runs(empty_queue).requeued) == sorted([begun_run, planned])
    assert runs.get_run(empty_queue, by_hand).state is State.FAILED and run_lifecycle.recover_runs(empty_queue).failed == []
    assert [(one.run, one.resumable) for one in (claim(empty_queue), claim(empty_queue))] == [(begun_run, False), (planned, True)]
    assert runs.get_plan(empty_queue, planned) == b"plan" and run_lifecycle.list_chunks(empty_queue, planned) == [make_chunk()]
    with pytest.raises(RunLost, match="no longer belongs"):
        set_dead_process(empty_queue, planned)
        run_lifecycle.finish_run(empty_queue, planned, DONE)


def test_recovering_runs_requeues_requested_ones(empty_queue: Store) -> None:
    run = enqueue(empty_queue, new_audit_name()).run
    claim(empty_queue)
    set_dead_process(empty_queue, run)
    assert run_lifecycle.recover_runs(empty_queue).failed == [] and claim(empty_queue).run == run


def test_run_whose_process_dies_repeatedly_fails(empty_queue: Store) -> None:
    run = enqueue(empty_queue, new_audit_name()).run
    for _ in range(2):
        assert claim(empty_queue).run == run
        set_dead_process(empty_queue, run)
        assert run_lifecycle.recover_runs(empty_queue).requeued == [run]
    claim(empty_queue)
    set_dead_process(empty_queue, run)
    assert (
        run_lifecycle.recover_runs(empty_queue).requeued == []
        and runs.get_run(empty_queue, run).state is State.FAILED
        and queue.count_waiting(empty_queue) == 0
    )


def test_run_with_a_cancel_request_is_not_requeued(empty_queue: Store) -> None:
    run = enqueue(empty_queue, new_audit_name()).run
    claim(empty_queue)
    run_lifecycle.request_cancel(empty_queue, run)
    set_dead_process(empty_queue, run)
    assert run_lifecycle.recover_runs(empty_queue).requeued == [] and runs.get_run(empty_queue, run).state is State.CANCELLED


def test_run_is_put_back_at_its_place(empty_queue: Store) -> None:
    run, other = enqueue(empty_queue, audit := new_audit_name()).run, enqueue(empty_queue, new_audit_name()).run
    claim(empty_queue)
    run_lifecycle.save_plan(empty_queue, run, plan=b"plan", schema={})
    run_lifecycle.save_chunk(empty_queue, run, make_chunk())
    queue.put_back_run(empty_queue, run)
    found = runs.get_run(empty_queue, run)
    assert (found.state, found.resumable, found.owner) == (State.PENDING, True, None) and audit_state.get_state(
        empty_queue, audit
    ).run_count == 0
    assert [claim(empty_queue).run, claim(empty_queue).run] == [run, other]
    set_dead_process(empty_queue, run)
    with pytest.raises(RunLost, match="no longer belongs"):
        queue.put_back_run(empty_queue, run)


def test_failed_run_is_requeued(empty_queue: Store) -> None:
    audit = new_audit_name()
    run = start_run(empty_queue, audit)
    run_lifecycle.save_plan(empty_queue, run, plan=b"plan", schema={})
    run_lifecycle.save_chunk(empty_queue, run, make_chunk())
    with pytest.raises(NotResumable, match="is running"):
        queue.requeue_run(empty_queue, run, 1)
    run_lifecycle.finish_run(empty_queue, run, FAILED)
    assert queue.requeue_run(empty_queue, run, 1).state is State.PENDING and audit_state.get_state(empty_queue, audit).run_count == 0
    with pytest.raises(NotResumable, match="is pending"):
        queue.requeue_run(empty_queue, run, 1)
    assert claim(empty_queue).resumable
    run_lifecycle.finish_run(empty_queue, run, replace(FAILED, resumable=False))
    with pytest.raises(NotResumable, match="start a new run"):
        queue.requeue_run(empty_queue, run, 1)


def test_pending_runs_are_not_pruned(empty_queue: Store) -> None:
    run = enqueue(empty_queue, audit := new_audit_name()).run
    pruning.prune(empty_queue, runs=1, days=0.0, now=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    assert [one.run for one in runs.list_runs(empty_queue, audit=audit)] == [run] and claim(empty_queue).run == run


def _run_concurrently(work: Callable[[], Any], count: int) -> None:
    barrier = threading.Barrier(count)
    failures: list[BaseException] = []

    def one() -> None:
        barrier.wait()
        try:
            work()
        except BaseException as error:  # reported by the main thread
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
