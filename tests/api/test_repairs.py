"""Repairs over HTTP: recorded by those who may, read by all, and never done by the service."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import jsonschema
import pytest

from auditor import config, service
from auditor.compare.account import MASK
from auditor.model import State, Verdict
from auditor.store import events, runs, tokens
from tests.api.conftest import PASSWORD, Service, made
from tests.api.test_answers import every

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
    """A service after whose runs people mend targets."""
    with made(tmp_path_factory.mktemp("mended"), max_body=1 << 18) as found:
        yield found


def place(own: Service, name: str = "orders") -> str:
    return f"/api/v1/runs/{own.runs[name]}/repairs"


def record(own: Service, wanted: Any = WANTED, name: str = "orders", **headers: str) -> httpx.Response:
    return own.client("repair").post(place(own, name), json=wanted, headers=headers)


def rows(own: Service) -> list[Any]:
    """What the target holds."""
    with duckdb.connect(own.settings.connections["warehouse"].url.removeprefix("duckdb:///"), read_only=True) as database:
        return database.execute("SELECT * FROM orders ORDER BY id").fetchall()


def test_a_repair_is_recorded_and_nothing_else_is_done(own: Service) -> None:
    before = rows(own)
    answer = record(own)
    assert answer.status_code == 201, answer.text
    told = answer.json()
    assert {name: told[name] for name in WANTED} == WANTED
    assert (told["run"], told["audit"], told["state"], told["who"]) == (own.runs["orders"], "orders", "recorded", "the repair token")
    reader = own.client("read")
    assert reader.get(answer.headers["location"]).json() == told
    assert reader.get(place(own)).json()["items"][0] == told
    assert reader.get(f"/api/v1/runs/{own.runs['orders'][:8]}/repairs").json()["items"][0] == told
    assert rows(own) == before
    assert runs.find(own.store, own.runs["orders"]).verdict is Verdict.MISMATCH
    noted = own.client("define").get("/api/v1/events").json()["items"][0]
    assert (noted["who"], noted["what"], noted["subject"]) == ("the repair token", "repair recorded", own.runs["orders"])
    assert noted["detail"] == {"audit": "orders", "repair": told["repair"], "kind": "patch", "rows": 1}  # and no key of a row


def test_the_list_comes_whole_whatever_the_page(own: Service) -> None:
    made_ = [record(own, {"kind": "other", "note": str(n)}, name="same").json() for n in range(5)]
    assert every(own, place(own, "same"), 2) == every(own, place(own, "same"), 1000) == made_[::-1]
    first = own.client("read").get(place(own, "same"), params={"limit": 2}).json()
    for cursor in ("abc", first["next"][:-3], own.client("read").get("/api/v1/runs", params={"limit": 1}).json()["next"]):
        assert own.client("read").get(place(own, "same"), params={"cursor": cursor}).status_code == 404


@pytest.mark.parametrize("scope", ["read", "run", "define"])
def test_who_may_not_repair_records_nothing(own: Service, scope: tokens.Scope) -> None:
    before = len(every(own, place(own), 1000)), len(events.listed(own.store, limit=1000))
    refused = own.client(scope).post(place(own), json=WANTED)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:auditor:problem:Forbidden")
    assert "this needs repair" in refused.json()["detail"]
    assert own.client(scope).post(place(own), content=b"{").status_code == 403  # and nothing of it was read
    assert own.client().post(place(own), json=WANTED).status_code == 401
    assert (len(every(own, place(own), 1000)), len(events.listed(own.store, limit=1000))) == before


def test_a_request_made_twice_is_one_repair(own: Service) -> None:
    first, again = (record(own, **{"Idempotency-Key": "once"}) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert (first.json(), first.headers["location"]) == (again.json(), again.headers["location"])
    other = record(own, {**WANTED, "note": "something else"}, **{"Idempotency-Key": "once"})
    assert (other.status_code, other.json()["type"]) == (422, "urn:auditor:problem:ConfigError")
    elsewhere = record(own, {"kind": "patch", "note": "x"}, name="same", **{"Idempotency-Key": "once"})
    assert elsewhere.status_code == 422
    for key in ("a b", "x" * 201, ""):
        assert record(own, **{"Idempotency-Key": key}).status_code == 422


@pytest.mark.parametrize("text", INJECTED)
def test_texts_stay_texts(own: Service, text: str) -> None:
    told = record(own, {"kind": "other", "note": text, "keys": [{"id": text}]})
    assert told.status_code == 201, told.text
    assert told.headers["content-type"] == "application/json"
    found = own.client("read").get(told.headers["location"]).json()
    assert (found["note"], found["keys"]) == (text, [{"id": text}])
    assert len(rows(own)) == 2000


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
        {"who": "somebody else"},
        {"state": "done"},
        {"at": "2020-01-01T00:00:00Z"},
        {"sql": "DELETE FROM orders"},
    ],
)
def test_what_is_no_repair_is_refused(own: Service, change: dict[str, Any]) -> None:
    before = len(every(own, place(own), 1000))
    assert record(own, {**WANTED, **change}).status_code == 422
    assert len(every(own, place(own), 1000)) == before


def test_bodies_that_are_none(own: Service) -> None:
    client = own.client("repair")
    for body, status in ((b'{"kind": "patch", "note": "\\ud800"}', 422), (b"{", 422), (b"", 422), (b" " * (1 << 19), 413)):
        assert client.post(place(own), content=body, headers={"Content-Type": "application/json"}).status_code == status
    broken = b'{"kind": "patch", "note": "x", "keys": [{"id": "\\ud800"}]}'
    assert client.post(place(own), content=broken, headers={"Content-Type": "application/json"}).status_code == 422


def test_what_is_not_there(own: Service) -> None:
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


def test_a_run_without_a_plan_has_no_keys_to_name(own: Service) -> None:
    failed = service.run_audit(own.settings, "away", store=own.store)
    assert failed.state is State.FAILED
    path, client = f"/api/v1/runs/{failed.run}/repairs", own.client("repair")
    assert client.post(path, json=WANTED).status_code == 422
    assert client.post(path, json={"kind": "other", "note": "started its server"}).status_code == 201


def test_what_is_masked_is_not_kept(tmp_path: Path) -> None:
    with made(tmp_path, run=False) as hiding:
        values = service.definition(hiding.settings.audits["orders"])
        values["columns"] = {"override": {"id": {"mask": True}}}
        hiding.settings.audits["masked"] = config.checked_audit(values)
        run = service.run_audit(hiding.settings, "masked", store=hiding.store).run
        path = f"/api/v1/runs/{run}/repairs"
        hidden = "key-value-0815"
        keys = [{"id": hidden}, {"id": None}]
        made_ = hiding.client("repair").post(path, json={"kind": "patch", "note": "x", "keys": keys}, headers={"Idempotency-Key": "k"})
        assert made_.json()["keys"] == [{"id": MASK}, {"id": None}]
        assert hidden not in hiding.client("read").get(path).text
        hiding.store.close()
        kept = b"".join(one.read_bytes() for one in tmp_path.glob("store.db*"))
        assert made_.json()["repair"].encode() in kept and hidden.encode() not in kept


def test_no_secret_is_kept_or_told(own: Service, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        made_ = record(own, **{"Idempotency-Key": "only-its-hash-is-kept"})
    told = made_.text + own.client("read").get(place(own)).text + own.client("define").get("/api/v1/events").text + caplog.text
    folder = Path(own.settings.connections["shop"].url.removeprefix("duckdb:///")).parent
    kept = b"".join(one.read_bytes() for one in folder.glob("store.db*"))
    assert made_.json()["repair"].encode() in kept
    for secret in (*own.tokens.values(), PASSWORD, "only-its-hash-is-kept"):
        assert secret not in told
        assert secret.encode() not in kept


def test_the_document_says_that_nothing_is_mended(own: Service) -> None:
    document = own.client("read").get("/api/v1/openapi.json").json()
    told = re.sub(r"\s+", " ", document["info"]["description"])
    assert "offers neither patch nor bootstrap" in told
    operation = document["paths"]["/api/v1/runs/{run}/repairs"]["post"]
    assert operation["x-scope"] == "repair" and "writes nothing into it" in operation["description"]
    assert not any(re.search("patch|bootstrap", path) for path in document["paths"])
    schemas = document["components"]["schemas"]
    for name in ("Repair", "RepairWanted"):
        for example in schemas[name]["examples"]:
            jsonschema.validate(example, {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}})
