"""Who may do what: every route with no token, with a wrong one, and with one of each scope."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import httpx
import pytest
from fastapi.routing import APIRoute

from auditor.api import app as application
from auditor.api import audits, health, live, repairs, reports, runs, sessions
from auditor.api.sessions import check_exposure
from auditor.errors import ConfigError
from auditor.service import repairs as recording
from auditor.store import tokens
from auditor.store.tokens import INCLUDED, SCOPES, Scope
from tests.api.conftest import Service, made

SUMMARY = b"partition_id,row_count,hashed,key_min,key_max,word_0,word_1,partition_count,audit_plan\n"
ORDERS = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "warehouse", "table": "orders"}}

ROUTES: dict[tuple[str, str], tuple[Scope, int]] = {
    ("GET", "/api/v1/audits"): ("read", 200),
    ("GET", "/api/v1/audits/{name}"): ("read", 200),
    ("GET", "/api/v1/audits/{name}/plan"): ("read", 200),
    ("GET", "/api/v1/audits/{name}/sql"): ("read", 200),
    ("GET", "/api/v1/audits/{name}/runs"): ("read", 200),
    ("POST", "/api/v1/audits/{name}/runs"): ("run", 202),
    ("POST", "/api/v1/audits"): ("define", 201),
    ("PUT", "/api/v1/audits/{name}"): ("define", 200),
    ("DELETE", "/api/v1/audits/{name}"): ("define", 204),
    ("POST", "/api/v1/audits/{name}/pause"): ("define", 200),
    ("POST", "/api/v1/audits/{name}/unpause"): ("define", 200),
    ("GET", "/api/v1/runs"): ("read", 200),
    ("POST", "/api/v1/runs"): ("define", 202),
    ("GET", "/api/v1/runs/{run}"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/partitions"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/differences"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/events"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/report"): ("read", 200),
    ("POST", "/api/v1/runs/{run}/cancel"): ("run", 202),
    ("POST", "/api/v1/runs/{run}/resume"): ("run", 409),  # the run is done: who may ask is told so
    ("GET", "/api/v1/runs/{run}/repairs"): ("read", 200),
    ("POST", "/api/v1/runs/{run}/repairs"): ("repair", 201),
    ("GET", "/api/v1/repairs/{repair}"): ("read", 200),
    ("GET", "/api/v1/events"): ("define", 200),
    ("GET", "/api/v1/days/{day}/report"): ("read", 200),
    ("POST", "/api/v1/compare"): ("read", 200),
    ("GET", "/metrics"): ("read", 200),
}
OPEN = {("GET", "/healthz"), ("GET", "/readyz")}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that the table's requests change."""
    with made(tmp_path_factory.mktemp("access")) as found:
        yield found


def repaired(own: Service) -> str:
    """The id of a repair that somebody recorded."""
    return recording.record(own.store, own.runs["orders"], kind="other", note="mended", who="somebody").repair


def ask(client: httpx.Client, own: Service, method: str, path: str) -> httpx.Response:
    """The request of a route that whoever may make it succeeds with."""
    if (method, path) == ("DELETE", "/api/v1/audits/{name}"):
        own.client("define").put("/api/v1/audits/adhoc", json=ORDERS).raise_for_status()
    name = "adhoc" if method in ("PUT", "DELETE") else "orders"
    place = path.format(name=name, run=own.runs["orders"], day="2026-01-01", repair=repaired(own) if "{repair}" in path else "")
    if path.endswith("/compare"):
        files = {"source": ("s.csv", SUMMARY), "target": ("t.csv", SUMMARY)}
        return client.post(place, files=files)
    if (method, path) == ("POST", "/api/v1/audits"):
        return client.post(place, json={"name": "other", **ORDERS})
    if (method, path) == ("POST", "/api/v1/runs/{run}/repairs"):
        return client.post(place, json={"kind": "other", "note": "mended"})
    return client.request(method, place, json=ORDERS if method == "PUT" or path == "/api/v1/runs" else None)


def test_the_table_names_every_route() -> None:
    routers = (health.open_routes, health.routes, audits.routes, runs.routes, live.routes, repairs.routes, reports.routes)
    every = {(m, one.path) for routes in routers for one in routes.routes if isinstance(one, APIRoute) for m in one.methods or ()}
    assert every == set(ROUTES) | OPEN
    assert application.OURS == ("/api", "/healthz", "/readyz", "/metrics")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_scopes(own: Service, method: str, path: str) -> None:
    needed, status = ROUTES[method, path]
    assert ask(own.client(), own, method, path).status_code == 401
    wrong = own.client()
    wrong.headers["Authorization"] = "Bearer aud_no-such-token"
    assert ask(wrong, own, method, path).status_code == 401
    for scope in SCOPES:
        found = ask(own.client(scope), own, method, path)
        if needed not in INCLUDED[scope]:
            assert found.status_code == 403, (scope, found.text)
            assert found.headers["content-type"] == "application/problem+json"
        else:
            assert found.status_code in (status, 409 if path.endswith("/{name}/runs") else status), (scope, found.text)


@pytest.mark.parametrize(("method", "path"), sorted(OPEN))
def test_whether_it_lives_is_told_to_everybody(own: Service, method: str, path: str) -> None:
    assert own.client().request(method, path).status_code == 200


def test_scope_comes_before_the_body_is_read(own: Service) -> None:
    for client, status in ((own.client(), 401), (own.client("read"), 403)):
        found = client.put("/api/v1/audits/adhoc", content=b"{" * 100, headers={"Content-Type": "application/json"})
        assert found.status_code == status


def test_tokens_end(own: Service) -> None:
    secret = tokens.create(own.store, name="short", scope="read")
    client = own.client()
    client.headers["Authorization"] = f"Bearer {secret}"
    assert client.get("/api/v1/audits").status_code == 200
    tokens.revoke(own.store, "short")
    refused = client.get("/api/v1/audits")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert secret not in refused.text


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "bearer x y", "Bearer \xff", "aud_abc"])
def test_headers_that_are_no_token(own: Service, header: str) -> None:
    found = own.client().get("/api/v1/audits", headers={b"Authorization": header.encode("latin-1")})
    assert found.status_code == 401


def test_guessing_is_slowed_down(own: Service) -> None:
    client = own.client()
    codes = [
        client.get("/api/v1/audits", headers={"Authorization": f"Bearer aud_guess{n}"}).status_code for n in range(sessions.GUESSES + 5)
    ]
    assert codes == [401] * sessions.GUESSES + [429] * 5
    refused = own.client("read").get("/api/v1/audits")
    assert refused.status_code == 429  # from the same address
    assert int(refused.headers["retry-after"]) >= 1


def test_a_caller_is_limited(tmp_path_factory: pytest.TempPathFactory) -> None:
    with made(tmp_path_factory.mktemp("limited"), run=False, rate=5) as limited:
        codes = [limited.client("read").get("/api/v1/runs").status_code for _ in range(7)]
        assert codes == [200] * 5 + [429] * 2
        assert limited.client("run").get("/api/v1/runs").status_code == 200
        assert [limited.client().get("/healthz").status_code for _ in range(7)] == [200] * 5 + [429] * 2


def test_nobody_listens_to_the_world_without_a_token(tmp_path_factory: pytest.TempPathFactory) -> None:
    with made(tmp_path_factory.mktemp("exposed"), run=False) as one:
        for scope in SCOPES:
            tokens.revoke(one.store, f"the {scope} token")
        for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
            check_exposure(one.settings, one.store, host)
        for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "", "localhost.example.org"):
            with pytest.raises(ConfigError, match="token"):
                check_exposure(one.settings, one.store, host)
            check_exposure(one.settings, one.store, host, insecure=True)
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        tokens.create(one.store, name="somebody", scope="read", expires=soon)
        check_exposure(one.settings, one.store, "0.0.0.0")
