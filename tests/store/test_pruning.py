"""Pruning, on every database."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditor.errors import UnknownRun
from auditor.store import Store, audit_state, events, live_epochs, pruning, queue, rolling_parts, run_lifecycle, runs, tokens
from auditor.store.events import events as noted
from auditor.store.queue import tick_claims
from auditor.store.schema import audit_versions as definitions
from auditor.store.schema import differences, run_documents
from auditor.store.schema import runs as table
from auditor.store.tokens import tokens as made_tokens
from tests.store.samples import DONE, FAILED, T0, add_finished_run, make_chunk, new_audit_name, start_run

DAY = dt.timedelta(days=1)


@pytest.fixture
def daily_runs(store: Store) -> tuple[str, list[str]]:
    """An audit with six daily runs, the last of them at T0."""
    audit = new_audit_name()
    made = [add_finished_run(store, audit) for _ in range(6)]
    for age, run in enumerate(reversed(made)):
        _set_run_columns(store, run, started=T0 - age * DAY, ended=T0 - age * DAY)
    return audit, made


def test_newest_runs_are_preserved(store: Store, daily_runs: tuple[str, list[str]]) -> None:
    audit, made = daily_runs
    assert pruning.prune(store, runs=2, days=None, now=T0).runs >= 4
    assert [run.run for run in runs.list_runs(store, audit=audit)] == [made[5], made[4]]
    with pytest.raises(UnknownRun):
        runs.get_report(store, made[0])
    with store.reading() as connection:
        known = sa.select(table.c.number)
        for dependant in (differences, run_documents):
            assert connection.execute(sa.select(sa.func.count()).where(dependant.c.run.not_in(known))).scalar() == 0
    assert audit_state.get_state(store, audit).run_count == 6
    assert pruning.prune(store, runs=2, days=None, now=T0).runs == 0


def test_run_is_deleted_when_it_exceeds_either_limit(store: Store, daily_runs: tuple[str, list[str]]) -> None:
    audit, made = daily_runs
    pruning.prune(store, runs=4, days=1.5, now=T0)
    assert [run.run for run in runs.list_runs(store, audit=audit)] == [made[5], made[4]]


def test_newest_done_run_is_preserved_at_any_age(store: Store, daily_runs: tuple[str, list[str]]) -> None:
    audit, made = daily_runs
    failed = add_finished_run(store, audit, FAILED, resumable=False)
    _set_run_columns(store, failed, started=T0 + DAY, ended=T0 + DAY)
    pruning.prune(store, runs=None, days=1, now=T0 + 900 * DAY)
    assert [run.run for run in runs.list_runs(store, audit=audit)] == [made[5]]


def test_running_resumable_and_rolling_runs_are_preserved(store: Store, daily_runs: tuple[str, list[str]]) -> None:
    audit, made = daily_runs
    rolling_parts.record_part(store, audit, "layout", rolling_parts.RollingPart(0, 5, made[0], T0))
    fresh, stale = add_finished_run(store, audit, FAILED), add_finished_run(store, audit, FAILED)
    _set_run_columns(store, stale, ended=T0 - 8 * DAY)
    _set_run_columns(store, fresh, ended=T0 - 6 * DAY)
    running = start_run(store, audit)
    run_lifecycle.save_chunk(store, running, make_chunk())
    done = [made[5]]
    pruning.prune(store, runs=1, days=0.001, now=T0)
    assert [run.run for run in runs.list_runs(store, audit=audit)] == [running, fresh, *done, made[0]]
    assert len(run_lifecycle.list_chunks(store, running)) == 1


def test_ad_hoc_runs_are_pruned_as_one_audit_with_their_definitions(store: Store, daily_runs: tuple[str, list[str]]) -> None:
    audit, made = daily_runs
    once = [uuid.uuid4().hex for _ in range(4)]
    for run in once:
        run_lifecycle.finish_run(store, start_run(store, runs.ad_hoc_audit(run), run), DONE)
    pruning.prune(store, runs=3, days=None, now=T0)
    assert [one.run for one in runs.list_runs(store) if one.is_ad_hoc] == [*reversed(once[1:])]
    _set_run_columns(store, once[3], state="failed", resumable=True, ended=T0)
    pruning.prune(store, runs=1, days=1.5, now=T0 + 2 * DAY)
    assert [one.run for one in runs.list_runs(store) if one.is_ad_hoc] == [once[3]]
    left = {runs.ad_hoc_audit(once[3])}
    with store.reading() as connection:
        known = {row.audit for row in connection.execute(sa.select(definitions.c.audit))}
    assert (
        {one for one in known if one.startswith(runs.AD_HOC_PREFIX)}
        == {one for one in audit_state.get_states(store) if one.startswith(runs.AD_HOC_PREFIX)}
        == left
    )
    assert audit in known and [one.run for one in runs.list_runs(store, audit=audit)] == [made[5]]


def test_old_claims_are_deleted_except_the_newest(store: Store) -> None:
    audit = new_audit_name()
    for days in (40, 30, 20):
        queue.claim_tick(store, audit, T0 - days * DAY, "me")
    pruning.prune(store, runs=None, days=None, now=T0)
    with store.reading() as connection:
        remaining = connection.execute(sa.select(tick_claims.c.tick).where(tick_claims.c.audit == audit)).scalars().all()
    assert remaining == [T0 - 20 * DAY]
    assert not queue.claim_tick(store, audit, T0 - 20 * DAY, "you")


def test_old_events_are_deleted(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "EVENTS_PER_TRANSACTION", 2)
    pruning.prune(store, runs=None, days=1, now=T0 + 9000 * DAY)
    subject = new_audit_name()
    for age in (9, 8, 7, 6, 5, 4):
        events.record_event(store, actor="me", action="run requested", subject=subject, detail={"age": age})
        _set_columns(store, noted, noted.c.number == events.list_events(store, limit=1)[0].number, at=T0 - age * DAY)
    assert pruning.prune(store, runs=None, days=None, now=T0).events == 0
    assert pruning.prune(store, runs=None, days=5.5, now=T0).events == 4
    assert [one.detail["age"] for one in events.list_events(store)] == [4, 5]
    assert pruning.prune(store, runs=None, days=5.5, now=T0).events == 0


def test_ended_tokens_are_deleted_later_and_sessions_immediately(store: Store) -> None:
    pruning.prune(store, runs=None, days=1, now=T0 + 9000 * DAY)
    ends: dict[str, dict[str, dt.datetime | None]] = {
        "lives": {"expires": None},
        "lives on": {"expires": T0 + DAY},
        "expired": {"expires": T0 - DAY},
        "revoked": {"revoked": T0 - DAY, "expires": T0 + DAY},
        "expired long ago": {"expires": T0 - 9 * DAY},
        "revoked long ago": {"revoked": T0 - 9 * DAY},
        "session lives": {"expires": T0 + DAY},
        "session expired": {"expires": T0 - DAY / 24},
        "session revoked": {"revoked": T0 - DAY / 24, "expires": T0 + DAY},
        "Session Expired": {"expires": T0 - DAY},
        "session": {"expires": T0 - DAY},
        "session!": {"expires": T0 - DAY},
    }
    for name, values in ends.items():
        tokens.create_token(store, name=name, scope="read")
        _set_columns(store, made_tokens, made_tokens.c.name == name, **values)
    expected_deleted = {"session expired", "session revoked"}
    assert pruning.prune(store, runs=None, days=None, now=T0).tokens == 2
    assert {one.name for one in tokens.list_tokens(store)} == {*ends} - expected_deleted
    expected_deleted |= {"expired long ago", "revoked long ago"}
    assert pruning.prune(store, runs=None, days=5, now=T0).tokens == 2
    assert {one.name for one in tokens.list_tokens(store)} == {*ends} - expected_deleted


def test_sqlite_file_shrinks(file_store: Store) -> None:
    path = Path(file_store.name.removeprefix("sqlite:///"))
    for _ in range(4):
        add_finished_run(file_store, "a", report=os.urandom(3_000_000))
    runs.list_runs(file_store)
    with file_store.engine.raw_connection() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = path.stat().st_size
    pruned = pruning.prune(file_store, runs=1, days=None, now=T0)
    assert pruned.runs == 3 and pruned.bytes is not None and pruned.bytes > 8_000_000
    assert path.stat().st_size == before - pruned.bytes
    assert len(runs.get_report(file_store, runs.list_runs(file_store)[0].run) or b"") == 3_000_000


def _set_run_columns(store: Store, run: str, **values: object) -> None:
    _set_columns(store, table, table.c.run == run, **values)


def _set_columns(store: Store, table: sa.Table, which: sa.ColumnElement[bool], **values: object) -> None:
    store.write(lambda connection: connection.execute(sa.update(table).where(which).values(**values)) and None)


def test_of_old_checks_the_first_and_those_that_changed_sums_stay(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What bisect finds begins at the first one: what came after it would otherwise be said to have been there before."""
    monkeypatch.setattr(live_epochs, "MOST_CHECKS", 3)
    epoch = secrets.token_hex(8)
    for number in range(1, 10):
        missing = b"more" if number == 4 else b""
        live_epochs.add_check(store, epoch, live_epochs.Check(number, None, scanned=number == 4, apart=b"", missing=missing))
    assert [check.position for check in live_epochs.list_checks(store, epoch)] == [1, 4, 7, 8, 9]
