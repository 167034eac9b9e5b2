"""A service as somebody would run it: two DuckDB files with damage, a SQLite store with runs, a real server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import uvicorn

from auditor import service
from auditor.api import create_app
from auditor.config import Settings, checked
from auditor.service.queueing import Workers
from auditor.store import Store, open_store, tokens

TABLES = """
CREATE TABLE customers AS SELECT i::BIGINT AS id, 'customer ' || i AS name, DATE '2024-01-01' + (i % 700)::INT AS since
  FROM range(1, 8001) t(i);
CREATE TABLE orders AS SELECT i::BIGINT AS id, i % 900 AS customer, (i * 7 % 100)::INT AS amount, 'item ' || (i % 50) AS item
  FROM range(1, 20001) t(i);
CREATE TABLE nothing (id BIGINT, x VARCHAR);
"""
DAMAGE = """
UPDATE orders SET amount = amount + 1 WHERE id % 997 = 0;
UPDATE orders SET item = '<b>bold</b>' WHERE id = 17;
DELETE FROM orders WHERE id BETWEEN 15000 AND 15600 OR id % 251 = 0;
INSERT INTO orders SELECT id + 50000, customer, amount, item FROM orders WHERE id < 20;
"""
LOOKS = 2.5
"""Seconds that a run of `watched` waits before it looks again, in which somebody can watch it."""


@dataclass(frozen=True)
class Site:
    """Where the pages are, and what stands behind them."""

    url: str
    settings: Settings
    store: Store
    tokens: Mapping[tokens.Scope, str]

    def path(self, name: str) -> str:
        """The path of a page, by a short name."""
        if name in ("run", "failed"):
            (latest,) = service_runs(self.store, {"run": "orders", "failed": "missing"}[name])
            return f"/runs/{latest}"
        return PAGES[name]


PAGES = {
    "overview": "/",
    "audit": "/audits/orders",
    "matching audit": "/audits/customers",
    "audit never run": "/audits/never",
    "rolling audit": "/audits/rolling",
    "SQL": "/audits/orders/sql",
    "compare": "/compare",
    "day": "/day",
    "tokens": "/tokens",
    "about": "/about",
    "no page": "/nowhere",
    "no audit": "/audits/nobody",
    "no run": "/runs/0123",
    "run": "",
    "failed": "",
}


def service_runs(store: Store, audit: str) -> list[str]:
    """The id of an audit's newest run."""
    from auditor.store import runs

    return [one.run for one in runs.listed(store, audit=audit, limit=1)]


def settings(directory: Path) -> Settings:
    """Two connections and audits of every verdict."""

    def audit(table: str, **more: Any) -> dict[str, Any]:
        return {**{side: {"connection": name, "table": table} for side, name in NAMES.items()}, "key": ["id"], **more}

    urls = {name: {"url": f"duckdb:///{directory}/{side}.duckdb"} for side, name in NAMES.items()}
    audits = {
        "customers": audit("customers", schedule="*/30 * * * *"),
        "orders": audit("orders"),
        "orders, how alike": audit("orders", method="minhash"),
        "orders, counted": audit("orders", method="counts"),
        "watched": audit("orders", recheck={"times": 1, "wait": LOOKS}),
        "endless": audit("orders", recheck={"times": 3, "wait": 600}),
        "missing": audit("nowhere"),
        "nothing": audit("nothing"),
        "never": audit("customers"),
        "rolling": audit("orders", rolling={"per_run": "30%"}, partition={"size": 1000}),
    }
    return checked({"connections": urls, "audits": audits, "store": {"url": f"sqlite:///{directory}/runs.db"}})


NAMES = {"source": "shop", "target": "warehouse"}


@contextmanager
def site(directory: Path, *, insecure: bool = False) -> Iterator[Site]:
    """The whole service, until the block ends."""
    for side in NAMES:
        with duckdb.connect(f"{directory}/{side}.duckdb") as connection:
            connection.execute(TABLES + (DAMAGE if side == "target" else ""))
    configured = settings(directory)
    assert configured.store
    store = open_store(configured.store.url)
    for name in (
        "customers",
        "customers",
        "orders",
        "orders",
        "orders, how alike",
        "orders, counted",
        "missing",
        "nothing",
        "rolling",
        "rolling",
    ):
        service.run_audit(configured, name, store=store, requested_by="the tests", reason="to have something to show")
    secrets = {scope: tokens.create(store, name=f"a {scope} token", scope=scope) for scope in tokens.SCOPES}
    workers = Workers(configured, store, 1)
    workers.start()
    try:
        with serving(create_app(configured, store, workers=workers, insecure=insecure)) as url:
            yield Site(url, configured, store, secrets)
    finally:
        workers.stop(0.5)
        store.close()


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """A server on a free port of this machine; where it answers."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not server.started and time.monotonic() < until:
        time.sleep(0.05)
    assert server.started
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
