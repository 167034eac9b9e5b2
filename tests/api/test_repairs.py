"""Repairs over HTTP: recorded with scope repair, readable with every scope, never executed by the service."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx2
import jsonschema
import pytest

from auditor import config, service
from auditor.api_models.access import Scope
from auditor.masking import MASK
from auditor.model import State, Verdict
from auditor.store import events, runs
from tests.api.conftest import PASSWORD, Service, TemporaryService
from tests.api.test_answers import list_all

WANTED: dict[str, Any] = {"kind": "patch", "note": "copied the lost order again", "rows": 1, "keys": [{"id": "700"}]}

INJECTED = (
    "x'; DROP TABLE auditor_repairs; --",
    "<script>alert(1)</script>",
    "{{7*7}} ${PASSWORD} %(x)s",
    "=cmd|' /C calc'!A0",
    "../../etc/passwd",
    "naïve 🙂",
)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that the tests of this module change."""
    with TemporaryService(tmp_path_factory.mktemp("mended"), max_body=1 << 18) as found:
        yield found


def repairs_path(own: Service, name: str = "orders") -> str:
    return f"/api/v1/runs/{own.runs[name]}/repairs"


def post_repair(own: Service, wanted: Any = WANTED, name: str = "orders", **headers: str) -> httpx2.Response:
    return own.client("repair").post(repairs_path(own, name), json=wanted, headers=headers)


def read_target(own: Service) -> list[Any]:
    """Return the rows of the target."""
    with duckdb.connect(own.settings.connections["warehouse"].url.removeprefix("duckdb:///"), read_only=True) as database:
        return database.execute("SELECT * FROM orders ORDER BY id").fetchall()


def test_recording_a_repair_changes_nothing_else(own: Service) -> None:
    before = read_target(own)
    answer = post_repair(own)
    assert answer.status_code == 201, answer.text
    recorded = answer.json()
    assert {name: recorded[name] for name in WANTED} == WANTED
    assert (recorded["run"], recorded["audit"], recorded["state"]) == (own.runs["orders"], "orders", "recorded")
    assert recorded["recorded_by"] == "the repair token"
    reader = own.client("read")
    assert reader.get(answer.headers["location"]).json() == recorded
    assert reader.get(repairs_path(own)).json()["items"][0] == recorded
    assert reader.get(f"/api/v1/runs/{own.runs['orders'][:8]}/repairs").json()["items"][0] == recorded
    assert read_target(own) == before
    assert runs.get_run(own.store, own.runs["orders"]).verdict is Verdict.MISMATCH
    noted = own.client("define").get("/api/v1/events").json()["items"][0]
    assert (noted["actor"], noted["action"], noted["subject"]) == ("the repair token", "repair recorded", own.runs["orders"])
    assert noted["detail"] == {"audit": "orders", "repair": recorded["repair"], "kind": "patch", "rows": 1}  # without keys of rows


def test_pages_of_any_size_return_the_whole_list(own: Service) -> None:
    created = [post_repair(own, {"kind": "other", "note": str(n)}, name="same").json() for n in range(5)]
    assert list_all(own, repairs_path(own, "same"), 2) == list_all(own, repairs_path(own, "same"), 1000) == created[::-1]
    first = own.client("read").get(repairs_path(own, "same"), params={"limit": 2}).json()
    for cursor in ("abc", first["next"][:-3], own.client("read").get("/api/v1/runs", params={"limit": 1}).json()["next"]):
        assert own.client("read").get(repairs_path(own, "same"), params={"cursor": cursor}).status_code == 404


@pytest.mark.parametrize("scope", ["read", "run", "define"])
def test_other_scopes_cannot_record_repairs(own: Service, scope: Scope) -> None:
    before = len(list_all(own, repairs_path(own), 1000)), len(events.list_events(own.store, limit=1000))
    refused = own.client(scope).post(repairs_path(own), json=WANTED)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:auditor:problem:Forbidden")
    assert "this needs repair" in refused.json()["detail"]
    assert own.client(scope).post(repairs_path(own), content=b"{").status_code == 403  # without reading the body
    assert own.client().post(repairs_path(own), json=WANTED).status_code == 401
    assert (len(list_all(own, repairs_path(own), 1000)), len(events.list_events(own.store, limit=1000))) == before


def test_idempotency_key_returns_the_same_repair(own: Service) -> None:
    first, again = (post_repair(own, **{"Idempotency-Key": "once"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert (first.json(), first.headers["location"]) == (again.json(), again.headers["location"])
    other = post_repair(own, {**WANTED, "note": "something else"}, **{"Idempotency-Key": "once"})
    assert (other.status_code, other.json()["type"]) == (422, "urn:auditor:problem:ConfigError")
    elsewhere = post_repair(own, {"kind": "patch", "note": "x"}, name="same", **{"Idempotency-Key": "once"})
    assert elsewhere.status_code == 422
    for key in ("a b", "x" * 201, ""):
        assert post_repair(own, **{"Idempotency-Key": key}).status_code == 422


@pytest.mark.parametrize("text", INJECTED)
def test_injected_text_is_stored_unchanged(own: Service, text: str) -> None:
    recorded = post_repair(own, {"kind": "other", "note": text, "keys": [{"id": text}]})
    assert recorded.status_code == 201, recorded.text
    assert recorded.headers["content-type"] == "application/json"
    found = own.client("read").get(recorded.headers["location"]).json()
    assert (found["note"], found["keys"]) == (text, [{"id": text}])
    assert len(read_target(own)) == 2000


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "drop"},
        {"kind": None},
        {"note": ""},
        {"note": "a\nb"},
        {"note": "a\0b"},
        {"note": "x" * 1001},
        {"rows": -1},
        {"rows": 2**53},
        {"rows": 1.5},
        {"keys": [{"id": str(n)} for n in range(1001)]},
        {"keys": [{"id": "x" * 4001}]},
        {"keys": [{"id": 1}]},
        {"keys": [{"name": "a column that is not the key's"}]},
        {"keys": [{"id": "1", "name": "one more than the key's"}]},
        {"keys": [{}]},
        {"recorded_by": "somebody else"},
        {"state": "done"},
        {"recorded_at": "2020-01-01T00:00:00Z"},
        {"sql": "DELETE FROM orders"},
    ],
)
def test_invalid_repair_is_rejected(own: Service, change: dict[str, Any]) -> None:
    before = len(list_all(own, repairs_path(own), 1000))
    assert post_repair(own, {**WANTED, **change}).status_code == 422
    assert len(list_all(own, repairs_path(own), 1000)) == before


def test_malformed_body_is_rejected(own: Service) -> None:
    client = own.client("repair")
    for body, status in ((b'{"kind": "patch", "note": "\\ud800"}', 422), (b"{", 422), (b"", 422), (b" " * (1 << 19), 413)):
        assert client.post(repairs_path(own), content=body, headers={"Content-Type": "application/json"}).status_code == status
    broken = b'{"kind": "patch", "note": "x", "keys": [{"id": "\\ud800"}]}'
    assert client.post(repairs_path(own), content=broken, headers={"Content-Type": "application/json"}).status_code == 422


def test_unknown_run_or_repair_returns_404(own: Service) -> None:
    for scope, method, path in (
        ("repair", "POST", "/api/v1/runs/abcdef012345/repairs"),
        ("read", "GET", "/api/v1/runs/abcdef012345/repairs"),
        ("read", "GET", f"/api/v1/repairs/{'0' * 32}"),
    ):
        found = own.client(scope).request(method, path, json=WANTED if method == "POST" else None)  # type: ignore[arg-type]
        assert found.status_code == 404, path
        assert found.headers["content-type"] == "application/problem+json"
    assert own.client("read").get("/api/v1/repairs/abcd").status_code == 422
    assert own.client("repair").delete(f"/api/v1/repairs/{'0' * 32}").status_code == 405


def test_keys_are_rejected_for_a_run_without_a_plan(own: Service) -> None:
    failed = service.run_audit(own.settings, "away", store=own.store)
    assert failed.state is State.FAILED
    path, client = f"/api/v1/runs/{failed.run}/repairs", own.client("repair")
    assert client.post(path, json=WANTED).status_code == 422
    assert client.post(path, json={"kind": "other", "note": "started its server"}).status_code == 201


def test_masked_keys_are_not_stored(tmp_path: Path) -> None:
    with TemporaryService(tmp_path, run=False) as masking:
        values = service.definition(masking.settings.audits["orders"])
        values["columns"] = {"override": {"id": {"mask": True}}}
        masking.settings.audits["masked"] = config.validate_audit(values)
        run = service.run_audit(masking.settings, "masked", store=masking.store).run
        path = f"/api/v1/runs/{run}/repairs"
        hidden = "key-value-0815"
        keys = [{"id": hidden}, {"id": None}]
        created = masking.client("repair").post(path, json={"kind": "patch", "note": "x", "keys": keys}, headers={"Idempotency-Key": "k"})
        assert created.json()["keys"] == [{"id": MASK}, {"id": None}]
        assert hidden not in masking.client("read").get(path).text
        masking.store.close()
        stored = b"".join(one.read_bytes() for one in tmp_path.glob("store.db*"))
        assert created.json()["repair"].encode() in stored and hidden.encode() not in stored


def test_store_responses_and_log_contain_no_secrets(own: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        created = post_repair(own, **{"Idempotency-Key": "only-its-hash-is-kept"})
    returned = created.text + own.client("read").get(repairs_path(own)).text + own.client("define").get("/api/v1/events").text + caplog.text
    folder = Path(own.settings.connections["shop"].url.removeprefix("duckdb:///")).parent
    stored = b"".join(one.read_bytes() for one in folder.glob("store.db*"))
    assert created.json()["repair"].encode() in stored
    for secret in (*own.tokens.values(), PASSWORD, "only-its-hash-is-kept"):
        assert secret not in returned
        assert secret.encode() not in stored


def test_openapi_document_says_that_repairs_are_only_recorded(own: Service) -> None:
    document = own.client("read").get("/api/v1/openapi.json").json()
    description = re.sub(r"\s+", " ", document["info"]["description"])
    assert "A repair is a record of what was done" in description
    operation = document["paths"]["/api/v1/runs/{run}/repairs"]["post"]
    assert operation["x-scope"] == "repair" and "only stores the record" in operation["description"]
    audits = [operations for path, operations in document["paths"].items() if "bootstrap" in path and "/pipelines/" not in path]
    assert audits and all(set(operations) <= {"get", "parameters"} for operations in audits), "bootstraps are started on the command line"
    schemas = document["components"]["schemas"]
    for name in ("Repair", "RepairRequest"):
        for example in schemas[name]["examples"]:
            jsonschema.validate(example, {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}})
