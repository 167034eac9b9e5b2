"""Fixtures for tests of the pages in a browser: the installed Chromium, started once per run.

Without it the tests are skipped, and the last lines of the run report this; with CI=true the run then fails.
$AUDITOR_TEST_CHROMIUM is the path of a Chromium that is not on the PATH.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, sync_playwright

from auditor.api_models.access import Scope
from tests.browser.served import Site, site

VARIABLE = "AUDITOR_TEST_CHROMIUM"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync",
)  # fmt: skip
MISSING = f"no Chromium is installed; scripts/engines.sh installs it, or set {VARIABLE}"

_MISSED = pytest.StashKey[bool]()
_SKIPPED = "chromium is missing"

Browse = Callable[..., Page]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium: tests the rendered pages")


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Record that a worker found no browser."""
    if getattr(node, "workeroutput", {}).get(_SKIPPED):
        node.config.stash[_MISSED] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    missed = session.config.stash.get(_MISSED, False)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_SKIPPED] = missed
        return
    if missed and os.environ.get("CI", "").lower() == "true" and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash.get(_MISSED, False):
        terminalreporter.section("browser")
        terminalreporter.write_line(f"chromium  NOT RUN: {MISSING}", red=os.environ.get("CI", "").lower() == "true")


def find_chromium() -> str | None:
    """Return the path of Chromium, or None if it is not installed."""
    configured = os.environ.get(VARIABLE)
    return configured or next((path for name in NAMES if (path := shutil.which(name))), None)


# While Playwright runs, its event loop counts as this thread's running loop, so it must stop before other tests start their own loops.
@pytest.fixture(scope="package")
def chromium(request: pytest.FixtureRequest) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        request.config.stash[_MISSED] = True
        pytest.skip(f"browser: {MISSING}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_OPTIONS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def served(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The service with a token of every scope; not started without a browser."""
    with site(tmp_path_factory.mktemp("site")) as running:
        yield running


class PageMonitor:
    """Collects faults of the pages of a context: script errors, console messages, CSP violations, and requests to other hosts.

    Console messages that contain one of ``expected`` are ignored.
    """

    def __init__(self, url: str, expected: tuple[str, ...]) -> None:
        self.url = url
        self.expected = expected
        self.faults: list[str] = []

    def attach(self, context: BrowserContext) -> None:
        context.add_init_script(
            "document.addEventListener('securitypolicyviolation', (e) => console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI))"
        )
        context.on("request", lambda request: self._check_host(request.url))
        context.on("console", lambda message: self._check_console(message.type, message.text))
        context.on("weberror", lambda error: self.faults.append(f"script: {error.error}"))

    def _check_host(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.faults.append(f"request to another host: {url}")

    def _check_console(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(one in text for one in self.expected):
            self.faults.append(f"console {kind}: {text}")


@pytest.fixture(scope="package")
def cookies() -> dict[str, StorageState]:
    """The browser's storage after a login, by the token's scope."""
    return {}


class Opener:
    """Opens pages of the service, each in a context of its own, and has a monitor of each."""

    def __init__(self, chromium: Browser, served: Site, cookies: dict[str, StorageState]) -> None:
        self.opened: list[tuple[BrowserContext, PageMonitor]] = []
        self._chromium, self._served, self._cookies = chromium, served, cookies

    def __call__(
        self,
        path: str | None = "/",
        *,
        scope: Scope | None = "define",
        width: int = 1280,
        scheme: str = "light",
        script: bool = True,
        expected: str = "",
    ) -> Page:
        """Open a page, logged in with a token of ``scope``.

        Without a path the page is empty, for tests that look at the answer to their own request.

        ``expected`` is part of a console message that the test causes, such as that of a 404.
        """
        monitor = PageMonitor(self._served.url, (expected,) if expected else ())
        context = self._chromium.new_context(
            base_url=self._served.url, viewport={"width": width, "height": 860}, color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=script, reduced_motion="reduce", permissions=["clipboard-read", "clipboard-write"],
            storage_state=self._cookies.get(scope or ""),
        )  # fmt: skip
        context.set_default_timeout(30_000)
        monitor.attach(context)
        self.opened.append((context, monitor))
        page = context.new_page()
        if scope is not None and scope not in self._cookies:
            log_in(page, self._served.tokens[scope])
            self._cookies[scope] = context.storage_state()
        if path is not None:
            page.goto(path)
        return page

    def close(self) -> None:
        """Close the pages; fails where a monitor found a fault."""
        for context, monitor in self.opened:
            context.close()
            assert not monitor.faults, "\n".join(monitor.faults)


@pytest.fixture
def browse(chromium: Browser, served: Site, cookies: dict[str, StorageState]) -> Iterator[Browse]:
    """Returns a function that opens a page. Fails the test if `PageMonitor` finds a fault."""
    opener = Opener(chromium, served, cookies)
    yield opener
    opener.close()


def log_in(page: Page, secret: str) -> None:
    """Log in with a token's secret."""
    page.goto("/login")
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/")


@pytest.fixture
def screenshot(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Returns a function that saves a screenshot of a page in $AUDITOR_TEST_PICTURES, if that is set."""

    def save(page: Page, name: str) -> None:
        if directory := os.environ.get("AUDITOR_TEST_PICTURES"):
            Path(directory).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)

    return save
