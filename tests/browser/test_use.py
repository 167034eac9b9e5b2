"""User actions on the pages: login, runs, differences, SQL, uploads, tokens."""

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
from tests.browser.conftest import Browse, log_in
from tests.browser.served import NAMES, Site
from tests.engines.test_console import is_query, statements

pytestmark = [pytest.mark.browser, pytest.mark.clock]


def test_pages_require_a_login(browse: Browse, served: Site) -> None:
    page = browse("/audits/orders", scope=None, expected="401 (Unauthorized)")
    assert "/login" in page.url
    page.get_by_label("Token").fill("aud_this-is-none")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("unknown, expired or revoked")
    page.get_by_label("Token").fill(served.tokens["read"])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/audits/orders")
    page.get_by_role("button", name="Log out").click()
    page.goto("/")
    assert "/login" in page.url


def test_login_does_not_redirect_to_another_site(browse: Browse, served: Site) -> None:
    page = browse("/login?back=https://example.com/", scope=None)
    page.get_by_label("Token").fill(served.tokens["read"])
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{served.url}/")


def test_scope_limits_the_available_actions(browse: Browse) -> None:
    page = browse("/audits/orders", scope="read", expected="403 (Forbidden)")
    expect(page.get_by_role("button", name="Run now")).to_be_disabled()
    expect(page.get_by_role("link", name="Tokens")).to_have_count(0)
    page.goto("/tokens")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")


def test_form_with_a_forged_csrf_token_is_rejected(browse: Browse) -> None:
    page = browse("/audits/orders", scope="run", expected="403 (Forbidden)")
    page.evaluate("document.querySelector('form.run [name=csrf]').value = 'forged'")
    page.get_by_role("button", name="Run now").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Not allowed")


def test_run_page_follows_a_requested_run_to_its_verdict(browse: Browse) -> None:
    page = browse("/audits/watched", scope="run")
    page.locator("details.options summary").click()
    page.get_by_label("Reason").fill("to watch it")
    page.get_by_role("button", name="Run with these settings").click()
    page.wait_for_url("**/runs/*")
    page.evaluate("window.stayed = true")
    expect(page.locator("#run .verdict")).to_contain_text("running", timeout=30_000)
    expect(page.locator("#side-source")).to_be_visible()
    expect(page.locator(".statements")).to_have_text([re.compile(r"^[1-9]\d* statements done, \d under way$")] * 2, timeout=30_000)
    expect(page.locator("#run .verdict")).to_contain_text("mismatch", timeout=60_000)
    assert page.evaluate("window.stayed") is True
    expect(page.locator("#run-status")).to_have_text("The run ended: mismatch.")
    expect(page.locator("#named")).to_contain_text("amount")
    expect(page.get_by_text("to watch it", exact=True)).to_be_visible()


def test_run_with_another_method(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run")
    page.locator("details.options summary").click()
    page.get_by_label("Method", exact=True).select_option("signature")
    page.get_by_role("button", name="Run with these settings").click()
    expect(page.locator("#run .verdict")).to_contain_text("match", timeout=60_000)
    expect(page.locator("p.notice", has_text="Run with other settings (method signature)")).to_be_visible()
    expect(page.locator("p.soft.small", has_text="method signature")).to_be_visible()


def test_slice_run_does_not_change_the_verdict_of_the_audit(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run")
    verdict = page.locator("header.top .verdict").inner_text()
    page.locator("details.options summary").click()
    page.get_by_label("from", exact=True).fill("1,000")
    page.get_by_label("to", exact=True).fill("1999")
    page.get_by_role("button", name="Run with these settings").click()
    expect(page.locator("#run .verdict")).to_contain_text("match", timeout=60_000)
    expect(page.locator("dl.figures").first).to_contain_text("keys 1,000 to 1,999")
    expect(page.locator("dl.figures").last).to_contain_text("1,000in each table")
    page.goto("/audits/customers")
    expect(page.locator("table.history tbody tr").first).to_contain_text("with other settings: keys")
    assert page.locator("header.top .verdict").inner_text() == verdict


def test_invalid_key_range_shows_the_reason(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run", expected="422 (Unprocessable")
    page.locator("details.options summary").click()
    page.get_by_label("from", exact=True).fill("20")
    page.get_by_label("to", exact=True).fill("10")
    page.get_by_role("button", name="Run with these settings").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Invalid request")
    expect(page.locator("main")).to_contain_text("from is greater than to")


def test_rolling_audit_shows_the_whole_table(browse: Browse) -> None:
    page = browse("/audits/rolling")
    expect(page.locator("main > ul").first).to_contain_text("differ as last read")
    expect(page.locator(".legend")).to_contain_text("not compared")
    description = page.locator("[data-heat-says]")
    page.locator(".cell").first.hover()
    expect(description).to_contain_text(re.compile(r"keys 0 to 999; .*read \d+ (s|min|min \d+ s) ago"))
    page.locator(".cell").last.hover()
    expect(description).to_contain_text("never read")
    parts = page.locator("details.more").filter(has_text="When each part was read").locator("tbody tr")
    assert "never" in parts.first.inner_text()
    assert "ago" in parts.last.inner_text()


def test_report_is_downloaded_in_each_format(browse: Browse, served: Site) -> None:
    page = browse(served.path("run"))
    for name, extension, content in (
        ("Report as one file", "html", "<!DOCTYPE html>"), ("Markdown", "md", "# "), ("JSON", "json", "{"), ("text", "txt", "MISMATCH"),
    ):  # fmt: skip
        with page.expect_download() as download:
            page.get_by_role("link", name=name, exact=True).click()
        assert download.value.suggested_filename.endswith(f".{extension}")
        assert content in Path(download.value.path()).read_text()


@pytest.mark.slow
def test_run_is_cancelled_and_resumed(browse: Browse) -> None:
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


def test_audit_is_paused_and_unpaused(browse: Browse) -> None:
    page = browse("/audits/customers", scope="run")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_disabled()
    page = browse("/audits/customers", scope="define")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("header.top .tag")).to_have_text("paused")
    page.get_by_role("button", name="Unpause").click()
    expect(page.locator("header.top .tag")).to_have_count(0)


def test_audits_are_filtered_while_typing(browse: Browse) -> None:
    page = browse("/")
    rows = page.locator("table.audits tbody tr")
    assert rows.count() == len(audit_names(page))
    verdicts = page.locator("table.audits tbody .verdict").all_inner_texts()
    order = ["mismatch", "unknown", "stale", "never run", "running", "match within threshold", "match"]
    assert [order.index(one) for one in verdicts] == sorted(order.index(one) for one in verdicts)
    page.get_by_label("Filter").press_sequentially("orders mis")
    expect(rows.filter(has_text="customers")).to_have_count(0)
    expect(rows.filter(has_text="counted")).to_have_count(1)
    assert "q=orders" in page.url
    page.get_by_label("Filter").fill("no such thing")
    expect(page.get_by_text("No audit matches")).to_be_visible()


def audit_names(page: Page) -> list[str]:
    return page.locator("table.audits a.name").all_inner_texts()


def test_differences_are_filtered_paged_and_downloaded(browse: Browse, served: Site) -> None:
    page = browse(served.path("run"))
    named = page.locator("#named")
    expect(named).to_contain_text("missing")
    page.get_by_label("Kind").select_option("changed")
    expect(named).not_to_contain_text("missing")
    expect(named).to_contain_text("<b>bold</b>")
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    assert {row["kind"] for row in rows} == {"changed"}
    assert {(row["id"], row["column"], row["target"]) for row in rows} >= {("17", "item", "<b>bold</b>")}
    page.get_by_label("Kind").select_option("")
    expect(named).to_contain_text("missing")
    first = named.inner_text()
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    assert named.inner_text() != first
    with page.expect_download() as download:
        page.get_by_role("link", name="NDJSON").click()
    lines = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    assert {line["kind"] for line in lines} == {"missing", "extra", "changed"}


def test_sql_is_copied_from_its_page(browse: Browse) -> None:
    page = browse("/audits/orders/sql")
    shown = page.locator("#sql-source").inner_text()
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == shown.strip()
    page.get_by_label("Method", exact=True).select_option("counts")
    expect(page.locator("#sql-source")).to_contain_text("method counts")
    assert "minhash" not in page.locator("#sql-target").inner_text()


def test_sql_is_copied_from_the_audit_page(browse: Browse, served: Site) -> None:
    page = browse("/audits/orders")
    page.get_by_role("link", name="Copy target SQL").click()
    expect(page.get_by_role("link", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[0].startswith("-- auditor: audit orders, target")
    assert copied.strip() == service.sql(served.settings, "orders")["target"].strip()


def test_failing_sql_copy_opens_the_page_with_the_reason(browse: Browse) -> None:
    page = browse("/audits/missing", expected="status of 4")
    page.get_by_role("link", name="Copy source SQL").click()
    page.wait_for_url("**/audits/missing/sql*")
    expect(page.get_by_role("alert").filter(visible=True)).to_contain_text("there is no table")


def test_uploaded_results_are_compared(browse: Browse, served: Site, tmp_path: Path) -> None:
    scripts = service.sql(served.settings, "orders")
    files = {side: run_and_save_script(served, side, scripts[side], tmp_path) for side in SIDES}
    page = browse("/audits/orders/sql")
    page.get_by_label("The source's result").set_input_files(files["source"])
    page.get_by_label("The target's result").set_input_files(files["target"])
    page.get_by_role("button", name="Compare").click()
    expect(page.locator("article .verdict").first).to_contain_text("mismatch")
    expect(page.locator("article")).to_contain_text("orders")


def run_and_save_script(served: Site, side: Side, script: str, directory: Path) -> Path:
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


def test_invalid_uploaded_results_show_the_reason(browse: Browse, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n")
    page = browse("/compare", expected="422 (Unprocessable")
    page.get_by_label("The source's result").set_input_files(wrong)
    page.get_by_label("The target's result").set_input_files(wrong)
    page.get_by_role("button", name="Compare").click()
    alert = page.get_by_role("alert").filter(visible=True)
    expect(alert).to_contain_text("lacks the column")
    assert "/tmp" not in alert.inner_text()


def test_token_is_created_shown_once_and_revoked(browse: Browse, served: Site) -> None:
    page = browse("/tokens")
    page.get_by_label("Name").fill("<i>robot</i>")
    page.get_by_label("Scope", exact=True).select_option("run")
    page.get_by_role("button", name="Create").click()
    secret = page.locator("#secret").inner_text()
    assert secret.startswith("aud_")
    page.goto("/tokens")
    assert secret not in page.content()
    other = page.context.browser
    assert other
    context = other.new_context(base_url=served.url)
    other_page = context.new_page()
    log_in(other_page, secret)
    page.get_by_role("button", name="Revoke <i>robot</i>").click()
    expect(page.get_by_role("button", name="Revoke <i>robot</i>")).to_have_count(0)
    other_page.goto("/")
    assert "/login" in other_page.url
    context.close()


def test_pages_work_without_scripts(browse: Browse) -> None:
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


def test_data_is_not_interpreted_as_markup(browse: Browse, served: Site) -> None:
    page = browse(served.path("run"))
    page.get_by_label("Kind").select_option("changed")
    expect(page.locator("#named")).to_contain_text("<b>bold</b>")
    assert page.locator("#named b").count() == 0
