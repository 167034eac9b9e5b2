"""Segment audits over HTTP: what their sides registered, runs like those of any audit, pages, notices and metrics."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from auditor.api import create_app
from auditor.config import Settings
from auditor.service import scheduler, workers
from auditor.store import Store, audit_state, open_store, tokens
from tests.api.conftest import make_client
from tests.pipeline.two_writers import SIDES, settings_in, stage_all, transactions

AUDIT = "/api/v1/segments/zones"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path}/auditor.db")) as opened:
        yield opened


@pytest.fixture
def settings(store: Store, tmp_path: Path) -> Settings:
    """Two pipelines, of which the second one lost an event and lags behind."""
    found = settings_in(tmp_path, schedule="* * * * *", by="item")
    stage_all(found, store, "shop", transactions(20))
    stage_all(found, store, "eu", [*transactions(16)[:2], *transactions(16)[3:]])
    return found


@pytest.fixture
def client(settings: Settings, store: Store) -> httpx2.Client:
    secret = tokens.create_token(store, name="ops", scope="define")
    return make_client(create_app(settings, store), headers={"Authorization": f"Bearer {secret}"})


def get(client: httpx2.Client, path: str, **parameters: str) -> Any:
    return client.get(path, params=parameters).raise_for_status().json()


def test_a_run_is_requested_stored_and_told_like_any_other(client: httpx2.Client, settings: Settings, store: Store) -> None:
    body, key = {"reason": "after the move"}, {"Idempotency-Key": "k"}
    asked, again = (client.post("/api/v1/audits/zones/runs", json=body, headers=key) for _ in range(2))
    assert asked.status_code == 202 and asked.json()["state"] == "pending" and again.json() == asked.json()
    assert client.post("/api/v1/audits/zones/runs", json={"method": "counts"}).status_code == 422
    [report] = workers.run_pending(settings, store)
    found = get(client, f"/api/v1/runs/{report.run}")
    assert (found["audit"], found["state"], found["verdict"], found["reason"]) == ("zones", "done", "mismatch", "after the move")
    assert "with other bounds (end mismatch)" in found["reasons"][0]
    status = get(client, AUDIT)
    assert (status["status"], status["run"], status["sides"]) == ("mismatch", report.run, list(SIDES))
    assert [one["kind"] for one in status["tables"][0]["findings"]] == ["cut otherwise"]
    assert [one["audit"] for one in get(client, "/api/v1/segments")["items"]] == ["zones"]
    [finding] = status["tables"][0]["findings"]
    lost = [{"value": value, "lacking": {"shop": 0, "eu": 1}, "altered": 0} for value in ("a", "item 3")]
    assert (finding["by"], finding["values"], finding["more_values"]) == ("item", lost, 0) and len(finding["buckets"]) >= 2
    assert (
        finding["sentence"].endswith("; by item: 'a': eu lacks 1 event; 'item 3': eu lacks 1 event") and status["tables"][0]["notes"] == []
    )
    text = client.get(f"/api/v1/runs/{report.run}/report", headers={"Accept": "text/markdown"})
    assert text.status_code == 200 and "zones" in text.text
    for path in ("/segments", "/segments/zones", f"/runs/{report.run}", "/audits/zones", "/day", "/"):
        page = client.get(path, follow_redirects=True)
        assert page.status_code == 200, path
    shown = client.get("/segments/zones").text
    assert '<rect class="s-mismatch"' in shown and '<bdi>item 3</bdi></td><td class="number" data-name="shop lacks">0</td>' in shown
    assert client.get("/audits/zones", follow_redirects=False).headers["location"] == "/segments/zones"


def test_registered_segments_come_in_pages(client: httpx2.Client) -> None:
    seen: list[Any] = []
    asked = {"table": "shop.orders", "side": "eu", "limit": "2"}
    while True:
        page = get(client, f"{AUDIT}/entries", **asked)
        seen += page["items"]
        if page["next"] is None:
            break
        asked["cursor"] = page["next"]
    assert len(seen) == 7 and {one["side"] for one in seen} == {"eu"}
    assert seen[0]["verdict"] == "match" and seen[0]["start"] == seen[0]["other"] == [10, 0]
    assert client.get(f"{AUDIT}/entries", params={**asked, "cursor": "bm9uZQ"}).status_code == 404
    wrong = client.get(f"{AUDIT}/entries", params={**asked, "side": "us"})
    assert wrong.status_code == 422 and "its sides are shop and eu" in wrong.json()["detail"]
    assert "there is no segment audit 'zone'; did you mean 'zones'" in client.get("/api/v1/segments/zone").json()["detail"]


def test_metrics_say_what_differs_and_who_is_awaited(client: httpx2.Client) -> None:
    text = client.get("/metrics").raise_for_status().text
    for line in (
        'auditor_segments_findings{audit="zones",kind="cut otherwise"} 1.0',
        'auditor_segments_status{audit="zones",status="never"} 1.0',
        'auditor_segments_max_lag_seconds{audit="zones"} 600.0',
        'auditor_segments_lag_seconds{audit="zones",side="shop"} 0.0',
    ):
        assert line in text, line
    [lag] = [line for line in text.splitlines() if line.startswith('auditor_segments_lag_seconds{audit="zones",side="eu"}')]
    assert float(lag.rpartition(" ")[2]) > 0


def test_it_is_due_by_schedule_unless_it_is_paused(client: httpx2.Client, settings: Settings, store: Store) -> None:
    now = dt.datetime.now(dt.UTC)
    client.post("/api/v1/audits/zones/pause").raise_for_status()
    assert audit_state.get_state(store, "zones").paused and scheduler.request_due(settings, store, now, "me") == []
    client.post("/api/v1/audits/zones/unpause").raise_for_status()
    [run] = scheduler.request_due(settings, store, now + dt.timedelta(minutes=1), "me")
    assert [report.run for report in workers.run_pending(settings, store)] == [run]
