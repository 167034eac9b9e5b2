"""Take the screenshots of the pages for docs/, from a small shop with a month of runs.

To take them again: python -m tests.browser.pictures docs. With --all it takes every page at both widths and in both colour schemes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import sqlalchemy as sa
from playwright.sync_api import Browser, sync_playwright

from auditor import service
from auditor.api import create_app
from auditor.config import Settings, validate_settings
from auditor.repair.keys import Selection
from auditor.report import day, render
from auditor.service import patches, segment_audits
from auditor.store import Store, audit_state, open_store, rolling_parts, run_lifecycle, runs, schema
from tests.browser import pipeline_samples, segment_samples
from tests.browser.conftest import CHROMIUM_OPTIONS, find_chromium
from tests.browser.served import serve_app
from tests.unit.test_report_samples import NOW as REPORTED
from tests.unit.test_report_samples import create_sample as create_report_sample
from tests.unit.test_report_samples import move_run, store_past_run

TABLES = """
CREATE TABLE customers AS SELECT i::BIGINT AS id, 'customer ' || i AS name, DATE '2024-01-01' + (i % 700)::INT AS since
  FROM range(1, 12001) t(i);
CREATE TABLE orders AS SELECT i::BIGINT AS id, i % 900 AS customer, ((i * 7 % 1000) / 10)::DECIMAL(9, 2) AS price,
  ['new', 'paid', 'shipped', 'returned'][i % 4 + 1] AS status, TIMESTAMP '2026-01-01' + INTERVAL (i) MINUTE AS placed
  FROM range(1, 60001) t(i);
CREATE TABLE invoices AS SELECT i::BIGINT AS id, i AS "order", ((i * 13 % 5000) / 100)::DECIMAL(9, 2) AS total FROM range(1, 30001) t(i);
CREATE TABLE events AS SELECT i::BIGINT AS id, i % 12 AS kind, i % 900 AS customer FROM range(1, 90001) t(i);
CREATE TABLE payments AS SELECT i::BIGINT AS id, i % 900 AS customer FROM range(1, 5001) t(i);
CREATE TABLE stock AS SELECT i::BIGINT AS id, i % 50 AS pieces FROM range(1, 4001) t(i);
ALTER TABLE orders ADD PRIMARY KEY (id);
"""
DAMAGE = """
UPDATE orders SET price = price + 0.50 WHERE id IN (407, 4711, 18001, 22222, 31007, 31990, 44100);
UPDATE orders SET status = 'paid' WHERE id IN (9001, 9002, 25001, 52525);
UPDATE orders SET placed = placed + INTERVAL 1 HOUR WHERE id IN (15360, 41004);
DELETE FROM orders WHERE id BETWEEN 37000 AND 38599 OR id IN (1203, 7450, 56001);
INSERT INTO orders SELECT id + 30, customer, price, status, placed FROM orders WHERE id > 59980;
DELETE FROM invoices WHERE id IN (211, 9050, 17733, 29801);
UPDATE events SET kind = 99 WHERE id BETWEEN 20100 AND 20140;
"""
NAMES = {"source": "shop", "target": "warehouse"}


def settings(directory: Path) -> Settings:
    """Return settings with the audits of the shop."""

    def audit(table: str, **more: Any) -> dict[str, Any]:
        return {**{side: {"connection": name, "table": table} for side, name in NAMES.items()}, "key": ["id"], **more}

    urls: dict[str, Any] = {name: {"url": f"duckdb:///{directory}/{side}.duckdb"} for side, name in NAMES.items()}
    audits = {
        "orders": audit("orders", schedule="30 3 * * *", threshold=0.9999, partition={"size": 512}),
        "orders by the hour": audit("orders", method="counts", counts={"classes": ["status"]}, schedule="0 * * * *"),
        "customers": audit("customers", schedule="*/30 * * * *"),
        "invoices": audit("invoices", threshold=0.999, schedule="0 4 * * *", partition={"size": 256}),
        "events": audit("events", rolling={"per_run": "20%"}, partition={"size": 512}, schedule="0 */6 * * *"),
        "payments": audit("payments", schedule="15 * * * *"),
        "stock": audit("stock", schedule="0 5 * * *"),
        "refunds": audit("refunds"),
        "vouchers": audit("customers"),
    }
    urls["warehouse"]["write"] = dict(urls["warehouse"])
    urls["mysql"] = {"url": "mysql://nobody@localhost/shop"}
    pipelines = pipeline_samples.configured(str(directory), "mysql", "warehouse")
    found = {
        "connections": urls,
        "audits": audits,
        "pipelines": pipelines,
        "segments": segment_samples.CONFIGURED,
        "store": {"url": f"sqlite:///{directory}/runs.db"},
    }
    return validate_settings(found)


def create_shop(directory: Path, now: dt.datetime) -> tuple[Settings, Store]:
    """Create the shop with a month of runs, one of them still running; return its settings and store."""
    for side in NAMES:
        with duckdb.connect(f"{directory}/{side}.duckdb") as connection:
            connection.execute(TABLES + (DAMAGE if side == "target" else ""))
    configured = settings(directory)
    assert configured.store
    store, chance = open_store(configured.store.url), random.Random(7)
    for ago in range(29, 0, -1):
        at = now - dt.timedelta(days=ago, minutes=20)
        worse = 1.0 if ago > 12 else 1 - 0.0024 * (13 - ago) - 0.0006 * chance.random()
        counts: dict[str, Any] = {"missing": round(60000 * (1 - worse)), "extra": 0, "changed": (13 - ago) // 2 if worse < 1 else 0}
        store_past_run(store, "orders", at, worse, 0.0 if worse == 1 or ago % 3 else 0.004, configured=configured, **counts)
        store_past_run(store, "customers", at, 0.9991 if ago in (18, 17) else 1.0)
        store_past_run(store, "invoices", at, 1.0 if ago > 20 else 1 - 0.00001 * (21 - ago) - 0.00005 * chance.random())
        store_past_run(store, "payments", at)
        if ago > 3:
            store_past_run(store, "stock", at)
    for number, name in enumerate(("orders", "orders by the hour", "customers", "invoices", "refunds")):
        report = service.run_audit(configured, name, store=store, requested_by="schedule")
        began = now - dt.timedelta(minutes=19 + 3 * number)
        move_run(store, report.run, began, report.seconds)
        if report.verified_through:
            audit_state.update_state(store, name, verified_through=began)
    audit_state.update_state(store, "orders", verified_through=now - dt.timedelta(days=13, minutes=20))
    audit_state.update_state(store, "payments", verified_through=now - dt.timedelta(days=1, minutes=20))
    audit_state.update_state(store, "stock", verified_through=now - dt.timedelta(days=4, minutes=20))
    for hours in (14, 8, 2):
        report = service.run_audit(configured, "events", store=store, requested_by="schedule")
        move_run(store, report.run, now - dt.timedelta(hours=hours), report.seconds)
    with store.engine.begin() as connection:  # the time of each part is the start of its run
        read = sa.select(schema.runs.c.started).where(schema.runs.c.number == rolling_parts.rolling_parts.c.run).scalar_subquery()
        connection.execute(sa.update(rolling_parts.rolling_parts).values(at=read))
    run_lifecycle.start_run(
        store, run="4f" * 16, audit="payments", definition={}, method="exact", requested_by="ada", reason="after the backfill"
    )
    return configured, store


def record_heartbeat(store: Store) -> None:
    """Record the heartbeat and progress of the run that is still running."""
    busy = "waits: Threads_running is 41, and more than 30"
    reading = {"doing": "summarising", "done": 3_145_728, "total": 4_812_000, "statements": 27, "running": 4}
    run_lifecycle.record_heartbeat(
        store, "4f" * 16, {"source": {**reading, "doing": busy, "done": 1_835_008, "running": 0}, "target": reading}
    )


@contextmanager
def browser() -> Iterator[Browser]:
    """Yield the installed browser."""
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=find_chromium(), args=list(CHROMIUM_OPTIONS))
        yield opened
        opened.close()


class Camera:
    """Takes screenshots of pages into a directory."""

    def __init__(self, browser: Browser, url: str, directory: Path) -> None:
        self.browser, self.url, self.directory = browser, url, directory

    def take(
        self, name: str, path: str, *, width: int = 1280, height: int = 960, dark: bool = False, whole: bool = False, act: str = ""
    ) -> None:
        """Take a screenshot of a page, of its ``whole`` length or of the window.

        ``act`` is a selector to click first.
        """
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(path if path.startswith("file:") else self.url + path)
        page.wait_for_timeout(400)
        if act:
            page.locator(act).first.click()
        page.screenshot(path=self.directory / f"{name}.png", full_page=whole)
        context.close()


def main() -> None:
    """Take the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--all", action="store_true", help="every page at both widths and in both colour schemes")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        configured, store = create_shop(Path(folder), dt.datetime.now(dt.UTC))
        (latest,) = runs.list_runs(store, audit="orders", limit=1)
        (Path(folder) / "reports").mkdir()
        reported, report_store = create_report_sample(Path(folder) / "reports")
        file = Path(folder) / "day.html"
        file.write_text(render.day(day.load_day(report_store, reported, REPORTED.date(), REPORTED), "html"), encoding="utf-8")
        pipeline_samples.create(configured, store, dt.datetime.now(dt.UTC))
        segment_samples.create(configured, store, dt.datetime.now(dt.UTC))
        segment_audits.run(configured, store, "zones", requested_by="ada")
        if options.all:
            patches.propose(configured, store, latest.run, Selection(limit=30, delete_extra=True), who="ada")
        with serve_app(create_app(configured, store, insecure=True)) as url, browser() as opened:
            camera = Camera(opened, url, options.directory)
            record_heartbeat(store)
            if not options.all:
                camera.take("page-audit", "/audits/orders", height=1200)
                camera.take("daily-report", file.as_uri(), width=1100, height=1500)
            for name, path in _pages(latest.run, file).items() if options.all else ():
                for width, dark in ((1280, False), (1280, True), (390, False), (390, True)):
                    record_heartbeat(store)
                    pipeline_samples.heartbeat(store, dt.datetime.now(dt.UTC))
                    act = "details.options summary" if name == "options" else "details.what summary" if name == "explained" else ""
                    camera.take(f"{name}-{width}-{'dark' if dark else 'light'}", path, width=width, dark=dark, whole=True, act=act)
        report_store.close()
        store.close()


def _pages(run: str, file: Path) -> dict[str, str]:
    return {
        "overview": "/", "audit": "/audits/orders", "rolling": "/audits/events", "options": "/audits/invoices",
        "explained": "/audits/customers", "stale": "/audits/stock", "never": "/audits/vouchers",
        "counts": "/audits/orders%20by%20the%20hour", "run": f"/runs/{run}", "live": f"/runs/{'4f' * 16}",
        "SQL": "/audits/orders/sql", "day": "/day", "compare": "/compare", "tokens": "/tokens", "about": "/about", "login": "/login",
        "report": file.as_uri(), "pipelines": "/pipelines", "pipeline": "/pipelines/shop", "paused": "/pipelines/crm",
        "down": "/pipelines/erp", "segments": "/segments", "segment audit": "/segments/zones", "segments of a log": "/segments/log",
        "table": "/pipelines/shop/table?target=warehouse&table=shop.payments",
        "orders": "/pipelines/shop/table?target=warehouse&table=shop.orders&span=month",
    }  # fmt: skip


if __name__ == "__main__":
    main()
