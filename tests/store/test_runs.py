"""Runs are stored and read back, on every database."""

from __future__ import annotations

import datetime as dt
import math
import os
import uuid
from dataclasses import replace

import pytest
import sqlalchemy as sa

from auditor.errors import AlreadyRunning, NotResumable, StoreError, UnknownRun
from auditor.model import State, Verdict
from auditor.store import Store, audit_state, leases, queue, run_lifecycle, runs
from auditor.store.schema import audit_versions, schemas
from tests.store.samples import DONE, FAILED, T0, add_finished_run, make_chunk, new_audit_name, start_run


def test_finished_run_is_read_back_unchanged(store: Store) -> None:
    audit = new_audit_name()
    began = dt.datetime.now(dt.UTC)
    run = start_run(store, audit, reason="weil – 🙂\x00\ud800", requested_by="ø", overrides={"method": "exact", "n": 2**80})
    run_lifecycle.save_plan(store, run, plan=b"\x00plan", schema={"source": [["ключ", "bigint"]]})
    assert run_lifecycle.record_heartbeat(store, run, {"done": 3}) is False
    assert runs.get_run(store, run).progress == {"done": 3}
    run_lifecycle.finish_run(store, run, DONE)
    found = runs.get_run(store, run)
    for name in ("state", "verdict", "exit_code", "seconds", "method", "reasons", "score", "lower", "upper", "published", "coverage",
                 "rows", "partitions", "unequal", "missing", "extra", "changed", "unsettled", "verified_through", "resumable"):  # fmt: skip
        assert getattr(found, name) == getattr(DONE, name), name
    assert (found.run, found.audit, found.requested_by, found.reason) == (run, audit, "ø", "weil – 🙂�?")
    assert found.overrides == {"method": "exact", "n": 2**80}
    assert found.definition == {"source": "orders", "n": 1}
    assert found.schema == {"source": [["ключ", "bigint"]]}
    assert found.progress == {}, "what a finished run did last is of no meaning"
    assert found.owner is None and not found.cancel_requested
    assert found.ended is not None and found.started <= found.ended
    assert abs(found.started - began) < dt.timedelta(seconds=30) and found.started.tzinfo is not None
    assert runs.get_report(store, run) == DONE.report
    assert runs.get_partition_map(store, run) == DONE.partition_map
    assert [number for number, _ in runs.list_differences(store, run)] == [1, 2, 3]
    assert tuple(difference for _, difference in runs.list_differences(store, run)) == DONE.differences


def test_new_run_has_no_results(store: Store) -> None:
    run = start_run(store, new_audit_name())
    found = runs.get_run(store, run)
    assert (found.state, found.verdict, found.owner) == (State.RUNNING, Verdict.UNKNOWN, leases.this_process())
    assert found.owner is not None and found.owner.pid == os.getpid()
    assert found.rows is None and found.score is None and found.schema is None and found.ended is None and found.reasons == ()
    assert runs.get_report(store, run) is None and runs.get_partition_map(store, run) is None and runs.list_differences(store, run) == []


def test_nan_and_infinity_are_stored_as_null(store: Store) -> None:
    found = runs.get_run(store, add_finished_run(store, new_audit_name(), score=math.nan, upper=math.inf))
    assert found.score is None and found.upper is None


@pytest.mark.quick_for("sqlite", "mysql")
def test_large_documents_are_stored(store: Store) -> None:
    noise = os.urandom(20_000_000)
    run = add_finished_run(store, new_audit_name(), report=noise, partition_map=noise[:300_000], reasons=["x" * 200_000])
    assert runs.get_report(store, run) == noise
    assert runs.get_partition_map(store, run) == noise[:300_000]
    assert runs.get_run(store, run).reasons == ("x" * 200_000,)


def test_definition_is_stored_once_per_version(store: Store) -> None:
    audit = new_audit_name()
    for definition in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}):
        run_lifecycle.start_run(
            store, run=f"{audit}-{len(definition)}-{next(iter(definition))}", audit=audit, definition=definition, method=None
        )
        run_lifecycle.save_plan(store, runs.list_runs(store, audit=audit)[0].run, plan=b"p", schema={"of": audit})
        run_lifecycle.finish_run(store, runs.list_runs(store, audit=audit)[0].run, DONE)
    with store.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).where(audit_versions.c.audit == audit)).scalar() == 2
        stored = connection.execute(sa.select(schemas.c["columns"])).scalars().all()
    assert stored.count({"of": audit}) == 1


def test_audit_has_one_running_run(store: Store) -> None:
    audit = new_audit_name()
    run = start_run(store, audit)
    with pytest.raises(AlreadyRunning, match=f"{run}.*process {os.getpid()}"):
        start_run(store, audit)
    start_run(store, audit.upper())  # names are case-sensitive
    run_lifecycle.finish_run(store, run, DONE)
    start_run(store, audit)


def test_run_ids_are_unique(store: Store) -> None:
    run = add_finished_run(store, new_audit_name())
    with pytest.raises(StoreError):
        start_run(store, new_audit_name(), run)


def test_cancel_request_is_seen_at_the_next_heartbeat(store: Store) -> None:
    run = start_run(store, new_audit_name())
    assert run_lifecycle.request_cancel(store, run).cancel_requested
    assert run_lifecycle.record_heartbeat(store, run, {}) is True
    run_lifecycle.finish_run(store, run, replace(FAILED, state=State.CANCELLED))
    assert run_lifecycle.request_cancel(store, run).state == State.CANCELLED
    with pytest.raises(UnknownRun):
        run_lifecycle.request_cancel(store, "no such run")


def test_run_is_found_by_a_prefix_of_its_id(store: Store) -> None:
    base = new_audit_name()
    for tail in ("a1", "a2", "a", "B", "ä"):
        ended_run = start_run(store, new_audit_name(), f"{base}{tail}")
        run_lifecycle.finish_run(store, ended_run, DONE)
    assert runs.get_run(store, f"{base}B").run == f"{base}B"
    assert runs.get_run(store, f"{base}a").run == f"{base}a"  # the complete id of one, and a prefix of others
    assert runs.get_run(store, f"{base}ä").run == f"{base}ä"
    assert runs.get_run(store, f"{base}a1"[:-1] + "2").run == f"{base}a2"
    with pytest.raises(UnknownRun, match=f"more than one run id.*{base}B, {base}a, {base}a1, {base}a2"):
        runs.get_run(store, base)
    for absent in ("", "%", f"{base}b", f"{base}_", "\x00", "\ud800", "x" * 10_000):
        with pytest.raises(UnknownRun):
            runs.get_run(store, absent)


def test_runs_are_listed_newest_first_by_page(store: Store) -> None:
    audit = new_audit_name()
    made = [add_finished_run(store, audit, DONE if number % 2 else FAILED) for number in range(7)]
    assert [run.run for run in runs.list_runs(store, audit=audit)] == made[::-1]
    pages, before = [], None
    while page := runs.list_runs(store, audit=audit, limit=3, before=before):
        pages.append([run.run for run in page])
        before = page[-1].run
    assert pages == [made[:3:-1], made[3:0:-1], made[:1]]
    assert [run.run for run in runs.list_runs(store, audit=audit, state="failed")] == made[6::-2]
    assert made[-1] in {run.run for run in runs.list_runs(store, limit=1)}
    with pytest.raises(UnknownRun):
        runs.list_runs(store, before="no such run")


def test_latest_run(store: Store) -> None:
    audit = new_audit_name()
    assert runs.get_latest_run(store, audit) is None
    done, failed = add_finished_run(store, audit), add_finished_run(store, audit, FAILED)
    newest, before = runs.get_latest_run(store, audit), runs.get_run(store, failed).started
    assert newest is not None and newest.run == done
    any_state = runs.get_latest_run(store, audit, done_only=False)
    assert any_state is not None and any_state.run == failed
    earlier = runs.get_latest_run(store, audit, done_only=False, before=before)
    assert earlier is not None and earlier.run == done
    assert runs.get_latest_run(store, audit, before=T0 - dt.timedelta(days=9_000)) is None


def test_latest_runs_decide_the_standing(store: Store) -> None:
    """The newest ended and the newest done run with the audit's own settings, and all active runs, newest first."""
    audit, other, never = new_audit_name(), new_audit_name(), new_audit_name()
    add_finished_run(store, audit)
    done = add_finished_run(store, audit)
    add_finished_run(store, audit, FAILED)
    failed = add_finished_run(store, audit, FAILED)
    runs_now = start_run(store, other)
    waits, first = (
        queue.enqueue_run(store, run=uuid.uuid4().hex, audit=name, definition={"n": 1}, method=None, max_pending=10**6).run
        for name in (audit, never)
    )
    found = runs.list_latest_runs(store)
    assert [[one.run for one in found[name]] for name in (audit, other, never)] == [[waits, failed, done], [runs_now], [first]]
    active = runs.get_active_runs(store)
    assert [active[name].run for name in (audit, other, never)] == [waits, runs_now, first]
    of_one = runs.list_latest_runs(store, audit)
    assert {name: [one.run for one in some] for name, some in of_one.items()} == {audit: [waits, failed, done]}
    assert runs.list_latest_runs(store, "none of that name") == {}


def test_share_connection_uses_one_connection(store: Store) -> None:
    audit, taken = new_audit_name(), list[object]()

    def take(connection: object, *_: object) -> None:
        taken.append(connection)

    sa.event.listen(store.read_engine, "checkout", take)
    with store.share_connection():
        assert runs.get_latest_run(store, audit) is None and audit_state.get_state(store, audit).run_count == 0
        with pytest.raises(UnknownRun):
            runs.get_plan(store, "none of that name")
        with store.share_connection():
            assert not runs.list_runs(store, audit=audit)
    assert len(taken) == 1
    assert runs.get_latest_run(store, audit) is None and len(taken) == 2
    sa.event.remove(store.read_engine, "checkout", take)


def test_servers_are_read_in_autocommit_mode(store: Store) -> None:
    with store.reading() as connection:
        driver_connection = connection.connection.driver_connection
        connection.execute(sa.text("SELECT 1"))
        if store.engine.dialect.name == "postgresql":
            assert driver_connection is not None and driver_connection.autocommit
        elif store.engine.dialect.name == "mysql":
            assert driver_connection is not None and driver_connection.get_autocommit()
        else:
            assert driver_connection is not None and driver_connection.in_transaction


def test_differences_are_listed_by_kind_and_page(store: Store) -> None:
    many = [
        runs.StoredDifference(kind=("missing", "extra")[n % 2], key={"id": str(n)}, state=("confirmed", "unsettled")[n % 3 == 0])
        for n in range(50)
    ]
    run = add_finished_run(store, new_audit_name(), differences=many)
    assert [n for n, _ in runs.list_differences(store, run, after=10, limit=5)] == [11, 12, 13, 14, 15]
    assert [n for n, _ in runs.list_differences(store, run, kind="extra", limit=3)] == [2, 4, 6]
    assert {difference.state for _, difference in runs.list_differences(store, run, state="unsettled")} == {"unsettled"}
    with pytest.raises(UnknownRun):
        runs.list_differences(store, "no such run")


def test_failed_run_is_resumed(store: Store) -> None:
    audit = new_audit_name()
    run = start_run(store, audit, overrides={"force": True})
    run_lifecycle.save_plan(store, run, plan=b"the plan", schema={})
    run_lifecycle.save_chunk(store, run, make_chunk())
    run_lifecycle.request_cancel(store, run)
    run_lifecycle.finish_run(store, run, FAILED)
    assert audit_state.get_state(store, audit).run_count == 1
    resumed = run_lifecycle.resume_run(store, run)
    assert (resumed.audit, resumed.plan, resumed.overrides, resumed.method) == (audit, b"the plan", {"force": True}, "exact")
    assert resumed.definition == {"source": "orders", "n": 1}
    found = runs.get_run(store, run)
    assert (found.state, found.cancel_requested, found.ended, found.started) == (State.RUNNING, False, None, resumed.started)
    assert run_lifecycle.list_chunks(store, run) == [make_chunk()]
    with pytest.raises(AlreadyRunning):
        start_run(store, audit)
    with pytest.raises(NotResumable, match="still running, in process"):
        run_lifecycle.resume_run(store, run)
    run_lifecycle.finish_run(store, run, DONE)
    assert audit_state.get_state(store, audit).run_count == 1
    assert run_lifecycle.list_chunks(store, run) == []
    assert len(runs.list_differences(store, run)) == 3


def test_reasons_why_a_run_is_not_resumable(store: Store) -> None:
    audit = new_audit_name()
    with pytest.raises(NotResumable, match="is done"):
        run_lifecycle.resume_run(store, add_finished_run(store, audit))
    with pytest.raises(NotResumable, match="nothing to go on from"):
        run_lifecycle.resume_run(store, add_finished_run(store, audit, FAILED, resumable=False))
    unplanned = start_run(store, audit)
    run_lifecycle.finish_run(store, unplanned, FAILED)
    with pytest.raises(NotResumable, match="before it was planned"):
        run_lifecycle.resume_run(store, unplanned)
    with pytest.raises(UnknownRun):
        run_lifecycle.resume_run(store, "no such run")
    failed = add_finished_run(store, audit, FAILED)
    start_run(store, audit)
    with pytest.raises(AlreadyRunning):
        run_lifecycle.resume_run(store, failed)


def test_failed_write_is_rolled_back(store: Store) -> None:
    run = start_run(store, new_audit_name())
    unwritable = runs.StoredDifference(kind="missing", columns=[object()])
    with pytest.raises(sa.exc.StatementError, match="JSON"):
        run_lifecycle.finish_run(store, run, replace(DONE, differences=[*DONE.differences, unwritable]))
    found = runs.get_run(store, run)
    assert found.state == State.RUNNING and found.score is None and runs.get_report(store, run) is None
    run_lifecycle.finish_run(store, run, DONE)
