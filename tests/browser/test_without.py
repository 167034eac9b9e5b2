"""Pages without data, and pages after errors; tested without a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from auditor.api import create_app
from auditor.config import validate_settings
from auditor.errors import StoreUnavailable
from auditor.store import Store, open_store, tokens


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path}/runs.db")
    yield opened
    opened.close()


def client(store: Store, *, insecure: bool = True) -> TestClient:
    app = create_app(validate_settings({"connections": {}, "audits": {}}), store, insecure=insecure)
    return TestClient(app, raise_server_exceptions=False, base_url="http://localhost")


def test_overview_without_audits_suggests_the_next_step(store: Store) -> None:
    body = client(store).get("/").text
    assert "auditor init" in body
    assert "auditor demo" in body


@pytest.mark.parametrize("path", ["/", "/day", "/compare", "/about", "/pipelines"])
def test_page_without_data_is_rendered(path: str, store: Store) -> None:
    answer = client(store).get(path)
    assert answer.status_code == 200
    assert "style=" not in answer.text
    assert "<script>" not in answer.text


def test_failing_store_shows_an_error_page_without_details(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tokens.create_token(store, name="one", scope="read")
    visitor = client(store, insecure=False)
    visitor.post("/login", data={"token": secret})
    assert visitor.get("/").status_code == 200

    def failing(*_: object) -> None:
        raise StoreUnavailable("postgresql://db.example/kept cannot be reached")

    monkeypatch.setattr(tokens, "verify_token", failing)
    answer = visitor.get("/")
    assert answer.status_code == 503
    assert "<h1>Not available now</h1>" in answer.text
    assert "db.example" not in answer.text


def test_internal_error_shows_an_error_page_without_details(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("auditor.service.audits.overview", broken)
    answer = client(store).get("/")
    assert answer.status_code == 500
    assert "Internal error" in answer.text
    assert "a secret" not in answer.text


def test_ended_session_redirects_to_the_login(store: Store) -> None:
    secret = tokens.create_token(store, name="one", scope="read")
    visitor = client(store, insecure=False)
    visitor.post("/login", data={"token": secret})
    tokens.revoke_token(store, "one")
    answer = visitor.get("/audits/x?before=1", follow_redirects=False)
    assert answer.headers["location"] == "/login?back=%2Faudits%2Fx%3Fbefore%3D1"
    assert visitor.get("/login").status_code == 200
    assert visitor.get("/runs/x/live", headers={"HX-Request": "true"}, follow_redirects=False).headers["hx-redirect"] == "/login"


def test_without_tokens_nobody_manages_tokens(store: Store) -> None:
    visitor = client(store)
    csrf = visitor.get("/").text.partition('name="csrf" value="')[2].partition('"')[0]
    assert visitor.get("/tokens").status_code == 403
    assert visitor.post("/tokens", data={"csrf": csrf, "name": "stays", "scope": "read"}).status_code == 403
    assert tokens.list_tokens(store) == []


def test_token_cannot_create_one_with_a_wider_scope(store: Store) -> None:
    secret = tokens.create_token(store, name="one", scope="define")
    visitor = client(store, insecure=False)
    visitor.post("/login", data={"token": secret})
    csrf = visitor.get("/tokens").text.partition('name="csrf" value="')[2].partition('"')[0]
    assert visitor.post("/tokens", data={"csrf": csrf, "name": "more", "scope": "repair"}).status_code == 403
    assert visitor.post("/tokens", data={"csrf": csrf, "name": "less", "scope": "run"}).status_code == 200


def test_static_files_cannot_be_reached_by_traversal(store: Store) -> None:
    visitor = client(store)
    assert visitor.get("/static/pages.css").headers["content-type"].startswith("text/css")
    for path in ("/static/../pages/__init__.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/vendor"):
        assert visitor.get(path).status_code == 404
