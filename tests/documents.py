"""What the documentation shows: its pages, their blocks of code, configurations and commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_REFERENCE = re.compile(r"<!-- (\w+): written by make references -->.*?<!-- end of \1 -->", re.DOTALL)
_BLOCK = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"(?<![\w/.-])auditor +(?=[a-z-])(.*)")
_END = re.compile(r"&&|>>| > | \| |;| - (?=[a-z])| \((?=\d)")


def blocks(page: Path, *languages: str) -> list[str]:
    """Return the blocks of code of a page that are in one of these languages, or all."""
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for _, language, text in found if not languages or language in languages]


def sessions(block: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a block in which ``$`` stands before commands, with the lines of output that are shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = part.replace("\\\n", " ").splitlines()
        yield command, [line for line in shown if line.strip() not in ("", "...")]


def commands_in_blocks(page: Path) -> Iterator[tuple[str, bool]]:
    """Yield what stands behind ``auditor`` in the blocks of a page, and whether it must be a command: behind ``$``, or in a script."""
    for _, language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in text.replace("\\\n", " ").splitlines():
            for part in _END.split(line.split("   #")[0]):
                if match := _COMMAND.search(part):
                    yield match[1], "$ auditor" in part or language in ("sh", "cron") or "run: auditor" in part


def commands_in_text(page: Path) -> Iterator[str]:
    """Yield what stands behind ``auditor`` in backticks, outside blocks and references, whose sentences are those of the models."""
    text = _BLOCK.sub("", _REFERENCE.sub("", page.read_text(encoding="utf-8")))
    yield from (match[1] for match in re.finditer(r"`auditor ([^`]+)`", text))


def plain(line: str) -> str:
    """Return a line of output without its blanks, and without the seconds that a run took."""
    return " ".join(re.sub(r"\d+\.\d+ s\)", "s)", line).split())


def build_site(folder: Path) -> None:
    """Build the site into a folder; a warning of MkDocs is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]  # --quiet would count no warnings
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stdout + done.stderr
