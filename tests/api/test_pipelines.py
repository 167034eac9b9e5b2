"""Pipelines over HTTP: how they stand, their segments page by page, and pausing with who and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from auditor import config
from auditor.api import create_app
from auditor.pipeline.segments.writer import open_writer
from auditor.store import events, open_store, pipelines, refreshes, tokens
from tests.api.conftest import make_client
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, table

ORDERS = table(id="bigint", item="varchar(40) null")


@pytest.fixture
def road(tmp_path: Path) -> Iterator[Road]:
    empty = tmp_path / "empty.db"
    open_store(f"sqlite:///{empty}").close()
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty)
    made.config_file.write_text(made.config_file.read_text().replace("    targets:", "    segment: {rows: 2}\n    targets:"))
    made.settings = config.load(made.config_file)
    yield made
    made.close()


@pytest.fixture
def client(road: Road) -> httpx.Client:
    secret = tokens.create_token(road.store, name="ops", scope="define")
    return make_client(create_app(road.settings, road.store), headers={"Authorization": f"Bearer {secret}"})


def test_how_pipelines_stand(road: Road, client: httpx.Client) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    road.loader().merge_all()
    road.stage(batch(announce(ORDERS, 11), insert(ORDERS, 20, ["3", "c"])))
    found = client.get(f"/api/v1/pipelines/{PIPELINE}").raise_for_status().json()
    assert (found["pipeline"], found["running"], found["paused"], found["events"]) == (PIPELINE, False, False, 3)
    held = found["targets"]["wh"]["tables"]["shop.orders"]
    assert (held["position"], held["state"], held["pending_events"]) == (10, "merged", 1)
    assert [one["pipeline"] for one in client.get("/api/v1/pipelines").json()["items"]] == [PIPELINE]
    missing = client.get("/api/v1/pipelines/shopp")
    assert missing.status_code == 404 and "there is no pipeline 'shopp'" in missing.json()["detail"]


def test_segments_come_in_pages(road: Road, client: httpx.Client) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, *([str(n), "a"] for n in range(7)))))
    assert open_writer(road.store, PIPELINE, road.settings.pipeline(PIPELINE)).step()
    path, asked, seen = f"/api/v1/pipelines/{PIPELINE}/segments", {"table": "shop.orders", "limit": "2"}, []
    while True:
        page = client.get(path, params=asked).raise_for_status().json()
        seen += [(one["first_row"], one["last_row"], one["rows"], len(one["sha256"])) for one in page["items"]]
        if page["next"] is None:
            break
        asked["cursor"] = page["next"]
    assert seen == [(0, 1, 2, 64), (2, 3, 2, 64), (4, 5, 2, 64)]
    other = client.get("/api/v1/events", params={"limit": 1}).json()["next"]
    assert client.get(path, params={**asked, "cursor": other or "bm9uZQ"}).status_code == 404


def test_pausing_is_recorded_with_who_asked(road: Road, client: httpx.Client) -> None:
    assert client.post(f"/api/v1/pipelines/{PIPELINE}/pause").json() == {"pipeline": PIPELINE, "paused": True}
    assert pipelines.get_pipeline(road.store, PIPELINE).paused
    assert client.post(f"/api/v1/pipelines/{PIPELINE}/unpause").json() == {"pipeline": PIPELINE, "paused": False}
    assert [(one.who, one.what, one.subject) for one in events.list_events(road.store)][:2] == [
        ("ops", "pipeline unpaused", PIPELINE),
        ("ops", "pipeline paused", PIPELINE),
    ]


def test_a_bootstrap_is_asked_for_and_refused(road: Road, client: httpx.Client) -> None:
    path = f"/api/v1/pipelines/{PIPELINE}/bootstrap"
    refused = client.post(path, json={"table": "orders"})
    assert refused.status_code == 409 and "may only read; add write: {url: ...} to it" in refused.json()["detail"]
    assert client.post(path, json={"tables": "orders"}).status_code == 422
    refreshes.request_refresh(road.store, PIPELINE, "shop.orders", refreshes.Asked(keys=(("1",),)), "ops")
    [found] = client.get(f"{path}s").raise_for_status().json()
    assert (found["table"], found["state"], found["keys"], found["ranges"], found["rows"]) == ("shop.orders", "requested", 1, 0, 0)
