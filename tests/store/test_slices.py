"""One-off runs, of a slice or with other settings, do not affect the standing of their audit, on every database."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from auditor.store import Store, audit_state, pruning, run_lifecycle, runs
from tests.store.samples import DONE, FAILED, T0, add_finished_run, make_chunk, new_audit_name, start_run

KEYS: dict[str, Any] = {"keys": {"from": -(2**63), "to": 2**64 - 1}}
TIMES: dict[str, Any] = {"times": {"from": "2026-03-01"}}
SETTINGS: dict[str, Any] = {"method": "exact", "t": 3, "recheck": {"times": 1}}


def add_slice_run(store: Store, audit: str, overrides: dict[str, Any], outcome: run_lifecycle.Outcome = DONE) -> str:
    """Start and finish a run with these overrides, and return its id."""
    run = start_run(store, audit, overrides=overrides)
    run_lifecycle.save_plan(store, run, plan=b"plan", schema={})
    run_lifecycle.save_chunk(store, run, make_chunk())
    run_lifecycle.finish_run(store, run, outcome)
    return run


@pytest.mark.few
@pytest.mark.parametrize("overrides", [KEYS, TIMES, SETTINGS, {"threshold": 0}, {"force": True, "t": 2}, {**SETTINGS, **KEYS, **TIMES}])
def test_one_off_runs_do_not_change_the_standing(store: Store, overrides: dict[str, Any]) -> None:
    audit = new_audit_name()
    whole = add_slice_run(store, audit, {"force": True})
    parts = [add_slice_run(store, audit, overrides) for _ in range(2)]
    living = start_run(store, audit, overrides=overrides)
    assert [one.run for one in runs.list_runs(store, audit=audit)] == [living, *reversed(parts), whole]
    assert [one.run for one in runs.list_runs(store, audit=audit, own_only=True)] == [whole]
    for latest in (runs.get_latest_run(store, audit), runs.get_latest_run(store, audit, done_only=False)):
        assert latest and latest.run == whole and not latest.is_one_off
    for found in (runs.list_latest_runs(store, audit), runs.list_latest_runs(store)):
        assert [(one.run, one.is_one_off) for one in found[audit]] == [(living, True), (whole, False)]
    assert [one.run for one in runs.list_scores(store, T0 - dt.timedelta(days=9999), audit)[audit]] == [whole]
    assert runs.get_run(store, parts[0]).overrides == overrides, "keys beyond 64 bits were changed"
    assert audit_state.get_state(store, audit).run_count == 1


def test_slice_runs_are_not_counted(store: Store) -> None:
    audit = new_audit_name()
    add_finished_run(store, audit)
    run = add_slice_run(store, audit, KEYS, FAILED)
    assert audit_state.get_state(store, audit).run_count == 1
    run_lifecycle.resume_run(store, run)
    assert audit_state.get_state(store, audit).run_count == 1, "resuming a slice run decremented the count"


def test_audit_with_slice_runs_only(store: Store) -> None:
    audit = new_audit_name()
    add_slice_run(store, audit, TIMES)
    assert runs.get_latest_run(store, audit) is None and runs.list_latest_runs(store, audit) == {}
    assert audit_state.get_state(store, audit) == audit_state.AuditState()


def test_last_run_of_the_whole_table_is_preserved(store: Store) -> None:
    audit = new_audit_name()
    whole = add_finished_run(store, audit)
    parts = [add_slice_run(store, audit, KEYS) for _ in range(3)]
    pruning.prune(store, runs=1, days=None, now=T0)
    assert [one.run for one in runs.list_runs(store, audit=audit)] == [parts[-1], whole]
