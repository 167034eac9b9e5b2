"""Pipelines over HTTP: how they stand, what they lagged behind, their segments page by page, and pausing and starting with who and when."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from auditor import config
from auditor.api import create_app
from auditor.api.routing import make_cursor
from auditor.pipeline.segments.writer import open_writer
from auditor.store import events, lags, live_epochs, open_store, parts, pipelines, refreshes, tokens
from auditor.store.lags import Lag
from auditor.store.live_epochs import EpochSubject
from tests.api.conftest import make_client
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, insert, note, table

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
def client(road: Road) -> httpx2.Client:
    secret = tokens.create_token(road.store, name="ops", scope="pipeline")
    return make_client(create_app(road.settings, road.store), headers={"Authorization": f"Bearer {secret}"})


def test_how_pipelines_stand(road: Road, client: httpx2.Client) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    road.loader().merge_all()
    road.stage(batch(announce(ORDERS, 11), insert(ORDERS, 20, ["3", "c"])))
    found = client.get(f"/api/v1/pipelines/{PIPELINE}").raise_for_status().json()
    assert (found["pipeline"], found["running"], found["paused"], found["events"]) == (PIPELINE, False, False, 3)
    assert found["heartbeat"] is None
    held = found["targets"]["wh"]["tables"]["shop.orders"]
    assert (held["position"], held["state"], held["pending_events"]) == (10, "merged", 1)
    assert [one["pipeline"] for one in client.get("/api/v1/pipelines").json()["items"]] == [PIPELINE]
    beat = {"database": "shop", "serial": 4711, "at": "2026-11-23T10:00:00+00:00", "server": 1, "transactions": 0, "digest": 0}
    parts.record_batch(road.store, PIPELINE, [], {}, {"file": "binlog.000001", "position": 400, "heartbeat": beat})
    told = client.get(f"/api/v1/pipelines/{PIPELINE}").raise_for_status().json()["heartbeat"]
    assert (told["database"], told["serial"], told["at"][:19]) == ("shop", 4711, "2026-11-23T10:00:00") and told["age_seconds"] > 0
    assert "The last heartbeat, 4,711 of" in " ".join(client.get(f"/pipelines/{PIPELINE}").raise_for_status().text.split())
    subject = EpochSubject("orders", PIPELINE, "wh", "shop.orders")
    epoch = live_epochs.begin_epoch(road.store, subject, fingerprint="f", layout="range 16", plan={})
    live_epochs.end_epoch(road.store, epoch.id, "somebody ended them")
    [live] = client.get(f"/api/v1/pipelines/{PIPELINE}").raise_for_status().json()["live_summaries"]
    assert (live["audit"], live["state"], live["since"], live["reason"]) == ("orders", "ended", None, "somebody ended them")
    assert "somebody ended them" in client.get(f"/pipelines/{PIPELINE}").raise_for_status().text
    missing = client.get("/api/v1/pipelines/shopp")
    assert missing.status_code == 404 and "there is no pipeline 'shopp'" in missing.json()["detail"]


def test_versions_of_a_table_come_in_pages_and_are_shown(road: Road, client: httpx2.Client) -> None:
    priced = table(id="bigint", item="varchar(40) null", price="int null")
    added = {"op": "add", "column": "price", "value": {"text": None}}
    body: dict[str, object] = {"ops": [added], "statement": "ALTER TABLE orders ADD price int"}
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    road.stage_task(batch(note("change", "orders", 20, body), announce(priced, 30), insert(priced, 30, ["2", "b", "3"])))
    road.loader().merge_all()
    path = f"/api/v1/pipelines/{PIPELINE}/schemas"
    first = client.get(path, params={"table": "shop.orders", "limit": 1}).raise_for_status().json()
    assert (first["items"][0]["version"], len(first["items"][0]["columns"])) == (1, 2)
    rest = client.get(path, params={"table": "shop.orders", "cursor": first["next"]}).raise_for_status().json()
    [second] = rest["items"]
    assert (second["version"], second["statements"], second["targets"]) == (2, ["ALTER TABLE orders ADD price int"], ["wh"])
    assert second["changes"] == [{"sentence": "price (int) was added", "breaks_readers": False}] and rest["next"] is None
    assert client.get(path, params={"table": "shop.other"}).status_code == 422
    asked = {"target": "wh", "table": "shop.orders"}
    page = " ".join(client.get(f"/pipelines/{PIPELINE}/table", params=asked).raise_for_status().text.split())
    assert "Versions of its columns" in page and "ALTER TABLE orders ADD price int" in page and "price (int) was added" in page


def test_segments_come_in_pages(road: Road, client: httpx2.Client) -> None:
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
    assert client.get(path, params={**asked, "cursor": make_cursor("runs", "0:0")}).status_code == 404


def test_pausing_is_recorded_with_who_asked(road: Road, client: httpx2.Client) -> None:
    assert client.post(f"/api/v1/pipelines/{PIPELINE}/pause").json() == {"pipeline": PIPELINE, "paused": True}
    found = client.get(f"/api/v1/pipelines/{PIPELINE}").json()
    assert (found["paused"], found["paused_by"]) == (True, "ops") and found["paused_at"]
    assert pipelines.get_pipeline(road.store, PIPELINE).paused
    assert client.post(f"/api/v1/pipelines/{PIPELINE}/unpause").json() == {"pipeline": PIPELINE, "paused": False}
    assert [(one.actor, one.action, one.subject) for one in events.list_events(road.store)][:2] == [
        ("ops", "pipeline unpaused", PIPELINE),
        ("ops", "pipeline paused", PIPELINE),
    ]


def test_a_refresh_is_asked_for_and_refused(road: Road, client: httpx2.Client) -> None:
    path = f"/api/v1/pipelines/{PIPELINE}/refreshes"
    refused = client.post(path, json={"table": "orders"})
    assert refused.status_code == 409 and "may only read; add write: {url: ...} to it" in refused.json()["detail"]
    assert client.post(path, json={"tables": "orders"}).status_code == 422
    refreshes.request_refresh(road.store, PIPELINE, "shop.orders", refreshes.RefreshScope(keys=(("1",),)), "ops")
    [found] = client.get(path).raise_for_status().json()
    assert (found["table"], found["state"], found["keys"], found["ranges"], found["rows"]) == ("shop.orders", "requested", 1, 0, 0)


def test_events_that_stop_a_table_are_skipped_with_who_and_why(road: Road, client: httpx2.Client) -> None:
    poison = note("poison", "orders", 20, {"stage": "decoding", "reason": "a row of shop.orders lacks columns"}, events=2)
    road.stage_task(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"]), poison))
    path = f"/api/v1/pipelines/{PIPELINE}"
    [stop] = client.get(path).json()["stopped"]
    asked = {"table": "shop.orders", "position": stop["place"], "reason": "test rows"}
    for wrong, sentence in (
        ({"position": "000000:21"}, "nothing stops shop.orders at 000000:21; what stops it: shop.orders at"),
        ({"reason": "  "}, "a reason is needed"),
        ({"reason": ""}, "at least 1 character"),
        ({"why": "x"}, "why"),
    ):
        refused = client.post(f"{path}/skips", json=asked | wrong)
        assert refused.status_code == 422 and sentence in refused.text, refused.text
    assert client.get(path).json()["stopped"] == [stop]
    answer = client.post(f"{path}/skips", json=asked)
    [skipped] = answer.json()
    assert answer.status_code == 201 and (skipped["events"], skipped["skipped_by"], skipped["skip_reason"]) == (2, "ops", "test rows")
    found = client.get(path).json()
    assert (found["stopped"], found["skipped"]) == ([], [skipped])
    [event, *_] = events.list_events(road.store)
    assert (event.actor, event.action, event.subject, event.detail["reason"]) == ("ops", "pipeline skipped", PIPELINE, "test rows")
    assert client.post(f"{path}/skips", json=asked).status_code == 422, "nothing stops it any more"


class Processes:
    """Stands in for those of the service: remembers what it was asked to start again."""

    def __init__(self) -> None:
        self.restarted: list[str] = []

    def restart(self, name: str) -> bool:
        self.restarted.append(name)
        return True


def test_starting_unpauses_and_restarts_what_the_service_runs(road: Road, client: httpx2.Client) -> None:
    path, processes = f"/api/v1/pipelines/{PIPELINE}/start", Processes()
    pipelines.set_paused(road.store, PIPELINE, True, "ada")
    refused = client.post(path)
    assert refused.status_code == 422 and "this service does not run pipeline 'shop'; start it where it runs" in refused.json()["detail"]
    assert pipelines.get_pipeline(road.store, PIPELINE).paused
    here = make_client(create_app(road.settings, road.store, pipelines=cast(Any, processes)), headers=dict(client.headers))
    assert here.post(path).json() == {"pipeline": PIPELINE, "paused": False}
    assert processes.restarted == [PIPELINE] and not pipelines.get_pipeline(road.store, PIPELINE).paused
    [event, *_] = events.list_events(road.store)
    assert (event.actor, event.action, event.subject) == ("ops", "pipeline started", PIPELINE)
    assert here.post("/api/v1/pipelines/shopp/start").status_code == 404


def test_the_history_of_lag(road: Road, client: httpx2.Client) -> None:
    road.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"])))
    now, path = dt.datetime.now(dt.UTC), f"/api/v1/pipelines/{PIPELINE}/lag"
    for days in (20, 0.01):
        lags.record_lag(road.store, PIPELINE, now - dt.timedelta(days=days), Lag(days, 9, 1.5), {("wh", "shop.orders"): Lag(3, 4, 5.0)})
    found = client.get(path).raise_for_status().json()
    assert [(one["target"], one["table"], len(one["points"])) for one in found["series"]] == [(None, None, 1), ("wh", None, 1)]
    assert {**found["series"][0]["points"][0], "at": ""} == {"at": "", "span": 30, "seconds": 0.01, "bytes": 9, "rate": 1.5}
    asked = {"table": "shop.orders", "since": (now - dt.timedelta(days=25)).isoformat()}
    [series] = client.get(path, params=asked).raise_for_status().json()["series"]
    assert (series["target"], series["table"]) == ("wh", "shop.orders")
    assert [(one["seconds"], one["bytes"], one["rate"]) for one in series["points"]] == [(3, 4, 5)] * 2
    missing = client.get(path, params={"table": "shop.nowhere"})
    assert missing.status_code == 422 and "has staged nothing of a table 'shop.nowhere'; it has of shop.orders" in missing.json()["detail"]
    for since in ("yesterday", "2026-11-01T12:00:00"):
        assert client.get(path, params={"since": since}).status_code == 422
    for since in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        assert client.get(path, params={"since": since}).status_code == 200
    assert client.get("/api/v1/pipelines/shopp/lag").status_code == 404
