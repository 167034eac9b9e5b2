"""Every page: for everybody, in light and in dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Browse
from tests.browser.served import PAGES, Site

pytestmark = pytest.mark.browser

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
STATUS = {"no page": 404, "no audit": 404, "no run": 404}


def faults(page: Page) -> list[str]:
    """What axe finds that would keep somebody from using the page."""
    page.evaluate(AXE.read_text())
    found: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['impact']} {one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_and_for_everybody(
    name: str, scheme: str, browse: Browse, served: Site, picture: Callable[[Page, str], None]
) -> None:
    page = browse("/about", scheme=scheme, expected="404 (Not Found)" if name in STATUS else "")
    answer = page.goto(served.path(name))
    assert answer
    assert answer.status == STATUS.get(name, 200)
    assert page.locator("h1").count() == 1
    assert page.locator("main").count() == 1
    assert page.title()
    picture(page, f"{name}-1280-{scheme}")
    assert faults(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_is_for_everybody(scheme: str, browse: Browse, picture: Callable[[Page, str], None]) -> None:
    page = browse("/login", scope=None, scheme=scheme)
    picture(page, f"login-1280-{scheme}")
    assert faults(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_a_phone(name: str, browse: Browse, served: Site, picture: Callable[[Page, str], None]) -> None:
    page = browse("/about", width=390, expected="404 (Not Found)" if name in STATUS else "")
    page.goto(served.path(name))
    picture(page, f"{name}-390")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    beyond = "[...document.querySelectorAll('main > *, dl.figures > *')].filter(e => e.getBoundingClientRect().right > 380).length"
    assert page.evaluate(beyond) == 0
    narrow = "[...document.querySelectorAll('main button, main select')].filter(e => e.offsetHeight && e.offsetHeight < 24).length"
    assert page.evaluate(narrow) == 0


def test_the_colours_can_be_chosen_and_are_kept(browse: Browse) -> None:
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


def test_a_keyboard_is_enough(browse: Browse) -> None:
    page = browse("/audits/orders")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator(".cell[tabindex='0']").focus()
    says = page.locator("[data-heat-says]")
    first = says.inner_text()
    assert "keys" in first
    page.keyboard.press("ArrowRight")
    assert says.inner_text() != first
    page.keyboard.press("Home")
    assert says.inner_text() == first
    page.locator("details.what summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.what[open] p").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("details.what[open]").count() == 0


def test_what_has_the_focus_can_be_seen(browse: Browse) -> None:
    page = browse("/audits/orders")
    for _ in range(12):
        page.keyboard.press("Tab")
        outline: str = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")


def test_a_partition_is_told_when_pointed_at(browse: Browse) -> None:
    page = browse("/audits/orders")
    page.locator(".cell").nth(2).hover()
    assert "rows" in page.locator("[data-heat-says]").inner_text()


def test_the_part_of_a_run_form_that_opens_is_for_everybody(browse: Browse) -> None:
    for width in (1280, 390):
        page = browse("/audits/customers", width=width)
        page.locator("details.options summary").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert faults(page) == []


def test_the_chart_is_drawn(browse: Browse) -> None:
    page = browse("/audits/orders")
    page.wait_for_selector("#chart canvas")
    page.locator("#chart .u-over").hover()
    expect(page.locator("#chart-says")).to_contain_text("mismatch")
