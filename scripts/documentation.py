"""Hooks of MkDocs: pages from files outside docs/ or new in it, and links to them.

Pages are written so that their links work in the repository; for the site, those that leave docs/ are turned here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
"""Pages of the site that are files outside docs/, by their path in the repository."""

PICTURES = {f"benchmarks/{name}.svg": f"assets/{name}.svg" for name in ("duel-seconds",)}
"""Pictures of these pages."""

_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|<)([^)#\s]+)(#[^)\s]*)?(?=\))")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages that ``nav`` does not name to its last section."""
    assert config.nav is not None
    named = set(_named(config.nav))
    (section,) = config.nav[-1].values()
    section += sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in named)
    return config


def _named(nav: Any) -> Iterator[str]:
    """Yield the paths of pages that a part of ``nav`` names."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:
            yield from _named(part)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that are not in docs/."""
    for path, name in PAGES.items():
        files.append(File.generated(config, name, content=_turn_links((ROOT / path).read_text(encoding="utf-8"), path)))
    for path, name in PICTURES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn a page's links."""
    return markdown if page.file.generated_by else _turn_links(markdown, f"docs/{page.file.src_uri}")


def _turn_links(markdown: str, path: str) -> str:
    """Return a text of the repository, at ``path``, with its links to other files as the site has them."""

    def turn(match: re.Match[str]) -> str:
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), match[1]))
        name = PAGES.get(there) or PICTURES.get(there) or there.removeprefix("docs/")
        here = PAGES.get(path, path.removeprefix("docs/"))
        return posixpath.relpath(name, posixpath.dirname(here) or ".") + (match[2] or "")

    return _LINK.sub(turn, markdown)
