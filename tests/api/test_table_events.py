"""The events of a pipeline's table over HTTP: lines as they are staged, behind a place, for as many readers as there may be."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn

from auditor.api import create_app
from auditor.api import pipelines as routes
from auditor.client import Client
from auditor.errors import ConfigError, PartDamaged, TableStopped, Unauthorised, UnknownPipeline
from auditor.pipeline.table_events import Events
from auditor.service.event_lines import EventLines
from auditor.store import open_store, parts, pipelines, tokens
from tests.api.conftest import make_client
from tests.durations import SetDurations
from tests.pipeline.road import PIPELINE, Road
from tests.pipeline_events import announce, batch, delete, insert, note, table, update

ORDERS = table(id="bigint", item="varchar(40) null")
PLACE = f"/api/v1/pipelines/{PIPELINE}/events"
FILE = "binlog.000000"


def read_through(road: Road, place: int) -> None:
    parts.record_batch(road.store, PIPELINE, [], {}, {"epoch": 0, "file": FILE, "position": place, "server": "server"})


@pytest.fixture
def road(tmp_path: Path) -> Iterator[Road]:
    empty = tmp_path / "empty.db"
    open_store(f"sqlite:///{empty}").close()
    made = Road(tmp_path, f"duckdb:///{tmp_path}/warehouse.duckdb", empty)
    made.stage(batch(announce(ORDERS, 1), insert(ORDERS, 10, ["1", "a"], ["2", "b"])))
    made.stage(batch(update(ORDERS, 20, (["1", "a"], ["3", "A"])), delete(ORDERS, 30, ["2", "b"])))
    read_through(made, 40)
    yield made
    made.close()


@pytest.fixture
def token(road: Road) -> str:
    return tokens.create_token(road.store, name="reader", scope="read")


@pytest.fixture
def client(road: Road, token: str) -> httpx2.Client:
    return make_client(create_app(road.settings, road.store), headers={"Authorization": f"Bearer {token}"})


@contextmanager
def served(road: Road) -> Iterator[str]:
    """The service on a port, as its own thread."""
    server = uvicorn.Server(uvicorn.Config(create_app(road.settings, road.store), port=0, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        thread.join()


def asked(client: httpx2.Client, start: str = "earliest", **more: Any) -> list[dict[str, Any]]:
    found = client.get(PLACE, params={"table": "shop.orders", "from": start, **more}).raise_for_status()
    assert found.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in found.text.splitlines() if line]


def places(found: list[dict[str, Any]]) -> list[str | None]:
    return [one["position"] for one in found]


ALL = [f"{FILE}:10:0", f"{FILE}:10:1", None, f"{FILE}:20:0", f"{FILE}:30:0"]


def test_lines_are_sent_behind_a_place(client: httpx2.Client) -> None:
    found = asked(client)
    assert places(found) == ALL and [one["value"]["op"] for one in found] == ["c", "c", "d", "c", "d"]
    assert places(asked(client, f"{FILE}:10:0")) == ALL[1:] and asked(client, "latest") == []
    assert places(asked(client, limit=2)) == ALL[:2]
    assert routes.readers == {}


@pytest.mark.parametrize(
    ("parameters", "status", "kind"),
    [
        ({"from": "earliest"}, 422, "InvalidRequest"),
        ({"table": "shop.orders"}, 422, "InvalidRequest"),
        ({"table": "shop.orders", "from": "earliest", "limit": "0"}, 422, "InvalidRequest"),
        ({"table": "shop.nothing", "from": "earliest"}, 422, "ConfigError"),
        ({"table": "shop.orders", "from": "'; DROP TABLE x"}, 422, "ConfigError"),
        ({"table": "../../etc/passwd", "from": "earliest"}, 422, "ConfigError"),
    ],
)
def test_requests_that_name_nothing_are_refused(client: httpx2.Client, parameters: dict[str, str], status: int, kind: str) -> None:
    found = client.get(PLACE, params=parameters)
    assert (found.status_code, found.json()["type"].rpartition(":")[2]) == (status, kind)
    assert client.get("/api/v1/pipelines/none/events", params={"table": "t", "from": "earliest"}).status_code == 404


def test_deleted_events_are_refused_before_anything_is_sent(road: Road, client: httpx2.Client) -> None:
    pipelines.report_merges(road.store, PIPELINE, "wh", {"shop.orders": pipelines.MergeNews(10, "merged")})
    assert len(parts.delete_passed(road.store, PIPELINE, -1, targets=["wh"])) == 1
    found = client.get(PLACE, params={"table": "shop.orders", "from": f"{FILE}:5"})
    assert found.status_code == 409 and f"{FILE}:10 were deleted" in found.json()["detail"]
    assert places(asked(client)) == ALL[2:]


def test_a_failure_on_the_way_is_the_last_line(road: Road, client: httpx2.Client) -> None:
    road.stage_task(batch(note("poison", "orders", 50, {"stage": "decoding", "reason": "no utf8mb4"}, events=1)))
    read_through(road, 60)
    *found, last = asked(client)
    assert places(found) == ALL
    assert last["error"]["type"] == "TableStopped" and "no utf8mb4" in last["error"]["detail"]
    assert routes.readers == {}


def test_streams_are_limited_for_a_token_and_for_all(client: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = {"table": "shop.orders", "from": "earliest"}
    taken = dict.fromkeys(range(routes.MAX_READERS_OF_TOKEN), "reader")
    monkeypatch.setattr(routes, "readers", taken)
    refused = client.get(PLACE, params=parameters)
    assert refused.status_code == 429 and "retry-after" in refused.headers and "this token has" in refused.json()["detail"]
    taken.pop(0)
    assert client.get(PLACE, params=parameters).status_code == 200
    taken.update(dict.fromkeys(range(routes.MAX_READERS), "others"))
    assert "too many streams of events" in client.get(PLACE, params=parameters).json()["detail"]
    assert len(taken) == routes.MAX_READERS, "a stream that ended is counted no more"


def test_a_reader_that_goes_away_ends_its_stream(road: Road, token: str, set_durations: SetDurations) -> None:
    set_durations(staged_poll=0.05, event_keepalive=0.1)
    parameters = {"table": "shop.orders", "from": "earliest", "follow": "true"}
    with served(road) as url, httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=20) as client:
        with client.stream("GET", f"{url}{PLACE}", params=parameters) as stream:
            lines = stream.iter_lines()
            assert [json.loads(next(lines))["position"] for _ in ALL] == ALL
            assert next(lines) == "", "a line while nothing happens"
            assert list(routes.readers.values()) == ["reader"]
        deadline = time.monotonic() + 20
        while routes.readers:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_reader_that_does_not_read_holds_nothing_in_memory(road: Road, token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its connection does not take is not read from the staging."""
    rows = [[str(number), "x" * 40] for number in range(10, 20_010)]
    road.stage(batch(insert(ORDERS, 50, *rows)), batch(announce(ORDERS, 60)))
    monkeypatch.setattr("auditor.pipeline.staged_parts.ROWS_AT_ONCE", 500)
    read, made = list[int](), EventLines._lines

    def count(self: EventLines, found: Events) -> list[bytes]:
        lines = made(self, found)
        read.append(len(lines))
        return lines

    monkeypatch.setattr(EventLines, "_lines", count)
    parameters = {"table": "shop.orders", "from": f"{FILE}:30"}
    with served(road) as url, httpx2.Client(headers={"Authorization": f"Bearer {token}"}, timeout=20) as client:
        with client.stream("GET", f"{url}{PLACE}", params=parameters) as stream:
            lines = stream.iter_lines()
            next(lines)
            before = -1
            while before != sum(read):  # until it stands still
                before = sum(read)
                time.sleep(0.5)
            assert before < 20_000, "the connection's buffers are full"
            assert len(list(lines)) == 19_999 and sum(read) == 20_000


def test_the_client_follows_and_goes_on_where_a_stream_ends(road: Road, token: str, set_durations: SetDurations) -> None:
    set_durations(staged_poll=0.02, event_stream=0.1, client_poll=0.02)
    with served(road) as url, Client(url, token) as client:
        found = client.pipeline_events(PIPELINE, "shop.orders", follow=True)
        assert [next(found).position for _ in ALL] == ALL
        for number in range(5):
            road.stage(batch(insert(ORDERS, 50 + number, [str(number), "later"])))
            event = next(found)
            assert event.position == f"{FILE}:{50 + number}:0" and event.value and event.value["after"] == {"id": number, "item": "later"}
            time.sleep(0.15)  # beyond the end of a stream
        assert [one.position for one in client.pipeline_events(PIPELINE, "shop.orders", f"{FILE}:20:0", limit=1)] == [f"{FILE}:30:0"]
        found.close()  # type: ignore[attr-defined]


def test_the_client_raises_what_the_service_refuses(road: Road, token: str) -> None:
    with served(road) as url, Client(url, token) as client:
        for error, name, of, start in (
            (UnknownPipeline, "none", "shop.orders", "earliest"),
            (ConfigError, PIPELINE, "shop.nothing", "earliest"),
            (ConfigError, PIPELINE, "shop.orders", "nowhere"),
        ):
            with pytest.raises(error):
                next(client.pipeline_events(name, of, start))
        with pytest.raises(Unauthorised), closing(Client(url, "aud_wrong")) as other:
            next(other.pipeline_events(PIPELINE, "shop.orders"))
        road.stage_task(batch(note("poison", "orders", 50, {"stage": "decoding", "reason": "no utf8mb4"}, events=1)))
        read_through(road, 60)
        seen = list[Any]()
        with pytest.raises(TableStopped, match="no utf8mb4"):
            seen.extend(client.pipeline_events(PIPELINE, "shop.orders", f"{FILE}:20:0"))
        path = road.root / parts.list_parts(road.store, PIPELINE, "shop.orders", 10)[0].path
        path.write_bytes(b"\0" * path.stat().st_size)
        with pytest.raises(PartDamaged):
            list(client.pipeline_events(PIPELINE, "shop.orders"))
