"""A browser for the pages: Chromium as it is installed here.

Where there is none the tests are skipped, and the last lines of the run say so; with CI=true the run then fails.
$AUDITOR_TEST_CHROMIUM names one that is elsewhere.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, sync_playwright

from auditor.store.tokens import Scope
from tests.browser.served import Site, site

VARIABLE = "AUDITOR_TEST_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
MISSING = f"no Chromium is installed; scripts/engines.sh installs it, or set {VARIABLE}"

_MISSED = pytest.StashKey[bool]()

Browse = Callable[..., Page]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium: the pages as somebody sees them")


def pytest_sessionfinish(session: pytest.Session) -> None:
    missed = session.config.stash.get(_MISSED, False)
    if missed and os.environ.get("CI", "").lower() == "true" and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash.get(_MISSED, False):
        terminalreporter.section("browser")
        terminalreporter.write_line(f"chromium  NOT RUN: {MISSING}", red=os.environ.get("CI", "").lower() == "true")


def found() -> str | None:
    """The browser's program."""
    given = os.environ.get(VARIABLE)
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


# While Playwright runs, its event loop counts as running in this thread, so that it must end before other tests begin loops of their own.
@pytest.fixture(scope="package")
def chromium(request: pytest.FixtureRequest) -> Iterator[Browser]:
    program = found()
    if program is None:
        request.config.stash[_MISSED] = True
        pytest.skip(f"browser: {MISSING}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def served(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The service, with tokens; not started where nobody could look at it."""
    with site(tmp_path_factory.mktemp("site")) as running:
        yield running


class Watch:
    """What a page must never do."""

    def __init__(self, url: str, expected: tuple[str, ...]) -> None:
        self.url = url
        self.expected = expected
        self.faults: list[str] = []

    def over(self, context: BrowserContext) -> None:
        context.add_init_script(
            "document.addEventListener('securitypolicyviolation', (e) => console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI))"
        )
        context.on("request", lambda request: self._ours(request.url))
        context.on("console", lambda message: self._said(message.type, message.text))
        context.on("weberror", lambda error: self.faults.append(f"script: {error.error}"))

    def _ours(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.faults.append(f"asked another host: {url}")

    def _said(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(one in text for one in self.expected):
            self.faults.append(f"console {kind}: {text}")


@pytest.fixture(scope="package")
def cookies() -> dict[str, StorageState]:
    """What a browser remembers once somebody has logged in, by the token's scope."""
    return {}


@pytest.fixture
def browse(chromium: Browser, served: Site, cookies: dict[str, StorageState]) -> Iterator[Browse]:
    """Opens a page as somebody with a token of that scope; in the end nothing was said in its console, and no other host asked.

    ``expected`` are messages that belong to what is tested: a browser says that an answer was a 404.
    """
    opened: list[tuple[BrowserContext, Watch]] = []

    def browsed(
        path: str = "/",
        *,
        scope: Scope | None = "define",
        width: int = 1280,
        scheme: str = "light",
        script: bool = True,
        expected: str = "",
    ) -> Page:
        watch = Watch(served.url, (expected,) if expected else ())
        context = chromium.new_context(
            base_url=served.url, viewport={"width": width, "height": 860}, color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=script, reduced_motion="reduce", permissions=["clipboard-read", "clipboard-write"],
            storage_state=cookies.get(scope or ""),
        )  # fmt: skip
        context.set_default_timeout(30_000)
        watch.over(context)
        opened.append((context, watch))
        page = context.new_page()
        if scope is not None and scope not in cookies:
            enter(page, served.tokens[scope])
            cookies[scope] = context.storage_state()
        page.goto(path)
        return page

    yield browsed
    for context, watch in opened:
        context.close()
        assert not watch.faults, "\n".join(watch.faults)


def enter(page: Page, secret: str) -> None:
    """Log in."""
    page.goto("/login")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/")


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Keeps a picture of a page in $AUDITOR_TEST_PICTURES, if that is set, for somebody to look at."""

    def keep(page: Page, name: str) -> None:
        if directory := os.environ.get("AUDITOR_TEST_PICTURES"):
            Path(directory).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)

    return keep
