"""A first day with the service, on the pages: from a new audit by its mismatch and a patch to an audit that has recovered."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from playwright.sync_api import Browser, Page, expect

from auditor.config import validate_settings
from auditor.store import incidents, open_store
from tests.browser.conftest import Opener, log_in
from tests.browser.served import Site, serve
from tests.browser.test_looks import accessibility_violations

pytestmark = [pytest.mark.browser, pytest.mark.clock]

AUDIT = "shop_orders"
ORDERS = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR, amount DECIMAL(9, 2), note VARCHAR);
INSERT INTO orders SELECT i, 'customer ' || (i % 90), i / 4, 'to be left at the door of number ' || i FROM range(1, 2001) t(i);
"""
DAMAGE = """
UPDATE orders SET amount = amount + 10 WHERE id IN (700, 1400);
UPDATE orders SET note = 'to be left at the window of number ' || id WHERE id = 33;
DELETE FROM orders WHERE id IN (5, 1999);
"""
STORY = "5 of 2,000 rows differ: 2 missing, 3 changed (amount, note)."
WAIT = 60_000
"""Milliseconds within which a worker has done what was requested."""


@contextmanager
def new_service(directory: Path) -> Iterator[Site]:
    """Run a service that knows two databases and no audit."""
    for side in ("shop", "warehouse"):
        with duckdb.connect(f"{directory}/{side}.duckdb") as database:
            database.execute(ORDERS + (DAMAGE if side == "warehouse" else ""))
    connections: dict[str, Any] = {side: {"url": f"duckdb:///{directory}/{side}.duckdb"} for side in ("shop", "warehouse")}
    connections["warehouse"]["write"] = dict(connections["warehouse"])
    configured = validate_settings({"connections": connections, "audits": {}, "store": {"url": f"sqlite:///{directory}/runs.db"}})
    assert configured.store
    with serve(configured, open_store(configured.store.url)) as running:
        yield running


class Visit:
    """A visit of the pages in one window. Each page on the way is looked at: it fits the window and has no faults that axe finds."""

    def __init__(self, page: Page, name: str, screenshot: Callable[[Page, str], None]) -> None:
        self.page = page
        self._name, self._screenshot, self._pages = name, screenshot, 0

    def look(self, place: str) -> None:
        self._pages += 1
        self._screenshot(self.page, f"scenario-{self._name}-{self._pages:02}-{place}")
        assert self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, place
        assert self.page.evaluate(SPILLS) == [], place
        assert accessibility_violations(self.page) == [], place


SPILLS = """() => [...document.querySelectorAll('main *')]
  .filter(e => e.offsetHeight && !e.closest('.hidden, .wide, pre, svg, .chart, details:not([open]) > :not(summary)'))
  .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(e => e.outerHTML.slice(0, 120))"""
"""Elements that reach beyond the window, but for those in a part of the page that scrolls."""


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (390, "light"),
        pytest.param(390, "dark", marks=pytest.mark.slow),
        pytest.param(1280, "light", marks=pytest.mark.slow),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
    ],
)
def test_an_audit_is_defined_found_wrong_repaired_and_recovers(
    width: int, scheme: str, chromium: Browser, tmp_path: Path, screenshot: Callable[[Page, str], None]
) -> None:
    with new_service(tmp_path) as site:
        opener = Opener(chromium, site, {})
        page = opener("/login", scope=None, width=width, scheme=scheme)
        visit = Visit(page, f"{width}-{scheme}", screenshot)
        visit.look("login")
        log_in(page, site.tokens["apply"])
        expect(page.locator("main")).to_contain_text("No audit is configured yet")
        visit.look("nothing")
        define_audit(page, site)
        run_audit(visit)
        look_at_differences(visit)
        acknowledge_incident(visit)
        repair(visit)
        run_again(visit)
        sees_recovery(visit, site)
        opener.close()


def define_audit(page: Page, site: Site) -> None:
    """Define the audit over HTTP, as no page does."""
    sides = {side: {"connection": name, "table": "orders"} for side, name in (("source", "shop"), ("target", "warehouse"))}
    answer = page.request.post(
        "/api/v1/audits", data={"name": AUDIT, **sides, "key": ["id"]}, headers={"Authorization": f"Bearer {site.tokens['define']}"}
    )
    assert answer.status == 201, answer.text()


def run_audit(visit: Visit) -> None:
    page = visit.page
    page.goto("/")
    expect(page.locator("table.audits tbody tr")).to_contain_text("never run")
    visit.look("never run")
    page.get_by_role("link", name=AUDIT).click()
    expect(page.locator("p.empty").first).to_contain_text("This audit has not run yet")
    visit.look("audit never run")
    page.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/*")
    expect(page.locator("#run > header .verdict")).to_have_text("mismatch", timeout=WAIT)
    expect(page.locator("main")).to_contain_text(STORY)
    visit.look("run")


def look_at_differences(visit: Visit) -> None:
    """Each changed row has its values beside each other; a column and a key select among the rows."""
    page = visit.page
    rows = page.locator("#named tbody")
    expect(rows).to_have_count(5)
    changed = rows.filter(has_text="700")
    expect(changed.locator("td")).to_have_text(["changed", "700", "amount", "175.00", "185.00"])
    expect(changed.locator("mark")).to_have_text(["7", "8"])
    page.get_by_label("Column", exact=True).select_option("amount")
    expect(rows).to_have_count(2)
    page.get_by_label("Key", exact=True).fill("1400")
    page.get_by_label("Key", exact=True).press("Enter")
    expect(rows).to_have_count(1)
    assert re.search(r"column=amount&key=1400", page.url)
    visit.look("row of a column and key")
    page.get_by_label("Column", exact=True).select_option("note")
    expect(page.locator("#named")).to_contain_text("No differences match this filter")
    visit.look("no row of a filter")
    page.get_by_role("link", name="Show all").click()
    expect(rows).to_have_count(5)


def acknowledge_incident(visit: Visit) -> None:
    page = visit.page
    page.locator(".crumbs").get_by_role("link", name=AUDIT).click()
    expect(page.locator("p.story")).to_have_text(STORY)
    incident = page.locator("section.incident")
    expect(incident.get_by_role("heading")).to_contain_text("Incident 1: open")
    visit.look("audit with a mismatch")
    incident.locator("summary", has_text="Acknowledge or mute").click()
    incident.get_by_label("Why").fill("the loader was restarted; it is being repaired")
    visit.look("form of an acknowledgement")
    incident.get_by_role("button", name="Save").click()
    expect(incident.get_by_role("heading")).to_contain_text("Incident 1: acknowledged")
    expect(incident).to_contain_text("the loader was restarted; it is being repaired")
    visit.look("acknowledged")
    page.goto("/")
    expect(page.locator("table.audits .tag", has_text="acknowledged")).to_be_visible()
    visit.look("overview of an acknowledged incident")


def repair(visit: Visit) -> None:
    """A worker applies the patch, and looks again at the rows that it touched."""
    page = visit.page
    page.get_by_role("link", name=AUDIT).click()
    page.get_by_role("link", name="All of them, with filters").click()
    page.wait_for_url("**/runs/*")
    section = page.locator("#patch")
    section.get_by_role("button", name="Propose a patch").click()
    page.wait_for_url("**?patch=*")
    expect(section.locator("#patch-status")).to_have_text("5 rows: 2 to insert, 3 to update.")
    visit.look("patch proposed")
    section.get_by_label("type their number").fill("5")
    section.get_by_role("button", name="Apply").click()
    expect(section.locator("#patch-status")).to_have_text("3 updated, 2 inserted.", timeout=WAIT)
    expect(section.locator("p", has_text="The touched rows were audited again").locator(".verdict")).to_have_text("match", timeout=WAIT)
    visit.look("patch applied")
    section.get_by_role("link", name=re.compile("^run ")).click()
    expect(page.locator("#run")).to_contain_text("It checked the rows of patch")
    visit.look("run after the patch")
    expect(page.locator("#run")).to_contain_text("The audit keeps its status until it runs with its own settings.")


def run_again(visit: Visit) -> None:
    page = visit.page
    page.locator(".crumbs").get_by_role("link", name=AUDIT).click()
    visit.look("audit after the patch")
    page.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/*")
    expect(page.locator("#run > header .verdict")).to_have_text("match", timeout=WAIT)
    expect(page.locator("main")).to_contain_text("Nothing differs.")
    visit.look("run that matches")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("p.story")).to_have_text("0 differences are new, 5 are gone, 0 are the same.")
    visit.look("changes")


def sees_recovery(visit: Visit, site: Site) -> None:
    page = visit.page
    page.locator(".crumbs").get_by_role("link", name=AUDIT).click()
    expect(page.locator("main")).to_contain_text("Recovered: match since")
    expect(page.locator("section.incident")).to_have_count(0)
    visit.look("audit recovered")
    expect(page.locator("main")).to_contain_text("Incident 1 is closed")
    (incident,) = incidents.list_incidents(site.store, audit=AUDIT)
    assert incident.state == "closed"
    for place in ("/", "/day"):
        page.goto(place)
        row = page.locator("table.audits tbody tr")
        expect(row.locator(".verdict")).to_have_text("match")
        expect(row).to_contain_text("recovered")
        visit.look(place.strip("/") or "overview")
    page.get_by_role("link", name="1 recovered").click()
    expect(page.get_by_role("link", name=AUDIT)).to_be_visible()
    page.goto("/runs")
    expect(page.locator("#runs tbody tr")).to_have_count(3)
    visit.look("runs")
    page.goto("/schedules")
    visit.look("schedules")
