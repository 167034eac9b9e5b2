"""What requests may be: types of JSON, methods, characters and days; and what the document says of event streams."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema
import pytest

from auditor.api.routing import PRINTABLE
from tests.api.conftest import Service, TemporaryService
from tests.api.test_access import ORDERS, ROUTES, propose_patch, record_repair
from tests.durations import SetDurations


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with TemporaryService(tmp_path_factory.mktemp("requests")) as found:
        yield found


@pytest.mark.parametrize("field", ["k", "t", "threshold"])
@pytest.mark.parametrize("value", [True, False, "1", [1], {}])
def test_what_is_no_number_is_refused_as_one(served: Service, field: str, value: object) -> None:
    client = served.client("define")
    for path, body in (("/api/v1/audits/orders/runs", {}), ("/api/v1/runs", ORDERS), ("/api/v1/audits", {"name": "new", **ORDERS})):
        assert refused_at(client, path, {**body, field: value}) == {f"body.{field}"}, path
    assert refused_at(client, "/api/v1/audits/orders/runs", {"keys": {"from": value}}) == {"body.keys.from"}
    repaired = f"/api/v1/runs/{served.runs['orders']}/repairs"
    assert refused_at(served.client("repair"), repaired, {"kind": "patch", "note": "n", "rows": value}) == {"body.rows"}


def refused_at(client: httpx2.Client, path: str, body: Any) -> set[str]:
    answer = client.post(path, json=body)
    assert answer.status_code == 422, (path, answer.text)
    return {one["location"] for one in answer.json()["errors"]}


@pytest.mark.parametrize("character", ["\0", "\n", "\x1b", "\x7f", "\x9f", "\u200b", "\u2028", "\u202e", "\ue000", "\ufeff"])
def test_control_characters_are_refused_as_the_schema_says(served: Service, character: str) -> None:
    client = served.client("define")
    for place in ("before {} after", "at its end{}"):
        text = place.format(character)
        assert refused_at(client, "/api/v1/audits/orders/runs", {"reason": text}) == {"body.reason"}
        assert refused_at(client, "/api/v1/runs", {**ORDERS, "source": {"connection": "shop", "table": text}}) == {"body.source.table"}
        assert client.get("/api/v1/runs", params={"audit": text}).status_code == 422
        assert not re.search(PRINTABLE.replace("$", r"\Z"), text)
    document = client.get("/api/v1/openapi.json").json()
    assert document["components"]["schemas"]["RunRequest"]["properties"]["reason"]["pattern"] == PRINTABLE
    assert client.get("/api/v1/runs", params={"audit": "Größe 数据 🙂 it's"}).status_code == 200


def test_a_misspelt_parameter_is_refused_and_not_ignored(served: Service) -> None:
    client = served.client("read")
    answer = client.get("/api/v1/runs", params={"audti": "orders"})
    assert answer.status_code == 422
    taken = "audit, state, verdict, since, until, cursor, limit"
    assert answer.json()["detail"] == f"query.audti: no such parameter; this request takes {taken}"
    assert client.get("/api/v1/audits/orders", params={"format": "text"}).json()["detail"].endswith("this request takes none")


def test_a_number_is_no_moment(served: Service) -> None:
    client, path = served.client("read"), "/api/v1/audits/orders/verification"
    for number in ("0.5", "1700000000", "1e9", "-1"):
        assert client.get(path, params={"through": number}).status_code == 422, number
    assert client.get(path, params={"through": "2026-11-01T06:00:00"}).status_code == 422, "without a zone"
    assert client.get(path, params={"through": "2026-11-01T06:00:00+02:00"}).json()["through"] == "2026-11-01T04:00:00Z"


def test_head_is_answered_where_get_is(own: Service, set_durations: SetDurations) -> None:
    set_durations(event_poll=0.01)
    client, anonymous = own.client("define"), own.client()
    repair = record_repair(own)
    paths = [
        path.format(
            name="orders",
            run=own.runs["orders"],
            day="2026-01-01",
            repair=repair,
            patch=propose_patch(own),
            pipeline="shop",
            audit="zones",
            bootstrap="abcd",
        )
        for method, path in ROUTES
        if method == "GET"
    ]
    for path in (*paths, "/healthz", "/readyz", "/metrics", "/", "/login", "/static/pages.css", "/api/v1/runs/abcd"):
        get, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (get.status_code, b""), path
        assert head.headers["content-type"] == get.headers["content-type"], path
        anonymous_codes = {anonymous.get(path).status_code, anonymous.head(path).status_code}
        assert len(anonymous_codes) == 1, path
    refused = client.head("/api/v1/compare")
    assert refused.status_code == 405 and refused.headers["allow"] == "POST"
    assert client.put("/api/v1/audits").headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("path", ["/api/v1/days/{}/report", "/day?date={}", "/day/{}.json"])
def test_days_that_do_not_exist_are_refused(served: Service, path: str) -> None:
    client, today = served.client("read"), dt.datetime.now(dt.UTC).date()
    for day in (today, dt.date(2020, 2, 29), dt.date(1970, 1, 1)):
        assert client.get(path.format(day)).status_code == 200
    for text in ("2026-02-30", "2026-2-3", "0", "20260101", "2026-13-01", "2026-01-01T00:00:00"):
        assert client.get(path.format(text)).status_code == 422, text
    for text in (str(today + dt.timedelta(days=2)), "1969-12-31", "9999-12-31"):
        answer = client.get(path.format(text))
        assert answer.status_code == 404 and "there is no report of" in answer.text, text


def test_events_are_described_one_by_one(served: Service) -> None:
    client = served.client("read")
    document = client.get("/api/v1/openapi.json").json()
    described = document["paths"]["/api/v1/runs/{run}/events"]["get"]["responses"]["200"]["content"]
    schema = {**described["text/event-stream"]["schema"], "components": document["components"]}
    blocks = client.get(f"/api/v1/runs/{served.runs['orders']}/events").text.split("\n\n")
    events = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks if "data: " in block]
    assert [event["event"] for event in events] == ["run", "end"]
    for event in events:
        jsonschema.validate(event, schema)
        content = {**schema["properties"]["data"]["contentSchema"], "components": document["components"]}
        jsonschema.validate(json.loads(event["data"]), content)
