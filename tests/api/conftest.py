"""Fixtures for tests of the API: a service in this process with audits of DuckDB files, a SQLite store and a token of every scope."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from auditor import config, service
from auditor.api import authentication, create_app
from auditor.api.middleware import RateLimit
from auditor.api_models.access import Scope
from auditor.durations import durations
from auditor.service.workers import Workers
from auditor.store import Store, open_store, tokens

PASSWORD = "hunter2-of-the-warehouse"
SECRET_VALUE = "row-value-4711"


def make_client(app: FastAPI, **more: Any) -> TestClient:
    """Return a client of an application in this process; errors of the application become responses with status 500."""
    return TestClient(app, raise_server_exceptions=False, **{"base_url": "http://localhost", **more})


@dataclass
class Service:
    """The application under test with its store, settings, tokens by scope, and the id of one run by audit."""

    app: FastAPI
    store: Store
    settings: config.Settings
    tokens: dict[Scope, str]
    runs: dict[str, str]

    def client(self, scope: Scope | None = None, **more: Any) -> TestClient:
        """Return a client with a token of this scope, or without a token."""
        headers = {"Authorization": f"Bearer {self.tokens[scope]}"} if scope else {}
        return make_client(self.app, headers=headers, follow_redirects=False, **more)


def create_databases(folder: Path) -> dict[str, str]:
    """Create two DuckDB files with a table that differs in three rows and one that is equal; return their URLs by side."""
    for side, content in _databases().items():
        (folder / f"{side}.duckdb").write_bytes(content)
    return {side: f"duckdb:///{folder}/{side}.duckdb" for side in ("source", "target")}


@cache
def _databases() -> dict[str, bytes]:
    """What the files hold, made once: dozens of services begin with them."""
    with TemporaryDirectory() as made:
        _make_databases(Path(made))
        return {side: Path(made, f"{side}.duckdb").read_bytes() for side in ("source", "target")}


def _make_databases(folder: Path) -> None:
    for side in ("source", "target"):
        with duckdb.connect(str(folder / f"{side}.duckdb")) as database:
            database.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, name VARCHAR, amount DECIMAL(10, 2))")
            database.execute("INSERT INTO orders SELECT i, 'name ' || i, i / 4 FROM range(1, 2001) r(i)")
            database.execute("CREATE TABLE same AS SELECT * FROM orders")
            database.execute("ALTER TABLE same ADD PRIMARY KEY (id)")
    with duckdb.connect(str(folder / "target.duckdb")) as database:
        database.execute("DELETE FROM orders WHERE id = 700")
        database.execute(f"UPDATE orders SET name = '={SECRET_VALUE}' WHERE id = 1500")
        database.execute("INSERT INTO orders VALUES (5000, '@extra', -1)")
    for side in ("source", "target"):  # tests keep files open, which then are not all there is
        with duckdb.connect(str(folder / f"{side}.duckdb")) as database:
            database.execute("CHECKPOINT")


def make_settings(folder: Path, **service_settings: Any) -> config.Settings:
    """Return settings with audits of these databases, and one of a server that does not exist."""
    urls = create_databases(folder)
    both = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "warehouse", "table": "orders"}}
    same = {"source": {"connection": "shop", "table": "same"}, "target": {"connection": "warehouse", "table": "same"}}
    away = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "away", "table": "orders"}}
    return config.validate_settings(
        {
            "connections": {
                "shop": {"url": urls["source"]},
                "warehouse": {"url": urls["target"]},
                "away": {"url": f"postgresql://auditor:{PASSWORD}@127.0.0.1:1/none"},
            },
            "audits": {
                "orders": {**both, "partition": {"rows": 100}},
                "same": same,
                "with/slash": {**same, "schedule": "30 6 * * *"},
                "away": away,
            },
            "store": {"url": f"sqlite:///{folder}/store.db"},
            "service": {"requests_per_minute": 100_000, **service_settings},
        }
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the session's databases."""
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="session")
def served(folder: Path) -> Iterator[Service]:
    """A service shared by the session, with one finished run of ``orders`` and of ``same``. Tests must not change it."""
    with TemporaryService(folder) as found:
        yield found


class TemporaryService:
    """Creates a separate service for a block."""

    def __init__(self, folder: Path, *, run: bool = True, insecure: bool = False, **service_settings: Any) -> None:
        self.settings = make_settings(folder, **service_settings)
        self.run, self.insecure = run, insecure

    def __enter__(self) -> Service:
        assert self.settings.store
        self.store = open_store(self.settings.store.url)
        secrets = {scope: tokens.create_token(self.store, name=f"the {scope} token", scope=scope) for scope in tokens.SCOPES}
        runs = {name: service.run_audit(self.settings, name, store=self.store).run for name in ("orders", "same") if self.run}
        app = create_app(self.settings, self.store, insecure=self.insecure)
        return Service(app, self.store, self.settings, secrets, runs)

    def __exit__(self, *_: object) -> None:
        self.store.close()


@pytest.fixture(scope="session", autouse=True)
def retries() -> Iterator[None]:
    """Retry a connection to the server that does not exist at once, not for a minute."""
    with durations.overridden(connection_retry_waits=(0.01, 0.01)):
        yield


@pytest.fixture(autouse=True)
def reset_rate_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reset the rate limits, so that requests of earlier tests do not count."""
    monkeypatch.setattr(authentication, "wrong_tokens", RateLimit(authentication.MAX_WRONG_TOKENS))
    monkeypatch.setattr(authentication, "token_limits", {})


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A service with one worker that listens on a local port, and its URL."""
    with TemporaryService(tmp_path_factory.mktemp("listening")) as found:
        server = uvicorn.Server(uvicorn.Config(found.app, port=0, log_config=None, server_header=False, lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        workers = Workers(found.settings, found.store, 1)
        workers.start()
        yield found, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        workers.stop(5)
        server.should_exit = True
        thread.join(10)
