"""What people do with the pages."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import duckdb
import pytest
from playwright.sync_api import Page, expect

from auditor import service
from auditor.model import SIDES, Side
from tests.browser.conftest import Browse, enter
from tests.browser.served import NAMES, Site
from tests.test_console import is_query, statements

pytestmark = pytest.mark.browser


def test_nobody_comes_in_without_a_token(browse: Browse, served: Site) -> None:
    page = browse("/audits/orders", scope=None, expected="401 (Unauthorized)")
    assert "/login" in page.url
    page.get_by_label("Token").fill("aud_this-is-none")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("no such token")
    page.get_by_label("Token").fill(served.tokens["read"])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/audits/orders")
    page.get_by_role("button", name="Log out").click()
    page.goto("/")
    assert "/login" in page.url


def test_a_login_leads_nowhere_else(browse: Browse, served: Site) -> None:
    page = browse("/login?back=https://example.com/", scope=None)
    page.get_by_label("Token").fill(served.tokens["read"])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{served.url}/")


def test_a_token_allows_what_its_scope_says(browse: Browse) -> None:
    page = browse("/audits/orders", scope="read", expected="403 (Forbidden)")
    expect(page.get_by_role("button", name="Run now")).to_be_disabled()
    expect(page.get_by_role("link", name="Tokens")).to_have_count(0)
    page.goto("/tokens")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")


def test_a_form_of_another_site_is_refused(browse: Browse) -> None:
    page = browse("/audits/orders", scope="run", expected="403 (Forbidden)")
    page.evaluate("document.querySelector('form.run [name=csrf]').value = 'forged'")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")


def test_a_run_is_requested_and_watched_to_its_verdict(browse: Browse) -> None:
    page = browse("/audits/watched", scope="run")
    page.locator("details.options summary").click()
    page.get_by_label("Why").fill("to watch it")
    page.get_by_role("button", name="Run like this").click()
    page.wait_for_url("**/runs/*")
    page.evaluate("window.stayed = true")
    expect(page.locator("#run .verdict")).to_contain_text("running", timeout=30_000)
    expect(page.locator("#side-source")).to_be_visible()
    expect(page.locator(".statements")).to_have_text([re.compile(r"^[1-9]\d* statements done, \d under way$")] * 2, timeout=30_000)
    expect(page.locator("#run .verdict")).to_contain_text("mismatch", timeout=60_000)
    assert page.evaluate("window.stayed") is True
    expect(page.locator("#said")).to_have_text("The run ended: mismatch.")
    expect(page.locator("#named")).to_contain_text("amount")
    expect(page.get_by_text("to watch it")).to_be_visible()


def test_another_method_can_be_asked_for(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run")
    page.locator("details.options summary").click()
    page.get_by_label("Method", exact=True).select_option("signature")
    page.get_by_role("button", name="Run like this").click()
    expect(page.locator("#run .verdict")).to_contain_text("match", timeout=60_000)
    expect(page.get_by_text("method signature")).to_be_visible()


def test_a_part_of_the_table_is_run_alone(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run")
    verdict = page.locator("header.top .verdict").inner_text()
    page.locator("details.options summary").click()
    page.get_by_label("from", exact=True).fill("1,000")
    page.get_by_label("to", exact=True).fill("1999")
    page.get_by_role("button", name="Run like this").click()
    expect(page.locator("#run .verdict")).to_contain_text("match", timeout=60_000)
    expect(page.locator("dl.figures")).to_contain_text("keys 1,000 to 1,999")
    expect(page.locator("dl.figures")).to_contain_text("1,000in each table")
    page.goto("/audits/customers")
    expect(page.locator("table.history tbody tr").first).to_contain_text("a part of the table")
    assert page.locator("header.top .verdict").inner_text() == verdict


def test_a_key_that_is_none_is_refused_in_words(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run", expected="422 (Unprocessable")
    page.locator("details.options summary").click()
    page.get_by_label("from", exact=True).fill("20")
    page.get_by_label("to", exact=True).fill("10")
    page.get_by_role("button", name="Run like this").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("This cannot be done")
    expect(page.locator("main")).to_contain_text("from has to be at most to")


def test_a_rolling_audit_shows_its_whole_table(browse: Browse) -> None:
    page = browse("/audits/rolling")
    expect(page.locator("main > ul").first).to_contain_text("differ as they were last read")
    expect(page.locator(".legend")).to_contain_text("not compared")
    told = page.locator("[data-heat-says]")
    page.locator(".cell").first.hover()
    expect(told).to_contain_text(re.compile(r"keys 0 to 999; .*read \d+ (s|min|min \d+ s) ago"))
    page.locator(".cell").last.hover()
    expect(told).to_contain_text("never read")
    parts = page.locator("details.more").filter(has_text="When each part was read").locator("tbody tr")
    assert "never" in parts.first.inner_text()
    assert "ago" in parts.last.inner_text()


def test_the_report_of_a_run_is_fetched_in_each_format(browse: Browse, served: Site) -> None:
    page = browse(served.path("run"))
    for name, ending, says in (
        ("Report as one file", "html", "<!DOCTYPE html>"), ("Markdown", "md", "# "), ("JSON", "json", "{"), ("text", "txt", "MISMATCH"),
    ):  # fmt: skip
        with page.expect_download() as fetched:
            page.get_by_role("link", name=name, exact=True).click()
        assert fetched.value.suggested_filename.endswith(f".{ending}")
        assert says in Path(fetched.value.path()).read_text()


def test_a_run_is_cancelled_and_resumed(browse: Browse) -> None:
    page = browse("/audits/endless", scope="run")
    page.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/*")
    expect(page.locator(".doing").first).to_contain_text("look", timeout=60_000)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#run")).to_contain_text("cancelled after", timeout=60_000)
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#run .verdict")).to_contain_text("running", timeout=60_000)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#run")).to_contain_text("cancelled after", timeout=60_000)


def test_an_audit_is_paused_and_goes_on(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_disabled()
    page = browse("/audits/customers", scope="define")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("header.top .tag")).to_have_text("paused")
    page.get_by_role("button", name="Unpause").click()
    expect(page.locator("header.top .tag")).to_have_count(0)


def test_audits_are_filtered_as_somebody_writes(browse: Browse) -> None:
    page = browse("/")
    rows = page.locator("table.audits tbody tr")
    assert rows.count() == len(browse_names(page))
    verdicts = page.locator("table.audits tbody .verdict").all_inner_texts()
    order = ["mismatch", "unknown", "stale", "never run", "match"]
    assert [order.index(one) for one in verdicts] == sorted(order.index(one) for one in verdicts)
    page.get_by_label("Filter").press_sequentially("orders mis")
    expect(rows.filter(has_text="customers")).to_have_count(0)
    expect(rows.filter(has_text="counted")).to_have_count(1)
    assert "q=orders" in page.url
    page.get_by_label("Filter").fill("no such thing")
    expect(page.get_by_text("No audit fits")).to_be_visible()


def browse_names(page: Page) -> list[str]:
    return page.locator("table.audits a.name").all_inner_texts()


def test_differences_are_filtered_paged_and_fetched(browse: Browse, served: Site) -> None:
    page = browse(served.path("run"))
    named = page.locator("#named")
    expect(named).to_contain_text("missing")
    page.get_by_label("Kind").select_option("changed")
    expect(named).not_to_contain_text("missing")
    expect(named).to_contain_text("<b>bold</b>")
    with page.expect_download() as fetched:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(Path(fetched.value.path()).read_text().splitlines()))
    assert {row["kind"] for row in rows} == {"changed"}
    assert {(row["id"], row["column"], row["target"]) for row in rows} >= {("17", "item", "<b>bold</b>")}
    page.get_by_label("Kind").select_option("")
    expect(named).to_contain_text("missing")
    first = named.inner_text()
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    assert named.inner_text() != first
    with page.expect_download() as fetched:
        page.get_by_role("link", name="NDJSON").click()
    lines = [json.loads(line) for line in Path(fetched.value.path()).read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"missing", "extra", "changed"}


def test_sql_is_copied(browse: Browse) -> None:
    page = browse("/audits/orders/sql")
    shown = page.locator("#sql-source").inner_text()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == shown.strip()
    page.get_by_label("Method", exact=True).select_option("counts")
    expect(page.locator("#sql-source")).to_contain_text("method counts")
    assert "minhash" not in page.locator("#sql-target").inner_text()


def test_sql_is_copied_from_the_audit_at_once(browse: Browse, served: Site) -> None:
    page = browse("/audits/orders")
    page.get_by_role("link", name="Copy target SQL").click()
    expect(page.get_by_role("link", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[0].startswith("-- auditor: audit orders, target")
    assert copied.strip() == service.sql(served.settings, "orders")["target"].strip()


def test_sql_that_cannot_be_written_leads_to_the_reason(browse: Browse) -> None:
    page = browse("/audits/missing", expected="status of 4")
    page.get_by_role("link", name="Copy source SQL").click()
    page.wait_for_url("**/audits/missing/sql*")
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("there is no table")


def test_two_results_are_uploaded_and_compared(browse: Browse, served: Site, tmp_path: Path) -> None:
    scripts = service.sql(served.settings, "orders")
    files = {side: saved(served, side, scripts[side], tmp_path) for side in SIDES}
    page = browse("/audits/orders/sql")
    page.get_by_label("The source's result").set_input_files(files["source"])
    page.get_by_label("The target's result").set_input_files(files["target"])
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("article .verdict").first).to_contain_text("mismatch")
    expect(page.locator("article")).to_contain_text("orders")


def saved(served: Site, side: Side, script: str, directory: Path) -> Path:
    url = served.settings.connections[NAMES[side]].url
    path = directory / f"{side}.csv"
    with duckdb.connect(url.removeprefix("duckdb:///"), read_only=True) as connection, path.open("w", newline="") as file:
        for text in statements(script):
            done = connection.execute(text)
            if is_query(text):
                writer = csv.writer(file)
                writer.writerow([one[0] for one in done.description or ()])
                writer.writerows(done.fetchall())
    return path


def test_files_that_are_no_results_are_told_so(browse: Browse, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n")
    page = browse("/compare", expected="422 (Unprocessable")
    page.get_by_label("The source's result").set_input_files(wrong)
    page.get_by_label("The target's result").set_input_files(wrong)
    page.get_by_role("button", name="Compare").click()
    told = page.get_by_role("alert").filter(visible=True)
    expect(told).to_contain_text("lacks the column")
    assert "/tmp" not in told.inner_text()


def test_a_token_is_made_shown_once_and_revoked(browse: Browse, served: Site) -> None:
    page = browse("/tokens")
    page.get_by_label("Name").fill("<i>robot</i>")
    page.get_by_label("May").select_option("run")
    page.get_by_role("button", name="Make").click()
    secret = page.locator("#secret").inner_text()
    assert secret.startswith("aud_")
    page.goto("/tokens")
    assert secret not in page.content()
    other = page.context.browser
    assert other
    context = other.new_context(base_url=served.url)
    theirs = context.new_page()
    enter(theirs, secret)
    page.get_by_role("button", name="Revoke <i>robot</i>").click()
    expect(page.get_by_role("button", name="Revoke <i>robot</i>")).to_have_count(0)
    theirs.goto("/")
    assert "/login" in theirs.url
    context.close()


def test_everything_works_without_a_script(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run", script=False)
    page.get_by_role("button", name="Run now").click()
    page.wait_for_url("**/runs/*")
    for _ in range(60):
        if "after" in page.locator("#run").inner_text():
            break
        page.wait_for_timeout(500)
        page.reload()
    expect(page.locator("#run .verdict")).to_contain_text("match")
    page.goto("/?q=orders")
    assert all("orders" in row for row in page.locator("table.audits tbody tr").all_inner_texts())


def test_what_stands_in_the_data_is_never_taken_for_markup(browse: Browse, served: Site) -> None:
    page = browse(served.path("run"))
    page.get_by_label("Kind").select_option("changed")
    expect(page.locator("#named")).to_contain_text("<b>bold</b>")
    assert page.locator("#named b").count() == 0
