"""The pages of the documentation in a browser, wide and narrow: nothing is broken, too wide, or from another host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests import documents

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TOO_WIDE = """innerWidth => [...document.querySelectorAll('.md-content *')]
    .filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.md-typeset__scrollwrap, pre, p:has(> img)'))
    .map(one => `${one.tagName}: ${one.textContent.slice(0, 60)}`)"""
BROKEN = "() => [...document.images].filter(one => !one.complete || !one.naturalWidth).map(one => one.src)"


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Path]]]:
    """The address of the built pages, and their files."""
    folder = tmp_path_factory.mktemp("documentation")
    documents.build_site(folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", [page for page in sorted(folder.glob("*.html")) if page.stem != "404"]
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_and_load_nothing_from_elsewhere(chromium: Browser, site: tuple[str, list[Path]], width: int) -> None:
    address, pages = site
    context = chromium.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
    faults: list[str] = []
    context.on("request", lambda request: None if request.url.startswith((address, "data:", "blob:")) else faults.append(request.url))
    context.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page = context.new_page()
    for file in pages:
        page.goto(f"{address}/{file.name}")
        found = [*page.evaluate(TOO_WIDE, width), *page.evaluate(BROKEN)]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append("the page is wider than the window")
        faults += [f"{file.name}: {one}" for one in found]
    context.close()
    assert not faults
