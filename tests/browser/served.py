"""A complete service: two DuckDB files that differ, a SQLite store with runs, workers, and a server on a port."""

from __future__ import annotations

import datetime as dt
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
from auditor.api_models.access import Scope
from auditor.config import Settings, validate_settings
from auditor.repair.keys import Selection
from auditor.service import patches
from auditor.service.workers import Workers
from auditor.store import Store, open_store, pipelines, tokens
from auditor.store.runs import list_runs
from tests import many_tables
from tests.browser import pipeline_samples, segment_samples

TABLES = """
CREATE TABLE customers AS SELECT i::BIGINT AS id, 'customer ' || i AS name, DATE '2024-01-01' + (i % 700)::INT AS since
  FROM range(1, 8001) t(i);
CREATE TABLE orders AS SELECT i::BIGINT AS id, i % 900 AS customer, (i * 7 % 100)::INT AS amount, 'item ' || (i % 50) AS item
  FROM range(1, 20001) t(i);
CREATE TABLE nothing (id BIGINT, x VARCHAR);
CREATE TABLE prices (id BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(9, 2));
INSERT INTO prices SELECT i, 'article ' || i, i / 4 FROM range(1, 501) t(i);
"""
DAMAGE = """
UPDATE orders SET amount = amount + 1 WHERE id % 997 = 0;
UPDATE orders SET item = '<b>bold</b>' WHERE id = 17;
DELETE FROM orders WHERE id BETWEEN 15000 AND 15600 OR id % 251 = 0;
INSERT INTO orders SELECT id + 50000, customer, amount, item FROM orders WHERE id < 20;
UPDATE prices SET price = price + 1, name = '<b>bold</b>' WHERE id = 17;
UPDATE prices SET price = NULL WHERE id = 30;
DELETE FROM prices WHERE id = 400;
INSERT INTO prices VALUES (9000, 'extra', 1);
"""
RECHECK_WAIT = 2.5
"""Seconds that a run of the audit ``watched`` waits before its recheck, long enough for a test to watch it."""


@dataclass(frozen=True)
class Site:
    """The URL of the pages, with the settings, store and tokens of the service."""

    url: str
    settings: Settings
    store: Store
    tokens: Mapping[Scope, str]

    def path(self, name: str) -> str:
        """Return the path of a page by its short name, a key of `PAGES`."""
        if name in RUNS:
            (latest,) = newest_run(self.store, RUNS[name])
            return f"/runs/{latest}{QUERIES.get(name, '')}"
        if name == "changes":
            later, earlier = [run.run for run in list_runs(self.store, audit="orders", state="done", limit=2)]
            return f"/runs/{later}/changes?since={earlier}"
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
    "audits of a filter": "/?status=mismatch&sort=rows&down=1",
    "runs": "/runs",
    "schedules": "/schedules",
    "connections": "/connections",
    "events": "/events",
    "API": "/docs",
    "differences of a filter": "",
    "changes": "",
    "tokens": "/tokens",
    "about": "/about",
    "pipelines": "/pipelines",
    "segments": "/segments",
    "segment audit": "/segments/zones",
    "pipeline": "/pipelines/shop",
    "paused pipeline": "/pipelines/crm",
    "pipeline of many tables": "/pipelines/many",
    "pipeline's table": "/pipelines/shop/table?target=warehouse&table=shop.payments",
    "no page": "/nowhere",
    "no audit": "/audits/nobody",
    "no run": "/runs/0123",
    "run": "",
    "patch": "",
    "failed": "",
}

QUERIES = {"differences of a filter": "?kind=changed&column=amount&order=-key"}
RUNS = {"run": "orders", "failed": "missing", "patch": "patched", "differences of a filter": "orders"}
"""The audit whose newest run a page shows, by the page's short name."""


def newest_run(store: Store, audit: str) -> list[str]:
    """Return the id of an audit's newest run with its own settings as a list, empty without runs."""
    from auditor.store import runs

    return [one.run for one in runs.list_runs(store, audit=audit, limit=1, own_only=True)]


def settings(directory: Path) -> Settings:
    """Return settings with two connections and audits of every verdict."""

    def audit(table: str, **more: Any) -> dict[str, Any]:
        return {**{side: {"connection": name, "table": table} for side, name in NAMES.items()}, "key": ["id"], **more}

    urls: dict[str, Any] = {name: {"url": f"duckdb:///{directory}/{side}.duckdb"} for side, name in NAMES.items()}
    urls["warehouse"]["write"] = {"url": urls["warehouse"]["url"]}
    audits = {
        "customers": audit("customers", schedule="*/30 * * * *"),
        "orders": audit("orders"),
        "orders, how alike": audit("orders", method="minhash"),
        "orders, counted": audit("orders", method="counts"),
        "watched": audit("orders", recheck={"times": 1, "wait": RECHECK_WAIT}),
        "endless": audit("orders", recheck={"times": 3, "wait": 600}),
        "missing": audit("nowhere"),
        "nothing": audit("nothing"),
        "patched": audit("prices"),
        "never": audit("customers"),
        LONG_NAME: audit("customers"),
        "rolling": audit("orders", rolling={"per_run": "30%"}, partition={"size": 1000}),
    }
    urls["mysql"] = {"url": "mysql://nobody@localhost/shop"}
    defined = pipeline_samples.configured(str(directory), "mysql", "warehouse")
    defined[many_tables.PIPELINE] = many_tables.definition(directory, "mysql", "warehouse")
    found = {
        "connections": urls,
        "audits": audits,
        "pipelines": defined,
        "segments": segment_samples.CONFIGURED,
        "store": {"url": f"sqlite:///{directory}/runs.db"},
    }
    return validate_settings(found)


LONG_NAME = "customers_of_the_second_warehouse_with_a_name_that_is_wider_than_any_phone"
NAMES = {"source": "shop", "target": "warehouse"}


@contextmanager
def site(directory: Path, *, insecure: bool = False) -> Iterator[Site]:
    """Run the whole service for the block."""
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
        "patched",
        "rolling",
        "rolling",
    ):
        service.run_audit(configured, name, store=store, requested_by="the tests", reason="to have something to show")
    patches.propose(configured, store, newest_run(store, "patched")[0], Selection(delete_extra=True), who="the tests")
    now = dt.datetime.now(dt.UTC)
    pipeline_samples.create(configured, store, now)
    segment_samples.create(configured, store, now)
    many_tables.create(store, 80, now)
    later = now + dt.timedelta(days=1)  # so that they run until the last test
    pipeline_samples.heartbeat(store, later)
    pipelines.set_progress(store, many_tables.PIPELINE, many_tables.progress(later))
    with serve(configured, store, insecure=insecure) as running:
        yield running


@contextmanager
def serve(configured: Settings, store: Store, *, insecure: bool = False) -> Iterator[Site]:
    """Run the pages and a worker for the block, with a new token of every scope; close the store at its end."""
    secrets = {scope: tokens.create_token(store, name=f"a {scope} token", scope=scope) for scope in tokens.SCOPES}
    workers = Workers(configured, store, 1)
    workers.start()
    try:
        with serve_app(create_app(configured, store, workers=workers, insecure=insecure)) as url:
            yield Site(url, configured, store, secrets)
    finally:
        workers.stop(0.5)
        store.close()


@contextmanager
def serve_app(app: Any) -> Iterator[str]:
    """Serve the application on a free local port for the block; yield the URL."""
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
