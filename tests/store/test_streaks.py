"""How long audits have had their verdicts, and runs and differences as lists filter them, on every database."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

from sqlalchemy import update

from auditor.model import State, Verdict
from auditor.store import Store, run_lifecycle, runs, streaks
from auditor.store.schema import runs as table
from tests.store.samples import DONE, FAILED, add_finished_run, new_audit_name, start_run

MATCH = replace(DONE, verdict=Verdict.MATCH, missing=0, changed=0, differences=())


def add(store: Store, audit: str, verdict: Verdict, at: dt.datetime, **more: Any) -> runs.StoredRun:
    """Add a done run that started at a moment."""
    run = start_run(store, audit, **more)
    run_lifecycle.finish_run(store, run, replace(MATCH, verdict=verdict))
    store.write(lambda connection: connection.execute(update(table).where(table.c.run == run).values(started=at)))
    return runs.get_run(store, run)


def test_streak_begins_after_the_last_other_verdict(store: Store) -> None:
    audit, day = new_audit_name(), dt.datetime(2026, 5, 1, 23, 59, tzinfo=dt.UTC)
    first = add(store, audit, Verdict.MATCH, day)
    assert streaks.find_streaks(store, {audit: first}) == {audit: streaks.Streak(first.started, None, True)}
    bad = [add(store, audit, Verdict.MISMATCH, day + dt.timedelta(days=number)) for number in (1, 2)]
    assert streaks.find_streaks(store, {audit: bad[0]})[audit] == streaks.Streak(bad[0].started, Verdict.MATCH, True)
    add_finished_run(store, audit, FAILED)
    add(store, audit, Verdict.MATCH, day + dt.timedelta(days=2), overrides={"threshold": 0})
    assert streaks.find_streaks(store, {audit: bad[1]})[audit] == streaks.Streak(bad[0].started, Verdict.MATCH, False)
    again = add(store, audit, Verdict.MATCH, day + dt.timedelta(days=2, minutes=2))
    assert streaks.find_streaks(store, {audit: again})[audit] == streaks.Streak(again.started, Verdict.MISMATCH, True)
    found = streaks.list_days(store, {audit: again}, dt.date(2026, 5, 2))
    assert found == {
        audit: {dt.date(2026, 5, 2): Verdict.MISMATCH, dt.date(2026, 5, 3): Verdict.MISMATCH, dt.date(2026, 5, 4): Verdict.MATCH}
    }


def test_latest_runs_of_all_audits_are_those_of_each(store: Store) -> None:
    audit = new_audit_name()
    add(store, audit, Verdict.MATCH, dt.datetime(2026, 5, 1, tzinfo=dt.UTC))
    failed, active = add_finished_run(store, audit, FAILED), start_run(store, audit)
    for _ in range(2):  # from the store, and from memory
        latest = runs.list_latest_runs(store)[audit]
        assert latest == runs.list_latest_runs(store, audit)[audit] and [run.run for run in latest][:2] == [active, failed]
    before = runs.list_latest_runs_before(store, dt.datetime(2026, 5, 2, tzinfo=dt.UTC))
    assert [run.state for run in before[audit]] == [State.DONE]
    run_lifecycle.finish_run(store, active, DONE)
    assert [run.run for run in runs.list_latest_runs(store)[audit]] == [active]


def test_runs_are_filtered_by_verdict_time_and_activity(store: Store) -> None:
    audit, day = new_audit_name(), dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
    bad, good = (
        add(store, audit, verdict, day + dt.timedelta(days=number)) for number, verdict in enumerate((Verdict.MISMATCH, Verdict.MATCH))
    )
    assert [run.run for run in runs.list_runs(store, audit=audit, verdict="mismatch")] == [bad.run]
    assert [run.run for run in runs.list_runs(store, audit=audit, since=good.started)] == [good.run]
    assert [run.run for run in runs.list_runs(store, audit=audit, until=good.started)] == [bad.run]
    active = start_run(store, audit)
    assert [run.run for run in runs.list_runs(store, audit=audit, state=runs.ACTIVE)] == [active]
    assert runs.list_runs(store, state=runs.ACTIVE, among=["another"]) == []
    run_lifecycle.finish_run(store, active, MATCH)


def test_differences_are_found_by_column_and_key(store: Store) -> None:
    texts = ("7", "7%", 'a"b', "naïve 🙂", "\ud800", "x_y", "a\\b")
    cell = {"source": "1", "target": "2", "reason": ""}
    named = [runs.StoredDifference(kind="changed", key={"id": text}, columns=[{"name": f"column {text}", **cell}]) for text in texts]
    span = runs.StoredDifference(kind="missing", range={"first": 3, "last": 9, "label": "3 to 9", "rows": 7, "partitions": 1})
    run = add_finished_run(store, new_audit_name(), replace(DONE, differences=(*named, span)))
    for number, text in enumerate(texts, 1):
        assert number in [found for found, _ in runs.list_differences(store, run, column=f"column {text}")], text
        assert {number, len(texts) + 1} <= {found for found, _ in runs.list_differences(store, run, key=text)}, text
    assert [number for number, _ in runs.list_differences(store, run, numbers=[2, 5])] == [2, 5]
    assert runs.list_differences(store, run, column="nowhere") == []
    assert [key for _, key in runs.list_keys(store, run)] == [*((text,) for text in texts), (3,)]
