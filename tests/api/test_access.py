"""Access control: every route without a token, with a wrong one, and with one of each scope."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import httpx2
import pytest
from fastapi.routing import APIRoute

from auditor.api import app as application
from auditor.api import authentication, pages
from auditor.api.authentication import check_exposure
from auditor.api_models.access import Scope
from auditor.errors import ConfigError
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.service import repairs as repair_service
from auditor.store import tokens
from auditor.store.tokens import GRANTED_BY, SCOPES
from scripts import scope_reference
from tests.api.conftest import Service, TemporaryService, make_settings

SUMMARY = b"partition_id,row_count,hashed,key_min,key_max,word_0,word_1,partition_count,total_rows,audit_plan\n"
ORDERS = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "warehouse", "table": "orders"}}

ROUTES: dict[tuple[str, str], tuple[Scope, int]] = {
    ("GET", "/api/v1/audits"): ("read", 200),
    ("GET", "/api/v1/audits/{name}"): ("read", 200),
    ("GET", "/api/v1/audits/{name}/plan"): ("read", 200),
    ("GET", "/api/v1/audits/{name}/sql"): ("read", 200),
    ("GET", "/api/v1/audits/{name}/bisection"): ("read", 200),
    ("GET", "/api/v1/costs"): ("read", 200),
    ("GET", "/api/v1/schedules"): ("read", 200),
    ("GET", "/api/v1/connections"): ("read", 200),
    ("POST", "/api/v1/connections/{connection}/check"): ("run", 200),
    ("GET", "/api/v1/audits/{name}/verification"): ("read", 200),
    ("GET", "/api/v1/audits/{name}/runs"): ("read", 200),
    ("POST", "/api/v1/audits/{name}/runs"): ("run", 202),
    ("POST", "/api/v1/audits"): ("define", 201),
    ("PUT", "/api/v1/audits/{name}"): ("define", 200),
    ("DELETE", "/api/v1/audits/{name}"): ("define", 204),
    ("POST", "/api/v1/audits/{name}/pause"): ("define", 200),
    ("POST", "/api/v1/audits/{name}/unpause"): ("define", 200),
    ("PUT", "/api/v1/audits/{name}/acknowledgement"): ("run", 200),
    ("DELETE", "/api/v1/audits/{name}/acknowledgement"): ("run", 200),
    ("GET", "/api/v1/incidents"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/changes"): ("read", 404),  # authorized callers get 404, because it is the audit's first run
    ("GET", "/api/v1/runs"): ("read", 200),
    ("POST", "/api/v1/runs"): ("define", 202),
    ("GET", "/api/v1/runs/{run}"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/partitions"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/differences"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/trace"): ("run", 409),
    ("GET", "/api/v1/runs/{run}/events"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/report"): ("read", 200),
    ("GET", "/api/v1/runs/{run}/evidence"): ("read", 404),  # authorized callers get 404, because this service signs nothing
    ("POST", "/api/v1/runs/{run}/cancel"): ("run", 202),
    ("POST", "/api/v1/runs/{run}/resume"): ("run", 409),  # authorized callers get 409, because the run is done
    ("GET", "/api/v1/runs/{run}/repairs"): ("read", 200),
    ("POST", "/api/v1/runs/{run}/repairs"): ("repair", 201),
    ("GET", "/api/v1/repairs/{repair}"): ("read", 200),
    ("POST", "/api/v1/runs/{run}/patches"): ("repair", 201),
    ("GET", "/api/v1/runs/{run}/patches"): ("read", 200),
    ("GET", "/api/v1/patches/{patch}"): ("read", 200),
    ("GET", "/api/v1/patches/{patch}/rows"): ("read", 200),
    ("GET", "/api/v1/patches/{patch}/sql"): ("read", 200),
    ("POST", "/api/v1/patches/{patch}/apply"): ("apply", 409),  # authorized callers get 409, because this target may only be read
    ("POST", "/api/v1/patches/{patch}/undo"): ("apply", 409),
    ("GET", "/api/v1/audits/{name}/bootstrap-plan"): ("repair", 409),  # authorized callers get 409, because this target may only be read
    ("GET", "/api/v1/audits/{name}/bootstraps"): ("read", 200),
    ("GET", "/api/v1/bootstraps/{bootstrap}"): ("read", 404),  # authorized callers get 404, because there is none
    ("GET", "/api/v1/bootstraps/{bootstrap}/ranges"): ("read", 404),
    ("GET", "/api/v1/pipelines"): ("read", 200),
    ("GET", "/api/v1/pipelines/{pipeline}"): ("read", 404),  # authorized callers get 404, because this service has no pipeline
    ("GET", "/api/v1/pipelines/{pipeline}/events"): ("read", 404),
    ("GET", "/api/v1/pipelines/{pipeline}/lag"): ("read", 404),
    ("GET", "/api/v1/pipelines/{pipeline}/schemas"): ("read", 404),
    ("GET", "/api/v1/pipelines/{pipeline}/segments"): ("read", 404),
    ("POST", "/api/v1/pipelines/{pipeline}/pause"): ("pipeline", 404),
    ("POST", "/api/v1/pipelines/{pipeline}/refreshes"): ("pipeline", 404),
    ("GET", "/api/v1/pipelines/{pipeline}/refreshes"): ("read", 404),
    ("POST", "/api/v1/pipelines/{pipeline}/start"): ("pipeline", 404),
    ("POST", "/api/v1/pipelines/{pipeline}/unpause"): ("pipeline", 404),
    ("POST", "/api/v1/pipelines/{pipeline}/skips"): ("pipeline", 404),
    ("GET", "/api/v1/segments"): ("read", 200),
    ("GET", "/api/v1/segments/{audit}"): ("read", 404),  # authorized callers get 404, because this service has no segment audit
    ("GET", "/api/v1/segments/{audit}/entries"): ("read", 404),
    ("GET", "/api/v1/events"): ("define", 200),
    ("GET", "/api/v1/days/{day}/report"): ("read", 200),
    ("POST", "/api/v1/compare"): ("read", 200),
    ("GET", "/metrics"): ("read", 200),
}
OPEN = {("GET", "/healthz"), ("GET", "/readyz")}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that the requests of this module change."""
    with TemporaryService(tmp_path_factory.mktemp("access")) as found:
        yield found


def record_repair(own: Service) -> str:
    """Record a repair and return its id."""
    return repair_service.record(own.store, own.runs["orders"], kind="other", note="mended", who="somebody").repair


def propose_patch(own: Service) -> str:
    """Propose a patch, once, and return its id."""
    return patches.propose(own.settings, own.store, own.runs["orders"], Selection(), who="somebody", idempotency="once").patch


def send_request(client: httpx2.Client, own: Service, method: str, path: str) -> httpx2.Response:
    """Send a request to a route that is valid for every authorized caller."""
    if (method, path) == ("DELETE", "/api/v1/audits/{name}"):
        own.client("define").put("/api/v1/audits/adhoc", json=ORDERS).raise_for_status()
    name = "adhoc" if method in ("PUT", "DELETE") and not path.endswith("/acknowledgement") else "orders"
    made = {"repair": record_repair(own) if "{repair}" in path else "", "patch": propose_patch(own) if "{patch}" in path else ""}
    ids = {"run": own.runs["orders"], "bootstrap": "abcd1234", "connection": "shop", **made}
    place = path.format(name=name, day=f"{dt.datetime.now(dt.UTC):%Y-%m-%d}", pipeline="shop", audit="zones", **ids)
    if path.endswith("/compare"):
        files = {"source": ("s.csv", SUMMARY), "target": ("t.csv", SUMMARY)}
        return client.post(place, files=files)
    if (method, path) == ("POST", "/api/v1/audits"):
        return client.post(place, json={"name": "other", **ORDERS})
    if (method, path) == ("POST", "/api/v1/runs/{run}/repairs"):
        return client.post(place, json={"kind": "other", "note": "mended"})
    if "patch" in path and method == "POST":
        return client.post(place, json={} if path.endswith("/patches") else {"rows": 2}, headers={"Idempotency-Key": "k"})
    if path.endswith("/skips"):
        return client.post(place, json={"table": "shop.orders", "position": "binlog.000012:88120", "reason": "test rows"})
    if path.endswith("/refreshes") and method == "POST":
        return client.post(place, json={})
    if path.endswith(("{pipeline}/segments", "/schemas", "/entries", "{pipeline}/events")):
        more = {"side": "shop"} if path.endswith("/entries") else {"from": "earliest"} if path.endswith("/events") else {}
        return client.get(place, params={"table": "shop.orders", **more})
    if path.endswith("/acknowledgement") and method == "PUT":
        return client.put(place, json={"why": "a known backfill"})
    if path.endswith("/verification"):
        return client.get(place, params={"through": "2026-11-01T06:00:00Z"})
    return client.request(method, place, json=ORDERS if method == "PUT" or path == "/api/v1/runs" else None)


def test_table_lists_every_route() -> None:
    routed = {
        (m, one.path) for routes in application.ROUTERS for one in routes.routes if isinstance(one, APIRoute) for m in one.methods or ()
    }
    assert routed == set(ROUTES) | OPEN
    assert application.NON_PAGE_PATHS == ("/api", "/healthz", "/readyz", "/metrics")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_route_requires_its_scope(own: Service, method: str, path: str) -> None:
    needed, status = ROUTES[method, path]
    assert send_request(own.client(), own, method, path).status_code == 401
    wrong = own.client()
    wrong.headers["Authorization"] = "Bearer aud_no-such-token"
    assert send_request(wrong, own, method, path).status_code == 401
    for scope in SCOPES:
        found = send_request(own.client(scope), own, method, path)
        if needed not in GRANTED_BY[scope]:
            assert found.status_code == 403, (scope, found.text)
            assert found.headers["content-type"] == "application/problem+json"
        else:
            assert found.status_code in (status, 409 if path.endswith("/{name}/runs") else status), (scope, found.text)


FORMS: dict[str, Scope] = {
    "/logout": "read",
    "/compare": "read",
    "/run": "run",
    "/connections/{name:path}/check": "run",
    "/audits/{name:path}/acknowledge": "run",
    "/audits/{name:path}/withdraw": "run",
    "/runs/{run}/again": "run",
    "/audits/{name:path}/run": "run",
    "/audits/{name:path}/pause": "define",
    "/audits/{name:path}/unpause": "define",
    "/runs/{run}/cancel": "run",
    "/runs/{run}/resume": "run",
    "/runs/{run}/patches": "repair",
    "/runs/{run}/patches/{patch}/apply": "apply",
    "/runs/{run}/patches/{patch}/undo": "apply",
    "/segments/{name}/run": "run",
    "/segments/{name}/pause": "define",
    "/segments/{name}/unpause": "define",
    "/tokens": "define",
    "/tokens/revoke": "define",
    "/pipelines/{name}/pause": "pipeline",
    "/pipelines/{name}/unpause": "pipeline",
    "/pipelines/{name}/start": "pipeline",
    "/pipelines/{name}/refresh": "pipeline",
    "/pipelines/{name}/skip": "pipeline",
}
"""The scope of each form of a page, by its path; those of the login and of the colours need none."""


def test_table_lists_every_form() -> None:
    modules = [import_module(f"{pages.__name__}.{one.name}") for one in iter_modules(pages.__path__)]
    routes = [route for module in modules if hasattr(module, "router") for route in module.router.routes]
    forms = {route.path for route in routes if isinstance(route, APIRoute) and "POST" in (route.methods or ())}
    assert forms == {*FORMS, "/login", "/theme"}


@pytest.mark.parametrize("path", FORMS)
def test_form_requires_its_scope(own: Service, path: str) -> None:
    place = path.replace(":path", "").format(name="nothing", run="0" * 32, patch="0" * 32)
    for scope in SCOPES:
        found = own.client(scope).post(place)
        assert (found.status_code == 403) is (FORMS[path] not in GRANTED_BY[scope]), (scope, found.status_code)


def test_documented_table_of_scopes_is_that_of_the_routes() -> None:
    page = Path(__file__).parents[2] / "docs" / "service.md"
    assert scope_reference.reference() in page.read_text(encoding="utf-8"), "write it again: python -m scripts.scope_reference"
    assert {(method, path): scope for method, path, scope in scope_reference.requests()} == {key: one[0] for key, one in ROUTES.items()}


@pytest.mark.parametrize(("method", "path"), sorted(OPEN))
def test_health_checks_need_no_token(own: Service, method: str, path: str) -> None:
    assert own.client().request(method, path).status_code == 200


def test_scope_is_checked_before_the_body_is_read(own: Service) -> None:
    for client, status in ((own.client(), 401), (own.client("read"), 403)):
        found = client.put("/api/v1/audits/adhoc", content=b"{" * 100, headers={"Content-Type": "application/json"})
        assert found.status_code == status


def test_revoked_token_is_rejected(own: Service) -> None:
    secret = tokens.create_token(own.store, name="short", scope="read")
    client = own.client()
    client.headers["Authorization"] = f"Bearer {secret}"
    assert client.get("/api/v1/audits").status_code == 200
    tokens.revoke_token(own.store, "short")
    refused = client.get("/api/v1/audits")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert secret not in refused.text


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "bearer x y", "Bearer \xff", "aud_abc"])
def test_malformed_authorization_header_is_rejected(own: Service, header: str) -> None:
    found = own.client().get("/api/v1/audits", headers={b"Authorization": header.encode("latin-1")})
    assert found.status_code == 401


def test_wrong_tokens_are_rate_limited_by_prefix_and_address(own: Service) -> None:
    """A client that repeats a wrong token, or guesses the end of a right one, does not lock out others behind its proxy."""
    guessed = own.tokens["run"][: authentication.PREFIX_LENGTH]
    for prefix in ("aud_expired1", guessed):
        codes = [get_audits(own, f"{prefix}{n}").status_code for n in range(authentication.MAX_WRONG_TOKENS + 5)]
        assert codes == [401] * authentication.MAX_WRONG_TOKENS + [429] * 5
    assert get_audits(own, own.tokens["read"]).status_code == 200, "another token from the same address"
    assert get_audits(own, "aud_mistyped").status_code == 401
    refused = get_audits(own, own.tokens["run"])
    assert refused.status_code == 429, "of this token, somebody there guesses the end"
    assert int(refused.headers["retry-after"]) >= 1
    assert get_audits(own, own.tokens["run"], client=("192.0.2.7", 1)).status_code == 200, "the same token from another address"


def get_audits(own: Service, secret: str, **more: Any) -> httpx2.Response:
    return own.client(**more).get("/api/v1/audits", headers={"Authorization": f"Bearer {secret}"})


def test_requests_are_rate_limited_by_token(tmp_path_factory: pytest.TempPathFactory) -> None:
    with TemporaryService(tmp_path_factory.mktemp("limited"), run=False, requests_per_minute=5) as limited:
        codes = [limited.client("read").get("/api/v1/runs").status_code for _ in range(7)]
        assert codes == [200] * 5 + [429] * 2
        assert limited.client("run").get("/api/v1/runs").status_code == 200
        assert [limited.client().get("/healthz").status_code for _ in range(7)] == [200] * 5 + [429] * 2


@pytest.mark.parametrize("path", ["/api/v1/audits", "/", "/healthz", "/login"])
def test_foreign_host_is_refused(own: Service, path: str) -> None:
    """A page of another site whose name was changed to this address (DNS rebinding) is of this origin to the browser."""
    client = own.client("read")
    for host in (
        "evil.example",
        "evil.example:8080",
        "localhost.evil.example",
        "evil.localhost.example",
        "xauditor.internal",
        "a.b,c",
        "[",
    ):
        refused = client.get(path, headers={"Host": host})
        assert refused.status_code == 421, host
        assert "allowed_hosts" in refused.json()["detail"]
    for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080", "10.0.0.7", "localhost.", ""):
        assert client.get(path, headers={"Host": host}).status_code != 421, host


def test_allowed_hosts_and_the_public_url_are_names_of_the_service(tmp_path_factory: pytest.TempPathFactory) -> None:
    hosts: dict[str, Any] = {
        "allowed_hosts": ["auditor.internal", "*.example.org"],
        "public_url": "https://Audits.example.com/",
        "host": "box",
    }
    with TemporaryService(tmp_path_factory.mktemp("named"), run=False, **hosts) as named:
        for host in ("auditor.internal", "AUDITOR.internal:80", "a.example.org", "a.b.example.org", "audits.example.com", "box:8080"):
            assert named.client("read").get("/api/v1/runs", headers={"Host": host}).status_code == 200, host
        for host in ("example.org", "b.auditor.internal", "example.com", "aexample.org"):
            assert named.client("read").get("/api/v1/runs", headers={"Host": host}).status_code == 421, host


@pytest.mark.parametrize("settings", [{"allowed_hosts": ["http://a"]}, {"allowed_hosts": ["*"]}, {"public_url": "auditor.example.org"}])
def test_names_of_hosts_are_checked(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        make_settings(tmp_path, **settings)


def test_without_tokens_people_read_and_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    with TemporaryService(tmp_path_factory.mktemp("open"), run=False, insecure=True) as opened:
        client = opened.client()
        assert client.get("/api/v1/audits").status_code == 200
        assert client.post("/api/v1/audits/orders/runs").status_code == 202
        for (method, path), (needed, _) in ROUTES.items():
            if needed not in ("read", "run"):
                place = re.sub(r"\{\w+\}", "a" * 8, path)
                refused = client.request(method, place, json={})
                assert refused.status_code == 403, (method, path)
                assert "started without tokens" in refused.json()["detail"]


def log_in(own: Service, secret: str) -> tuple[httpx2.Client, str]:
    """Return a client with a session of this token, and its CSRF token."""
    client = own.client()
    client.post("/login", data={"token": secret})
    return client, client.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]


def test_token_made_by_another_ends_with_it(own: Service) -> None:
    expires = dt.datetime.now(dt.UTC) + dt.timedelta(days=2)
    maker = tokens.create_token(own.store, name="maker", scope="define", expires=expires)
    client, csrf = log_in(own, maker)
    page = client.post("/tokens", data={"csrf": csrf, "name": "made", "scope": "run", "lasts": ""}).text
    secret = page.partition('id="secret" tabindex="0">')[2].partition("<")[0]
    made = tokens.find_token(own.store, "made")
    assert made.expires is not None
    assert abs(made.expires - expires) < dt.timedelta(seconds=1), "no later than its maker"
    session, _ = log_in(own, secret)
    assert get_audits(own, secret).status_code == session.get("/").status_code == 200
    tokens.revoke_token(own.store, "maker")
    assert get_audits(own, secret).status_code == 401
    assert session.get("/").status_code == client.get("/").status_code == 303
    assert tokens.create_token(own.store, name="made", scope="read"), "its name is free again"


def test_token_manages_only_those_below_it(own: Service) -> None:
    maker = tokens.create_token(own.store, name="chief", scope="define")
    client, csrf = log_in(own, maker)
    for scope in SCOPES:
        tokens.create_token(own.store, name=f"peer {scope}", scope=scope)
        created = client.post("/tokens", data={"csrf": csrf, "name": f"mine {scope}", "scope": scope})
        revoked = client.post("/tokens/revoke", data={"csrf": csrf, "name": f"peer {scope}"})
        below = scope in ("read", "run")
        assert (created.status_code, revoked.status_code) == ((200, 303) if below else (403, 403)), scope
    assert client.post("/tokens/revoke", data={"csrf": csrf, "name": "chief"}).status_code == 303, "a token may end itself"
    assert client.get("/").status_code == 303


def test_public_address_requires_a_token_or_insecure(tmp_path_factory: pytest.TempPathFactory) -> None:
    with TemporaryService(tmp_path_factory.mktemp("exposed"), run=False) as one:
        for scope in SCOPES:
            tokens.revoke_token(one.store, f"the {scope} token")
        for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8"):
            check_exposure(one.settings, one.store, host)
        for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "", "localhost.example.org"):
            with pytest.raises(ConfigError, match="token"):
                check_exposure(one.settings, one.store, host)
            check_exposure(one.settings, one.store, host, insecure=True)
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        tokens.create_token(one.store, name="somebody", scope="read", expires=soon)
        check_exposure(one.settings, one.store, "0.0.0.0")
