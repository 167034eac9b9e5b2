"""Runs of a section of a table are told from those of the whole by every question about how an audit stands, on every database."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from auditor.store import Store, retention, runs, standing
from tests.store.samples import DONE, FAILED, T0, begun, ended, new_audit

KEYS: dict[str, Any] = {"keys": {"from": -(2**63), "to": 2**64 - 1}}
TIMES: dict[str, Any] = {"times": {"from": "2026-03-01"}}
SETTINGS: dict[str, Any] = {"method": "exact", "t": 3, "recheck": {"times": 1}}


def section(store: Store, audit: str, overrides: dict[str, Any], outcome: runs.Outcome = DONE) -> str:
    """A run with these overrides that ended."""
    run = begun(store, audit, overrides=overrides)
    runs.pin(store, run, plan=b"plan", schema={})
    runs.finish(store, run, outcome)
    return run


@pytest.mark.parametrize("overrides", [KEYS, TIMES, {**SETTINGS, **KEYS, **TIMES}])
def test_how_an_audit_stands_is_the_whole_tables_business(store: Store, overrides: dict[str, Any]) -> None:
    audit = new_audit()
    whole = section(store, audit, SETTINGS)
    parts = [section(store, audit, overrides) for _ in range(2)]
    living = begun(store, audit, overrides=overrides)
    assert [one.run for one in runs.listed(store, audit=audit)] == [living, *reversed(parts), whole]
    assert [one.run for one in runs.listed(store, audit=audit, whole=True)] == [whole]
    for latest in (runs.latest(store, audit), runs.latest(store, audit, done_only=False)):
        assert latest and latest.run == whole and latest.is_whole
    newest, now = runs.newest_and_living(store, audit)
    assert newest[audit].run == whole and now[audit].run == living and not now[audit].is_whole
    assert runs.newest_and_living(store)[0][audit].run == whole
    assert [one.run for one in runs.scores(store, T0 - dt.timedelta(days=9999), audit)[audit]] == [whole]
    assert runs.find(store, parts[0]).overrides == overrides, "also keys that are beyond 64 bits"
    assert standing.get(store, audit).runs == 1


def test_a_run_of_a_section_has_no_turn_however_it_ends(store: Store) -> None:
    audit = new_audit()
    ended(store, audit)
    run = section(store, audit, KEYS, FAILED)
    assert standing.get(store, audit).runs == 1
    runs.take_up(store, run)
    assert standing.get(store, audit).runs == 1, "and gives none back"


def test_an_audit_of_which_only_sections_were_looked_at(store: Store) -> None:
    audit = new_audit()
    section(store, audit, TIMES)
    assert runs.latest(store, audit) is None and audit not in runs.newest_and_living(store, audit)[0]
    assert standing.get(store, audit) == standing.Standing()


def test_the_last_run_of_the_whole_table_is_kept(store: Store) -> None:
    audit = new_audit()
    whole = ended(store, audit)
    parts = [section(store, audit, KEYS) for _ in range(3)]
    retention.prune(store, runs=1, days=None, now=T0)
    assert [one.run for one in runs.listed(store, audit=audit)] == [parts[-1], whole]
