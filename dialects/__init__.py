"""The engines: one module each, which states facts and writes pieces of SQL, and decides nothing.

To add an engine, copy the module of the one most like it. A module here whose name has no leading underscore *is* an engine;
nothing has to be registered. It defines one class that derives from ``Dialect`` (or from the dialect the vendor derived its
product from), with

* ``name``, ``schemes`` and ``sqlglot``: what it is called here, in URLs and by sqlglot;
* the facts that differ from their defaults in ``dialects._base.Dialect``;
* ``TYPES``: native type names to canonical kinds;
* the methods that return SQL text, whose contracts are their docstrings, in output characters;
* ``pins`` and ``connect``, which imports the driver on its first line and not before.

Its catalogue statements go to ``sql_templates/<name>/``: ``columns.sql``, ``primary_key.sql`` and ``estimate.sql``, and what it
can say of its load. An entry in the list of engines under test makes the whole suite run on it.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from dialects._base import Algorithm, Column, Dialect, Place, Reading, Table, Unit
from dialects._errors import BadUrl
from dialects._kinds import Kind
from dialects._session import Columns, Session
from dialects._url import Url, parse

__all__ = [
    "Algorithm", "Column", "Columns", "Dialect", "Kind", "Place", "Reading", "Session",
    "Table", "Unit", "Url", "by_scheme", "connect", "get", "names", "parse", "reached",
]  # fmt: skip


def names() -> list[str]:
    """The names of all engines."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


@cache
def get(name: str) -> Dialect:
    """The dialect of that name. Raises LookupError where there is none."""
    if name not in names():
        raise LookupError(f"there is no dialect {name!r}; there are {', '.join(names())}")
    module = importlib.import_module(f"dialects.{name}")
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Dialect) and value.__module__ == module.__name__:
            return value()
    raise LookupError(f"dialects/{name}.py defines no Dialect")


def by_scheme(scheme: str) -> Dialect:
    """The dialect that a URL's scheme means. Raises BadUrl where there is none."""
    for name in sorted(names(), key=lambda name: not scheme.startswith(name)):  # most are found without loading the others
        if scheme in get(name).schemes:
            return get(name)
    known = ", ".join(sorted(s for name in names() for s in get(name).schemes))
    raise BadUrl(f"{scheme}:// is no engine known here; write one of {known}")


def reached(url: str) -> str:
    """Which database a URL leads to, without its user and password. Raises BadUrl."""
    parsed = parse(url)
    return by_scheme(parsed.scheme).reached(parsed)


def connect(url: str, statement_timeout: float = 3600.0, lock_timeout: float = 10.0) -> Session:
    """Open a pinned, read-only session at ``url``; the limits of a statement, and of its wait for a lock, are in seconds."""
    parsed = parse(url)
    return by_scheme(parsed.scheme).connect(parsed, statement_timeout, lock_timeout)
