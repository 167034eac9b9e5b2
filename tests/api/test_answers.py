"""Responses of the routes: paged lists, ETags, event streams, files, idempotent requests, problem documents."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import jsonschema
import pytest

from auditor import config, service
from auditor.api import routing, runs
from auditor.config import Channel
from auditor.report import difference_rows
from auditor.service import audits, notify
from auditor.service.workers import Workers
from auditor.store import events
from tests.api.conftest import SECRET_VALUE, Service, TemporaryService
from tests.durations import SetDurations

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text())


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that the tests of this module change."""
    with TemporaryService(tmp_path_factory.mktemp("answers")) as found:
        yield found


def list_all(one: Service, path: str, limit: int, **wanted: str) -> list[dict[str, Any]]:
    """Return all items of a list, read page by page."""
    client, found = one.client("define"), list[dict[str, Any]]()
    cursor: dict[str, str] = {}
    while True:
        page = client.get(path, params={"limit": limit, **wanted, **cursor}).raise_for_status().json()
        assert len(page["items"]) <= limit
        found += page["items"]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


def test_pages_of_any_size_return_the_whole_list(served: Service) -> None:
    run = served.runs["orders"]
    for path in ("/api/v1/audits", "/api/v1/runs", f"/api/v1/runs/{run}/partitions", f"/api/v1/runs/{run}/differences", "/api/v1/events"):
        assert list_all(served, path, 1) == list_all(served, path, 1000)
    assert [one["name"] for one in list_all(served, "/api/v1/audits", 2)] == ["away", "orders", "same", "with/slash"]
    assert [one["kind"] for one in list_all(served, f"/api/v1/runs/{run}/differences", 1, kind="missing")] == ["missing"]


def test_partitions_cover_the_whole_table(served: Service) -> None:
    found = list_all(served, f"/api/v1/runs/{served.runs['orders']}/partitions", 3)
    assert sum(one["rows"]["source"] for one in found) == 2000
    unequal = [one for one in found if one["state"] != "equal"]
    assert {one["state"] for one in unequal} == {"accounted", "target_only"}
    for state in ("equal", "accounted", "target_only"):
        path = f"/api/v1/runs/{served.runs['orders']}/partitions"
        assert list_all(served, path, 2, state=state) == [one for one in found if one["state"] == state]


def test_audit_name_may_contain_a_slash(served: Service) -> None:
    client = served.client("read")
    assert client.get("/api/v1/audits/with%2Fslash").json()["name"] == "with/slash"
    assert client.get("/api/v1/audits/with%2Fslash/runs").json()["items"] == []
    assert client.get("/api/v1/audits/with/slash").status_code == 404


def test_matching_etag_returns_304(served: Service) -> None:
    client = served.client("read")
    for path in (f"/api/v1/runs/{served.runs['same']}", f"/api/v1/runs/{served.runs['same']}/report?format=html"):
        first = client.get(path)
        tag = first.headers["etag"].removeprefix("W/")  # weak where the body is compressed
        for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            again = client.get(path, headers={"If-None-Match": given})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert client.get(path, headers={"If-None-Match": '"x"'}).content == first.content


def test_report_is_returned_in_every_format(served: Service) -> None:
    client, path = served.client("read"), f"/api/v1/runs/{served.runs['orders']}/report"
    jsonschema.validate(client.get(path).json(), SCHEMA)
    for format, type_ in (("html", "text/html"), ("markdown", "text/markdown"), ("text", "text/plain")):
        found = client.get(path, params={"format": format})
        assert found.headers["content-type"].startswith(type_)
        assert "orders" in found.text
        assert client.get(path, headers={"Accept": type_}).text == found.text
    assert client.get("/api/v1/days/2026-01-01/report").headers["content-type"] == "application/json"


def test_csv_escapes_spreadsheet_formulas(served: Service) -> None:
    found = served.client("read").get(f"/api/v1/runs/{served.runs['orders']}/differences", headers={"Accept": "text/csv"})
    assert found.headers["content-disposition"].startswith("attachment")
    rows = list(csv.reader(io.StringIO(found.text)))
    assert len(rows) == 4
    assert f"'={SECRET_VALUE}" in rows[2]
    for cell in ("=1+1", "+1+1", "-1+cmd", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "＝1", "-", "--1", "-1.2.3", "-1e5"):
        (row,) = csv.reader(io.StringIO(difference_rows.spreadsheet_line([cell])))
        assert row == [f"'{cell}"], cell
    for cell in ("-1", "-1.5", "1", "", "a=b", "x", 'quote " and, comma', "two\nlines", "e@mail"):
        assert next(csv.reader(io.StringIO(difference_rows.spreadsheet_line([cell])))) == [cell]
    assert difference_rows.spreadsheet_line([None, ""]) == ',""\r\n'


def test_masked_values_are_in_no_response(tmp_path: Path) -> None:
    with TemporaryService(tmp_path, run=False) as masking:
        values = service.definition(masking.settings.audits["orders"])
        values["columns"] = {"override": {"id": {"mask": True}, "name": {"mask": True}}}
        masking.settings.audits["masked"] = config.validate_audit(values)
        run = service.run_audit(masking.settings, "masked", store=masking.store).run
        client, place = masking.client("read"), f"/api/v1/runs/{run}"
        paths = [f"/differences?format={format}" for format in ("json", "csv", "ndjson")]
        paths += [f"/report?format={format}" for format in ("json", "html", "markdown", "text")]
        for path in (*paths, "/partitions", "/events", ""):
            found = client.get(place + path).raise_for_status().text
            assert "***" in found or path in ("/partitions", "/events", ""), path
            for value in (SECRET_VALUE, "name 1500", '"1500"', ">1500<", '"5000"'):
                assert value not in found, (path, value)
            assert not re.search(r"keys [\d,]+ to", found), path


def test_concurrent_slow_requests_are_limited(served: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "slow_requests", threading.BoundedSemaphore(1))
    client = served.client("read")
    with routing.slow_request():
        refused = client.get("/api/v1/audits/orders/plan")
        assert (refused.status_code, refused.json()["retryable"]) == (503, True)
        for page in ("/audits/orders/sql", "/audits/orders/sql/source.sql"):
            assert client.get(page).status_code == 503, page
        assert client.get("/healthz").status_code == client.get("/api/v1/runs").status_code == 200
    assert client.get("/api/v1/audits/orders/plan").status_code == 200


def test_ndjson_returns_values_unescaped(served: Service) -> None:
    found = served.client("read").get(f"/api/v1/runs/{served.runs['orders']}/differences?format=ndjson")
    lines = [json.loads(line) for line in found.text.splitlines()]
    assert [line["kind"] for line in lines] == ["missing", "changed", "extra"]
    assert lines[1]["columns"] == [{"name": "name", "source": "name 1500", "target": f"={SECRET_VALUE}", "reason": ""}]


def test_idempotency_key_returns_the_same_run(own: Service) -> None:
    client, path = own.client("run"), "/api/v1/audits/orders/runs"
    first = client.post(path, json={"method": "exact", "t": 2, "reason": "why not"}, headers={"Idempotency-Key": "one"})
    assert first.status_code == 202
    place = first.headers["location"]
    found = client.get(place).json()
    assert (found["overrides"], found["other_settings"]) == ({"t": 2}, "t 2"), "the method is the audit's own"
    again = client.post(path, json={"method": "exact", "t": 2}, headers={"Idempotency-Key": "one"})
    assert (again.status_code, again.headers["location"]) == (202, place)
    other = client.post(path, json={"t": 5}, headers={"Idempotency-Key": "one"})
    assert other.status_code == 422
    duplicate = client.post(path)
    assert (duplicate.status_code, duplicate.headers["location"]) == (409, place)
    cancelled = client.post(f"{place}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (202, "cancelled")
    noted = [(one.actor, one.action) for one in events.list_events(own.store, limit=2)]
    assert noted == [("the run token", "run cancelled"), ("the run token", "run requested")]


def test_full_queue_returns_429(tmp_path_factory: pytest.TempPathFactory) -> None:
    with TemporaryService(tmp_path_factory.mktemp("full"), run=False, queue=1) as limited:
        client = limited.client("run")
        assert client.post("/api/v1/audits/orders/runs").status_code == 202
        refused = client.post("/api/v1/audits/same/runs")
        assert refused.status_code == 429
        assert refused.json()["retryable"] is True
        assert "retry-after" in refused.headers


def test_event_stream_follows_a_run_to_its_end(own: Service, set_durations: SetDurations) -> None:
    set_durations(event_poll=0.02)
    place = own.client("run").post("/api/v1/audits/same/runs").headers["location"]
    workers = Workers(own.settings, own.store, 1)
    starter = threading.Timer(0.3, workers.start)
    starter.start()
    try:
        stream = own.client("read").get(f"{place}/events").text
    finally:
        starter.join()
        workers.stop(5)
    blocks = [block.splitlines() for block in stream.split("\n\n") if block.startswith("id:")]
    runs = [json.loads(block[2].removeprefix("data: ")) for block in blocks if block[1] == "event: run"]
    assert runs[0]["state"] == "pending"
    assert runs[-1]["state"] == "done"
    assert runs[-1]["verdict"] == "match"
    assert blocks[-1][1] == "event: end"
    again = own.client("read").get(f"{place}/events", headers={"Last-Event-ID": blocks[-1][0].removeprefix("id: ")}).text
    assert "event: run" not in again
    assert "event: end" in again


def test_number_of_event_streams_is_limited(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MAX_LISTENERS", 0)
    assert own.client("read").get(f"/api/v1/runs/{own.runs['same']}/events").status_code == 429


def test_audit_is_defined_replaced_and_deleted(own: Service) -> None:
    client = own.client("define")
    wanted = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "warehouse", "table": "orders"}, "key": ["id"]}
    created = client.post("/api/v1/audits", json={"name": "adhoc", "threshold": 0.9, "owner": "sales", **wanted})
    assert created.status_code == 201, created.text
    found = client.get(created.headers["location"]).json()
    assert (found["defined_over_http"], found["threshold"], found["owner"]) == (True, 0.9, "sales")
    assert "sales" in client.get("/").text
    known = audits.with_defined_audits(own.settings, own.store).audits
    for owner, heard in (("sales", True), ("logistics", False)):
        assert notify.hears_of(Channel(url="json://127.0.0.1:1/", owners=(owner,)), "adhoc", known) is heard
    for wrong in ("", 7, ["sales"]):
        assert client.post("/api/v1/audits", json={"name": "other", "owner": wrong, **wanted}).status_code == 422
    assert client.put("/api/v1/audits/adhoc", json={**wanted, "columns": {"exclude": ["amount"]}}).status_code == 200
    assert client.get("/api/v1/audits/adhoc").json()["threshold"] == 1.0
    assert client.put("/api/v1/audits/orders", json=wanted).status_code in (409, 422)  # configured
    assert client.delete("/api/v1/audits/orders").status_code == 404
    assert client.delete("/api/v1/audits/adhoc").status_code == 204
    assert client.get("/api/v1/audits/adhoc").status_code == 404
    noted = [one["action"] for one in client.get("/api/v1/events").json()["items"][:3]]
    assert noted[1:] == ["audit defined", "audit defined"]


def test_audit_is_paused_and_unpaused(own: Service) -> None:
    client = own.client("define")
    for what, paused in (("pause", True), ("unpause", False)):
        assert client.post(f"/api/v1/audits/with%2Fslash/{what}").json() == {"name": "with/slash", "paused": paused}
        assert client.get("/api/v1/audits/with%2Fslash").json()["paused"] is paused
    assert [one.action for one in events.list_events(own.store, limit=2)] == ["audit unpaused", "audit paused"]


def test_uploaded_results_are_compared(own: Service, tmp_path: Path) -> None:
    files: dict[str, tuple[str, bytes]] = {}
    for side, script in own.client("read").get("/api/v1/audits/orders/sql").json().items():
        database = own.settings.connections["shop" if side == "source" else "warehouse"].url.removeprefix("duckdb:///")
        with duckdb.connect(database, read_only=True) as connection:
            last = [text for text in script.split(";") if "partition_id" in text][-1]
            connection.execute("SET TimeZone = 'UTC'")
            result = connection.execute("\n".join(line for line in last.splitlines() if not line.startswith("--"))).fetchall()
            names = [column[0] for column in connection.description or ()]
        text = io.StringIO()
        csv.writer(text).writerows([names, *([("NULL" if cell is None else cell) for cell in row] for row in result)])
        files[side] = (f"../../{side}.csv", text.getvalue().encode())
    found = own.client("read").post("/api/v1/compare", files=files, data={"audit": "orders"})
    assert found.status_code == 200, found.text
    assert (found.json()["verdict"], found.json()["partitions"]["unequal"]) == ("mismatch", 3)
    swapped = own.client("read").post("/api/v1/compare", files={"source": files["target"], "target": files["source"]})
    assert swapped.status_code == 422
    assert "/tmp" not in swapped.text
    assert "the source's file" in swapped.json()["detail"]


def test_every_error_is_a_problem_document(own: Service) -> None:
    client = own.client("define")
    responses: list[tuple[int, Any]] = [
        (404, client.get("/api/v1/nothing")),
        (404, client.get("/api/v1/audits/nobody")),
        (404, client.get("/api/v1/runs/abcdef")),
        (404, client.get("/api/v1/runs?cursor=abc")),
        (405, client.patch("/api/v1/audits/orders")),
        (422, client.get("/api/v1/runs?limit=0")),
        (422, client.post("/api/v1/audits/orders/runs", json={"sql": "DROP TABLE orders"})),
        (422, client.put("/api/v1/audits/x", content=b"{", headers={"Content-Type": "application/json"})),
        (401, own.client().get("/api/v1/runs")),
        (403, own.client("read").get("/api/v1/events")),
        (502, client.get("/api/v1/audits/away/plan")),
    ]
    shape = own.app.openapi()["components"]["schemas"]
    whole = {"$ref": "#/components/schemas/Problem", "components": {"schemas": shape}}
    for status, answer in responses:
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        jsonschema.validate(answer.json(), whole)
        assert answer.json()["status"] == status
        assert answer.headers["x-request-id"] in answer.json()["instance"]
    assert set(responses[4][1].headers["allow"].split(", ")) == {"GET", "HEAD", "PUT", "DELETE"}


def test_readiness_reports_a_failing_store(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own.client().get("/readyz").json() == {"status": "ready", "store": "ok", "workers": "none", "scheduler": "none"}
    from auditor.errors import StoreUnavailable
    from auditor.store import queue

    def fails(_: object) -> int:
        raise StoreUnavailable("sqlite:///secret/place: it is gone")

    monkeypatch.setattr(queue, "count_waiting", fails)
    found = own.client().get("/readyz")
    assert (found.status_code, found.json()["store"]) == (503, "failed")
    assert "secret/place" not in found.text


def test_internal_error_reveals_no_details(own: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a row's value: 4711")

    monkeypatch.setattr(service, "audit", fails)
    found = own.client("read").get("/api/v1/audits/orders/runs")
    assert found.status_code == 500
    assert "4711" not in found.text
    assert found.headers["content-type"] == "application/problem+json"
    assert found.headers["content-security-policy"].startswith("default-src 'none'")


def test_event_streams_of_a_token_are_limited(served: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = dict.fromkeys(range(runs.MAX_LISTENERS_OF_TOKEN), "the read token")
    monkeypatch.setattr(runs, "listeners", taken)
    place = f"/api/v1/runs/{served.runs['orders']}/events"
    refused = served.client("read").get(place)
    assert refused.status_code == 429
    assert "retry-after" in refused.headers
    assert served.client("run").get(place).status_code == 200
    assert len(taken) == runs.MAX_LISTENERS_OF_TOKEN, "a stream that ended is counted no more"
