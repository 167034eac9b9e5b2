"""What is kept no longer, on every database."""

from __future__ import annotations

import datetime as dt
import os
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa

from auditor.errors import UnknownRun
from auditor.store import Store, chunks, claims, events, retention, runs, standing, stretches, tokens
from auditor.store._schema import audits as definitions
from auditor.store._schema import claims as claimed
from auditor.store._schema import differences, documents
from auditor.store._schema import events as noted
from auditor.store._schema import runs as table
from auditor.store._schema import tokens as made_tokens
from tests.store.samples import DONE, FAILED, T0, begun, chunk, ended, new_audit

DAY = dt.timedelta(days=1)


@pytest.fixture
def aged(store: Store) -> tuple[str, list[str]]:
    """An audit with a run a day, of which the last is T0's."""
    audit = new_audit()
    made = [ended(store, audit) for _ in range(6)]
    for age, run in enumerate(reversed(made)):
        _make(store, run, started=T0 - age * DAY, ended=T0 - age * DAY)
    return audit, made


def test_the_newest_are_kept(store: Store, aged: tuple[str, list[str]]) -> None:
    audit, made = aged
    assert retention.prune(store, runs=2, days=None, now=T0).runs >= 4
    assert [run.run for run in runs.listed(store, audit=audit)] == [made[5], made[4]]
    with pytest.raises(UnknownRun):
        runs.report(store, made[0])
    with store.reading() as connection:
        known = sa.select(table.c.number)
        for dependant in (differences, documents):
            assert connection.execute(sa.select(sa.func.count()).where(dependant.c.run.not_in(known))).scalar() == 0
    assert standing.get(store, audit).runs == 6
    assert retention.prune(store, runs=2, days=None, now=T0).runs == 0


def test_a_run_goes_when_either_limit_is_passed(store: Store, aged: tuple[str, list[str]]) -> None:
    audit, made = aged
    retention.prune(store, runs=4, days=1.5, now=T0)
    assert [run.run for run in runs.listed(store, audit=audit)] == [made[5], made[4]]


def test_the_newest_that_is_done_is_kept_however_old(store: Store, aged: tuple[str, list[str]]) -> None:
    audit, made = aged
    failed = ended(store, audit, FAILED, resumable=False)
    _make(store, failed, started=T0 + DAY, ended=T0 + DAY)
    retention.prune(store, runs=None, days=1, now=T0 + 900 * DAY)
    assert [run.run for run in runs.listed(store, audit=audit)] == [made[5]]


def test_what_is_needed_is_kept(store: Store, aged: tuple[str, list[str]]) -> None:
    audit, made = aged
    stretches.record(store, audit, "layout", stretches.Stretch(0, 5, made[0], T0))
    fresh, stale = ended(store, audit, FAILED), ended(store, audit, FAILED)
    _make(store, stale, ended=T0 - 8 * DAY)
    _make(store, fresh, ended=T0 - 6 * DAY)
    running = begun(store, audit)
    chunks.save(store, running, chunk())
    done = [made[5]]
    retention.prune(store, runs=1, days=0.001, now=T0)
    assert [run.run for run in runs.listed(store, audit=audit)] == [running, fresh, *done, made[0]]
    assert len(chunks.done(store, running)) == 1


def test_ad_hoc_runs_are_one_audits_and_leave_nothing(store: Store, aged: tuple[str, list[str]]) -> None:
    audit, made = aged
    once = [uuid.uuid4().hex for _ in range(4)]
    for run in once:
        runs.finish(store, begun(store, runs.ad_hoc(run), run), DONE)
    retention.prune(store, runs=3, days=None, now=T0)
    assert [one.run for one in runs.listed(store) if one.is_ad_hoc] == [*reversed(once[1:])]
    _make(store, once[3], state="failed", resumable=True, ended=T0)
    retention.prune(store, runs=1, days=1.5, now=T0 + 2 * DAY)
    assert [one.run for one in runs.listed(store) if one.is_ad_hoc] == [once[3]]
    left = {runs.ad_hoc(once[3])}
    with store.reading() as connection:
        known = {row.audit for row in connection.execute(sa.select(definitions.c.audit))}
    assert (
        {one for one in known if one.startswith(runs.AD_HOC)}
        == {one for one in standing.every(store) if one.startswith(runs.AD_HOC)}
        == left
    )
    assert audit in known and [one.run for one in runs.listed(store, audit=audit)] == [made[5]]


def test_claims_are_forgotten_but_for_the_newest(store: Store) -> None:
    audit = new_audit()
    for days in (40, 30, 20):
        claims.claim(store, audit, T0 - days * DAY, "me")
    retention.prune(store, runs=None, days=None, now=T0)
    with store.reading() as connection:
        kept = connection.execute(sa.select(claimed.c.tick).where(claimed.c.audit == audit)).scalars().all()
    assert kept == [T0 - 20 * DAY]
    assert not claims.claim(store, audit, T0 - 20 * DAY, "you")


def test_old_events_are_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "EVENTS", 2)
    retention.prune(store, runs=None, days=1, now=T0 + 9000 * DAY)
    subject = new_audit()
    for age in (9, 8, 7, 6, 5, 4):
        events.note(store, who="me", what="run requested", subject=subject, detail={"age": age})
        _set(store, noted, noted.c.number == events.listed(store, limit=1)[0].number, at=T0 - age * DAY)
    assert retention.prune(store, runs=None, days=None, now=T0).events == 0
    assert retention.prune(store, runs=None, days=5.5, now=T0).events == 4
    assert [one.detail["age"] for one in events.listed(store)] == [4, 5]
    assert retention.prune(store, runs=None, days=5.5, now=T0).events == 0


def test_tokens_that_ended_are_forgotten_and_sessions_at_once(store: Store) -> None:
    retention.prune(store, runs=None, days=1, now=T0 + 9000 * DAY)
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
        tokens.create(store, name=name, scope="read")
        _set(store, made_tokens, made_tokens.c.name == name, **values)
    gone = {"session expired", "session revoked"}
    assert retention.prune(store, runs=None, days=None, now=T0).tokens == 2
    assert {one.name for one in tokens.listed(store)} == {*ends} - gone
    gone |= {"expired long ago", "revoked long ago"}
    assert retention.prune(store, runs=None, days=5, now=T0).tokens == 2
    assert {one.name for one in tokens.listed(store)} == {*ends} - gone


def test_the_file_shrinks(file_store: Store) -> None:
    path = Path(file_store.name.removeprefix("sqlite:///"))
    for _ in range(4):
        ended(file_store, "a", report=os.urandom(3_000_000))
    runs.listed(file_store)
    with file_store.engine.raw_connection() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = path.stat().st_size
    pruned = retention.prune(file_store, runs=1, days=None, now=T0)
    assert pruned.runs == 3 and pruned.bytes is not None and pruned.bytes > 8_000_000
    assert path.stat().st_size == before - pruned.bytes
    assert len(runs.report(file_store, runs.listed(file_store)[0].run) or b"") == 3_000_000


def _make(store: Store, run: str, **values: object) -> None:
    _set(store, table, table.c.run == run, **values)


def _set(store: Store, kept: sa.Table, which: sa.ColumnElement[bool], **values: object) -> None:
    store.write(lambda connection: connection.execute(sa.update(kept).where(which).values(**values)) and None)
