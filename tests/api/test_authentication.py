"""Browser sessions: login, forms, logout, and protection against requests from other sites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import httpx2
import pytest
from fastapi import FastAPI, Form, Request, Response

from auditor.api import authentication, create_app, errors
from auditor.api.authentication import Definer, Reader, Runner
from auditor.api.dependencies import AppState
from auditor.api_models.access import Scope
from auditor.errors import AuditorError, ConfigError
from auditor.service import tokens as service
from auditor.store import events, tokens
from tests.api.conftest import Service, TemporaryService, make_client


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service without runs."""
    with TemporaryService(tmp_path_factory.mktemp("sessions"), run=False) as found:
        yield found


def create_pages(own: Service, *, insecure: bool = False) -> FastAPI:
    """Return an application with simple pages that use sessions."""
    app = FastAPI()
    app.state.app_state, app.state.insecure = AppState(own.settings, own.store), insecure
    app.add_exception_handler(AuditorError, errors.handle_auditor_error)

    @app.post("/login")
    def login(request: Request, response: Response, token: Annotated[str, Form()]) -> str:
        return authentication.login(request, response, token).name

    @app.get("/me")
    def me(visitor: Reader) -> dict[str, str]:
        return {"name": visitor.name, "scope": visitor.scope, "csrf": visitor.csrf}

    @app.post("/change")
    def change(visitor: Runner) -> str:
        return visitor.name

    @app.post("/define")
    def define(visitor: Definer) -> str:
        return visitor.name

    @app.post("/logout")
    def logout(request: Request, response: Response, visitor: Reader) -> None:
        authentication.logout(request, response)

    return app


def log_in(own: Service, scope: Scope = "run", base: str = "http://localhost") -> tuple[httpx2.Client, str]:
    """Log in; return the client and the CSRF token of its session."""
    client = make_client(create_pages(own), base_url=base)
    answer = client.post("/login", data={"token": own.tokens[scope]})
    assert answer.status_code == 200, answer.text
    return client, client.get("/me").json()["csrf"]


def test_session_cookie_is_secure_and_contains_no_token(own: Service) -> None:
    for base, secure in (("http://localhost", False), ("https://localhost", True)):
        client = make_client(create_pages(own), base_url=base)
        cookie = client.post("/login", data={"token": own.tokens["run"]}).headers["set-cookie"]
        assert own.tokens["run"] not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert ("Secure" in cookie) is secure


def test_session_is_valid_in_every_process(own: Service) -> None:
    client, _ = log_in(own)
    other = make_client(create_pages(own), cookies=dict(client.cookies))
    assert other.get("/me").json()["name"] == "the run token"
    assert make_client(create_app(own.settings, own.store), cookies=dict(client.cookies)).get("/api/v1/runs").status_code == 200


def test_form_requires_the_csrf_token_of_its_session(own: Service) -> None:
    client, csrf = log_in(own)
    assert client.post("/change").status_code == 403
    assert client.post("/change", data={"csrf": "0" * 64}).status_code == 403
    assert client.post("/change", data={"csrf": log_in(own)[1]}).status_code == 403  # of another session
    assert client.post("/change", data={"csrf": csrf}).status_code == 200
    assert client.post("/change", headers={"X-CSRF-Token": csrf}).status_code == 200
    assert client.post("/define", data={"csrf": csrf}).status_code == 403


def test_cross_site_request_is_rejected_even_with_the_csrf_token(own: Service) -> None:
    client, csrf = log_in(own)
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        assert client.post("/change", data={"csrf": csrf}, headers=headers).status_code == 403
        assert client.post("/login", data={"token": own.tokens["run"]}, headers=headers).status_code == 403
    assert client.post("/change", data={"csrf": csrf}, headers={"Origin": "http://localhost"}).status_code == 200


def test_api_change_with_a_cookie_requires_the_csrf_token(own: Service) -> None:
    client, csrf = log_in(own, "define")
    api = make_client(own.app, cookies=dict(client.cookies))
    assert api.get("/api/v1/audits").status_code == 200
    assert api.post("/api/v1/audits/same/pause").status_code == 403
    assert api.post("/api/v1/audits/same/pause", headers={"X-CSRF-Token": csrf}).status_code == 200


def test_logout_ends_the_session(own: Service) -> None:
    client, csrf = log_in(own)
    old_cookies = dict(client.cookies)
    client.post("/logout", data={"csrf": csrf})
    assert make_client(create_pages(own), cookies=old_cookies).get("/me").status_code == 401


def test_session_ends_when_its_token_is_revoked(own: Service) -> None:
    secret = tokens.create_token(own.store, name="leaver", scope="run")
    client = make_client(create_pages(own))
    client.post("/login", data={"token": secret})
    assert client.get("/me").status_code == 200
    tokens.revoke_token(own.store, "leaver")
    assert client.get("/me").status_code == 401
    tokens.create_token(own.store, name="leaver", scope="define")  # another token of the same name
    assert client.get("/me").status_code == 401


def test_token_name_cannot_start_like_a_session(own: Service) -> None:
    with pytest.raises(ConfigError, match="choose another"):
        service.create(own.store, name="session of mine", scope="read")


def test_invalid_session_cookie_is_rejected(own: Service) -> None:
    client, _ = log_in(own)
    session = client.cookies[authentication.COOKIE]
    for cookie in ("", "x", own.tokens["define"], session[:-1], session + "x", "aud_" + "0" * 43):
        other = make_client(create_pages(own), cookies={authentication.COOKIE: cookie})
        assert other.get("/me").status_code == 401
    bearer = make_client(own.app).get("/api/v1/audits", headers={"Authorization": f"Bearer {session}"})
    assert bearer.status_code == 401


def test_logins_and_failed_logins_are_recorded_as_events(own: Service) -> None:
    client, _ = log_in(own)
    assert client.post("/login", data={"token": "aud_wrong"}).status_code == 401
    assert [one.action for one in events.list_events(own.store, limit=2)] == ["login refused", "login"]
    stored = "".join(str(one) for one in [*events.list_events(own.store), *tokens.list_tokens(own.store)])
    assert "aud_" not in stored


def test_insecure_mode_still_rejects_cross_site_requests(own: Service) -> None:
    client = make_client(create_pages(own, insecure=True))
    assert client.get("/me").json()["name"] == "everybody"
    assert client.post("/change").status_code == 200
    assert client.post("/change", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.post("/change", headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post("/define").status_code == 403


def test_refused_logins_are_summed_up(own: Service) -> None:
    client = make_client(create_pages(own))
    before = len(events.list_events(own.store))
    for number in range(12):
        assert client.post("/login", data={"token": f"aud_{number:08}wrong"}).status_code == 401
    (newest, *_), after = events.list_events(own.store), len(events.list_events(own.store))
    assert after - before <= 1
    assert newest.action == "login refused"
    assert newest.detail["count"] >= 12
    assert newest.detail["callers"] == ["testclient"]


def test_session_is_read_by_its_digest_and_a_token_has_few(own: Service) -> None:
    secret = tokens.create_token(own.store, name="robot", scope="read")
    app = create_pages(own)
    clients = [make_client(app) for _ in range(tokens.MAX_SESSIONS + 5)]
    for client in clients:
        assert client.post("/login", data={"token": secret}).status_code == 200
    assert [client.get("/me").status_code for client in clients] == [401] * 5 + [200] * tokens.MAX_SESSIONS
    maker = tokens.find_token(own.store, "robot")
    assert sum(one.created_by == maker.number for one in tokens.list_tokens(own.store)) == tokens.MAX_SESSIONS, "old ones are swept"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "list_tokens", lambda *_: pytest.fail("all tokens were read for one session"))
        assert clients[-1].get("/me").json()["name"] == "robot"
