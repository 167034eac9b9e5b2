"""What the pages say when there is nothing to show, or when something is not as it should be; no browser is needed to see it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.api import create_app
from auditor.config import checked
from auditor.errors import StoreUnavailable
from auditor.store import Store, open_store, tokens

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have another HTTP client, which makes no difference here
    from starlette.testclient import TestClient


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/runs.db")
    yield opened
    opened.close()


def client(store: Store, *, insecure: bool = True) -> TestClient:
    return TestClient(create_app(checked({"connections": {}, "audits": {}}), store, insecure=insecure), raise_server_exceptions=False)


def test_without_audits_the_next_step_is_told(store: Store) -> None:
    body = client(store).get("/").text
    assert "auditor init" in body
    assert "auditor demo" in body


@pytest.mark.parametrize("path", ["/", "/day", "/tokens", "/compare", "/about"])
def test_a_page_without_anything_in_it_is_a_page(path: str, store: Store) -> None:
    answer = client(store).get(path)
    assert answer.status_code == 200
    assert "style=" not in answer.text
    assert "<script>" not in answer.text


def test_a_store_that_fails_is_told_in_the_frame(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tokens.create(store, name="one", scope="read")
    here = client(store, insecure=False)
    here.post("/login", data={"token": secret})
    assert here.get("/").status_code == 200

    def failing(*_: object) -> None:
        raise StoreUnavailable("postgresql://db.example/kept cannot be reached")

    monkeypatch.setattr(tokens, "check", failing)
    answer = here.get("/")
    assert answer.status_code == 503
    assert "<h1>Not now</h1>" in answer.text
    assert "db.example" not in answer.text


def test_a_fault_of_ours_is_told_in_the_frame(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("auditor.service.audits.overview", broken)
    answer = client(store).get("/")
    assert answer.status_code == 500
    assert "Something broke" in answer.text
    assert "a secret" not in answer.text


def test_a_session_that_has_ended_leads_to_the_login(store: Store) -> None:
    secret = tokens.create(store, name="one", scope="read")
    here = client(store, insecure=False)
    here.post("/login", data={"token": secret})
    tokens.revoke(store, "one")
    answer = here.get("/audits/x?before=1", follow_redirects=False)
    assert answer.headers["location"] == "/login?back=%2Faudits%2Fx%3Fbefore%3D1"
    assert here.get("/login").status_code == 200
    assert here.get("/runs/x/live", headers={"HX-Request": "true"}, follow_redirects=False).headers["hx-redirect"] == "/login"


def test_a_token_makes_none_that_may_do_more(store: Store) -> None:
    secret = tokens.create(store, name="one", scope="define")
    here = client(store, insecure=False)
    here.post("/login", data={"token": secret})
    csrf = here.get("/tokens").text.partition('name="csrf" value="')[2].partition('"')[0]
    assert here.post("/tokens", data={"csrf": csrf, "name": "more", "scope": "repair"}).status_code == 403
    assert here.post("/tokens", data={"csrf": csrf, "name": "less", "scope": "run"}).status_code == 200


def test_files_are_served_by_name_alone(store: Store) -> None:
    here = client(store)
    assert here.get("/static/pages.css").headers["content-type"].startswith("text/css")
    for path in ("/static/../pages/__init__.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/vendor"):
        assert here.get(path).status_code == 404
