"""The Python client against the API's own description: its requests exist there, its types are the schemas, and nothing is left out."""

from __future__ import annotations

import datetime as dt
import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from auditor import api_models
from auditor.api_models import ApiModel
from auditor.client import Client
from auditor.model import evidence
from tests.api.conftest import Service
from tests.documents import ROOT


def derived(model: type[ApiModel]) -> Iterator[type[ApiModel]]:
    """Yield the classes that derive from a model."""
    for one in model.__subclasses__():
        yield one
        yield from derived(one)


for _module in pkgutil.iter_modules(api_models.__path__, f"{api_models.__name__}."):
    importlib.import_module(_module.name)
MODELS = {one.__name__ for one in derived(ApiModel)}
"""Schemas of answers that the client returns as the same classes as the API."""

NOT_TYPED = {"Health", "Readiness", "State", "Verdict", *(name for name in vars(evidence) if name.startswith("Evidence"))}
"""Schemas of answers without a type in the client: of operations that it lacks, lists of words, and files that are kept as bytes."""

NOT_IN_CLIENT = {
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/api/v1/audits/{name}/runs"),  # runs(audit) asks for the same
    ("post", "/api/v1/compare"),  # auditor compare needs no service
}
"""Operations that the client has no method for, and why where that is not plain."""


class Recorder:
    """Stands in for the transport: records requests, and answers none of them usefully."""

    url = "http://recorded"

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []

    def json(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        self.requests.append((method.lower(), path, body))
        return {"plan": None}

    def model(self, model: type[ApiModel], method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        return model.model_construct(**self.json(method, path, body, headers))

    def models(self, model: type[ApiModel], path: str, parameters: Mapping[str, Any] = {}) -> Iterator[Any]:
        return self.pages(path, parameters)

    def model_list(self, model: type[ApiModel], method: str, path: str, body: Any = None) -> list[Any]:
        return [self.model(model, method, path, body)]

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> bytes:
        self.requests.append((method.lower(), path, body))
        return b'{"plan": null}'

    def open(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}) -> Any:
        self.requests.append((method.lower(), path, body))
        raise LookupError

    def pages(self, path: str, parameters: Mapping[str, Any] = {}) -> Iterator[Any]:
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        self.requests.append(("get", f"{path}?{query}", None))
        return iter(())


class Calls:
    """Passes calls on to a client, and notes which requests each of its methods makes."""

    def __init__(self, client: Client, recorder: Recorder) -> None:
        self.client, self.recorder = client, recorder
        self.made: dict[str, list[tuple[str, str, Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            before = len(self.recorder.requests)
            try:
                return getattr(self.client, name)(*arguments, **options)
            finally:
                self.made.setdefault(name, []).extend(self.recorder.requests[before:])

        return call


ENDS = {side: {"connection": side, "table": "t"} for side in ("source", "target")}
RUN, PATCH = "9f1c2d3e4a5b", "85527af373cd"


def call_all(client: Client) -> None:
    """Call every method that makes a request, with all of its parameters."""
    client.audits()
    client.audit("a/b")
    client.plan("orders")
    client.sql("orders", "source", "exact")
    client.bisect("orders")
    client.verification("orders", dt.datetime(2026, 11, 1, tzinfo=dt.UTC))
    client.define("new", ENDS)
    client.define("new", ENDS, replace=True)
    client.drop("new")
    client.pause("orders")
    client.unpause("orders")
    list(client.incidents("orders"))
    client.acknowledge("orders", why="why", muted=True, until=dt.datetime(2026, 11, 1, tzinfo=dt.UTC), differences="known")
    client.withdraw_acknowledgement("orders")
    list(client.schedules(3))
    list(client.connections())
    client.check_connection("shop")
    client.changes(RUN, "85527af373cd", shown=3)
    client.request("orders", reason="why", overrides={"method": "counts"}, idempotency="key")
    client.request_ad_hoc(ENDS, reason="why", idempotency="key")
    client.runs("orders", "done", 7)
    client.run(RUN)
    with pytest.raises(LookupError):
        next(client.follow(RUN))
    client.report(RUN)
    client.evidence(RUN)
    client.day("2026-03-01")
    client.trace(RUN, ["7"], limit=3)
    client.costs(dt.date(2026, 3, 1), 7, "connection")
    client.differences(RUN, kind="missing", state="confirmed")
    client.differences_arrow(RUN)
    client.partitions(RUN, "unequal")
    client.cancel(RUN)
    client.resume(RUN)
    client.repairs(RUN)
    client.repair(RUN)
    client.record_repair(RUN, "other", "by hand", rows=1, keys=[{"id": "1"}])
    client.events()
    client.pipelines()
    client.pipeline("shop", table="shop.*")
    client.segments("shop", "shop.orders")
    client.pipeline_schemas("shop", "shop.orders")
    with pytest.raises(LookupError):
        next(client.pipeline_events("shop", "shop.orders", "binlog.000012:4567:0", follow=True, limit=7))
    client.segment_audits()
    client.segment_audit("zones")
    client.registered_segments("zones", "shop.orders", "shop")
    client.refresh_pipeline("shop", table="orders", keys={"from": 1, "to": 2}, key_list=[["1"]])
    client.pipeline_refreshes("shop")
    client.pipeline_lag("shop", "shop.orders", "2026-11-01T12:00:00Z")
    client.skip_events("shop", "shop.orders", "binlog.000012:88120", "test rows")
    client.pause_pipeline("shop")
    client.start_pipeline("shop")
    client.unpause_pipeline("shop")
    keys = {"from": 1, "to": 2}
    client.propose_patch(RUN, only="changed", keys=keys, columns=["v"], limit=1, delete_extra=True, accept=["triggers"], idempotency="key")
    client.plan_bootstrap("orders", keys=keys, partitions="differing", source="near")
    client.bootstraps("orders")
    client.bootstrap(PATCH)
    client.bootstrap_ranges(PATCH)
    client.patches(RUN)
    client.patch(PATCH)
    client.patch_rows(PATCH)
    client.patch_sql(PATCH)
    client.apply_patch(PATCH, 3, idempotency="key")
    client.undo_patch(PATCH, 3, idempotency="key")


@pytest.fixture(scope="module")
def description(served: Service) -> dict[str, Any]:
    found: dict[str, Any] = served.app.openapi()
    return found


def operation(description: dict[str, Any], method: str, path: str) -> tuple[str, dict[str, Any]]:
    """Return the path and the operation that the description has for a request."""
    for template, operations in description["paths"].items():
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path) and method in operations:
            return template, operations[method]
    raise AssertionError(f"the API has no {method} {path}")


def test_every_request_is_described_and_every_operation_has_a_method(description: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr("auditor.client.Transport", lambda *_: recorder)
    client = Client("http://recorded")
    call_all(client)
    seen = set()
    for method, url, body in recorder.requests:
        parts = urlsplit(f"/api/v1{url}")
        template, found = operation(description, method, parts.path)
        seen.add((method, template))
        assert set(parse_qs(parts.query)) <= {one["name"] for one in found.get("parameters", []) if one["in"] == "query"}, url
        if body is not None:
            (content,) = found["requestBody"]["content"].values()
            schemas = [content["schema"], *content["schema"].get("anyOf", ())]
            names = [one["$ref"].rpartition("/")[2] for one in schemas if "$ref" in one]
            properties = {key for name in names for key in description["components"]["schemas"][name]["properties"]}
            assert set(body) <= properties, url
    everything = {(method, path) for path, operations in description["paths"].items() for method in operations}
    assert everything - seen == NOT_IN_CLIENT


def test_page_of_the_client_names_each_method_under_its_scope(description: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder()
    monkeypatch.setattr("auditor.client.Transport", lambda *_: recorder)
    client = Client("http://recorded")
    calls: Any = Calls(client, recorder)
    call_all(calls)
    scopes: dict[str, set[str]] = {}
    for name, requests in calls.made.items():
        scope = {operation(description, method, urlsplit(f"/api/v1{url}").path)[1]["x-scope"] for method, url, _ in requests}
        scopes.setdefault(min(scope, default="read"), set()).add(name)  # what follows a run asks for it when it is iterated
    scopes["read"].add("wait")  # it asks for the run until that has ended
    lines = re.findall(r"^\| (`.*`) \| `(\w+)` \|$", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {scope: set(re.findall(r"`(\w+)`", names)) for names, scope in lines} == scopes


def test_every_answer_of_an_operation_in_the_client_has_a_type(description: dict[str, Any]) -> None:
    named = {
        content["schema"]["$ref"].rpartition("/")[2]
        for path, operations in description["paths"].items()
        for method, found in operations.items()
        if (method, path) not in NOT_IN_CLIENT
        for status, answer in found["responses"].items()
        if status.startswith("2")
        for content in answer.get("content", {}).values()
        if "$ref" in content.get("schema", {})
    }
    items = {re.sub(r"^Paginated_(\w+)_$", r"\1", name) for name in named}
    assert items - {"EvidenceFile"} <= MODELS  # which is kept as bytes, as it was signed


def test_every_answer_has_a_type(description: dict[str, Any]) -> None:
    schemas: dict[str, Any] = description["components"]["schemas"]
    found: set[str] = set()
    left = [answer for path in description["paths"].values() for one in path.values() for answer in one["responses"].items()]
    waiting: list[Any] = [answer for code, answer in left if code.startswith("2")]
    while waiting:
        for name in set(re.findall(r"#/components/schemas/(\w+)", str(waiting.pop()))) - found:
            found.add(name)
            waiting.append(schemas[name])
    assert {name for name in found if not name.startswith("Paginated_")} - MODELS == NOT_TYPED
