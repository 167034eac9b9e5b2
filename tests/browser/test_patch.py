"""A patch on the run's page: proposed, looked at row by row, applied with a typed number, its result, and its undo."""

from __future__ import annotations

import duckdb
import pytest
from playwright.sync_api import Page, expect

from auditor.store import runs
from tests.browser.conftest import Browse
from tests.browser.served import Site

pytestmark = [pytest.mark.browser, pytest.mark.clock]


def prices(served: Site) -> list[tuple[object, ...]]:
    path = served.settings.connections["warehouse"].url.removeprefix("duckdb:///")
    with duckdb.connect(path) as database:
        return database.execute("SELECT * FROM prices WHERE id IN (17, 30, 400, 9000) ORDER BY id").fetchall()


def first_run(served: Site) -> str:
    """Return the path of the run that named the differences."""
    (first,) = [run for run in runs.list_runs(served.store, audit="patched") if not run.is_one_off]
    return f"/runs/{first.run}"


def test_a_patch_is_proposed_applied_and_undone_on_the_page(browse: Browse, served: Site) -> None:
    before = prices(served)
    page = browse(first_run(served), scope="apply")
    page.get_by_label("Rows", exact=True).select_option("")
    page.get_by_label("also delete 1 row that only the target has").check()
    page.get_by_role("button", name="Propose a patch").click()
    page.wait_for_url("**?patch=*")
    section = page.locator("#patch")
    expect(section.locator("#patch-status")).to_have_text("4 rows: 1 to insert, 2 to update, 1 to delete.")
    shows_rows_side_by_side(page)
    section.locator("summary", has_text="SQL to copy").click()
    section.locator("[data-copies=patch-sql]").click()
    assert "-- 4 rows: 1 to insert, 2 to update, 1 to delete." in page.evaluate("navigator.clipboard.readText()")
    assert prices(served) == before

    section.get_by_label("type their number").fill("4")
    section.get_by_role("button", name="Apply").click()
    expect(section.locator("#patch-status")).to_have_text("2 updated, 1 inserted, 1 deleted.", timeout=60_000)
    expect(section.get_by_text("The touched rows were audited again")).to_contain_text("match", timeout=60_000)
    expect(section.locator("table.patch")).to_contain_text("written")
    assert len(prices(served)) == 3

    section.get_by_role("link", name="run ").last.click()
    expect(page.locator("#run")).to_contain_text("It checked the rows of patch")
    page.go_back()
    section.get_by_label("type their number").fill("4")
    section.get_by_role("button", name="Undo").click()
    expect(section.locator("h3")).to_contain_text("Undo")
    expect(section.get_by_text("The touched rows were audited again")).to_contain_text("mismatch", timeout=60_000)
    expect(section.locator("#patch-status")).to_have_text("2 updated, 1 inserted, 1 deleted.")
    assert prices(served) == before


def shows_rows_side_by_side(page: Page) -> None:
    """The changed row shows its changing columns beside each other, what stays only on demand, and no markup of values."""
    changed = page.locator("table.patch tbody", has_text="bold")
    assert changed.locator("tr").first.locator("td").all_inner_texts() == ["update", "17", "name", "article 17", "<b>bold</b>"]
    assert changed.locator("mark").all_inner_texts() == ["article 17", "4.25"]
    expect(changed.locator("summary")).to_have_text("1 column stays")
    assert page.locator("table.patch tbody", has_text="400").locator("td").all_inner_texts()[3:5] == ["400", "no row"]


def test_the_wrong_number_writes_nothing(browse: Browse, served: Site) -> None:
    before = prices(served)
    page = browse(first_run(served), scope="apply", expected="409 (Conflict)")
    page.get_by_role("button", name="Propose a patch").click()
    page.wait_for_url("**?patch=*")
    page.get_by_label("type their number").fill("7")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("main")).to_contain_text("changes 3 rows, not 7; look at its rows, and send their number")
    assert prices(served) == before


def test_scopes_decide_who_proposes_and_who_applies(browse: Browse, served: Site) -> None:
    page = browse(first_run(served), scope="run")
    expect(page.get_by_role("button", name="Propose a patch")).to_be_disabled()
    page = browse(first_run(served), scope="repair")
    page.get_by_role("button", name="Propose a patch").click()
    page.wait_for_url("**?patch=*")
    expect(page.get_by_role("button", name="Apply")).to_be_disabled()
