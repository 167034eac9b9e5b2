"""Ad-hoc runs over HTTP: the request contains the definition of an audit that runs once and is not listed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auditor import service
from auditor.api import create_app
from auditor.client import Client
from auditor.config import Settings
from auditor.errors import ConfigError, Forbidden, UnknownAudit
from auditor.history.checkpoint import StoreCheckpoint
from auditor.model import Chunk, State
from auditor.report.day import load_day
from auditor.service import stored_runs
from auditor.service.definitions import settings_for_run
from auditor.service.notify import choose_occasion
from auditor.service.workers import request_ad_hoc, run_pending
from auditor.sql import render
from auditor.store import audit_state, events, pruning, queue, run_lifecycle, runs
from auditor.store.schema import audit_versions as definitions
from auditor.summary import arrays
from tests.api.conftest import Service, TemporaryService, make_client

ORDERS: dict[str, Any] = {
    "source": {"connection": "shop", "table": "orders"},
    "target": {"connection": "warehouse", "table": "orders"},
    "key": ["id"],
    "threshold": 0.9,
    "columns": {"exclude": ["name"]},
}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Service]:
    """A separate service per test; the test executes its pending runs itself."""
    with TemporaryService(tmp_path, queue=3) as found:
        yield found


def request_run(own: Service, **more: Any) -> str:
    """Request an ad-hoc run and return its path."""
    answer = own.client("define").post("/api/v1/runs", json={**ORDERS, **more})
    assert answer.status_code == 202, answer.text
    return answer.headers["Location"]


def test_ad_hoc_run_is_executed_and_reported_like_any_other(own: Service) -> None:
    place = request_run(own, reason="a new replica")
    client = own.client("read")
    pending = client.get(place).json()
    assert (pending["state"], pending["reason"], pending["requested_by"]) == ("pending", "a new replica", "the define token")
    for of in ("report", "partitions", "differences"):
        answer = client.get(f"{place}/{of}")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:auditor:problem:NoReport"), of
    assert (page := client.get(f"/runs/{pending['run']}/report.text")).status_code == 404 and "has no report" in page.text
    [report] = run_pending(own.settings, own.store)
    assert (report.state, report.audit) == (State.DONE, f"ad-hoc-{report.run[:12]}")
    found = client.get(place).json()
    assert (found["audit"], found["verdict"]) == (report.audit, "match")  # three rows of 2,001 are above its threshold
    assert (found["missing"], found["extra"], found["changed"]) == (1, 1, 0)  # the third differs in a column that was left out
    assert found["definition"]["columns"] == {"exclude": ["name"]} and found["definition"]["key"] == ["id"]
    assert client.get(place + "/report").json()["verdict"] == "match"
    assert len(client.get(f"{place}/differences").json()["items"]) == 2
    assert [one["run"] for one in client.get(f"/api/v1/runs?audit={report.audit}").json()["items"]] == [report.run]
    assert client.get(f"/api/v1/runs/{own.runs['orders']}").json()["definition"] is None
    noted = events.list_events(own.store, limit=1)[0]
    assert (noted.action, noted.actor, noted.subject) == ("run requested", "the define token", report.run)
    assert noted.detail["definition"]["source"] == ORDERS["source"]


@pytest.mark.slow
def test_ad_hoc_audit_is_not_listed(own: Service) -> None:
    client = own.client("define")
    before = client.get("/api/v1/audits").json()
    place = request_run(own)
    name = client.get(place).json()["audit"]
    list(run_pending(own.settings, own.store))
    assert client.get("/api/v1/audits").json() == before
    assert client.get(f"/api/v1/audits/{name}").status_code == 404
    assert client.post(f"/api/v1/audits/{name}/runs").status_code == 404
    today = load_day(own.store, own.settings, dt.datetime.now(dt.UTC).date())
    assert sorted(entry.audit for entry in today.entries) == sorted(own.settings.audits)
    metrics = client.get("/metrics").text
    assert 'auditor_runs_total{audit="ad-hoc",settings="own",state="done",verdict="match"} 1.0' in metrics
    assert name not in metrics
    # No audit can be defined under its name, but its definition can be stored under another.
    assert client.put(f"/api/v1/audits/{name}", json=ORDERS).status_code == 422
    assert client.post("/api/v1/audits", json={"name": "kept", **ORDERS}).status_code == 201


def test_no_notification_is_sent_for_an_ad_hoc_run(own: Service) -> None:
    place = request_run(own, threshold=1.0)
    [report] = run_pending(own.settings, own.store)
    assert report.verdict.value == "mismatch" and place.endswith(report.run)
    standing = audit_state.get_state(own.store, report.audit)
    assert choose_occasion(standing, report, dt.datetime.now(dt.UTC), 0.0, report.verdict) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": {"connection": "nowhere", "table": "orders"}}, "nowhere"),
        ({"target": {"connection": "warehouse", "table": "none_such"}}, "none_such"),
        ({"target": {"connection": "warehouse", "table": "orders; DROP TABLE orders"}}, "table"),
        ({"key": ["id) OR (1=1"]}, "id) OR (1=1"),
        ({"columns": {"include": ["no_such_column"]}}, "no_such_column"),
        ({"where": "1 = 1"}, "where"),
    ],
)
def test_definition_is_checked_against_the_databases(served: Service, change: dict[str, Any], message: str) -> None:
    refused = served.client("define").post("/api/v1/runs", json={**ORDERS, **change})
    assert refused.status_code in (404, 409, 422), refused.text
    assert message in refused.text
    assert not runs.get_active_runs(served.store)


def test_repeated_request_with_an_idempotency_key_is_one_run(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    client, key = own.client("define"), {"Idempotency-Key": "one"}
    first = client.post("/api/v1/runs", json=ORDERS, headers=key)
    monkeypatch.setattr(service.planning, "make_plan", lambda *_: pytest.fail("the repeated request was planned again"))
    again = client.post("/api/v1/runs", json={**ORDERS, "reason": "patience"}, headers=key)
    assert again.status_code == first.status_code == 202
    assert again.headers["Location"] == first.headers["Location"]
    other = client.post("/api/v1/runs", json={**ORDERS, "key": []}, headers=key)
    assert other.status_code == 422 and "another request" in other.text
    assert client.post("/api/v1/audits/orders/runs", headers=key).status_code == 422
    assert len(runs.get_active_runs(own.store)) == 1


def test_full_queue_rejects_ad_hoc_runs(own: Service) -> None:
    for _ in range(3):  # the same definition may be pending more than once
        request_run(own)
    refused = own.client("define").post("/api/v1/runs", json=ORDERS)
    assert refused.status_code == 429 and refused.json()["retryable"] is True


@pytest.mark.quick_for("at once")
@pytest.mark.parametrize("how", ["queued", "at once"])
def test_cancelled_ad_hoc_run_is_resumed(own: Service, how: str) -> None:
    place = request_run(own)
    found = cancel_planned_run(own)
    assert (found.state, found.resumable, found.is_ad_hoc) == (State.CANCELLED, True, True)
    if how == "queued":
        assert own.client("run").post(f"{place}/resume").status_code == 202
        [report] = run_pending(own.settings, own.store)
    else:
        report = stored_runs.resume(own.settings, own.store, found.run)
    assert (report.run, report.state, report.verdict.value) == (found.run, State.DONE, "match")


def cancel_planned_run(own: Service) -> runs.StoredRun:
    """Claim the pending run, save its plan and an empty chunk, and finish it as cancelled and resumable."""
    claimed = queue.claim_run(own.store)
    assert claimed
    settings = settings_for_run(own.settings, claimed)
    plan = service.make_plan(settings, claimed.audit, service.audit(settings, claimed.audit))
    saver = StoreCheckpoint(own.store, claimed.run)
    saver.save_plan(plan, {})
    saver.save_chunk("source", Chunk(None, plan.least), arrays.read([], render.result_columns(plan)), 0.1, 1)
    saver.save_rest()
    outcome = run_lifecycle.Outcome(state=State.CANCELLED, verdict=claimed.verdict, exit_code=3, seconds=0.1, resumable=True)
    run_lifecycle.finish_run(own.store, claimed.run, outcome)
    return runs.get_run(own.store, claimed.run)


@pytest.mark.slow
def test_run_fails_when_its_connection_is_no_longer_configured(own: Service) -> None:
    place = request_run(own)
    remaining = Settings.model_validate(
        {"connections": {"shop": {"url": own.settings.connections["shop"].url}}, "audits": {}, "store": own.settings.store}
    )
    [report] = run_pending(remaining, own.store)
    assert report.state is State.FAILED and "'warehouse', which is no longer configured" in report.reasons[0]
    assert own.client("read").get(place).json()["state"] == "failed"


@pytest.mark.slow
def test_pruning_deletes_ad_hoc_runs_with_their_definitions(own: Service) -> None:
    for _ in range(3):
        request_run(own)
        list(run_pending(own.settings, own.store))
    names = [one.audit for one in runs.list_runs(own.store) if one.is_ad_hoc]
    now = dt.datetime.now(dt.UTC)
    assert pruning.prune(own.store, runs=2, days=None, now=now).runs == 1
    assert ad_hoc_audits(own) == set(names[:2])
    assert pruning.prune(own.store, runs=None, days=1, now=now + dt.timedelta(days=9)).runs == 2
    assert ad_hoc_audits(own) == set()
    assert {one.audit for one in runs.list_runs(own.store)} == {"orders", "same"}  # the newest of an audit stays
    assert {"orders", "same"} <= set(audit_state.get_states(own.store))


def ad_hoc_audits(own: Service) -> set[str]:
    """Return the ad-hoc audits in the store, which must have both a definition and a standing."""
    with own.store.reading() as connection:
        defined = {row.audit for row in connection.execute(definitions.select())}
    stand = set(audit_state.get_states(own.store))
    assert {one for one in defined if one.startswith(runs.AD_HOC_PREFIX)} == {one for one in stand if one.startswith(runs.AD_HOC_PREFIX)}
    return {one for one in defined if one.startswith(runs.AD_HOC_PREFIX)}


@pytest.mark.slow
def test_page_of_an_ad_hoc_run_does_not_link_to_an_audit(own: Service) -> None:
    place = request_run(own)
    list(run_pending(own.settings, own.store))
    run = place.rpartition("/")[2]
    name = runs.ad_hoc_audit(run)
    with make_client(create_app(own.settings, own.store, insecure=True)) as client:
        page = client.get(f"/runs/{run}")
    assert page.status_code == 200 and name in page.text and f"/audits/{name}" not in page.text


def test_python_client_requests_an_ad_hoc_run(listening: tuple[Service, str]) -> None:
    served, url = listening
    client = Client(url, served.tokens["define"])
    finished = client.wait(client.request_ad_hoc(ORDERS, reason="to see", idempotency="ad-hoc").run, seconds=60)
    assert (finished.state, finished.verdict) == ("done", "match")
    with pytest.raises(ConfigError):
        client.request_ad_hoc({**ORDERS, "where": "1 = 1"})
    with pytest.raises(UnknownAudit):
        client.request(finished.audit)
    with pytest.raises(Forbidden):
        Client(url, served.tokens["run"]).request_ad_hoc(ORDERS)


def test_definition_rejects_settings_allowed_only_in_the_configuration(served: Service) -> None:
    with pytest.raises(ConfigError, match="only allowed in the configuration"):
        request_ad_hoc(served.settings, served.store, {**ORDERS, "via": {"connection": "shop", "table": "orders"}})
