"""SQL statements: one template per ``.sql`` file, whose holes are filled with SQL text from a dialect.

A template starts with comment lines that say what one row of its result is. It has no control flow: ``${name}`` is a hole for SQL text.
The files beside this one are common to all engines. An engine's own are in a package that its dialect names (``TEMPLATES``): here
``sql_templates.<engine>``, and anywhere for an engine of another distribution.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from functools import cache, lru_cache
from importlib.resources import files

_HOLE = re.compile(r"\$\{(\w+)\}")


@cache
def load(name: str, packages: Sequence[str] = (__name__,)) -> str:
    """Return the text of template ``name``: the file of the first of these packages that has one.

    Raises LookupError if none has, and ModuleNotFoundError for a package that is not installed.
    """
    for package in packages:
        path = files(package) / f"{name}.sql"
        if path.is_file():
            return path.read_text(encoding="utf-8").rstrip() + "\n"
    raise LookupError(f"there is no template {name}.sql in {', '.join(packages)}")


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
    names, lines = _parse(template)
    if names != fragments.keys():
        raise ValueError(f"unfilled: {sorted(names - set(fragments))}; unused: {sorted(set(fragments) - names)}")
    # Works on the template's lines, because a line break in a fragment may be part of a literal.
    filled = ("".join([fragments[part] if at % 2 else part for at, part in enumerate(parts)]).rstrip() for parts in lines)
    return "\n".join(line for line in filled if line)


@lru_cache(256)
def _parse(template: str) -> tuple[Set[str], list[list[str]]]:
    """Return the names of a template's holes, and each line of its body as texts and names of holes in turns."""
    return holes(template), [_HOLE.split(line) for line in body(template).split("\n")]
