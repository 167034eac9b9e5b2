"""What is written of runs is read again, on every database."""

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
from auditor.store import Store, chunks, queue, runs, standing
from auditor.store._schema import audits, schemas
from tests.store.samples import DONE, FAILED, T0, begun, chunk, ended, new_audit


def test_a_run_that_ended_comes_back_whole(store: Store) -> None:
    audit = new_audit()
    began = dt.datetime.now(dt.UTC)
    run = begun(store, audit, reason="weil – 🙂\x00\ud800", requested_by="ø", overrides={"method": "exact", "n": 2**80})
    runs.pin(store, run, plan=b"\x00plan", schema={"source": [["ключ", "bigint"]]})
    assert runs.beat(store, run, {"done": 3}) is False
    runs.finish(store, run, DONE)
    found = runs.find(store, run)
    for name in ("state", "verdict", "exit_code", "seconds", "method", "reasons", "score", "lower", "upper", "published", "coverage",
                 "rows", "partitions", "unequal", "missing", "extra", "changed", "unsettled", "verified_through", "resumable"):  # fmt: skip
        assert getattr(found, name) == getattr(DONE, name), name
    assert (found.run, found.audit, found.requested_by, found.reason) == (run, audit, "ø", "weil – 🙂�?")
    assert found.overrides == {"method": "exact", "n": 2**80}
    assert found.definition == {"source": "orders", "n": 1}
    assert found.schema == {"source": [["ключ", "bigint"]]}
    assert found.progress == {"done": 3}
    assert found.owner is None and not found.cancel_asked
    assert found.ended is not None and found.started <= found.ended
    assert abs(found.started - began) < dt.timedelta(seconds=30) and found.started.tzinfo is not None
    assert runs.report(store, run) == DONE.report
    assert runs.picture(store, run) == DONE.picture
    assert [number for number, _ in runs.differences(store, run)] == [1, 2, 3]
    assert tuple(kept for _, kept in runs.differences(store, run)) == DONE.differences


def test_a_run_that_has_just_begun_knows_little(store: Store) -> None:
    run = begun(store, new_audit())
    found = runs.find(store, run)
    assert (found.state, found.verdict, found.owner) == (State.RUNNING, Verdict.UNKNOWN, runs.this_process())
    assert found.owner is not None and found.owner.pid == os.getpid()
    assert found.rows is None and found.score is None and found.schema is None and found.ended is None and found.reasons == ()
    assert runs.report(store, run) is None and runs.picture(store, run) is None and runs.differences(store, run) == []


def test_what_is_no_number_is_nothing(store: Store) -> None:
    found = runs.find(store, ended(store, new_audit(), score=math.nan, upper=math.inf))
    assert found.score is None and found.upper is None


def test_large_things_fit(store: Store) -> None:
    noise = os.urandom(20_000_000)
    run = ended(store, new_audit(), report=noise, picture=noise[:300_000], reasons=["x" * 200_000])
    assert runs.report(store, run) == noise
    assert runs.picture(store, run) == noise[:300_000]
    assert runs.find(store, run).reasons == ("x" * 200_000,)


def test_a_definition_is_kept_once_a_version(store: Store) -> None:
    audit = new_audit()
    for definition in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}):
        runs.begin(store, run=f"{audit}-{len(definition)}-{next(iter(definition))}", audit=audit, definition=definition, method=None)
        runs.pin(store, runs.listed(store, audit=audit)[0].run, plan=b"p", schema={"of": audit})
        runs.finish(store, runs.listed(store, audit=audit)[0].run, DONE)
    with store.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).where(audits.c.audit == audit)).scalar() == 2
        kept = connection.execute(sa.select(schemas.c["columns"])).scalars().all()
    assert kept.count({"of": audit}) == 1


def test_an_audit_runs_once_at_a_time(store: Store) -> None:
    audit = new_audit()
    run = begun(store, audit)
    with pytest.raises(AlreadyRunning, match=f"{run}.*process {os.getpid()}"):
        begun(store, audit)
    begun(store, audit.upper())  # names differ by case
    runs.finish(store, run, DONE)
    begun(store, audit)


def test_ids_are_given_once(store: Store) -> None:
    run = ended(store, new_audit())
    with pytest.raises(StoreError):
        begun(store, new_audit(), run)


def test_cancelling_is_seen_at_the_next_heartbeat(store: Store) -> None:
    run = begun(store, new_audit())
    assert runs.ask_cancel(store, run).cancel_asked
    assert runs.beat(store, run, {}) is True
    runs.finish(store, run, replace(FAILED, state=State.CANCELLED))
    assert runs.ask_cancel(store, run).state == State.CANCELLED
    with pytest.raises(UnknownRun):
        runs.ask_cancel(store, "no such run")


def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    base = new_audit()
    for tail in ("a1", "a2", "a", "B", "ä"):
        ended_run = begun(store, new_audit(), f"{base}{tail}")
        runs.finish(store, ended_run, DONE)
    assert runs.find(store, f"{base}B").run == f"{base}B"
    assert runs.find(store, f"{base}a").run == f"{base}a"  # whole, though others begin so
    assert runs.find(store, f"{base}ä").run == f"{base}ä"
    assert runs.find(store, f"{base}a1"[:-1] + "2").run == f"{base}a2"
    with pytest.raises(UnknownRun, match=f"more than one.*{base}B, {base}a, {base}a1, {base}a2"):
        runs.find(store, base)
    for absent in ("", "%", f"{base}b", f"{base}_", "\x00", "\ud800", "x" * 10_000):
        with pytest.raises(UnknownRun):
            runs.find(store, absent)


def test_runs_are_listed_the_newest_first_page_by_page(store: Store) -> None:
    audit = new_audit()
    made = [ended(store, audit, DONE if number % 2 else FAILED) for number in range(7)]
    assert [run.run for run in runs.listed(store, audit=audit)] == made[::-1]
    pages, before = [], None
    while page := runs.listed(store, audit=audit, limit=3, before=before):
        pages.append([run.run for run in page])
        before = page[-1].run
    assert pages == [made[:3:-1], made[3:0:-1], made[:1]]
    assert [run.run for run in runs.listed(store, audit=audit, state="failed")] == made[6::-2]
    assert made[-1] in {run.run for run in runs.listed(store, limit=1)}
    with pytest.raises(UnknownRun):
        runs.listed(store, before="no such run")


def test_the_latest(store: Store) -> None:
    audit = new_audit()
    assert runs.latest(store, audit) is None
    done, failed = ended(store, audit), ended(store, audit, FAILED)
    newest, before = runs.latest(store, audit), runs.find(store, failed).started
    assert newest is not None and newest.run == done
    any_state = runs.latest(store, audit, done_only=False)
    assert any_state is not None and any_state.run == failed
    earlier = runs.latest(store, audit, done_only=False, before=before)
    assert earlier is not None and earlier.run == done
    assert runs.latest(store, audit, before=T0 - dt.timedelta(days=9_000)) is None


def test_the_newest_and_the_living(store: Store) -> None:
    audit, other, never = new_audit(), new_audit(), new_audit()
    ended(store, audit, FAILED)
    done = ended(store, audit)
    runs_now = begun(store, other)
    waits, first = (
        queue.enqueue(store, run=uuid.uuid4().hex, audit=name, definition={"n": 1}, method=None, most=10**6).run for name in (audit, never)
    )
    newest, living = runs.newest_and_living(store)
    assert [newest[name].run for name in (audit, other, never)] == [done, runs_now, first]
    assert [living[name].run for name in (audit, other, never)] == [waits, runs_now, first]
    assert {name: one.run for name, one in runs.living(store).items()} == {name: one.run for name, one in living.items()}
    of_one = runs.newest_and_living(store, audit)
    assert [[(name, one.run) for name, one in some.items()] for some in of_one] == [[(audit, done)], [(audit, waits)]]
    assert runs.newest_and_living(store, "none of that name") == ({}, {})


def test_what_is_read_together_is_read_by_one_connection(store: Store) -> None:
    audit, taken = new_audit(), list[object]()

    def take(connection: object, *_: object) -> None:
        taken.append(connection)

    sa.event.listen(store.reads, "checkout", take)
    with store.together():
        assert runs.latest(store, audit) is None and standing.get(store, audit).runs == 0
        with pytest.raises(UnknownRun):
            runs.plan(store, "none of that name")
        with store.together():
            assert not runs.listed(store, audit=audit)
    assert len(taken) == 1
    assert runs.latest(store, audit) is None and len(taken) == 2
    sa.event.remove(store.reads, "checkout", take)


def test_servers_are_read_without_transactions(store: Store) -> None:
    with store.reading() as connection:
        begun = connection.connection.driver_connection
        connection.execute(sa.text("SELECT 1"))
        if store.engine.dialect.name == "postgresql":
            assert begun is not None and begun.autocommit
        elif store.engine.dialect.name == "mysql":
            assert begun is not None and begun.get_autocommit()
        else:
            assert begun is not None and begun.in_transaction


def test_differences_by_kind_and_page(store: Store) -> None:
    many = [
        runs.Kept(kind=("missing", "extra")[n % 2], key={"id": str(n)}, state=("confirmed", "unsettled")[n % 3 == 0]) for n in range(50)
    ]
    run = ended(store, new_audit(), differences=many)
    assert [n for n, _ in runs.differences(store, run, after=10, limit=5)] == [11, 12, 13, 14, 15]
    assert [n for n, _ in runs.differences(store, run, kind="extra", limit=3)] == [2, 4, 6]
    assert {kept.state for _, kept in runs.differences(store, run, state="unsettled")} == {"unsettled"}
    with pytest.raises(UnknownRun):
        runs.differences(store, "no such run")


def test_a_run_that_ended_early_is_taken_up_again(store: Store) -> None:
    audit = new_audit()
    run = begun(store, audit, overrides={"k": 4})
    runs.pin(store, run, plan=b"the plan", schema={})
    chunks.save(store, run, chunk())
    runs.ask_cancel(store, run)
    runs.finish(store, run, FAILED)
    assert standing.get(store, audit).runs == 1
    resumed = runs.take_up(store, run)
    assert (resumed.audit, resumed.plan, resumed.overrides, resumed.method) == (audit, b"the plan", {"k": 4}, "exact")
    assert resumed.definition == {"source": "orders", "n": 1}
    found = runs.find(store, run)
    assert (found.state, found.cancel_asked, found.ended, found.started) == (State.RUNNING, False, None, resumed.started)
    assert chunks.done(store, run) == [chunk()]
    with pytest.raises(AlreadyRunning):
        begun(store, audit)
    with pytest.raises(NotResumable, match="still running, in process"):
        runs.take_up(store, run)
    runs.finish(store, run, DONE)
    assert standing.get(store, audit).runs == 1
    assert chunks.done(store, run) == []
    assert len(runs.differences(store, run)) == 3


def test_why_a_run_is_not_taken_up(store: Store) -> None:
    audit = new_audit()
    with pytest.raises(NotResumable, match="is done"):
        runs.take_up(store, ended(store, audit))
    with pytest.raises(NotResumable, match="was not kept"):
        runs.take_up(store, ended(store, audit, FAILED, resumable=False))
    unplanned = begun(store, audit)
    runs.finish(store, unplanned, FAILED)
    with pytest.raises(NotResumable, match="before its plan"):
        runs.take_up(store, unplanned)
    with pytest.raises(UnknownRun):
        runs.take_up(store, "no such run")
    failed = ended(store, audit, FAILED)
    begun(store, audit)
    with pytest.raises(AlreadyRunning):
        runs.take_up(store, failed)


def test_nothing_is_half_kept(store: Store) -> None:
    run = begun(store, new_audit())
    unwritable = runs.Kept(kind="missing", columns=[object()])
    with pytest.raises(sa.exc.StatementError, match="JSON"):
        runs.finish(store, run, replace(DONE, differences=[*DONE.differences, unwritable]))
    found = runs.find(store, run)
    assert found.state == State.RUNNING and found.score is None and runs.report(store, run) is None
    runs.finish(store, run, DONE)
