"""A service in this process: audits between DuckDB files, a store in SQLite, and a token of every scope."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest
from fastapi import FastAPI

from auditor import config, service
from auditor.api import create_app, sessions
from auditor.api.limits import Limit
from auditor.store import Store, open_store, tokens
from auditor.store.tokens import Scope

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that its next version wants another client is no fault of ours
    from starlette.testclient import TestClient

PASSWORD = "hunter2-of-the-warehouse"
SECRET_VALUE = "row-value-4711"


def visiting(app: FastAPI, **more: Any) -> httpx.Client:
    """Somebody who calls an application in this process."""
    return TestClient(app, raise_server_exceptions=False, **more)


@dataclass
class Service:
    """What tests talk to."""

    app: FastAPI
    store: Store
    settings: config.Settings
    tokens: dict[Scope, str]
    runs: dict[str, str]

    def client(self, scope: Scope | None = None, **more: Any) -> httpx.Client:
        """Somebody with a token of this scope, or with none."""
        headers = {"Authorization": f"Bearer {self.tokens[scope]}"} if scope else {}
        return visiting(self.app, headers=headers, follow_redirects=False, **more)


def databases(folder: Path) -> dict[str, str]:
    """Two DuckDB files with one table that differs in three rows, and one that is equal."""
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
    return {side: f"duckdb:///{folder}/{side}.duckdb" for side in ("source", "target")}


def configuration(folder: Path, **service_settings: Any) -> config.Settings:
    """Audits of these databases, and one of a server that is not there."""
    urls = databases(folder)
    both = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "warehouse", "table": "orders"}}
    same = {"source": {"connection": "shop", "table": "same"}, "target": {"connection": "warehouse", "table": "same"}}
    away = {"source": {"connection": "shop", "table": "orders"}, "target": {"connection": "away", "table": "orders"}}
    return config.checked(
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
            "service": {"rate": 100_000, **service_settings},
        }
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session's databases are."""
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="session")
def served(folder: Path) -> Iterator[Service]:
    """The service, with one finished run of each audit."""
    with made(folder) as found:
        yield found


class made:
    """A service of its own for a block."""

    def __init__(self, folder: Path, *, run: bool = True, insecure: bool = False, **service_settings: Any) -> None:
        self.settings = configuration(folder, **service_settings)
        self.run, self.insecure = run, insecure

    def __enter__(self) -> Service:
        assert self.settings.store
        self.store = open_store(self.settings.store.url)
        secrets = {scope: tokens.create(self.store, name=f"the {scope} token", scope=scope) for scope in tokens.SCOPES}
        runs = {name: service.run_audit(self.settings, name, store=self.store).run for name in ("orders", "same") if self.run}
        app = create_app(self.settings, self.store, insecure=self.insecure)
        return Service(app, self.store, self.settings, secrets, runs)

    def __exit__(self, *_: object) -> None:
        self.store.close()


@pytest.fixture(autouse=True)
def forgiving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is refused for what an earlier test did."""
    monkeypatch.setattr(sessions, "_guesses", Limit(sessions.GUESSES))
    monkeypatch.setattr(sessions, "_callers", {})
