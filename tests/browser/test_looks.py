"""Appearance of every page: accessibility, light and dark colours, desktop and phone widths."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, StorageState, expect

from tests.browser.conftest import Browse, Opener, PageMonitor
from tests.browser.served import PAGES, Site

pytestmark = [pytest.mark.browser, pytest.mark.clock]

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
DARK_RULES = ("color-contrast", "link-in-text-block")
"""Axe's rules on colours: all others see in the dark what they saw in the light."""

STATUS = {"no page": 404, "no audit": 404, "no run": 404}


def accessibility_violations(page: Page, *rules: str) -> list[str]:
    """Return the accessibility violations that axe finds, of whatever impact, by these rules or by all."""
    page.evaluate(AXE.read_text())
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found: dict[str, Any] = page.evaluate("(options) => axe.run(document, options)", options)
    return [
        f"{one['impact']} {one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}" for one in found["violations"]
    ]


@pytest.fixture(scope="module")
def kept(chromium: Browser, served: Site, cookies: dict[str, StorageState]) -> Iterator[Callable[[str], tuple[Page, PageMonitor]]]:
    """Returns a function that returns the page of a colour scheme, which goes from path to path, so that scripts are compiled once."""
    opener, pages = Opener(chromium, served, cookies), dict[str, Page]()

    def page_of(scheme: str) -> tuple[Page, PageMonitor]:
        if scheme not in pages:
            pages[scheme] = opener(None, scheme=scheme)
        return pages[scheme], opener.opened[list(pages).index(scheme)][1]

    yield page_of
    opener.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PAGES)
def test_page_is_complete_and_accessible_and_fits_a_phone(
    name: str, scheme: str, kept: Callable[[str], tuple[Page, PageMonitor]], served: Site, screenshot: Callable[[Page, str], None]
) -> None:
    """Opened as on a phone, then widened."""
    page, monitor = kept(scheme)
    monitor.expected = ("404 (Not Found)",) if name in STATUS else ()
    page.set_viewport_size({"width": 390, "height": 860})
    answer = page.goto(served.path(name))
    assert answer
    assert answer.status == STATUS.get(name, 200)
    assert page.locator("h1").count() == 1
    assert page.locator("main").count() == 1
    assert page.title()
    screenshot(page, f"{name}-390-{scheme}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    beyond = "[...document.querySelectorAll('main > *, dl.figures > *')].filter(e => e.getBoundingClientRect().right > 380).length"
    assert page.evaluate(beyond) == 0
    narrow = "[...document.querySelectorAll('main button, main select')].filter(e => e.offsetHeight && e.offsetHeight < 24).length"
    assert page.evaluate(narrow) == 0
    page.set_viewport_size({"width": 1280, "height": 860})
    screenshot(page, f"{name}-1280-{scheme}")
    assert accessibility_violations(page, *(DARK_RULES if scheme == "dark" else ())) == []
    assert not monitor.faults, "\n".join(monitor.faults)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_login_page_is_accessible(scheme: str, browse: Browse, screenshot: Callable[[Page, str], None]) -> None:
    page = browse("/login", scope=None, scheme=scheme)
    screenshot(page, f"login-1280-{scheme}")
    assert accessibility_violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["run", "day"])
def test_report_as_a_file_is_accessible_and_fits_a_phone(
    name: str, scheme: str, kept: Callable[[str], tuple[Page, PageMonitor]], served: Site
) -> None:
    page, monitor = kept(scheme)
    today = dt.datetime.now(dt.UTC).date()
    path = f"{served.path('run')}/report.html" if name == "run" else f"/day/{today}.html"
    text = page.request.get(path).text()
    page.goto("about:blank")
    page.set_viewport_size({"width": 390, "height": 860})
    page.set_content(text)
    assert page.locator("main h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert accessibility_violations(page, *(DARK_RULES if scheme == "dark" else ())) == []
    assert not monitor.faults, "\n".join(monitor.faults)


def test_chosen_colours_persist_across_pages(browse: Browse) -> None:
    page = browse("/audits/orders")
    assert _brightness(page) > 200
    page.get_by_label("Colours").select_option("dark")
    page.wait_for_selector("html[data-theme=dark]")
    assert page.url.endswith("/audits/orders")
    assert _brightness(page) < 60
    page.goto("/about")
    assert _brightness(page) < 60
    page.get_by_label("Colours").select_option("")
    page.wait_for_selector("html:not([data-theme])")
    assert _brightness(page) > 200


def _brightness(page: Page) -> float:
    colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
    red, green, blue = (int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
    return (red + green + blue) / 3


def test_pages_are_operable_by_keyboard(browse: Browse) -> None:
    page = browse("/audits/orders")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator(".cell[tabindex='0']").focus()
    description = page.locator("[data-heat-says]")
    first = description.inner_text()
    assert "keys" in first
    page.keyboard.press("ArrowRight")
    assert description.inner_text() != first
    page.keyboard.press("Home")
    assert description.inner_text() == first
    page.locator("details.what summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.what[open] p").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("details.what[open]").count() == 0


def test_focused_element_has_an_outline(browse: Browse) -> None:
    page = browse("/audits/orders")
    for _ in range(12):
        page.keyboard.press("Tab")
        outline: str = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")


def test_hovering_a_partition_describes_it(browse: Browse) -> None:
    page = browse("/audits/orders")
    page.locator(".cell").nth(2).hover()
    assert "rows" in page.locator("[data-heat-says]").inner_text()


def test_open_run_options_are_accessible(browse: Browse) -> None:
    for width in (1280, 390):
        page = browse("/audits/customers", width=width)
        page.locator("details.options summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert accessibility_violations(page) == []


def test_chart_is_drawn_and_describes_the_hovered_run(browse: Browse) -> None:
    page = browse("/audits/orders")
    page.wait_for_selector("#chart canvas")
    page.locator("#chart .u-over").hover()
    expect(page.locator("#chart-says")).to_contain_text("mismatch")
