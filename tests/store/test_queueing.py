"""Requested runs are executed once, in order and with the settings of their start, by the workers of one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.config import Channel, Notify, Settings
from auditor.errors import ConfigError, NotResumable, QueueFull, UnknownAudit
from auditor.model import Report, State, Verdict
from auditor.service import audits, notify, stored_runs, workers
from auditor.service.workers import Workers, request_resume, request_run
from auditor.store import Store, events, queue, runs
from tests.durations import SetDurations
from tests.store.service import QUICK_CHUNK, SMALL_CHUNKS, finished_chunks, wait_until

pytestmark = [pytest.mark.clock, pytest.mark.parametrize("make_url", [pytest.param("sqlite")], indirect=True, scope="module")]
"""These tests are about the service; what they ask of a store is proved for every database in `test_queue`."""


def test_invalid_requests_are_rejected(configured: tuple[Path, Settings, Store]) -> None:
    _, settings, store = configured
    with pytest.raises(UnknownAudit):
        request_run(settings, store, "b0")
    with pytest.raises(ConfigError, match="cannot override"):
        request_run(settings, store, "a0", overrides={"where": "1=1"})
    assert runs.list_runs(store) == []
    one = request_run(settings, store, "a0", overrides={"method": "signature"}, reason="why", requested_by="me", idempotency="x")
    assert request_run(settings, store, "a0", overrides={"method": "signature"}, idempotency="x").how == "same"
    assert request_run(settings, store, "a0").how == "pending"
    [event] = events.list_events(store)
    assert (event.actor, event.action, event.subject, event.detail["overrides"]) == (
        "me",
        "run requested",
        one.run,
        {"method": "signature"},
    )
    full = settings.model_copy(update={"service": settings.service.model_copy(update={"queue": 1})})
    with pytest.raises(QueueFull):
        request_run(full, store, "a1")


@pytest.mark.slow
def test_workers_stop_their_own_run(
    configured: tuple[Path, Settings, Store], monkeypatch: pytest.MonkeyPatch, set_durations: SetDurations
) -> None:
    _, settings, store = configured
    for name, value in SMALL_CHUNKS.items():
        monkeypatch.setattr(name, value)
    set_durations(chunk_aim=QUICK_CHUNK, requeue=0.5)
    run = request_run(settings, store, "big").run
    workers = Workers(settings, store, 1)
    workers.start()
    wait_until(lambda: finished_chunks(store, run), "no chunk was read")
    assert workers.running() == [run] and workers.stop_run(run) and not workers.stop_run("another")
    wait_until(lambda: runs.get_run(store, run).ended, "the stopped run has not finished")
    found = runs.get_run(store, run)
    assert found.state is State.CANCELLED and found.resumable
    assert request_resume(settings, store, run, requested_by="me").state is State.PENDING
    monkeypatch.undo()
    set_durations.close()
    wait_until(lambda: runs.get_run(store, run).state is State.DONE, "the resumed run has not finished")
    with pytest.raises(NotResumable):
        request_resume(settings, store, run)
    workers.stop(5.0)
    assert workers.running() == []


def test_run_of_a_deleted_audit_fails_and_the_next_one_runs(configured: tuple[Path, Settings, Store]) -> None:
    _, settings, store = configured
    deleted, broken, fine = (request_run(settings, store, name).run for name in ("a0", "a1", "a2"))
    left = settings.model_copy(update={"audits": {name: one for name, one in settings.audits.items() if name != "a0"}})
    reports = list(workers.run_pending(left, store))
    assert [(report.run, report.exit_code) for report in reports] == [(deleted, 2), (broken, 1), (fine, 1)]
    assert queue.count_waiting(store) == 0
    failed = runs.get_run(store, deleted)
    assert failed.state is State.FAILED and failed.exit_code == 2 and "there is no audit" in failed.reasons[0]
    assert (reports[0].state, reports[0].verdict, reports[0].reasons) == (State.FAILED, Verdict.UNKNOWN, failed.reasons)


def test_channels_are_notified_of_a_run_of_a_deleted_audit(
    configured: tuple[Path, Settings, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, settings, store = configured
    notified: list[Report] = []
    monkeypatch.setattr("auditor.service.notify.Batch.add", lambda _, __, report: notified.append(report))
    request_run(settings, store, "a0")
    assert list(workers.run_pending(settings.model_copy(update={"audits": {}}), store)) == notified != []


def test_internal_error_fails_one_run_only(configured: tuple[Path, Settings, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    _, settings, store = configured
    first, second = (request_run(settings, store, name).run for name in ("a0", "a1"))
    run_claimed = stored_runs.run_claimed

    def faulty(settings: Settings, store: Store, claimed: Any, *more: Any) -> Any:
        if claimed.run == first:
            raise ZeroDivisionError
        return run_claimed(settings, store, claimed, *more)

    monkeypatch.setattr(stored_runs, "run_claimed", faulty)
    assert [(report.run, report.exit_code) for report in workers.run_pending(settings, store)] == [(first, 4), (second, 1)]
    assert "ZeroDivisionError" in runs.get_run(store, first).reasons[0]


def test_one_off_run_that_cannot_start_is_told_to_nobody(configured: tuple[Path, Settings, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    _, settings, store = configured
    sent: list[str] = []
    monkeypatch.setattr(notify, "send", lambda _, __, message, *___: sent.append(message.title))
    channels = Notify(channels={"ops": Channel(url="json://127.0.0.1")})
    rest = {name: audit for name, audit in settings.audits.items() if name != "a0"}
    later = settings.model_copy(update={"audits": rest, "notify": channels})
    for overrides, told in (({"t": 2, "method": "exact"}, []), ({"t": 3}, ["a0: run FAILED"])):
        request_run(settings, store, "a0", overrides=overrides)
        [report] = workers.run_pending(later, store)
        assert report.state is State.FAILED and bool(report.other_settings) == (not told) and sent == told


def test_run_uses_the_settings_at_its_start(configured: tuple[Path, Settings, Store]) -> None:
    _, settings, store = configured
    run = request_run(settings, store, "a0").run
    now = settings.audits["a0"].model_copy(update={"method": "signature"})
    [report] = workers.run_pending(settings.model_copy(update={"audits": {**settings.audits, "a0": now}}), store)
    assert report.method == "signature" and runs.get_run(store, run).definition["method"] == "signature"


def test_overview_of_audits(configured: tuple[Path, Settings, Store]) -> None:
    _, settings, store = configured
    request_run(settings, store, "a0")
    list(workers.run_pending(settings, store))
    waits = request_run(settings, store, "a0").run
    found = {one.name: one for one in audits.overview(settings, store)}
    a0 = found["a0"]
    assert a0.standing.run and a0.standing.active and a0.standing.active.run == waits and len(a0.trend) == 1
    assert found["a1"].standing.status == "never" and found["a1"].trend == () and found["berlin"].next_due and not found["a1"].next_due
    audits.pause(settings, store, "berlin", by="me")
    [berlin] = [one for one in audits.overview(settings, store) if one.name == "berlin"]
    assert berlin.paused and berlin.next_due is None
    assert [one.action for one in events.list_events(store, limit=1)] == ["audit paused"]


def test_defined_audits_cannot_contain_sql_or_files(configured: tuple[Path, Settings, Store]) -> None:
    _, settings, store = configured
    fine: dict[str, Any] = {"source": {"connection": "a", "table": "t"}, "target": {"connection": "b", "table": "t"}, "key": ["id"]}
    wrong: list[dict[str, Any]] = [
        {"where": "1 = 1"},
        {"columns": {"override": {"v": {"expr": "1", "kind": "integer"}}}},
        {"source": {"connection": "a", "table": "/etc/passwd.csv"}},
        {"source": {"connection": "a", "table": "x", "format": "csv"}},
        {"source": {"connection": "nowhere", "table": "t"}},
        {"settle": {"grace": "1m", "column": "v"}},
        {"via": {"connection": "a", "table": "t"}},
    ]
    for more in wrong:
        with pytest.raises(ConfigError):
            audits.define(settings, store, "mine", {**fine, **more}, "me")
    for name in ("a0", "a.b", "", "../x"):
        with pytest.raises(ConfigError):
            audits.define(settings, store, name, fine, "me")
    assert audits.with_defined_audits(settings, store) is settings
    audits.define(settings, store, "mine", fine, "me")
    assert "mine" in audits.with_defined_audits(settings, store).audits
    request_run(settings, store, "mine")
    [report] = workers.run_pending(settings, store)
    assert report.audit == "mine" and report.verdict is Verdict.MISMATCH
    audits.drop(store, "mine", "me")
    with pytest.raises(UnknownAudit):
        request_run(settings, store, "mine")
