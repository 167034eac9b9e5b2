"""Polling for finished runs: each is returned once, whichever process executed it, and whatever its clock says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditor.api import metrics
from auditor.api.metrics import FinishedRuns
from auditor.store import Store, open_store, queue, run_lifecycle, runs
from auditor.store.leases import leases
from auditor.store.schema import runs as table
from tests.store.samples import DONE, FAILED, T0, make_chunk, new_audit_name, start_run

LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/store.db")
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def few_late_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for runs that were committed late among a few, as some tests need several times as many."""
    monkeypatch.setattr(metrics, "LATE_COMMITS", 10)


def new_runs(finished: FinishedRuns) -> list[str]:
    return [one.run for one in finished.new()]


def set_columns(store: Store, run: str, **values: object) -> None:
    store.write(lambda c: c.execute(table.update().where(table.c.run == run).values(**values)) and None)


def test_only_runs_that_end_after_the_start_are_returned(store: Store) -> None:
    before, open_ = start_run(store, new_audit_name()), start_run(store, new_audit_name())
    run_lifecycle.finish_run(store, before, DONE)
    finished = FinishedRuns(store, dt.datetime.now(dt.UTC))
    after = start_run(store, new_audit_name())
    run_lifecycle.finish_run(store, after, DONE)
    assert new_runs(finished) == [after]
    run_lifecycle.finish_run(store, open_, DONE)
    assert new_runs(finished) == [open_]
    assert new_runs(finished) == []


def test_run_with_an_early_end_time_is_returned_from_an_empty_store(store: Store) -> None:
    finished = FinishedRuns(store, dt.datetime.now(dt.UTC))
    assert new_runs(finished) == []
    one = start_run(store, new_audit_name())
    run_lifecycle.finish_run(store, one, DONE)
    set_columns(store, one, ended=LONG_AGO)  # by the clock of another machine
    assert new_runs(finished) == [one] and new_runs(finished) == []


def test_runs_with_the_same_end_time_are_each_returned(store: Store) -> None:
    finished = FinishedRuns(store, T0)
    first, second = start_run(store, new_audit_name()), start_run(store, new_audit_name())
    run_lifecycle.finish_run(store, first, DONE)
    set_columns(store, first, ended=T0)
    assert new_runs(finished) == [first]
    run_lifecycle.finish_run(store, second, DONE)
    set_columns(store, second, ended=T0)
    assert new_runs(finished) == [second] and new_runs(finished) == []


def test_run_of_a_dead_process_is_returned_when_recovered(store: Store) -> None:
    lost, others = start_run(store, new_audit_name()), [start_run(store, new_audit_name()) for _ in range(metrics.LATE_COMMITS + 5)]
    finished = FinishedRuns(store, dt.datetime.now(dt.UTC))
    for one in others:
        run_lifecycle.finish_run(store, one, DONE)
    assert new_runs(finished) == others
    killed = leases.update().where(leases.c.name == lost).values(pid=1, heartbeat=LONG_AGO)
    store.write(lambda connection: connection.execute(killed) and None)  # which is detected only now
    run_lifecycle.recover_runs(store)
    assert runs.get_run(store, lost).ended == LONG_AGO
    assert new_runs(finished) == [lost] and new_runs(finished) == []


def test_run_resumed_and_finished_between_two_polls_is_returned_again(store: Store) -> None:
    finished = FinishedRuns(store, T0)
    one = start_run(store, new_audit_name())
    run_lifecycle.save_plan(store, one, plan=b"plan", schema={})
    run_lifecycle.save_chunk(store, one, make_chunk())
    run_lifecycle.finish_run(store, one, FAILED)
    assert new_runs(finished) == [one]
    for _ in range(metrics.LATE_COMMITS + 5):
        run_lifecycle.finish_run(store, start_run(store, new_audit_name()), DONE)
    new_runs(finished)
    queue.requeue_run(store, one, 10)
    assert queue.claim_run(store)
    run_lifecycle.finish_run(store, one, DONE)
    assert new_runs(finished) == [one] and new_runs(finished) == []


def test_run_committed_after_one_with_a_higher_number_is_returned(store: Store) -> None:
    finished = FinishedRuns(store, T0)
    first, second = start_run(store, new_audit_name()), start_run(store, new_audit_name())
    for one in (first, second):
        run_lifecycle.finish_run(store, one, DONE)
    with store.reading() as connection:
        row = dict(connection.execute(table.select().where(table.c.run == first)).one()._mapping)
    store.write(lambda c: c.execute(table.delete().where(table.c.run == first)) and None)
    assert new_runs(finished) == [second]
    store.write(lambda c: c.execute(table.insert().values(**row)) and None)
    assert new_runs(finished) == [first] and new_runs(finished) == []


def test_run_with_a_reused_number_is_returned(store: Store) -> None:
    finished = FinishedRuns(store, T0)
    keep = start_run(store, new_audit_name())
    run_lifecycle.finish_run(store, keep, DONE)
    for _ in range(2 * metrics.LATE_COMMITS):
        run_lifecycle.finish_run(store, start_run(store, new_audit_name()), DONE)
    assert len(new_runs(finished)) == 2 * metrics.LATE_COMMITS + 1
    store.write(lambda c: c.execute(table.delete().where(table.c.run != keep)) and None)
    again = start_run(store, new_audit_name())
    run_lifecycle.finish_run(store, again, DONE)
    assert new_runs(finished) == [again] and new_runs(finished) == []


def test_run_whose_processing_failed_is_returned_again(store: Store) -> None:
    finished = FinishedRuns(store, T0)
    first, second = start_run(store, new_audit_name()), start_run(store, new_audit_name())
    for one in (first, second):
        run_lifecycle.finish_run(store, one, DONE)
    seen = finished.new()
    assert next(seen).run == first
    assert next(seen).run == second
    seen.close()  # like a caller that fails on the second run
    assert new_runs(finished) == [second]


def test_poll_does_not_reread_earlier_runs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(3 * metrics.LATE_COMMITS):
        run_lifecycle.finish_run(store, start_run(store, new_audit_name()), DONE)
    finished = FinishedRuns(store, T0)
    assert len(new_runs(finished)) == 3 * metrics.LATE_COMMITS
    counts: list[int] = []
    list_endings = runs.list_endings

    def counting_list_endings(*arguments: object) -> list[runs.Ending]:
        rows = list_endings(*arguments)  # type: ignore[arg-type]
        counts.append(len(rows))
        return rows

    monkeypatch.setattr(runs, "list_endings", counting_list_endings)
    monkeypatch.setattr(runs, "get_run", lambda *_: pytest.fail("a run that had already been returned was read again"))
    assert new_runs(finished) == [] and counts == [metrics.LATE_COMMITS]
    with store.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 3 * metrics.LATE_COMMITS
