"""Callers limited to audits of some patterns neither see nor change others, over every route; and people whom a proxy authenticated."""

from __future__ import annotations

import datetime as dt
import http.client
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import Request
from fastapi.routing import APIRoute

from auditor.api import audit_access, authentication, connections, pages
from auditor.api.middleware import PEER
from auditor.api_models.access import LIMITABLE, Scope
from auditor.errors import ConfigError, Forbidden
from auditor.service import tokens as token_service
from auditor.store import events, runs, tokens
from auditor.store.tokens import GRANTED_BY, SCOPES
from tests.api.conftest import Service, TemporaryService, make_client, make_settings
from tests.api.test_access import FORMS, OPEN, ROUTES, send_request

LISTS = {("GET", path) for path in audit_access.FILTERED}
OTHERS = "orders"
"""The audit, and the word in all that belongs to it, that limited callers do not see."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose audits are `orders`, with a mismatch, `same` and others."""
    with TemporaryService(tmp_path_factory.mktemp("limited")) as found:
        yield found


def limited(own: Service, scope: Scope, *patterns: str) -> httpx2.Client:
    """Return a client with a token of this scope that is limited to audits of these patterns."""
    secret = tokens.create_token(own.store, name=f"{scope} {patterns} {time.monotonic_ns()}", scope=scope, audits=patterns)
    return make_client(own.app, headers={"Authorization": f"Bearer {secret}"}, follow_redirects=False)


@pytest.mark.parametrize(("method", "path"), sorted(set(ROUTES) - OPEN))
def test_no_route_shows_or_changes_audits_of_others(own: Service, method: str, path: str) -> None:
    for scope in LIMITABLE:
        client = limited(own, scope, "same", "with*")
        before = len(runs.list_runs(own.store, limit=1000))
        answer = send_request(client, own, method, path)
        if (method, path) in LISTS:
            assert answer.status_code == 200
            assert OTHERS not in answer.text, (scope, answer.text)
            continue
        assert answer.status_code in (403, 404), (scope, answer.status_code, answer.text)
        assert len(runs.list_runs(own.store, limit=1000)) == before, "a run was requested"
        actors = {event.actor for event in events.list_events(own.store, limit=1000)}
        assert not any(actor.startswith(f"{scope} ('same'") for actor in actors), "something was changed"


@pytest.mark.parametrize(("method", "path"), sorted(set(ROUTES) - OPEN))
def test_limited_callers_reach_their_own_audits(own: Service, method: str, path: str) -> None:
    needed, status = ROUTES[method, path]
    is_limitable = any(path.startswith(f"/api/v1{begin}") for begin in audit_access._OWNERS) and "/segments" not in path
    reached = ((method, path) in LISTS or is_limitable) and (method, path) not in audit_access.DEFINING
    for scope in LIMITABLE:
        answer = send_request(limited(own, scope, "ord*"), own, method, path)
        if not reached or needed not in GRANTED_BY[scope]:
            unknown = "{bootstrap}" in path or "{audit}" in path  # there is none of these here
            assert answer.status_code == 403 or (unknown and answer.status_code == 404), (scope, answer.status_code)
        else:
            allowed = {status, 409} if method in ("POST", "DELETE", "PUT") else {status}
            assert answer.status_code in allowed, (scope, answer.status_code, answer.text)


def page_routes() -> list[tuple[str, str]]:
    """Return method and path of each route of the pages that needs a caller."""
    modules = [import_module(f"{pages.__name__}.{one.name}") for one in iter_modules(pages.__path__)]
    routes = [route for module in modules if hasattr(module, "router") for route in module.router.routes]
    found = {(method, route.path) for route in routes if isinstance(route, APIRoute) for method in route.methods or ()}
    return sorted((method, path) for method, path in found if path not in ("/login", "/theme", "/logout", "/about", "/static/{path:path}"))


@pytest.mark.parametrize(("method", "path"), page_routes())
def test_no_page_shows_or_changes_audits_of_others(own: Service, method: str, path: str) -> None:
    values = {
        "name": OTHERS,
        "run": own.runs[OTHERS],
        "patch": "0" * 32,
        "side": "source",
        "date": f"{dt.datetime.now(dt.UTC):%Y-%m-%d}",
        "format": "html",
    }
    place = path.replace(":path", "")
    for name, value in values.items():
        place = place.replace(f"{{{name}}}", value)
    answer = limited(own, "apply", "same", "with*").request(method, place)
    if path == "/":
        assert answer.status_code == 200
        assert OTHERS not in answer.text and "same" in answer.text
    elif "{" in place:  # a file of the pages themselves
        assert method == "GET" and answer.status_code in (403, 404)
    elif method == "GET" and answer.status_code == 200:
        assert OTHERS not in answer.text.replace(place, ""), path
    else:
        assert answer.status_code in (303, 403, 404), (path, answer.status_code)


def test_forms_of_others_change_nothing(own: Service) -> None:
    client = limited(own, "apply", "same")
    for path in set(FORMS) - audit_access.ABOUT_NONE:
        place = path.replace(":path", "").format(name=OTHERS, run=own.runs[OTHERS], patch="0" * 32)
        assert client.post(place).status_code in (403, 404), path


def test_ids_that_begin_alike_name_no_runs_of_others(own: Service) -> None:
    client, other = limited(own, "read", "same"), own.runs[OTHERS]
    for place in (other[:4], other):
        answer = client.get(f"/api/v1/runs/{place}")
        assert answer.status_code == 404 and OTHERS not in answer.text and other not in answer.text.replace(place, "")
    answer = client.get(f"/api/v1/runs/{own.runs['same']}/changes", params={"since": other})
    assert answer.status_code == 404 and OTHERS not in answer.text
    assert client.get("/api/v1/audits/nothing").json()["detail"] == "there is no audit 'nothing'"
    assert client.get(f"/api/v1/audits/{OTHERS}").json()["detail"] == f"there is no audit {OTHERS!r}"
    assert client.get("/api/v1/runs", params={"audit": OTHERS}).json()["items"] == []


def test_login_with_a_limited_token_is_limited_too(own: Service) -> None:
    secret = tokens.create_token(own.store, name="visitor", scope="run", audits=["same"])
    client = make_client(own.app, follow_redirects=False)
    assert client.post("/login", data={"token": secret}).status_code == 303
    assert client.get("/audits/same").status_code == 200
    assert client.get(f"/audits/{OTHERS}").status_code == 404
    assert client.get("/tokens").status_code == 403


def test_scopes_beyond_single_audits_cannot_be_limited(own: Service) -> None:
    for scope in set(SCOPES) - set(LIMITABLE):
        with pytest.raises(ConfigError, match="cannot be limited"):
            token_service.create(own.store, name=f"wide {scope}", scope=scope, audits=["same"])
    listed = {token.name: token.audits for token in token_service.list_tokens(own.store)}
    assert listed["the read token"] == ()


# the header of a proxy

AUTH: dict[str, Any] = {
    "proxy_header": "X-Auth-User",
    "from": ["127.0.0.2"],
    "groups_header": "X-Auth-Groups",
    "groups": {"data": {"scope": "apply"}, "shop": {"scope": "run", "audits": ["same*"]}},
}


class Proxied:
    """A service that listens on a port, as `auditor serve` does, with a proxy at 127.0.0.2."""

    def __init__(self, service: Service, port: int) -> None:
        self.service, self.port = service, port

    def ask(self, path: str, headers: list[tuple[str, str]], peer: str = "127.0.0.2", method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20, source_address=(peer, 0))
        connection.putrequest(method, path)
        for name, value in headers:
            connection.putheader(name, value)
        connection.putheader("Content-Length", "0")
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    with TemporaryService(tmp_path_factory.mktemp("proxied"), auth=AUTH, proxies=["127.0.0.0/8"]) as found:
        limits = connections.Limits(100, ["127.0.0.0/8"])
        options: dict[str, Any] = {"http": limits.protocol(), "forwarded_allow_ips": ["127.0.0.0/8"], "log_config": None}
        server = uvicorn.Server(uvicorn.Config(found.app, port=0, lifespan="off", **options))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield Proxied(found, server.servers[0].sockets[0].getsockname()[1])
        server.should_exit = True
        thread.join(10)


def test_people_of_the_proxy_have_what_their_group_has(proxied: Proxied) -> None:
    ann, bob = ("X-Auth-User", "ann"), ("X-Auth-User", "bob")
    status, text = proxied.ask("/api/v1/audits", [ann, ("X-Auth-Groups", "guests, data")])
    assert status == 200 and OTHERS in text
    status, text = proxied.ask("/api/v1/audits", [bob, ("X-Auth-Groups", "shop")])
    assert status == 200 and OTHERS not in text and "same" in text
    assert proxied.ask(f"/api/v1/audits/{OTHERS}", [bob, ("X-Auth-Groups", "shop")])[0] == 404
    assert proxied.ask("/audits/same", [bob, ("X-Auth-Groups", "shop")])[0] == 200
    status, text = proxied.ask("/api/v1/audits", [bob, ("X-Auth-Groups", "guests")])
    assert status == 403 and "bob is in no group" in text
    assert proxied.ask("/api/v1/audits", [bob])[0] == 403


def test_header_is_refused_from_other_addresses(proxied: Proxied) -> None:
    spoofed = [("X-Auth-User", "ann"), ("X-Auth-Groups", "data")]
    for more in ([], [("X-Forwarded-For", "127.0.0.2")], [("Forwarded", "for=127.0.0.2")], [("X-Real-IP", "127.0.0.2")]):
        status, text = proxied.ask("/api/v1/audits", [*spoofed, *more], peer="127.0.0.1")
        assert status == 403 and "is taken from the proxy alone, and this request came from 127.0.0.1" in text
    status, _ = proxied.ask("/api/v1/audits", [("X-Auth-Groups", "data")], peer="127.0.0.1")
    assert status == 403, "the groups alone"
    secret = proxied.service.tokens["read"]
    assert proxied.ask("/api/v1/audits", [("Authorization", f"Bearer {secret}")], peer="127.0.0.1")[0] == 200
    assert proxied.ask("/api/v1/audits", [], peer="127.0.0.1")[0] == 401


def test_forwarded_address_does_not_make_a_proxy_another_peer(proxied: Proxied) -> None:
    """The proxy itself says by X-Forwarded-For whom it asks for; the connection is its own all the same."""
    headers = [("X-Auth-User", "ann"), ("X-Auth-Groups", "data"), ("X-Forwarded-For", "203.0.113.9")]
    assert proxied.ask("/api/v1/audits", headers)[0] == 200


def test_doubled_and_odd_headers_are_refused(proxied: Proxied) -> None:
    groups = ("X-Auth-Groups", "data")
    assert proxied.ask("/api/v1/audits", [("X-Auth-User", "ann"), ("X-Auth-User", "root"), groups])[0] == 403
    assert proxied.ask("/api/v1/audits", [("X-Auth-User", "ann"), groups, groups])[0] == 403
    assert proxied.ask("/api/v1/audits", [("X-Auth-User", ""), groups])[0] == 401
    assert proxied.ask("/api/v1/audits", [("X-Auth-User", "x" * 201), groups])[0] == 401


def test_changes_of_people_need_a_form_of_this_service(proxied: Proxied) -> None:
    """A browser sends what the proxy authenticates by to any site's request, too."""
    headers = [("X-Auth-User", "ann"), ("X-Auth-Groups", "data")]
    assert proxied.ask("/api/v1/audits/same/runs", headers, method="POST")[0] == 403
    _, page = proxied.ask("/audits/same", headers)
    csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
    assert csrf
    given = [*headers, (authentication.CSRF_HEADER, csrf)]
    assert proxied.ask("/api/v1/audits/same/runs", [*given, ("Sec-Fetch-Site", "cross-site")], method="POST")[0] == 403
    assert proxied.ask("/api/v1/audits/same/runs", [*given, ("Sec-Fetch-Site", "same-origin")], method="POST")[0] == 202
    others = [("X-Auth-User", "eve"), ("X-Auth-Groups", "data"), (authentication.CSRF_HEADER, csrf)]
    assert proxied.ask("/api/v1/audits/same/runs", others, method="POST")[0] == 403
    assert next(event.actor for event in events.list_events(proxied.service.store) if event.action == "run requested") == "ann"


def test_people_of_the_proxy_manage_no_more_than_a_token_of_their_scope(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Without a token of their own they must not count as the command line, which makes tokens of every scope."""
    auth = {**AUTH, "groups": {"data": {"scope": "define"}}}
    with TemporaryService(tmp_path_factory.mktemp("defining"), run=False, auth=auth) as found:
        headers = [(b"x-auth-user", b"ann"), (b"x-auth-groups", b"data")]
        request = Request({"type": "http", "headers": headers, "app": found.app, "state": {PEER: "127.0.0.2"}})
        visitor = authentication.current_visitor(request)
        assert visitor is not None and visitor.token is not None and visitor.may("define")
        for scope in SCOPES:
            with pytest.raises(Forbidden):
                token_service.create(found.store, name="mine", scope=scope, by=visitor.name, creator=visitor.token)
        for scope in ("apply", "define"):
            with pytest.raises(Forbidden):
                token_service.revoke(found.store, f"the {scope} token", by=visitor.name, holder=visitor.token)
        assert token_service.revoke(found.store, "the read token", by=visitor.name, holder=visitor.token).name == "the read token"


def test_without_the_setting_the_header_means_nothing(own: Service) -> None:
    client = make_client(own.app, headers={"X-Auth-User": "ann"}, follow_redirects=False)
    assert client.get("/api/v1/audits").status_code == 401


def test_header_is_refused_where_the_connection_is_not_known(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Served otherwise than by `auditor serve`, nobody says which address a request came from."""
    with TemporaryService(tmp_path_factory.mktemp("foreign"), run=False, auth={**AUTH, "from": ["0.0.0.0/0"]}) as found:
        client = make_client(found.app, headers={"X-Auth-User": "ann", "X-Auth-Groups": "data"})
        assert client.get("/api/v1/audits").status_code == 403


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        ({"proxy_header": "X-User"}, "from"),
        ({"proxy_header": "X-User", "from": []}, "from"),
        ({"proxy_header": "X-User", "from": ["proxy.example.org"]}, "not an address or network"),
        ({"proxy_header": "X-Forwarded-For", "from": ["10.0.0.1"]}, "not a header of a proxy's own"),
        ({"proxy_header": "Authorization", "from": ["10.0.0.1"]}, "not a header of a proxy's own"),
        ({"proxy_header": "X-User", "from": ["10.0.0.1"], "groups": {"a": {}}}, "needs groups_header"),
        ({"proxy_header": "X-User", "from": ["10.0.0.1"], "groups": {"*": {"scope": "define", "audits": ["a"]}}}, "cannot be limited"),
    ],
)
def test_settings_that_would_believe_anybody_are_refused(
    auth: dict[str, Any], problem: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(ConfigError, match=problem):
        make_settings(tmp_path_factory.mktemp("wrong"), auth=auth)
