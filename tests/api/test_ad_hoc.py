"""Ad-hoc runs over HTTP: an audit that is defined with its one run, and in no list."""

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
from auditor.kept import packed_plan
from auditor.model import State
from auditor.notify import decide
from auditor.report.day import day
from auditor.service.queueing import request_ad_hoc, work_off
from auditor.store import events, queue, retention, runs, standing
from auditor.store._schema import audits as definitions
from tests.api.conftest import Service, made, visiting
from tests.api.test_client import listening

__all__ = ["listening"]

ORDERS: dict[str, Any] = {
    "source": {"connection": "shop", "table": "orders"},
    "target": {"connection": "warehouse", "table": "orders"},
    "key": ["id"],
    "threshold": 0.9,
    "columns": {"exclude": ["name"]},
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Service]:
    """A service of its own, whose runs are carried out when a test says so."""
    with made(tmp_path, queue=3) as found:
        yield found


def asked(served: Service, **more: Any) -> str:
    """The address of an ad-hoc run that was requested."""
    answer = served.client("define").post("/api/v1/runs", json={**ORDERS, **more})
    assert answer.status_code == 202, answer.text
    return answer.headers["Location"]


def test_it_is_run_and_told_like_any_other(served: Service) -> None:
    place = asked(served, reason="a new replica")
    client = served.client("read")
    waits = client.get(place).json()
    assert (waits["state"], waits["reason"], waits["requested_by"]) == ("pending", "a new replica", "the define token")
    [report] = work_off(served.settings, served.store)
    assert (report.state, report.audit) == (State.DONE, f"ad-hoc-{report.run[:12]}")
    found = client.get(place).json()
    assert (found["audit"], found["verdict"]) == (report.audit, "match")  # three rows of 2,001 are above its threshold
    assert (found["missing"], found["extra"], found["changed"]) == (1, 1, 0)  # the third differs in a column that was left out
    assert found["definition"]["columns"] == {"exclude": ["name"]} and found["definition"]["key"] == ["id"]
    assert client.get(place + "/report").json()["verdict"] == "match"
    assert len(client.get(f"{place}/differences").json()["items"]) == 2
    assert [one["run"] for one in client.get(f"/api/v1/runs?audit={report.audit}").json()["items"]] == [report.run]
    assert client.get(f"/api/v1/runs/{served.runs['orders']}").json()["definition"] is None
    noted = events.listed(served.store, limit=1)[0]
    assert (noted.what, noted.who, noted.subject) == ("run requested", "the define token", report.run)
    assert noted.detail["definition"]["source"] == ORDERS["source"]


def test_it_is_no_audit_of_the_list(served: Service) -> None:
    client = served.client("define")
    before = client.get("/api/v1/audits").json()
    place = asked(served)
    name = client.get(place).json()["audit"]
    list(work_off(served.settings, served.store))
    assert client.get("/api/v1/audits").json() == before
    assert client.get(f"/api/v1/audits/{name}").status_code == 404
    assert client.post(f"/api/v1/audits/{name}/runs").status_code == 404
    today = day(served.store, served.settings, dt.datetime.now(dt.UTC).date())
    assert sorted(entry.audit for entry in today.entries) == sorted(served.settings.audits)
    told = client.get("/metrics").text
    assert 'auditor_runs_total{audit="ad-hoc",state="done",verdict="match"} 1.0' in told
    assert name not in told
    # Its name cannot be taken from it, and its definition can be kept under another.
    assert client.put(f"/api/v1/audits/{name}", json=ORDERS).status_code == 422
    assert client.post("/api/v1/audits", json={"name": "kept", **ORDERS}).status_code == 201


def test_nobody_else_is_told_of_it(served: Service) -> None:
    place = asked(served, threshold=1.0)
    [report] = work_off(served.settings, served.store)
    assert report.verdict.value == "mismatch" and place.endswith(report.run)
    stands = standing.get(served.store, report.audit)
    assert decide(stands, report, dt.datetime.now(dt.UTC), 0.0) is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"source": {"connection": "nowhere", "table": "orders"}}, "nowhere"),
        ({"target": {"connection": "warehouse", "table": "none_such"}}, "none_such"),
        ({"target": {"connection": "warehouse", "table": "orders; DROP TABLE orders"}}, "table"),
        ({"key": ["id) OR (1=1"]}, "id) OR (1=1"),
        ({"columns": {"include": ["no_such_column"]}}, "no_such_column"),
        ({"where": "1 = 1"}, "where"),
    ],
)
def test_it_is_checked_against_the_databases(served: Service, change: dict[str, Any], said: str) -> None:
    refused = served.client("define").post("/api/v1/runs", json={**ORDERS, **change})
    assert refused.status_code in (404, 409, 422), refused.text
    assert said in refused.text
    assert not runs.living(served.store)


def test_a_request_made_twice_is_one_run(served: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    client, key = served.client("define"), {"Idempotency-Key": "one"}
    first = client.post("/api/v1/runs", json=ORDERS, headers=key)
    monkeypatch.setattr(service.planning, "planned", lambda *_: pytest.fail("it was planned again"))
    again = client.post("/api/v1/runs", json={**ORDERS, "reason": "patience"}, headers=key)
    assert again.status_code == first.status_code == 202
    assert again.headers["Location"] == first.headers["Location"]
    other = client.post("/api/v1/runs", json={**ORDERS, "key": []}, headers=key)
    assert other.status_code == 422 and "something else" in other.text
    assert client.post("/api/v1/audits/orders/runs", headers=key).status_code == 422
    assert len(runs.living(served.store)) == 1


def test_a_full_queue_refuses_it(served: Service) -> None:
    for _ in range(3):  # of the same tables as often as somebody asks
        asked(served)
    refused = served.client("define").post("/api/v1/runs", json=ORDERS)
    assert refused.status_code == 429 and refused.json()["retryable"] is True


@pytest.mark.parametrize("how", ["queued", "at once"])
def test_it_goes_on_from_what_was_read(served: Service, how: str) -> None:
    place = asked(served)
    found = interrupted(served)
    assert (found.state, found.resumable, found.is_ad_hoc) == (State.CANCELLED, True, True)
    if how == "queued":
        assert served.client("run").post(f"{place}/resume").status_code == 202
        [report] = work_off(served.settings, served.store)
    else:
        report = service.resume(served.settings, served.store, found.run)
    assert (report.run, report.state, report.verdict.value) == (found.run, State.DONE, "match")


def interrupted(served: Service) -> runs.StoredRun:
    """The run that waits, ended after its plan was kept."""
    claimed = queue.claim(served.store)
    assert claimed
    settings = service.chains.of_run(served.settings, claimed)
    plan = service.planned(settings, claimed.audit, service.audit(settings, claimed.audit))
    runs.pin(served.store, claimed.run, plan=packed_plan(plan), schema={})
    outcome = runs.Outcome(state=State.CANCELLED, verdict=claimed.verdict, exit_code=3, seconds=0.1, resumable=True)
    runs.finish(served.store, claimed.run, outcome)
    return runs.find(served.store, claimed.run)


def test_a_connection_that_went_ends_it(served: Service) -> None:
    place = asked(served)
    fewer = Settings.model_validate(
        {"connections": {"shop": {"url": served.settings.connections["shop"].url}}, "audits": {}, "store": served.settings.store}
    )
    [report] = work_off(fewer, served.store)
    assert report.state is State.FAILED and "'warehouse', which is configured no more" in report.reasons[0]
    assert served.client("read").get(place).json()["state"] == "failed"


def test_those_beyond_the_limits_are_dropped_with_their_definitions(served: Service) -> None:
    for _ in range(3):
        asked(served)
        list(work_off(served.settings, served.store))
    names = [one.audit for one in runs.listed(served.store) if one.is_ad_hoc]
    now = dt.datetime.now(dt.UTC)
    assert retention.prune(served.store, runs=2, days=None, now=now).runs == 1
    assert known(served) == set(names[:2])
    assert retention.prune(served.store, runs=None, days=1, now=now + dt.timedelta(days=9)).runs == 2
    assert known(served) == set()
    assert {one.audit for one in runs.listed(served.store)} == {"orders", "same"}  # the newest of an audit stays
    assert {"orders", "same"} <= set(standing.every(served.store))


def known(served: Service) -> set[str]:
    """The ad-hoc audits of which anything is kept."""
    with served.store.reading() as connection:
        defined = {row.audit for row in connection.execute(definitions.select())}
    stand = set(standing.every(served.store))
    assert {one for one in defined if one.startswith(runs.AD_HOC)} == {one for one in stand if one.startswith(runs.AD_HOC)}
    return {one for one in defined if one.startswith(runs.AD_HOC)}


def test_its_page_leads_to_no_audit(served: Service) -> None:
    place = asked(served)
    list(work_off(served.settings, served.store))
    run = place.rpartition("/")[2]
    name = runs.ad_hoc(run)
    with visiting(create_app(served.settings, served.store, insecure=True)) as client:
        page = client.get(f"/runs/{run}")
    assert page.status_code == 200 and name in page.text and f"/audits/{name}" not in page.text


def test_from_python(listening: tuple[Service, str]) -> None:
    served, url = listening
    client = Client(url, served.tokens["define"])
    ended = client.wait(client.request_ad_hoc(ORDERS, reason="to see", idempotency="ad-hoc")["run"], seconds=60)
    assert (ended["state"], ended["verdict"]) == ("done", "match")
    with pytest.raises(ConfigError):
        client.request_ad_hoc({**ORDERS, "where": "1 = 1"})
    with pytest.raises(UnknownAudit):
        client.request(ended["audit"])
    with pytest.raises(Forbidden):
        Client(url, served.tokens["run"]).request_ad_hoc(ORDERS)


def test_a_definition_holds_what_may_be_asked_for_alone(served: Service) -> None:
    with pytest.raises(ConfigError, match="only be written in the configuration"):
        request_ad_hoc(served.settings, served.store, {**ORDERS, "via": {"connection": "shop", "table": "orders"}})
