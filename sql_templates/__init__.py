"""The statements: one per ``.sql`` file, filled with SQL text that a dialect wrote.

A template opens with comment lines that say what one row of its result is. There is no control flow in it: ``${name}`` is a
hole for SQL text. A file in ``sql_templates/<engine>/`` wins over the common one, and an engine that descends from another
looks in its ancestor's directory before the common one, so Redshift reads PostgreSQL's catalogue statement unless it has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_HOLE = re.compile(r"\$\{(\w+)\}")


@cache
def load(name: str, engines: Sequence[str] = ()) -> str:
    """The text of template ``name`` for the first of ``engines`` (nearest first) that has its own file, else the common one.

    Raises LookupError where no such file exists.
    """
    for path in (*(_HERE / engine / f"{name}.sql" for engine in engines), _HERE / f"{name}.sql"):
        if path.is_file():
            return path.read_text(encoding="utf-8").rstrip() + "\n"
    raise LookupError(f"there is no template {name}.sql for {', '.join(engines) or 'any engine'}")


def holes(template: str) -> set[str]:
    """The names of the holes of a template."""
    return set(_HOLE.findall(template))


def comment(template: str) -> str:
    """The opening comment of a template: what one row of its result is."""
    lines = []
    for line in template.splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return " ".join(lines)


def body(template: str) -> str:
    """The template without its opening comment."""
    lines = template.splitlines()
    while lines and lines[0].startswith("--"):
        lines.pop(0)
    return "\n".join(lines)


def fill(template: str, fragments: Mapping[str, str]) -> str:
    """The statement: ``template`` without its comment, each hole filled.

    Raises ValueError for a hole without a fragment and for a fragment without a hole: both are slips of the caller.
    """
    wanted = holes(template)
    if wanted != set(fragments):
        raise ValueError(f"unfilled: {sorted(wanted - set(fragments))}; unused: {sorted(set(fragments) - wanted)}")
    # Line by line of the template: what looks like the end of a line within a fragment may stand in a literal.
    filled = (_HOLE.sub(lambda hole: fragments[hole.group(1)], line).rstrip() for line in body(template).split("\n"))
    return "\n".join(line for line in filled if line)
