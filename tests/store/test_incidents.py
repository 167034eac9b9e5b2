"""Incidents and limited tokens on every supported store."""

from __future__ import annotations

import datetime as dt
import threading

import pytest

from auditor.errors import NoIncident
from auditor.store import Store, events, incidents, runs, tokens
from tests.store.samples import new_audit_name, start_run


def test_incident_from_mismatch_to_recovery(store: Store) -> None:
    audit, other = new_audit_name(), new_audit_name()
    until = dt.datetime(2099, 1, 1, tzinfo=dt.UTC)
    incidents.record_found(store, audit, "a" * 32, "warning")
    incidents.record_found(store, other, "c" * 32, "mismatch")
    incidents.record_found(store, audit, "b" * 32, "mismatch")
    known = incidents.acknowledge(store, audit, by="ann", why="größer 🙂", muted=True, until=until, differences="known")
    assert known == incidents.get_open(store, audit) == incidents.list_open(store)[audit]
    assert (known.state, known.severity, known.first_run, known.last_run) == ("muted", "mismatch", "a" * 32, "b" * 32)
    assert known.acknowledgement is not None
    assert (known.acknowledgement.why, known.acknowledgement.until, known.acknowledgement.run) == ("größer 🙂", until, "b" * 32)
    assert incidents.end_acknowledgement(store, audit, by="bob", why="withdrawn").state == "open"
    assert [event.action for event in events.list_events(store, limit=2)] == ["acknowledgement ended", "incident muted"]
    incidents.acknowledge(store, audit, by="ann", why="again", muted=False, until=None, differences="all")
    incidents.close(store, audit, "d" * 32)
    (closed,) = incidents.list_incidents(store, audit=audit)
    assert (closed.state, closed.closing_run) == ("closed", "d" * 32)
    assert closed.acknowledgement is not None, "who knew of it stays known"
    assert [one.audit for one in incidents.list_incidents(store, among=[other], limit=5)] == [other]
    with pytest.raises(NoIncident):
        incidents.end_acknowledgement(store, audit, by="bob", why="withdrawn")


def test_runs_that_end_at_once_open_one_incident(store: Store) -> None:
    audit = new_audit_name()
    threads = [threading.Thread(target=incidents.record_found, args=(store, audit, f"{n:032x}", "mismatch")) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(incidents.list_incidents(store, audit=audit)) == 1


def test_runs_and_tokens_of_some_audits(store: Store) -> None:
    audit, other = new_audit_name(), new_audit_name()
    run, _ = start_run(store, audit), start_run(store, other)
    assert [one.run for one in runs.list_runs(store, among=[audit, "none"])] == [run]
    assert runs.list_runs(store, among=[]) == []
    assert {audit, other} <= set(runs.list_audits(store))
    secret = tokens.create_token(store, name=f"of {audit}", scope="run", audits=["shop.*", "größer"])
    assert tokens.verify_token(store, secret).audits == ("shop.*", "größer")
    session = tokens.create_session(store, tokens.verify_token(store, secret), dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    assert tokens.verify_token(store, session).audits == ("shop.*", "größer")
