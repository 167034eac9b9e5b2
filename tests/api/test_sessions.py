"""Sessions of people: logging in, forms, leaving, and what other sites' pages cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Form, Request, Response

from auditor.api import create_app, problems, sessions
from auditor.api.behind import Behind
from auditor.api.sessions import Definer, Reader, Runner
from auditor.errors import AuditorError, ConfigError
from auditor.service import tokens as service
from auditor.store import events, tokens
from tests.api.conftest import Service, made, visiting


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with nothing but tokens."""
    with made(tmp_path_factory.mktemp("sessions"), run=False) as found:
        yield found


def pages(own: Service, *, insecure: bool = False) -> FastAPI:
    """Pages as anybody may write them, on what sessions offer."""
    app = FastAPI()
    app.state.behind, app.state.insecure = Behind(own.settings, own.store), insecure
    app.add_exception_handler(AuditorError, problems.refused)

    @app.post("/login")
    def login(request: Request, response: Response, token: Annotated[str, Form()]) -> str:
        return sessions.login(request, response, token).name

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
        sessions.logout(request, response)

    return app


def entered(own: Service, scope: tokens.Scope = "run", base: str = "http://testserver") -> tuple[httpx.Client, str]:
    """Somebody who logged in, and the CSRF token of their pages."""
    client = visiting(pages(own), base_url=base)
    answer = client.post("/login", data={"token": own.tokens[scope]})
    assert answer.status_code == 200, answer.text
    return client, client.get("/me").json()["csrf"]


def test_the_cookie(own: Service) -> None:
    for base, secure in (("http://testserver", False), ("https://testserver", True)):
        client = visiting(pages(own), base_url=base)
        cookie = client.post("/login", data={"token": own.tokens["run"]}).headers["set-cookie"]
        assert own.tokens["run"] not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert ("Secure" in cookie) is secure


def test_a_session_is_known_to_every_process(own: Service) -> None:
    client, _ = entered(own)
    other = visiting(pages(own), cookies=dict(client.cookies))
    assert other.get("/me").json()["name"] == "the run token"
    assert visiting(create_app(own.settings, own.store), cookies=dict(client.cookies)).get("/api/v1/runs").status_code == 200


def test_forms_need_their_token(own: Service) -> None:
    client, csrf = entered(own)
    assert client.post("/change").status_code == 403
    assert client.post("/change", data={"csrf": "0" * 64}).status_code == 403
    assert client.post("/change", data={"csrf": entered(own)[1]}).status_code == 403  # of another session
    assert client.post("/change", data={"csrf": csrf}).status_code == 200
    assert client.post("/change", headers={"X-CSRF-Token": csrf}).status_code == 200
    assert client.post("/define", data={"csrf": csrf}).status_code == 403


def test_other_sites_are_refused_whatever_they_know(own: Service) -> None:
    client, csrf = entered(own)
    for headers in (
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ):
        assert client.post("/change", data={"csrf": csrf}, headers=headers).status_code == 403
        assert client.post("/login", data={"token": own.tokens["run"]}, headers=headers).status_code == 403
    assert client.post("/change", data={"csrf": csrf}, headers={"Origin": "http://testserver"}).status_code == 200


def test_the_api_takes_no_changes_from_a_cookie_alone(own: Service) -> None:
    client, csrf = entered(own, "define")
    api = visiting(own.app, cookies=dict(client.cookies))
    assert api.get("/api/v1/audits").status_code == 200
    assert api.post("/api/v1/audits/same/pause").status_code == 403
    assert api.post("/api/v1/audits/same/pause", headers={"X-CSRF-Token": csrf}).status_code == 200


def test_leaving(own: Service) -> None:
    client, csrf = entered(own)
    kept = dict(client.cookies)
    client.post("/logout", data={"csrf": csrf})
    assert visiting(pages(own), cookies=kept).get("/me").status_code == 401


def test_a_session_ends_with_its_token(own: Service) -> None:
    secret = tokens.create(own.store, name="leaver", scope="run")
    client = visiting(pages(own))
    client.post("/login", data={"token": secret})
    assert client.get("/me").status_code == 200
    tokens.revoke(own.store, "leaver")
    assert client.get("/me").status_code == 401
    tokens.create(own.store, name="leaver", scope="define")  # of the same name, and not the same
    assert client.get("/me").status_code == 401


def test_no_token_is_named_as_a_session(own: Service) -> None:
    with pytest.raises(ConfigError, match="choose another"):
        service.create(own.store, name="session of mine", scope="read")


def test_cookies_that_are_no_session(own: Service) -> None:
    client, _ = entered(own)
    session = client.cookies[sessions.COOKIE]
    for cookie in ("", "x", own.tokens["define"], session[:-1], session + "x", "aud_" + "0" * 43):
        other = visiting(pages(own), cookies={sessions.COOKIE: cookie})
        assert other.get("/me").status_code == 401
    bearer = visiting(own.app).get("/api/v1/audits", headers={"Authorization": f"Bearer {session}"})
    assert bearer.status_code == 401


def test_who_came_in_is_noted_and_how_often_they_tried(own: Service) -> None:
    client, _ = entered(own)
    assert client.post("/login", data={"token": "aud_wrong"}).status_code == 401
    assert [one.what for one in events.listed(own.store, limit=2)] == ["login refused", "login"]
    kept = "".join(str(one) for one in [*events.listed(own.store), *tokens.listed(own.store)])
    assert "aud_" not in kept


def test_everybody_may_but_not_from_other_sites(own: Service) -> None:
    client = visiting(pages(own, insecure=True))
    assert client.get("/me").json()["name"] == "everybody"
    assert client.post("/define").status_code == 200
    assert client.post("/define", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert client.post("/define", headers={"Origin": "http://evil.example"}).status_code == 403
