"""Write the references of commands and settings into their pages: `python -m scripts.references`, or `make references`."""

from __future__ import annotations

import re
from pathlib import Path

from scripts import command_reference, settings_reference

DOCS = Path(__file__).parents[1] / "docs"
REFERENCES = {
    "commands.md": ("commands", command_reference.reference),
    "configuration.md": ("settings", settings_reference.reference),
}
"""By the page, the name in the comments around the reference, and what writes it."""


def page_with_reference(name: str) -> str:
    """Return the text of a page with its reference as the models and the parser say it now."""
    mark, reference = REFERENCES[name]
    begin, end = f"<!-- {mark}: written by make references -->", f"<!-- end of {mark} -->"
    text = (DOCS / name).read_text(encoding="utf-8")
    before, after = re.split(rf"{re.escape(begin)}.*?{re.escape(end)}", text, maxsplit=1, flags=re.DOTALL)
    return f"{before}{begin}\n\n{reference().strip()}\n\n{end}{after}"


if __name__ == "__main__":
    for page in REFERENCES:
        (DOCS / page).write_text(page_with_reference(page), encoding="utf-8")
