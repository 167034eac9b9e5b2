"""SQL statements: one template per ``.sql`` file, whose holes are filled with SQL text from a dialect.

A template starts with comment lines that say what one row of its result is. It has no control flow: ``${name}`` is a hole for SQL text.
A file in ``sql_templates/<engine>/`` takes precedence over the common one. An engine with ancestors also uses their directories before
the common one, so Redshift uses PostgreSQL's catalogue queries unless it has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_DIRECTORY = Path(__file__).parent
_HOLE = re.compile(r"\$\{(\w+)\}")


@cache
def load(name: str, engines: Sequence[str] = ()) -> str:
    """Return the text of template ``name``: the file of the first of ``engines`` that has one, else the common file.

    Raises LookupError if there is no such file.
    """
    for path in (*(_DIRECTORY / engine / f"{name}.sql" for engine in engines), _DIRECTORY / f"{name}.sql"):
        if path.is_file():
            return path.read_text(encoding="utf-8").rstrip() + "\n"
    raise LookupError(f"there is no template {name}.sql for {', '.join(engines) or 'any engine'}")


def holes(template: str) -> set[str]:
    """Return the names of a template's holes."""
    return set(_HOLE.findall(template))


def comment(template: str) -> str:
    """Return the leading comment of a template, which says what one row of its result is, as one line."""
    lines = []
    for line in template.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines)


def body(template: str) -> str:
    """Return a template without its leading comment."""
    lines = template.splitlines()
    while lines and lines[0].startswith("--"):
        lines.pop(0)
    return "\n".join(lines)


def fill(template: str, fragments: Mapping[str, str]) -> str:
    """Return ``template`` without its leading comment, with each hole replaced by the fragment of that name.

    Lines that are empty after that are dropped. Raises ValueError if a hole has no fragment or a fragment has no hole.
    """
    names = holes(template)
    if names != set(fragments):
        raise ValueError(f"unfilled: {sorted(names - set(fragments))}; unused: {sorted(set(fragments) - names)}")
    # Works on the template's lines, because a line break in a fragment may be part of a literal.
    filled = (_HOLE.sub(lambda hole: fragments[hole.group(1)], line).rstrip() for line in body(template).split("\n"))
    return "\n".join(line for line in filled if line)
