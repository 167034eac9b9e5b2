"""The pages of pipelines: charts, the filter of tables, pausing and starting, and what a narrower token may not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from auditor.store import events, pipelines, table_notes
from tests.browser.conftest import Browse
from tests.browser.served import Site

pytestmark = [pytest.mark.browser, pytest.mark.clock]


@pytest.fixture
def unpaused(served: Site) -> Iterator[Site]:
    """The service; its pipeline at work is not left paused."""
    yield served
    pipelines.set_paused(served.store, "shop", False)


def test_a_table_that_stopped_is_found_from_the_list_with_its_way_out(browse: Browse) -> None:
    page = browse("/")
    page.get_by_role("link", name="Pipelines").click()
    rows = page.locator("table.pipelines tbody tr")
    expect(rows).to_have_count(5)
    expect(rows.filter(has_text="erp")).to_contain_text("no process has reported since")
    shop = rows.filter(has_text="shop.payments")
    expect(shop).to_contain_text("1 stopped")
    shop.get_by_role("link", name="shop").click()
    page.wait_for_url("**/pipelines/shop")  # and until the scripts are loaded that filter the tables
    page.get_by_label("Filter").fill("payments stopped")
    expect(page.locator("table.held tbody tr")).to_have_count(1)
    page.locator("table.held").get_by_role("link", name="shop.payments").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("shop.payments")
    expect(page.locator("#standing .notice").first).to_contain_text("widen it there: ALTER TABLE shop.payments")
    expect(page.locator("#standing .notice").first).to_contain_text("nothing needs to be restarted")
    expect(page.locator("#standing .notice").last).to_contain_text("It stops at binlog.000041:800: 2 events from")
    expect(page.locator("#standing .notice").last).to_contain_text(
        "auditor pipeline skip shop --table shop.payments --position binlog.000041:800"
    )
    expect(page.get_by_role("row", name=re.compile("binlog.000041:700 1 test rows of a migration .* ada"))).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("applied .* ALTER TABLE shop.payments ADD COLUMN note"))).to_be_visible()
    page.get_by_role("link", name="in lake").click()
    expect(page.locator("header.top .verdict")).to_have_text("merged")


def test_many_tables_are_grouped_the_worst_first_and_found_page_by_page(browse: Browse) -> None:
    page = browse("/pipelines/many", scope="pipeline")
    groups, rows, pages = page.locator("#groups tbody tr"), page.locator("#held tbody tr"), page.locator("#held .pages")
    expect(groups).to_have_count(6)
    expect(groups.first).to_contain_text("stopped")
    expect(rows).to_have_count(50)
    expect(rows.first).to_contain_text("crm.table_0000")
    expect(pages).to_contain_text("1 to 50 of 160.")
    page.get_by_role("link", name="80 tables merged in lake").click()
    expect(pages).to_contain_text("1 to 50 of 80.")
    page.get_by_role("link", name="Next page").click()
    expect(pages).to_contain_text("51 to 80 of 80.")
    expect(rows).to_have_count(30)
    expect(page.locator("#search")).to_contain_text("Only tables merged in lake.")
    page.get_by_label("Filter").fill("table_000")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text("lake")
    page.get_by_label("Filter").fill("table_000 nothing")
    page.get_by_role("link", name="Show all 160").click()
    expect(pages).to_contain_text("1 to 50 of 160.")


def test_the_chart_shows_the_chosen_time_and_describes_the_hovered_point(browse: Browse) -> None:
    page = browse("/pipelines/shop/table?target=warehouse&table=shop.orders", scope="pipeline")
    page.wait_for_selector("#chart canvas")
    page.locator("#chart .u-over").hover()
    says = r"^\d{4}-\d\d-\d\d \d\d:\d\d UTC: .* behind, (.*B|\d+ bytes), .* events a second$"
    expect(page.locator("#chart-says")).to_have_text(re.compile(says))
    page.get_by_role("link", name="30 days").click()
    page.wait_for_selector("#chart canvas")
    expect(page.get_by_role("heading", name=re.compile("^Lag, 30 days"))).to_be_visible()
    page.locator("summary", has_text="The same as numbers").press("Enter")
    listed = page.locator("details.more tbody tr")
    assert 5 < listed.count() <= 25
    expect(listed.last).to_contain_text("UTC")


def test_segments_are_paged_from_the_newest(browse: Browse) -> None:
    page = browse("/pipelines/shop/table?target=warehouse&table=shop.orders", scope="pipeline")
    first = page.locator("#segments ~ .wide tbody tr")
    expect(first).to_have_count(20)
    expect(first.first).to_contain_text("2299:3")
    page.get_by_role("link", name="Older").click()
    page.get_by_role("link", name="Older").click()
    expect(page.locator("#segments ~ .wide tbody tr")).to_have_count(5)
    expect(page.get_by_role("link", name="Older")).to_have_count(0)
    page.get_by_role("link", name="Newest").click()
    expect(page.locator("#segments ~ .wide tbody tr").first).to_contain_text("2299:3")


def test_existing_rows_are_asked_for_and_a_refusal_is_told(browse: Browse) -> None:
    page = browse(
        "/pipelines/shop/table?target=warehouse&table=shop.orders", scope="pipeline", expected="the server responded with a status"
    )
    asked = page.locator("#asked tbody tr")
    expect(asked).to_have_count(3)
    expect(asked.nth(0)).to_contain_text("2 keys")
    expect(asked.nth(1)).to_contain_text("it waits: replica db2 lags 41 s behind")
    expect(asked.nth(2)).to_contain_text("1,941,222")
    page.get_by_label("Keys from").fill("1,000")
    page.get_by_role("button", name="Send existing rows").click()
    expect(page.locator("main")).to_contain_text("may only read; add write: {url: ...} to it")


def test_a_place_that_stops_nothing_is_not_skipped(browse: Browse, served: Site) -> None:
    before = table_notes.list_notes(served.store, "shop")
    page = browse(
        "/pipelines/shop/table?target=warehouse&table=shop.payments", scope="pipeline", expected="the server responded with a status"
    )
    page.get_by_label("Why the events at binlog.000041:800 may be left out").fill("test rows")
    page.evaluate("document.querySelector('form[action$=skip] [name=position]').value = 'binlog.000041:801'")
    page.get_by_role("button", name="Skip").click()
    expect(page.locator("main")).to_contain_text("nothing stops shop.payments at binlog.000041:801")
    assert table_notes.list_notes(served.store, "shop") == before


def test_pausing_says_who_did_it_and_is_recorded(browse: Browse, unpaused: Site) -> None:
    page = browse("/pipelines/shop", scope="pipeline")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("header.top .verdict")).to_have_text("paused")
    expect(page.locator("#standing .notice").first).to_contain_text("Paused by a pipeline token")
    page.get_by_role("button", name="Unpause").click()
    expect(page.locator("header.top .verdict")).to_have_text("tables stopped")
    expect(page.get_by_role("button", name="Start")).to_have_count(0)  # this service runs none of them
    done = [(one.actor, one.action, one.subject) for one in events.list_events(unpaused.store)[:2]]
    assert done == [("a pipeline token", "pipeline unpaused", "shop"), ("a pipeline token", "pipeline paused", "shop")]


def test_a_narrower_token_sees_pipelines_and_may_not_pause_them(browse: Browse, served: Site) -> None:
    page = browse("/pipelines/shop", scope="run", expected="403 (Forbidden)")
    expect(page.get_by_role("button", name="Pause")).to_be_disabled()
    page.evaluate("document.querySelector('#pause').disabled = false")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")
    assert not pipelines.get_pipeline(served.store, "shop").paused


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/pipelines/shopp", 404, "there is no pipeline 'shopp'; did you mean 'shop'?"),
        ("/pipelines/shop/table?target=warehouse&table=shop.nowhere", 422, "has staged nothing of a table 'shop.nowhere'"),
        ("/pipelines/shop/table?target=nowhere&table=shop.orders", 422, "has no target 'nowhere'; its targets are lake, warehouse"),
        ("/pipelines/shop/table?target=lake&table=shop.orders&before=x", 422, "'x' is not the place of a segment"),
        ("/pipelines/shop?span=year", 422, "span"),
    ],
)
def test_an_address_of_nothing_is_an_error_page(path: str, status: int, says: str, browse: Browse) -> None:
    page = browse(None, scope="pipeline", expected="the server responded with a status")
    answer = page.goto(path)
    assert answer and answer.status == status
    expect(page.locator("main")).to_contain_text(says)
