"""SQL statements: named templates in ``.sql`` files by subject, whose holes are filled with SQL text from a dialect.

A file is a list of blocks, each of which is one template::

    -- name: count
    -- One row: how many rows there are.
    SELECT COUNT(*)
    FROM ${table}
    WHERE ${where}

Its name is how Python calls it, and is unique in its package, whichever file it is in. The comment says what one row of the result is, or
what the statement does. There is no control flow: ``${table}`` is a hole for SQL text.

The files beside this one are common to all engines. An engine's own are in a package that its dialect names (``TEMPLATES``): here
``sql_templates.<engine>``, and anywhere for an engine of another distribution.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType

_NAME = re.compile(r"-- name: (\w+)")
_LIKE_A_NAME = re.compile(r"\s*--\s*name\s*:", re.IGNORECASE)
"""A line that was meant to name a block; as a comment it would join two statements."""

_HOLE = re.compile(r"\$\{(\w+)\}")


def load(name: str, packages: Sequence[str] = (__name__,)) -> str:
    """Return the text of template ``name``, without the line that names it, from the first of these packages that has one.

    Raises LookupError if none has, and what ``templates`` raises for a package that is not installed or malformed.
    """
    for package in packages:
        if name in (found := templates(package)):
            return found[name]
    raise LookupError(f"there is no template {name} in {', '.join(packages)}")


@cache
def templates(package: str) -> Mapping[str, str]:
    """Return the text of each template of one package by name, without the lines that name them.

    Raises ModuleNotFoundError if the package is not installed, and ValueError if a file has text before its first name, a name that the
    package has twice, or one without a statement.
    """
    found: dict[str, str] = {}
    defined_in: dict[str, str] = {}
    for path in sorted((path for path in files(package).iterdir() if path.name.endswith(".sql")), key=lambda path: path.name):
        file = f"{path.name} of {package}"
        for name, block in _blocks(path.read_text(encoding="utf-8"), file):
            if name in found:
                raise ValueError(f"template {name} is defined in {defined_in[name]} and again in {file}; rename one of them")
            if all(line.startswith("--") or not line.strip() for line in block.splitlines()):
                raise ValueError(f"template {name} in {file} has no statement; write one below its name, or remove the name")
            found[name], defined_in[name] = block, file
    return MappingProxyType(found)


def _blocks(text: str, file: str) -> list[tuple[str, str]]:
    """Return the name and the text of each block of a file; ``file`` is what errors call it."""
    blocks: list[tuple[str, list[str]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if match := _NAME.fullmatch(line.rstrip()):
            blocks.append((match[1], []))
        elif _LIKE_A_NAME.match(line):
            raise ValueError(f"line {number} of {file} is not a name: {line.strip()}; write it like -- name: count")
        elif blocks:
            blocks[-1][1].append(line)
        elif line.strip():
            raise ValueError(f"line {number} of {file} is before the first name; begin each template with a line like -- name: count")
    return [(name, "\n".join(lines).strip() + "\n") for name, lines in blocks]


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
